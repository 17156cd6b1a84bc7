"""Renders without a window, for the command line and the Python API.

Qt uses its offscreen platform plugin. Large modules are imported on demand.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING
from unicodedata import category

from visualizer.console import print_message
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from PySide6.QtCore import QMessageLogContext, QtMsgType
    from PySide6.QtGui import QGuiApplication

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.export_snapshot import ExportSnapshot

QT_START_ERROR = (
    "Cannot draw: Qt could not start. Reinstall the program or its package PySide6-Essentials."
)
THREAD_MESSAGES = (
    "WARNING: QApplication was not created in the main() thread",
    "QObject::moveToThread",
)
"""Messages of Qt if threads other than the main thread draw, as those of web frameworks do.

The thread of the application matters for events, but not for drawing: 800 figures that were drawn
by random threads were equal to those of the main thread.
"""
MAX_LISTED_CHARACTERS = 10
"""Maximum number of missing characters that a message lists."""
_INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Zs"}
"""Unicode categories of characters that have no glyph."""

_DRAWING = threading.RLock()


@contextmanager
def offscreen_qt() -> Iterator[None]:
    """Context manager within which Qt can draw, offscreen if no application exists.

    Any thread can draw, but only one at a time. If an application is created here, it is deleted
    afterwards, so that an application with windows can be created.

    Raises
    ------
    InputError
        With field ``export`` if Qt cannot be imported or its application cannot draw.
    """
    with _DRAWING:
        application = _make_application()
        if application is None:
            from visualizer.widgets.fonts import interface_font

            with interface_font():
                yield
            return
        with _qt_message_handler(_print_relevant_message):
            try:
                yield
            finally:
                from visualizer.widgets.fonts import clear_font_cache

                clear_font_cache()
                application.shutdown()


def _make_application() -> QGuiApplication | None:
    """Create an application; return None if one that can draw already exists."""
    try:
        from PySide6.QtGui import QGuiApplication
    except ImportError as error:
        raise InputError("export", f"Cannot draw: {error}.") from error

    existing = QGuiApplication.instance()
    if isinstance(existing, QGuiApplication):
        return None
    if existing is not None:
        sentence = "Cannot draw with a QCoreApplication. Create a QGuiApplication instead."
        raise InputError("export", sentence)
    from visualizer.widgets.fonts import apply_interface_font

    with exit_if_qt_cannot_start(QT_START_ERROR):
        application = QGuiApplication([sys.argv[0] or "visualizer", "-platform", "offscreen"])
    apply_interface_font(100)
    return application


def exit_if_qt_cannot_start(failure: str) -> AbstractContextManager[None]:
    """If the platform plugin is missing, exit with a message before Qt aborts the process."""

    def handle_message(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if kind.name == "QtFatalMsg":
            print_message(failure)
            os._exit(1)
        _print_relevant_message(kind, context, message)

    return _qt_message_handler(handle_message)


def _print_relevant_message(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    is_about_fonts = (
        context.category == "qt.text.font.db"
    )  # `describe_missing_characters` reports it
    if not is_about_fonts and not message.startswith(THREAD_MESSAGES):
        print(message, file=sys.stderr)  # noqa: T201 - what Qt does itself


@contextmanager
def _qt_message_handler(
    handle_message: Callable[[QtMsgType, QMessageLogContext, str], None],
) -> Iterator[None]:
    """Context manager within which a Qt message handler is installed."""
    from PySide6.QtCore import qInstallMessageHandler

    previous = qInstallMessageHandler(handle_message)
    try:
        yield
    finally:
        qInstallMessageHandler(previous)


def describe_missing_characters(snapshot: ExportSnapshot, figure_settings: FigureSettings) -> str:
    """Describe the characters that have no glyph and appear as boxes; return "" if there are none.

    Call within `offscreen_qt`.
    """
    from PySide6.QtGui import QFontMetricsF

    from visualizer.widgets.fonts import system_font

    metrics = QFontMetricsF(system_font())
    tokens = (token for text in (*snapshot.run.texts, snapshot.run.key_tokens) for token in text)
    letters = dict.fromkeys(chain(figure_settings.title, *tokens))
    visible = (letter for letter in letters if category(letter) not in _INVISIBLE_CATEGORIES)
    missing = [letter for letter in visible if not metrics.inFontUcs4(ord(letter))]
    if not missing:
        return ""
    more = "…" if len(missing) > MAX_LISTED_CHARACTERS else ""
    quoted = f"“{''.join(missing[:MAX_LISTED_CHARACTERS])}{more}”"
    return (
        f"No installed font contains the characters {quoted}, which appear as boxes in images. "
        "Install a font that contains them."
    )
