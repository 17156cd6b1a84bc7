"""Controls exports: the dialog, the worker thread that writes files, clipboard and progress bar.

`ExportController` handles the user's intents, `ExportRunner` writes one file or script at a time,
and `ExportProgressWidget` shows how far it is, with a button that cancels it.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QSettings, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QToolButton, QWidget

from visualizer.errors import InputError
from visualizer.export import export_settings
from visualizer.export.figure_settings import FigureSettings
from visualizer.export.formats import with_suffix
from visualizer.number_format import format_count
from visualizer.progress_callback import CancelledError
from visualizer.session.newest_request_worker import Worker
from visualizer.widgets.app_settings import EXPORT
from visualizer.widgets.busy_line import DELAY_MS
from visualizer.widgets.dialogs import ask_save_path, refuse
from visualizer.widgets.labels import PlainLabel
from visualizer.widgets.layouts import row_layout
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.export.dialog.dialog import ExportDialog
    from visualizer.export.dialog.preview_controller import PreviewController
    from visualizer.export.export_settings import ExportSettings
    from visualizer.export.figures.clipboard_figure import ClipboardFigure
    from visualizer.progress_callback import Progress
    from visualizer.session.screen import Snapshot
    from visualizer.session.view import CodeDialect
    from visualizer.session.workspace import Workspace


def load_export_settings() -> ExportSettings:
    """Load the last export settings; defaults where none or invalid ones are stored."""
    return export_settings.settings_from_json(str(QSettings().value(EXPORT, "")))


def save_export_settings(settings: ExportSettings) -> None:
    """Store the export settings."""
    QSettings().setValue(EXPORT, export_settings.settings_to_json(settings))


DIALOG = ("visualizer.export.dialog.preview_controller", "visualizer.export.dialog.dialog")
"""Modules of the dialog: loading them would hold up the window."""
SAID_MS = 5000
SHOWN_S = 0.05
"""Least interval between progress updates in seconds, which keeps the window responsive."""


class ExportRunner(QObject):
    """Writes files and scripts on a worker thread, one at a time, and reports the outcome."""

    said = Signal(str, int)
    """A message for the status bar, and how long to show it in ms; 0 is until the next."""
    progressed = Signal(int, int)
    """Units done and their total."""
    refused = Signal(str)
    broke = Signal(str)
    changed = Signal()
    """Whether it is working has changed."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.is_working = False
        self._called_off = threading.Event()
        self._due = 0.0
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)

    def ask(self, path: Path, snapshot: Snapshot, figure_settings: FigureSettings) -> None:
        """Write a file, unless something is being written."""
        from visualizer.export.writers import export  # large, and not needed before

        self.ask_to_write(partial(export, path, snapshot, figure_settings))

    def ask_to_write(self, write: Callable[[Progress], Path]) -> None:
        """Call a function that writes a file, unless something is being written.

        Parameters
        ----------
        write : callable
            Takes a progress callback and returns the file's path.
        """
        self._ask(partial(write, self._tell), "Exporting…")

    def ask_for_picture(self, snapshot: Snapshot, figure_settings: FigureSettings) -> None:
        """Copy a figure to the clipboard, unless something is being written."""
        from visualizer.export.figures.clipboard_figure import clipboard_figure

        self._ask(partial(clipboard_figure, snapshot, figure_settings, self._tell), "Copying…")

    def ask_for_script(self, run: Run, dialect: CodeDialect) -> None:
        """Copy a script to the clipboard, unless something is being written."""
        from visualizer.features.code.script import script

        self._ask(partial(script, run, dialect), "Writing the script…")

    def cancel(self) -> None:
        """Cancel what is being written at its next progress report."""
        self._called_off.set()

    def _tell(self, done: int, of: int) -> None:
        if self._called_off.is_set():
            raise CancelledError
        now = time.monotonic()
        if now >= self._due:
            self._due = now + SHOWN_S
            self.progressed.emit(done, of)

    def _ask(self, request: Callable[[], object], said: str) -> None:
        if self.is_working:
            return
        self.is_working = True
        self._called_off.clear()
        self._due = 0.0
        self._worker.ask(request)
        self.said.emit(said, 0)
        self.changed.emit()

    def close(self) -> None:
        """Finish what was requested, report the outcome, and end the thread."""
        while self._worker.is_working:  # a request that has not started would be lost
            self._worker.wait(10)
        self._worker.stop()
        QCoreApplication.sendPostedEvents(self, QEvent.Type.MetaCall.value)

    def _take(self, written: Path | ClipboardFigure | str) -> None:
        if isinstance(written, Path):
            self._end(f"Exported to {written}")
        elif isinstance(written, str):
            QGuiApplication.clipboard().setText(written)
            self._end(f"Copied a script of {format_count(len(written.splitlines()), 'line')}")
        else:
            QGuiApplication.clipboard().setMimeData(written.mime())
            size = written.image.size()
            self._end(f"Copied a picture of {size.width():,} × {size.height():,} pixels")

    def _fail(self, error: Exception) -> None:
        if isinstance(error, CancelledError):
            self._end("Called off; nothing was written.")
            return
        self._end("")
        if isinstance(error, InputError):
            self.refused.emit(error.sentence)
        else:
            self.broke.emit("".join(traceback.format_exception(error)))

    def _end(self, said: str) -> None:
        self.is_working = False
        self.said.emit(said, SAID_MS)
        self.changed.emit()


