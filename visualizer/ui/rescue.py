"""What a crash left behind is offered, once, when the program starts again."""

from __future__ import annotations

from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.attention.spec import InputError
from visualizer.state.saved.document_file import UNTITLED
from visualizer.ui.messages import ask_recover, refuse

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from visualizer.state.saved.recovery import Left

MOST_NAMED = 8
LONGEST_WORDS = 40
QUICKLY_READ = 2**20


class Rescue(QObject):
    """Offers what was left behind."""

    recovered = Signal(object, object)
    """What was read, and where it was left."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window

    def offer(self, left: list[Left]) -> None:
        """Ask what is to become of it."""
        names = "\n".join(map(_named, left[:MOST_NAMED]))
        ask_recover(self._window, names, partial(self._open, left), partial(_forget, left))

    def _open(self, left: list[Left]) -> None:
        for each in left:
            try:
                saved = each.saved()
            except InputError as damaged:
                refuse(self._window, "Not recovered", damaged.sentence)
            else:
                self.recovered.emit(saved, each)


def _named(left: Left) -> str:
    name = left.path.stem if left.path else UNTITLED
    said = f"“{name}”, {left.when.astimezone():%d.%m., %H:%M}"
    begins = _beginning(left)
    return f"{said}: {begins}" if begins else said


def _beginning(left: Left) -> str:
    """Give the first words of what was left, unless reading it would take its time."""
    try:
        if left.file.stat().st_size > QUICKLY_READ:
            return ""
        return shorten(left.saved().document.text, LONGEST_WORDS, placeholder="…")
    except (OSError, InputError):
        return ""


def _forget(left: list[Left]) -> None:
    for each in left:
        each.forget()
