"""The one place where all parts meet: command line to window, or to files without a window."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import traceback
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from visualizer.command import complaint, document_of, parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from PySide6.QtCore import QMessageLogContext, QtMsgType
    from PySide6.QtWidgets import QApplication

    from visualizer.attention.run import Run
    from visualizer.state.document import Document
    from visualizer.state.view import View
    from visualizer.ui.window import Window

_M_MMAP_THRESHOLD = -3
NO_WINDOW = (
    "No window can be opened: Qt could not start on this screen. "
    "Without a screen, write a file with --export."
)
NO_PICTURE = "Nothing can be drawn: Qt could not start. Install PySide6-Essentials anew."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; give the exit status."""
    options = parser().parse_args(arguments)
    document = document_of(options)
    wrong = complaint(options, document.spec)
    if wrong:
        say(wrong)
        return 2
    return export_only(document, options.export) if options.export else show(document)


def say(sentence: str) -> None:
    """Tell the shell."""
    print(f"attention-visualizer: {sentence}", file=sys.stderr, flush=True)  # noqa: T201


def compute(document: Document, view: View, previous: Run | None) -> Run:
    """Compute a document, and read of it what will be shown; for the worker.

    torch is imported here, on the worker, so that the window is there before it.
    """
    from visualizer.attention.replay import replay
    from visualizer.attention.run import run, share_cores
    from visualizer.state.labels import typed_labels
    from visualizer.state.needed import warm

    _leave_out_of_collections()
    if document.captured:
        computed = replay(document.captured, *typed_labels(document), previous)
    else:
        texts = document.tokens()
        share_cores(texts, document.spec)
        computed = run(texts, document.spec, previous)
    warm(computed, view)
    return computed


def opened(path: Path, document: Document) -> tuple[Document, str]:
    """Open a file of attention or of weights; for the worker.

    Returns
    -------
    Document
        With what was opened; all that a file does not say is as it was.
    str
        What must be said of it; empty where nothing must.

    Raises
    ------
    InputError
        Of ``open``, when the file cannot be used.
    """
    from visualizer.attention.captured import Captured
    from visualizer.attention.opening.door import read

    _leave_out_of_collections()
    found, notice = read(path, document.spec)
    shown = document.set("captured", found if isinstance(found, Captured) else None)
    return (shown if isinstance(found, Captured) else replace(shown, spec=found)), notice


@cache
def _leave_out_of_collections() -> None:
    # What torch's import has made is there for good; looking through it for garbage would hold
    # up the window for tens of milliseconds, again and again.
    gc.freeze()


def export_only(document: Document, path: Path) -> int:
    """Write a file without a window or a screen.

    The exit status is 2 where the text, the sizes or the memory are at fault, and 1 where the
    file could not be written.
    """
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtGui import QGuiApplication

    from visualizer.attention.spec import InputError
    from visualizer.state.screen import present
    from visualizer.state.view import View
    from visualizer.ui.exports import export

    with said_if_qt_cannot_start(NO_PICTURE):
        application = QGuiApplication.instance() or QGuiApplication([sys.argv[0]])
    view = View(room=512)
    try:
        run = compute(document, view, None)
        export(path, run, present(document, view, run, None, False, None).board)
    except InputError as refused:
        say(refused.sentence)
        return 1 if refused.field == "export" else 2
    for notice in run.notices:
        say(notice)
    del application
    return 0


def show(document: Document) -> int:
    """Open the window and stay until it is closed."""
    application = make_application()
    window = open_window(document)
    sys.excepthook = partial(show_bug, window)
    status = application.exec()
    sys.excepthook = sys.__excepthook__
    del window  # before the application that it belongs to
    return status


def show_bug(
    window: Window, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show what went wrong in the window's thread, where Qt would only have it printed."""
    sys.__excepthook__(kind, error, trace)
    if isinstance(error, Exception):  # and no Ctrl+C
        window.show_bug("".join(traceback.format_exception(error)))


def make_application() -> QApplication:
    """Make Qt's application, with our style."""
    from PySide6.QtWidgets import QApplication

    return_freed_memory()
    write_numbers_with_a_point()
    with said_if_qt_cannot_start(NO_WINDOW):
        application = QApplication([sys.argv[0]])
    application.setApplicationName("Attention Visualizer")
    application.setOrganizationName("Attention Visualizer")
    application.setStyle("Fusion")
    return application


def open_window(document: Document) -> Window:
    """Open a window on a document and have its first numbers computed."""
    from PySide6.QtCore import Qt

    from visualizer.ui.window import Window
    from visualizer.ui.workspace import Workspace

    workspace = Workspace(compute, document)
    window = Window(workspace)
    workspace.setParent(window)
    # Not before there is a window to be seen: loading torch would hold it up.
    window.board.painted.connect(
        window.begin,
        Qt.ConnectionType(
            Qt.ConnectionType.QueuedConnection.value | Qt.ConnectionType.SingleShotConnection.value
        ),
    )
    window.show()
    return window


def return_freed_memory() -> None:
    """Have the C library give large freed blocks back to the system, as it does at first.

    glibc learns to keep blocks of up to 32 MiB for itself: a long text's would stay taken.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # other C libraries have no such setting, nor the need
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 2**20)


def write_numbers_with_a_point() -> None:
    """Have every box read and write numbers as all else here does, whatever the system's way."""
    from PySide6.QtCore import QLocale

    locale = QLocale.c()
    locale.setNumberOptions(QLocale.NumberOption.OmitGroupSeparator)
    QLocale.setDefault(locale)


@contextmanager
def said_if_qt_cannot_start(sentence: str) -> Iterator[None]:
    """End with a sentence where Qt, without a platform to run on, would abort the process."""
    from PySide6.QtCore import QtMsgType, qInstallMessageHandler

    def handle(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if kind is QtMsgType.QtFatalMsg:
            say(sentence)
            os._exit(1)
        print(message, file=sys.stderr)  # noqa: T201 - what Qt does itself

    before = qInstallMessageHandler(handle)
    try:
        yield
    finally:
        qInstallMessageHandler(before)
