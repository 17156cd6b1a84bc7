"""Renders without a window, for the command line and the notebook interface.

Qt uses its offscreen platform plugin. Large modules are imported on demand.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from visualizer.console import print_message
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from PySide6.QtCore import QMessageLogContext, QtMsgType
    from PySide6.QtGui import QGuiApplication


QT_START_ERROR = (
    "Cannot draw: Qt could not start. Reinstall it: pip install "
    "--force-reinstall PySide6-Essentials"
)
WRONG_THREAD_ERROR = (
    "Cannot draw in this thread without a running Qt application. Draw in the main thread."
)

_DRAWING = threading.RLock()


@contextmanager
def offscreen_qt() -> Iterator[None]:
    """Context in which Qt can draw, offscreen if no application exists.

    An application created here is deleted afterwards, so that one with windows can be created. Only
    one thread draws at a time.

    Raises
    ------
    InputError
        For ``export``, if Qt cannot be imported or its application cannot draw.
    """
    with _DRAWING:
        made = _make_application()
        if made is None:
            yield
            return
        with _qt_message_handler(_print_unless_font_message):
            try:
                yield
            finally:
                from visualizer.widgets.fonts import clear_font_cache

                clear_font_cache()
                made.shutdown()


def _make_application() -> QGuiApplication | None:
    """Create an application; None if one that can draw already exists."""
    try:
        from PySide6.QtGui import QGuiApplication
    except ImportError as error:
        raise InputError("export", f"Cannot draw: {error}.") from error

    there = QGuiApplication.instance()
    if isinstance(there, QGuiApplication):
        return None
    if there is not None:
        sentence = "Cannot draw with a QCoreApplication. Create a QGuiApplication instead."
        raise InputError("export", sentence)
    if threading.current_thread() is not threading.main_thread():
        raise InputError("export", WRONG_THREAD_ERROR)
    with exit_if_qt_cannot_start(QT_START_ERROR):
        return QGuiApplication([sys.argv[0] or "visualizer", "-platform", "offscreen"])


def exit_if_qt_cannot_start(sentence: str) -> AbstractContextManager[None]:
    """Exit with a message instead of Qt's abort if the platform plugin is missing."""

    def hear(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if kind.name == "QtFatalMsg":
            print_message(sentence)
            os._exit(1)
        print(message, file=sys.stderr)  # noqa: T201 - what Qt does itself

    return _qt_message_handler(hear)


def _print_unless_font_message(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    if context.category != "qt.text.font.db":  # `missing_fonts` reports it
        print(message, file=sys.stderr)  # noqa: T201 - what Qt does itself


@contextmanager
def _qt_message_handler(
    hear: Callable[[QtMsgType, QMessageLogContext, str], None],
) -> Iterator[None]:
    """Context that installs a Qt message handler."""
    from PySide6.QtCore import qInstallMessageHandler

    before = qInstallMessageHandler(hear)
    try:
        yield
    finally:
        qInstallMessageHandler(before)
