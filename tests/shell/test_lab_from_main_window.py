"""The main window opens the lab, and the lab opens a trained layer in the main window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget

from tests.support.lab_input import FAKE
from tests.support.window_input import LEFT, PATIENCE_MS, Hand
from visualizer.lab.layer_document import create_layer_document
from visualizer.lab.training.process_controller import TrainingProcess
from visualizer.language.example_run import EXAMPLE_FOLDER, EXAMPLE_TEXT
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.wire_format import Message
from visualizer.widgets.app_settings import save_shortcuts
from visualizer.widgets.incremental_gui_task import IncrementalTask

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from visualizer.lab.window import LabWindow
    from visualizer.shell.window import MainWindow
    from visualizer.shell.window_manager import WindowManager

ALT = Qt.KeyboardModifier.AltModifier


def first(windows: WindowManager, qtbot: QtBot) -> tuple[MainWindow, Hand]:
    from visualizer.session.document import Document

    window = windows.open_window(Document())
    qtbot.waitExposed(window)
    hand = Hand(qtbot, window)
    hand.settle()
    return window, hand


def opened(windows: WindowManager, qtbot: QtBot) -> LabWindow:
    qtbot.waitUntil(lambda: bool(windows.lab and windows.lab.isVisible()), timeout=PATIENCE_MS)
    assert windows.lab
    return windows.lab


def meanwhile(
    windows: WindowManager, is_there: bool, act: Callable[[], object]
) -> tuple[list[bool], IncrementalTask]:
    """Open the lab and act between two steps of its creation, before or after the lab exists."""
    windows.open_lab()
    (making,) = windows.findChildren(IncrementalTask)
    done = list[bool]()

    def look() -> None:
        if not done and bool(windows.lab) == is_there:
            done.append(bool(windows.lab and windows.lab.isVisible()))
            act()

    (timer,) = making.findChildren(QTimer)
    timer.timeout.connect(look)
    return done, making


def test_changed_shortcuts_apply_to_all_windows(windows: WindowManager, qtbot: QtBot) -> None:
    window, _ = first(windows, qtbot)
    other, _ = first(windows, qtbot)
    windows.open_lab()
    lab = opened(windows, qtbot)
    save_shortcuts({"window.close": ["Ctrl+F9"]})
    window.controllers.settings_controller.shortcutsChosen.emit()
    for actions in (window.actions_, other.actions_, lab.menus):
        assert actions.by_id["window.close"].shortcut() == QKeySequence("Ctrl+F9")


def test_the_lab_is_opened_once(windows: WindowManager, qtbot: QtBot) -> None:
    _, hand = first(windows, qtbot)
    open_lab = hand.window.actions_.by_id["lab.open"].trigger
    open_lab()
    open_lab()  # while the lab is still being created
    lab = opened(windows, qtbot)
    qtbot.waitExposed(lab)
    hand.activate()
    open_lab()
    assert windows.lab is lab
    assert windows.front_window is not None
    lab.close()
    assert windows.lab is None


@pytest.mark.slow
@pytest.mark.parametrize("is_there", [False, True])
def test_the_lab_comes_though_the_window_was_closed_in_the_meantime(
    windows: WindowManager, qtbot: QtBot, is_there: bool
) -> None:
    window, _ = first(windows, qtbot)
    window.controllers.document_controller.discard_unsaved_changes()
    done, _ = meanwhile(windows, is_there, window.close)
    assert not QApplication.quitOnLastWindowClosed()
    assert opened(windows, qtbot).styleSheet()
    qtbot.waitUntil(QApplication.quitOnLastWindowClosed, timeout=PATIENCE_MS)
    assert done == [False]
    assert windows.all == []


@pytest.mark.slow
@pytest.mark.parametrize("is_there", [False, True])
def test_the_lab_does_not_come_after_the_end(
    windows: WindowManager, qtbot: QtBot, is_there: bool
) -> None:
    window, _ = first(windows, qtbot)
    window.controllers.document_controller.discard_unsaved_changes()
    done, making = meanwhile(windows, is_there, windows.quit)
    qtbot.waitUntil(lambda: bool(done), timeout=PATIENCE_MS)
    assert done == [False]
    assert windows.lab is None
    assert windows.all == []
    assert QApplication.quitOnLastWindowClosed()
    assert not making.is_working


def lab_in_training(windows: WindowManager, qtbot: QtBot) -> LabWindow:
    windows.open_lab()
    lab = opened(windows, qtbot)
    lab.lab.command = FAKE
    lab.lab.change_setting("steps", 1_000_000)
    qtbot.waitUntil(lambda: lab.lab.screen.progress.can_toggle, timeout=PATIENCE_MS)
    lab.lab.toggle_training()
    qtbot.waitUntil(lambda: lab.lab.is_training, timeout=PATIENCE_MS)
    return lab


def press_in(parent: QWidget, words: str) -> None:
    (box,) = parent.findChildren(QMessageBox)
    button = next(one for one in box.buttons() if one.text().replace("&", "") == words)
    QTest.mouseClick(button, LEFT)
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.mark.slow
def test_quitting_that_is_cancelled_leaves_the_lab_as_it_was(
    windows: WindowManager, qtbot: QtBot
) -> None:
    window, hand = first(windows, qtbot)
    lab = lab_in_training(windows, qtbot)
    hand.activate()
    window.workspace.change_setting("causal", False)
    hand.press(Qt.Key.Key_Q)
    assert not lab.findChildren(QMessageBox)  # the user is first asked about the document
    press_in(window, "Cancel")
    assert lab.isVisible()
    assert lab.lab.is_training
    window.controllers.document_controller.discard_unsaved_changes()
    hand.activate()
    hand.press(Qt.Key.Key_Q)
    press_in(lab, "Cancel")
    assert windows.lab is lab
    assert lab.lab.is_training
    assert windows.all == [window]
    hand.activate()
    hand.press(Qt.Key.Key_Q)
    press_in(lab, "Stop")
    assert windows.lab is None
    assert windows.all == []
    app_ = QApplication.instance()
    assert app_
    qtbot.waitUntil(lambda: not app_.findChildren(TrainingProcess), timeout=PATIENCE_MS)


def test_a_run_is_opened_once_and_not_whenever_the_lab_is_shown(
    windows: WindowManager, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first(windows, qtbot)
    windows.open_lab()
    asked: list[Path] = []
    monkeypatch.setattr(opened(windows, qtbot), "open_run", asked.append)
    windows.open_lab(tmp_path)
    windows.open_lab()
    assert asked == [tmp_path]


@pytest.mark.slow
def test_a_layer_becomes_a_window_of_its_own(windows: WindowManager, qtbot: QtBot) -> None:
    rng = np.random.default_rng(3)
    sizes = {"W_query": (4, 6), "W_key": (4, 6), "W_value": (4, 6), "W_output": (6, 6)}
    arrays = {name: rng.normal(size=size) for name, size in sizes.items()}
    arrays |= {"input": rng.normal(size=(3, 4)), "W_output.bias": rng.normal(size=(1, 6))}
    spec = {
        "d_in": 4, "d_out": 6, "heads": 2, "projection": "linear", "bias": False,
        "arrangement": "split", "output_projection": True, "scale": "d_head",
        "normalisation": "softmax", "mask": "causal",
    }  # fmt: skip
    said = {"id": "layer 1", "tokens": ["a", " ", "b"], "spec": spec, "layer": 1, "step": 1500}
    message = Message("layer", said, arrays)
    first(windows, qtbot)
    windows.open_lab()
    lab = opened(windows, qtbot)
    lab.layerOpened.emit(
        create_layer_document(message, TokenizerKind.CHARACTERS, 1, (2, 0), "repeat-1")
    )
    assert len(windows.all) == 2
    hand = Hand(qtbot, windows.all[-1])
    hand.settle()
    assert hand.chips == ("a", "␣", "b")
    queries = (arrays["input"] @ arrays["W_query"])[:, 3:]  # the second head
    keys = (arrays["input"] @ arrays["W_key"])[:, 3:]
    scores = np.where(np.tri(3, dtype=bool), queries @ keys.T / np.sqrt(3), -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(hand.panel("weights", 1).values, weights, atol=1e-6)
    pinned = windows.all[-1].workspace.view.pinned
    assert pinned
    assert pinned.place == (1, 2, 0)
    hand.window.resize(1280, 800)
    hand.until(hand.window.panes["Explain"].isVisible)
    assert hand.window.windowTitle() == "repeat-1, layer 2, step 1,500[*] — Attention Visualizer"
    assert hand.window.isWindowModified()
    hand.window.controllers.export_controller.open_export_dialog()
    hand.until(lambda: hand.window.controllers.export_controller.dialog is not None)
    dialog = hand.window.controllers.export_controller.dialog
    assert dialog
    assert dialog.settings.look.title == "repeat-1, layer 2, step 1,500"  # the title of a figure
    dialog.reject()
    assert hand.window.controllers.export_controller.settings.look.title == ""
    hand.window.activateWindow()
    hand.until(hand.window.isActiveWindow)
    hand.press(Qt.Key.Key_W)
    assert hand.window.isVisible()
    box = hand.window.findChild(QMessageBox)
    assert box
    assert "repeat-1, layer 2, step 1,500" in box.text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # transformers warns about small models
def test_a_model_becomes_a_window_of_its_own(windows: WindowManager, qtbot: QtBot) -> None:
    pytest.importorskip("transformers.modeling_utils")  # the first import takes long
    first(windows, qtbot)
    windows.open_lab()
    lab = opened(windows, qtbot)
    lab.modelRequested.emit(EXAMPLE_FOLDER, EXAMPLE_TEXT)
    assert len(windows.all) == 2
    hand = Hand(qtbot, windows.all[-1])
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    assert hand.chips == tuple(EXAMPLE_TEXT)
    hand.until(hand.window.panes["Layers"].isVisible)
    hand.window.controllers.document_controller.discard_unsaved_changes()
