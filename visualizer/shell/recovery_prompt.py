"""The question at start whether documents that were not saved are opened again."""

from __future__ import annotations

from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.date_format import format_date_and_time
from visualizer.documents.document_file import UNTITLED
from visualizer.errors import InputError
from visualizer.widgets.dialogs import ask_recover, refuse

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from visualizer.documents.recovery_file import RecoveredDocument


MOST_NAMED = 8
LONGEST_WORDS = 40
QUICKLY_READ = 2**20


class RecoveryPrompt(QObject):
    """Offers the recovered documents."""

    recovered = Signal(object, object)
    """The document read, and its recovery file."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window

    def offer(self, left: list[RecoveredDocument]) -> None:
        """Ask whether to recover or drop the documents."""
        names = "\n".join(map(_named, left[:MOST_NAMED]))
        ask_recover(self._window, names, partial(self._open, left), partial(_forget, left))

    def _open(self, left: list[RecoveredDocument]) -> None:
        for each in left:
            try:
                saved = each.saved()
            except InputError as damaged:
                refuse(self._window, "Not recovered", damaged.sentence)
            else:
                self.recovered.emit(saved, each)


def _named(left: RecoveredDocument) -> str:
    name = left.path.stem if left.path else UNTITLED
    said = f"“{name}”, {format_date_and_time(left.when.astimezone())}"
    begins = _beginning(left)
    return f"{said}: {begins}" if begins else said


def _beginning(left: RecoveredDocument) -> str:
    """Return the first words of a recovered document, unless reading it would take long."""
    try:
        if left.file.stat().st_size > QUICKLY_READ:
            return ""
        return shorten(left.saved().document.text, LONGEST_WORDS, placeholder="…")
    except (OSError, InputError):
        return ""


def _forget(left: list[RecoveredDocument]) -> None:
    for each in left:
        each.forget()