class ExportController(QObject):
    """Exports the content of a workspace; one method an intent.

    Parameters
    ----------
    window : QWidget
        The parent of dialogs.
    title : callable
        Returns the initial title of a figure.
    """

    broke = Signal(str)

    def __init__(self, workspace: Workspace, window: QWidget, title: Callable[[], str]) -> None:
        super().__init__(window)
        self._workspace, self._window, self._title = workspace, window, title
        self._theme = LIGHT
        self.exporter, self.saving = ExportRunner(self), ExportProgressWidget()
        self.settings = load_export_settings()
        self.folder = Path.home()
        self.dialog: ExportDialog | None = None
        self._is_closed = False
        self._loader = Worker(self)
        self._loader.answered.connect(self._open_dialog)
        self._loader.failed.connect(self._tell_failure)
        self._then: Callable[[], object] | None = None
        self.saving.cancel.clicked.connect(self.exporter.cancel)
        self.exporter.progressed.connect(self.saving.show_progress)
        self.exporter.changed.connect(self._show_working)
        self.exporter.refused.connect(self.refuse)
        self.exporter.broke.connect(self.broke)

    @cached_property
    def previewer(self) -> PreviewController:
        """The preview controller, created for the first export."""
        from visualizer.export.dialog.preview_controller import PreviewController

        made = PreviewController(self)
        made.broke.connect(self.broke)
        return made

    def show_theme(self, theme: Theme) -> None:
        """Set the theme of the following dialogs."""
        self._theme = theme

    def export(self) -> None:
        """Open the export dialog, once its modules are loaded."""
        if sys.modules.keys() >= set(DIALOG):
            self._open_dialog()
        elif not self._loader.is_working:
            self._loader.ask(_load_dialog)

    def _open_dialog(self) -> None:
        snapshot = self._workspace.snapshot
        if snapshot is None or self.dialog is not None or self._is_closed:
            return
        from visualizer.export.dialog.dialog import ExportDialog

        settings = _titled(self.settings, "", self._title())
        dialog = ExportDialog(snapshot, settings, self._theme, self.previewer, self._window)
        dialog.settingsChanged.connect(self._remember)
        dialog.saveWanted.connect(self._ask_where)
        dialog.copyWanted.connect(self._copy)
        dialog.finished.connect(self._forget_dialog)
        self.dialog = dialog
        dialog.open()

    def _tell_failure(self, error: Exception) -> None:
        self.broke.emit("".join(traceback.format_exception(error)))

    def copy_picture(self) -> None:
        """Copy the shown figure to the clipboard, as pixels and as SVG."""
        if snapshot := self._workspace.snapshot:
            self.exporter.ask_for_picture(snapshot, FigureSettings(title=self._title()))

    def copy_script(self) -> None:
        """Copy a script that recomputes the numbers to the clipboard."""
        if self._workspace.run:
            dialect = self._workspace.view.dialect
            self.exporter.ask_for_script(self._workspace.run, dialect)

    def may_close(self, then: Callable[[], object]) -> bool:
        """Return whether nothing is being written; otherwise call `then` once it is finished.

        Waiting for a long film would block other windows.
        """
        if not self.exporter.is_working:
            return True
        self._then = then
        self.exporter.said.emit("The window closes as soon as the file is written.", 0)
        return False

    def _go_on(self) -> None:
        then, self._then = self._then, None
        if then:
            then()

    def refuse(self, sentence: str) -> None:
        """Report why nothing was written; a pending close is dropped."""
        self._then = None
        refuse(self._window, "Not written", sentence)

    def close(self) -> None:
        """Finish what was requested, and end the threads."""
        if self.dialog:
            self.dialog.stop()
        self._is_closed = True
        self._loader.stop()
        self.exporter.close()
        if "previewer" in vars(self):
            self.previewer.close()

    # ------------------------------------------------------------------ dialog

    def _remember(self, settings: ExportSettings) -> None:
        self.settings = _titled(
            settings, self._title(), ""
        )  # the next figure may show something else
        save_export_settings(settings)

    def _forget_dialog(self) -> None:
        self.dialog = None

    def _copy(self, settings: ExportSettings) -> None:
        if self.dialog:
            self.exporter.ask_for_picture(self.dialog.snapshot, settings.figure_settings)

    def _ask_where(self, settings: ExportSettings) -> None:
        if self.dialog:
            ask_for_file(self.dialog, settings, self.folder, self._save)

    def _save(self, name: str) -> None:
        if self.dialog:
            settings = self.dialog.settings
            path = with_suffix(name, f"(*{settings.suffix})")
            self.folder = path.parent
            named_so = replace(settings, suffix=path.suffix.lower())
            self.exporter.ask(path, self.dialog.snapshot, named_so.figure_settings)
            self.dialog.accept()

    def _show_working(self) -> None:
        self.saving.show_working(self.exporter.is_working)
        if not self.exporter.is_working:
            QTimer.singleShot(0, self, self._go_on)
        if self.dialog:
            self.dialog.allow_writing(not self.exporter.is_working)


