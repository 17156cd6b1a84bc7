"""Runs exports on a worker thread, one at a time."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication

from visualizer.errors import InputError
from visualizer.format import format_count
from visualizer.process_settings import trim_freed_memory
from visualizer.progress import CancelledError
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.figures.svg_pdf_writer import ClipboardFigure
    from visualizer.progress import Progress
    from visualizer.session.export_snapshot import ExportSnapshot
    from visualizer.session.view import CodeDialect


_logger = logging.getLogger(__name__)
CANCELLED_MESSAGE = "Cancelled; nothing was written."
MESSAGE_MS = 5000
PROGRESS_INTERVAL_S = 0.05
"""Minimum interval, in seconds, between progress updates, to keep the window responsive."""


class ExportRunner(QObject):
    """Writes files and scripts on a worker thread, one at a time, and reports the outcome."""

    messageReported = Signal(str, int)
    """Emitted with a status bar message and its duration in ms; 0 means until the next message."""
    progressReported = Signal(int, int)
    """Emitted with the completed and the total number of units of work."""
    refused = Signal(str)
    failed = Signal(str)
    changed = Signal()
    """Emitted when `is_working` changes."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.is_working = False
        self._cancelled = threading.Event()
        self._next_report_at = 0.0
        # Drawing a large image leaves many small free blocks of memory.
        self._worker = NewestRequestWorker(self, trim_freed_memory)
        self._worker.answered.connect(self._finish_request)
        self._worker.failed.connect(self._handle_error)

    def write_file(
        self, path: Path, snapshot: ExportSnapshot, figure_settings: FigureSettings
    ) -> None:
        """Write a file, unless another export is running."""
        self.start_writing(partial(_write_file, path, snapshot, figure_settings))

    def start_writing(self, write: Callable[[Progress], Path]) -> None:
        """Call a function that writes a file, unless another export is running.

        Parameters
        ----------
        write : callable
            Function that takes a progress callback and returns the file's path.
        """
        self._start_request(partial(write, self._report_progress), "Exporting…")

    def copy_figure(self, snapshot: ExportSnapshot, figure_settings: FigureSettings) -> None:
        """Copy a figure to the clipboard, unless another export is running."""
        self._start_request(
            partial(_draw_clipboard_figure, snapshot, figure_settings, self._report_progress),
            "Copying…",
        )

    def copy_script(self, run: Run, dialect: CodeDialect) -> None:
        """Copy a script to the clipboard, unless another export is running."""
        self._start_request(partial(_write_script, run, dialect), "Writing the script…")

    def cancel(self) -> None:
        """Cancel the running export at its next progress report."""
        self._cancelled.set()

    def _report_progress(self, done: int, of: int) -> None:
        if self._cancelled.is_set():
            raise CancelledError
        now = time.monotonic()
        if now >= self._next_report_at:
            self._next_report_at = now + PROGRESS_INTERVAL_S
            self.progressReported.emit(done, of)

    def _start_request(self, request: Callable[[], object], message: str) -> None:
        if self.is_working:
            return
        self.is_working = True
        self._cancelled.clear()
        self._next_report_at = 0.0
        self._worker.submit(request)
        self.messageReported.emit(message, 0)
        self.changed.emit()

    def close(self) -> None:
        """End the worker thread; call only if no export is running."""
        self._worker.abandon()

    def _finish_request(self, result: Path | ClipboardFigure | str) -> None:
        _logger.info("Export finished: %s", type(result))
        if isinstance(result, Path):
            self._finish_with_message(f"Exported to {result}")
        elif isinstance(result, str):
            QGuiApplication.clipboard().setText(result)
            self._finish_with_message(
                f"Copied a script with {format_count(len(result.splitlines()), 'line')}"
            )
        else:
            QGuiApplication.clipboard().setMimeData(result.to_mime_data())
            size = result.image.size()
            self._finish_with_message(
                f"Copied an image of {size.width():,} × {size.height():,} pixels"
            )

    def _handle_error(self, error: Exception) -> None:
        if isinstance(error, CancelledError):
            self._finish_with_message(CANCELLED_MESSAGE)
            return
        self._finish_with_message("")
        self.report_error(error)

    def report_error(self, error: Exception) -> None:
        """Emit the reason why the export failed: an error message, or the traceback of a bug."""
        if isinstance(error, InputError):
            self.refused.emit(error.sentence)
        else:
            self.failed.emit(log_unexpected_error(error))

    def _finish_with_message(self, message: str) -> None:
        self.is_working = False
        self.messageReported.emit(message, MESSAGE_MS)
        self.changed.emit()


# These functions import large modules, so they run on the worker thread to keep the window
# responsive.


def _write_file(
    path: Path, snapshot: ExportSnapshot, figure_settings: FigureSettings, progress: Progress
) -> Path:
    from visualizer.export.writers import export_file

    return export_file(path, snapshot, figure_settings, progress)


def _draw_clipboard_figure(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, progress: Progress
) -> ClipboardFigure:
    from visualizer.export.figures.svg_pdf_writer import create_clipboard_figure

    return create_clipboard_figure(snapshot, figure_settings, progress)


def _write_script(run: Run, dialect: CodeDialect) -> str:
    from visualizer.features.explain.script_generator import generate_script

    return generate_script(run, dialect)
