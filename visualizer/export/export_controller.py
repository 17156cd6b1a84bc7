"""Controls exports: the dialog, the runner, the clipboard and the progress display."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from visualizer.export import export_settings
from visualizer.export.export_runner import ExportRunner
from visualizer.export.figure_settings import FigureExtent, FigureSettings
from visualizer.export.formats import add_suffix
from visualizer.export.progress_controller import ExportProgressController
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error
from visualizer.widgets.app_settings import EXPORT, load_value, store_values
from visualizer.widgets.dialogs import ask_save_path, show_warning
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

    from visualizer.export.dialog.dialog import ExportDialog
    from visualizer.export.dialog.preview_widget import PreviewController
    from visualizer.export.export_settings import ExportSettings
    from visualizer.session.view import View
    from visualizer.session.workspace import Workspace


def load_export_settings() -> ExportSettings:
    """Load the last export settings, or the defaults if none are stored or they are invalid."""
    return export_settings.settings_from_json(str(load_value(EXPORT)))


def save_export_settings(settings: ExportSettings) -> None:
    """Store the export settings."""
    store_values({EXPORT: export_settings.settings_to_json(settings)})


DIALOG_MODULES = ("visualizer.export.dialog.preview_widget", "visualizer.export.dialog.dialog")
"""Modules of the dialog, which are imported on a thread because the import takes long."""


class ExportController(QObject):
    """Exports the content of a workspace; one method per user action.

    Parameters
    ----------
    window : QWidget
        The parent of the dialogs.
    title : callable
        Function that returns the initial title for a figure.
    """

    failed = Signal(str)

    def __init__(self, workspace: Workspace, window: QWidget, title: Callable[[], str]) -> None:
        super().__init__(window)
        self._workspace, self._window, self._title = workspace, window, title
        self._theme = LIGHT
        self.exporter = ExportRunner(self)
        self.progress = ExportProgressController(self.exporter, self)
        self.settings = load_export_settings()
        self.folder = Path.home()
        self.dialog: ExportDialog | None = None
        self._stage = ""
        self._is_closed = False
        self._loader = NewestRequestWorker(self)
        self._loader.answered.connect(self._open_dialog)
        self._loader.failed.connect(self._report_failure)
        self.exporter.changed.connect(self._update_writing_state)
        self.exporter.refused.connect(self.show_error)
        self.exporter.failed.connect(self.failed)

    @cached_property
    def preview_controller(self) -> PreviewController:
        """The preview controller, which is created when the export dialog is first opened."""
        from visualizer.export.dialog.preview_widget import PreviewController

        controller = PreviewController(self)
        controller.failed.connect(self.failed)
        return controller

    def show_theme(self, theme: Theme) -> None:
        """Set the theme for dialogs opened from now on."""
        self._theme = theme

    def open_export_dialog(self, stage: str = "") -> None:
        """Open the export dialog as soon as its modules are loaded.

        Parameters
        ----------
        stage : str
            Stage of the panel to export; if empty, the last chosen content is exported.
        """
        self._stage = stage
        if sys.modules.keys() >= set(DIALOG_MODULES):
            self._open_dialog()
        elif not self._loader.is_working:
            self._loader.submit(_import_dialog_modules)

    def _open_dialog(self) -> None:
        snapshot = self._workspace.snapshot
        if snapshot is None or self.dialog is not None or self._is_closed:
            return
        from visualizer.export.dialog.dialog import ExportDialog

        settings = _replace_title(self.settings, "", self._title())
        if self._stage:
            snapshot = replace(snapshot, view=self._view_of_stage(snapshot.view))
            settings = replace(settings, look=replace(settings.look, extent=FigureExtent.PANEL))
        dialog = ExportDialog(
            snapshot, settings, self._theme, self.preview_controller, self._window
        )
        dialog.settingsChanged.connect(self._save_settings)
        dialog.saveRequested.connect(self._ask_for_path)
        dialog.copyRequested.connect(self._copy_dialog_figure)
        dialog.finished.connect(self._forget_dialog)
        self.dialog = dialog
        self._workspace.requests.set_images_covered(True)
        dialog.open()

    def _view_of_stage(self, view: View) -> View:
        """Return a view of only the requested stage and, from a flow board, only its front head."""
        resolved = self._workspace.resolve(view)
        pinned = view.pinned if view.pinned and view.pinned.stage == self._stage else None
        heads = frozenset({resolved.flow.head}) if resolved.flow else view.heads
        stages = frozenset({self._stage})
        return replace(view, flow=False, stages=stages, heads=heads, pinned=pinned)

    def _report_failure(self, error: Exception) -> None:
        self.failed.emit(log_unexpected_error(error))

    def copy_figure(self) -> None:
        """Copy the current figure to the clipboard, as PNG and as SVG."""
        if snapshot := self._workspace.snapshot:
            self.exporter.copy_figure(snapshot, FigureSettings(title=self._title()))

    def copy_script(self) -> None:
        """Copy a script that recomputes the values to the clipboard."""
        if self._workspace.run:
            dialect = self._workspace.view.dialect
            self.exporter.copy_script(self._workspace.run, dialect)

    def show_error(self, sentence: str) -> None:
        """Show why nothing was written."""
        show_warning(self._window, "Not written", sentence)

    def close(self) -> None:
        """End the threads; call only if no export is running."""
        if self.dialog:
            self.dialog.stop_background_work()
        self._is_closed = True
        self._loader.abandon()
        self.exporter.close()
        if "preview_controller" in vars(self):
            self.preview_controller.close()

    # ------------------------------------------------------------------ dialog

    def _save_settings(self, settings: ExportSettings) -> None:
        # The next figure may need a different title.
        self.settings = _replace_title(settings, self._title(), "")
        save_export_settings(settings)

    def _forget_dialog(self) -> None:
        self.dialog = None
        self._workspace.requests.set_images_covered(False)

    def _copy_dialog_figure(self) -> None:
        if self.dialog:
            settings = self.dialog.settings.figure_settings
            self.exporter.copy_figure(self.dialog.snapshot, settings)

    def _ask_for_path(self) -> None:
        if self.dialog:
            ask_export_path(self.dialog, self.dialog.settings, self.folder, self._save_file)

    def _save_file(self, name: str) -> None:
        if self.dialog:
            settings = self.dialog.settings
            path = add_suffix(name, f"(*{settings.suffix})")
            # The file dialog has asked only about the name without the suffix.
            if path != Path(name) and os.path.lexists(path):
                sentence = f"“{path.name}” already exists. Choose another name."
                show_warning(self.dialog, "Not written", sentence)
                return
            self.folder = path.parent
            settings_of_file = replace(settings, suffix=path.suffix.lower())
            self.exporter.write_file(path, self.dialog.snapshot, settings_of_file.figure_settings)
            self.dialog.accept()

    def _update_writing_state(self) -> None:
        if self.dialog:
            self.dialog.set_writing_enabled(not self.exporter.is_working)


def _import_dialog_modules() -> None:
    for name in DIALOG_MODULES:
        import_module(name)


def _replace_title(settings: ExportSettings, before: str, title: str) -> ExportSettings:
    """Return settings with the new title if the current title is `before`."""
    is_unchanged = settings.look.title == before
    return replace(settings, look=replace(settings.look, title=title)) if is_unchanged else settings


def ask_export_path(
    parent: QWidget, settings: ExportSettings, folder: Path, then: Callable[[str], object]
) -> None:
    """Ask for a file name; confirm before replacing an existing file."""
    file_filter = f"{settings.format.words} (*{settings.suffix})"
    ask_save_path(parent, "Export", folder / f"attention{settings.suffix}", file_filter, then)
