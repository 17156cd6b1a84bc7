"""Without the optional packages, the window works, and dialogs name the missing package."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from PySide6.QtWidgets import QLabel

from visualizer.errors import InputError
from visualizer.file_opening import read_file, read_trained_example
from visualizer.language.example_run import EXAMPLE_FOLDER as TRAINED_RUN
from visualizer.optional_packages import REQUIREMENTS_OF_EXTRA, install_command
from visualizer.session.document import Document

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QWidget

    from tests.support.window_input import Hand

MODELS = install_command(*REQUIREMENTS_OF_EXTRA["models"])


def told_in(dialog: QWidget) -> str:
    """Return the visible texts of a dialog without rich-text tags."""
    labels = [label.text() for label in dialog.findChildren(QLabel) if label.isVisibleTo(dialog)]
    return re.sub("<[^>]+>", "", "\n".join(labels))


def test_the_chooser_of_models(hand: Hand) -> None:
    hand.window.actions_.by_id["model.open"].trigger()
    dialog = hand.window.controllers.model_chooser_controller.dialog
    assert dialog is not None
    hand.until(lambda: MODELS in told_in(dialog))
    assert not dialog.folder_button.isEnabled()
    dialog.close()


def test_a_folder_that_is_opened(hand: Hand, model_folder: Path) -> None:
    before = hand.window.workspace.run
    hand.window.controllers.document_controller.open(model_folder)
    dialog = hand.window.controllers.model_chooser_controller.dialog
    assert dialog is not None
    hand.until(lambda: MODELS in told_in(dialog))
    dialog.close()
    assert hand.window.workspace.run is before


def test_the_dialog_of_servers(hand: Hand) -> None:
    hand.window.actions_.by_id["model.connect"].trigger()
    dialog = hand.window.controllers.model_connection_controller.dialog
    assert dialog is not None
    hand.until(lambda: install_command("keyring>=25") in told_in(dialog))
    dialog.close()


def test_a_run_of_the_lab() -> None:
    with pytest.raises(InputError, match=re.escape(MODELS)):
        read_file(TRAINED_RUN, Document())
    assert read_trained_example().document.has_module, "a layer of it is shown instead"
