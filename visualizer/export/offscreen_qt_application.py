"""Renders without a window, for the command line and the notebook interface.

Qt runs on its offscreen platform. Large modules are imported when they are needed.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING
from unicodedata import category

from visualizer.console_messages_and_progress import say
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from PySide6.QtCore import QMessageLogContext, QtMsgType
    from PySide6.QtGui import QGuiApplication

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.screen import Snapshot


NO_PICTURE = "Nothing can be drawn: Qt could not start. Install PySide6-Essentials anew."
NO_FONTS = (
    "There are no fonts on this system, so pictures have boxes for words and numbers. "
    "Install some, such as those of the package fonts-dejavu-core."
)
NOT_HERE = (
    "Nothing can be drawn in this thread while no application of Qt is running. "
    "Draw in the main thread."
)

MOST_NAMED = 10
"""Most missing characters that a message lists."""
_UNSEEN = {"Cc", "Cf", "Cs", "Zs"}
_DRAWING = threading.RLock()


@contextmanager
def qt_for_drawing() -> Iterator[None]:
    """Context in which Qt can draw, offscreen if no application exists.

    An application made for this is deleted afterwards, so that one with windows can be made. One
    thread draws at a time.

    Raises
    ------
    InputError
        Of ``export``, when Qt cannot be imported, or its application cannot draw.
    """
    with _DRAWING:
        made = _application()
        if made is None:
            yield
            return
        with _heard(_not_of_fonts):
            try:
                yield
            finally:
                from visualizer.widgets.theme import forget_fonts

                forget_fonts()
                made.shutdown()


def _application() -> QGuiApplication | None:
    """Make an application unless one exists that can draw."""
    try:
        from PySide6.QtGui import QGuiApplication
    except ImportError as error:
        raise InputError("export", f"Nothing can be drawn: {error}.") from error

    there = QGuiApplication.instance()
    if isinstance(there, QGuiApplication):
        return None
    if there is not None:
        sentence = "Nothing can be drawn beside a QCoreApplication. Make a QGuiApplication instead."
        raise InputError("export", sentence)
    if threading.current_thread() is not threading.main_thread():
        raise InputError("export", NOT_HERE)
    with exit_if_qt_cannot_start(NO_PICTURE):
        return QGuiApplication([sys.argv[0] or "visualizer", "-platform", "offscreen"])


def missing_fonts(snapshot: Snapshot, figure_settings: FigureSettings) -> str:
    """Describe the characters that no font has; they appear as boxes. Call it within `drawing`.

    Empty where all have a glyph.
    """
    from PySide6.QtGui import QFontMetricsF, QGuiApplication

    measures = QFontMetricsF(QGuiApplication.font())
    if not measures.inFont("0"):
        return NO_FONTS
    words = (token for text in (*snapshot.run.texts, snapshot.run.key_tokens) for token in text)
    letters = dict.fromkeys(chain(figure_settings.title, *words))
    seen = (letter for letter in letters if category(letter) not in _UNSEEN)
    lacking = [letter for letter in seen if not measures.inFontUcs4(ord(letter))]
    if not lacking:
        return ""
    named = f"“{''.join(lacking[:MOST_NAMED])}{'…' * (len(lacking) > MOST_NAMED)}”"
    return f"No font on this system has {named}, so pictures have boxes for that. Install one."


def exit_if_qt_cannot_start(sentence: str) -> AbstractContextManager[None]:
    """Exit with a sentence where Qt would abort the process for lack of a platform plugin."""

    def hear(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if kind.name == "QtFatalMsg":
            say(sentence)
            os._exit(1)
        print(message, file=sys.stderr)  # noqa: T201 - what Qt does itself

    return _heard(hear)


def _not_of_fonts(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    if context.category != "qt.text.font.db":  # `missing_fonts` reports it
        print(message, file=sys.stderr)  # noqa: T201 - what Qt does itself


@contextmanager
def _heard(hear: Callable[[QtMsgType, QMessageLogContext, str], None]) -> Iterator[None]:
    """Context in which a function receives Qt's messages."""
    from PySide6.QtCore import qInstallMessageHandler

    before = qInstallMessageHandler(hear)
    try:
        yield
    finally:
        qInstallMessageHandler(before)
