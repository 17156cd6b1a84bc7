"""The one place where all parts meet: command line to window, or to files without a window."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from visualizer.command import complaint, document_of, parser

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PySide6.QtWidgets import QApplication

    from visualizer.attention.run import Run
    from visualizer.state.document import Document
    from visualizer.state.view import View
    from visualizer.ui.window import Window

_M_MMAP_THRESHOLD = -3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; give the exit status."""
    options = parser().parse_args(arguments)
    document = document_of(options)
    wrong = complaint(document.spec)
    if wrong:
        print(f"attention-visualizer: {wrong}", file=sys.stderr)  # noqa: T201 - for the shell
        return 2
    return export_only(document, options.export) if options.export else show(document)


def compute(document: Document, view: View, previous: Run | None) -> Run:
    """Compute a document, and read of it what will be shown; for the worker.

    torch is imported here, on the worker, so that the window is there before it.
    """
    from visualizer.attention.run import run, share_cores
    from visualizer.state.heatmaps import warm

    texts = document.tokens()
    share_cores(texts, document.spec)
    computed = run(texts, document.spec, previous)
    warm(computed, view)
    return computed


def export_only(document: Document, path: Path) -> int:
    """Write a file without a window or a screen."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtGui import QGuiApplication

    from visualizer.attention.spec import InputError
    from visualizer.state.screen import present
    from visualizer.state.view import View
    from visualizer.ui.exports import export

    application = QGuiApplication.instance() or QGuiApplication([sys.argv[0]])
    try:
        run = compute(document, View(), None)
        screen = present(document, View(room=512), run, None, False, None)
        export(path, run, screen.board)
    except InputError as refused:
        print(f"attention-visualizer: {refused.sentence}", file=sys.stderr)  # noqa: T201
        return 2 if refused.field == "text" else 1
    for notice in run.notices:
        print(f"attention-visualizer: {notice}", file=sys.stderr)  # noqa: T201
    del application
    return 0


def show(document: Document) -> int:
    """Open the window and stay until it is closed."""
    application = make_application()
    window = open_window(document)
    status = application.exec()
    del window  # before the application that it belongs to
    return status


def make_application() -> QApplication:
    """Make Qt's application, with our style."""
    from PySide6.QtWidgets import QApplication

    return_freed_memory()
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
        workspace.start,
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