def _load_dialog() -> None:
    for name in DIALOG:
        import_module(name)


def _titled(settings: ExportSettings, before: str, title: str) -> ExportSettings:
    """Return settings with another title, if their title is unchanged."""
    is_so = settings.look.title == before
    return replace(settings, look=replace(settings.look, title=title)) if is_so else settings


def ask_for_file(
    parent: QWidget, settings: ExportSettings, folder: Path, answer: Callable[[str], object]
) -> None:
    """Ask for a file's name; an existing file is replaced only after confirmation."""
    words = f"{settings.format.words} (*{settings.suffix})"
    ask_save_path(parent, "Export", folder / f"attention{settings.suffix}", words, answer)


LINE = (120, 4)


class ExportProgressWidget(QWidget):
    """A progress bar and a cancel button, shown during a long export."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.cancel = QProgressBar(), QToolButton()
        self.line.setFixedSize(*LINE)
        self.line.setTextVisible(False)
        self.line.setAccessibleName("Export")
        self.cancel.setText("Cancel")
        self.cancel.setAccessibleName("Cancel the export")
        self.cancel.setAutoRaise(True)
        row = row_layout(self, (0, 0, 0, 0))
        row.addWidget(self.line)
        row.addWidget(self.cancel)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self.setMaximumHeight(PlainLabel("Cancel").sizeHint().height())  # as high as a text
        self._delay = QTimer(self, interval=DELAY_MS, singleShot=True)
        self._delay.timeout.connect(self.show)
        self.hide()

    def show_working(self, is_working: bool) -> None:
        if is_working:
            self.line.setRange(0, 0)
            self._delay.start()
        else:
            self._delay.stop()
            self.hide()

    def show_progress(self, done: int, of: int) -> None:
        """Show the units done and their total."""
        self.line.setRange(0, of)
        self.line.setValue(done)
