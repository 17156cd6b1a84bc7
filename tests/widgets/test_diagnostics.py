"""The diagnostic information describes the system, and contains no text of the user."""

from __future__ import annotations

import logging
import platform
from typing import TYPE_CHECKING

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
    from tests.support.window_input import Hand

SENTENCE = "my confidential words"


def test_the_information_is_copied(hand: Hand) -> None:
    hand.trigger("diagnostics.copy")
    copied = QApplication.clipboard().text()
    assert f"Attention Visualizer: {visualizer.__version__}" in copied
    assert f"Python: {platform.python_version()}" in copied
    assert f"Qt platform: {QGuiApplication.platformName()}" in copied
    assert "numpy" in copied
    assert "Screen: " in copied
    assert hand.window.statusBar().currentMessage()


def test_what_is_typed_is_neither_logged_nor_copied(hand: Hand) -> None:
    program = logging.getLogger("visualizer")
    level, handler = program.level, start_log_file()
    hand.type_sentence(SENTENCE)
    hand.settle()
    for command in ("module.toggle_causal_mask", "token_selection.find", "workspace.undo"):
        hand.trigger(command)
        hand.settle()
    log_unexpected_error(ValueError(f"Cannot read “{SENTENCE}”"))
    hand.trigger("diagnostics.copy")
    stop_log_file(handler)
    program.setLevel(level)
    written = log_path().read_text(encoding="utf-8")
    assert "Command module.toggle_causal_mask" in written
    assert "builtins.ValueError" in written
    for text in (written, QApplication.clipboard().text()):
        assert not any(word in text for word in ("confidential", "my words"))
