"""A window is closed while its model processes a long text and a pane waits for the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt, QTimer

from tests.support.held_reading import HeldReading, read_few_tokens_at_once

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_input import Hand
    from visualizer.shell.window import MainWindow

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models


@pytest.fixture
def window(fresh_window: MainWindow) -> MainWindow:
    return fresh_window


def test_closing_ends_the_reading(model_window: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    hand, window = model_window, model_window.window
    questions = window.controllers.model_question_controller
    window.docks.actions["Attribution"].trigger()
    hand.until(
        lambda: "Attribution" in window.docks.visible_pane_ids and not window.workspace.is_working
    )
    hand.until(lambda: not questions.is_working)
    read_few_tokens_at_once(monkeypatch)
    held = HeldReading(3, monkeypatch)
    hand.click(hand.sentence.viewport())
    hand.key(Qt.Key.Key_S)
    hand.until(lambda: held.calls == held.at)
    window.actions_.by_id["attribution.toggle_ablations"].trigger()
    assert questions.is_working
    window.controllers.document_controller.discard_unsaved_changes()
    window.close()
    assert held.calls == held.at
    assert not window.isVisible()


def test_no_pane_is_opened_once_the_window_is_closed(hand: Hand, tiny_model_folder: Path) -> None:
    window = hand.window
    window.controllers.document_controller.discard_unsaved_changes()

    def close() -> None:
        window.controllers.document_controller.discard_unsaved_changes()
        window.close()

    seen = window.docks.by_id["Next token"].visibilityChanged
    seen.connect(lambda: QTimer.singleShot(0, close))  # before the next pane is updated
    window.controllers.document_controller.open(tiny_model_folder)
    hand.until(lambda: not window.isVisible())
    later: list[bool] = []
    QTimer.singleShot(5, lambda: later.append(True))  # after the next pane is updated
    hand.until(lambda: bool(later))
    assert "Next token" in window.panes
    assert "Layers" not in window.panes
