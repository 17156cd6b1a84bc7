"""The diagnostic information describes the system, and contains no text of the user."""

from __future__ import annotations

import logging
import platform
import threading
from typing import TYPE_CHECKING

import torch
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

import visualizer
from visualizer.storage.log_file import (
    log_path,
    log_unexpected_error,
    start_log_file,
    stop_log_file,
)

if TYPE_CHECKING:
    import pytest

    from tests.support.window_input import Hand

SENTENCE = "my confidential words"


def _copy(hand: Hand) -> str:
    """Copy the diagnostic information, and return it."""
    QApplication.clipboard().clear()
    hand.trigger("diagnostics.copy")
    hand.until(lambda: bool(QApplication.clipboard().text()))
    return QApplication.clipboard().text()


def test_the_information_is_copied(hand: Hand) -> None:
    copied = _copy(hand)
    assert f"Attention Visualizer: {visualizer.__version__}" in copied
    assert f"Python: {platform.python_version()}" in copied
    assert f"Qt platform: {QGuiApplication.platformName()}" in copied
    assert "numpy" in copied
    assert "Screen: " in copied
    assert hand.window.statusBar().currentMessage()


def test_cuda_is_queried_on_another_thread(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Initializing CUDA takes seconds; in the meantime, the window responds."""
    asking, answering = list[threading.Thread](), threading.Event()

    def wait_on_threads() -> bool:
        asking.append(threading.current_thread())
        return asking[-1] is threading.main_thread() or not answering.wait(20)

    monkeypatch.setattr(torch.cuda, "is_available", wait_on_threads)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    QApplication.clipboard().clear()
    hand.trigger("diagnostics.copy")
    hand.until(lambda: bool(asking))
    assert threading.main_thread() not in asking
    assert not QApplication.clipboard().text()
    answering.set()
    hand.until(lambda: "Devices: " in QApplication.clipboard().text())


def test_what_is_typed_is_neither_logged_nor_copied(hand: Hand) -> None:
    program = logging.getLogger("visualizer")
    level, handler = program.level, start_log_file()
    hand.type_sentence(SENTENCE)
    hand.settle()
    for command in ("module.toggle_causal_mask", "token_selection.find", "workspace.undo"):
        hand.trigger(command)
        hand.settle()
    log_unexpected_error(ValueError(f"Cannot read “{SENTENCE}”"))
    copied = _copy(hand)
    stop_log_file(handler)
    program.setLevel(level)
    written = log_path().read_text(encoding="utf-8")
    assert "Command module.toggle_causal_mask" in written
    assert "builtins.ValueError" in written
    for text in (written, copied):
        assert not any(word in text for word in ("confidential", "my words"))
