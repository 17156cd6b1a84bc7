"""Opens the Settings window and applies and stores its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication

from visualizer.shell.settings_dialog import DataFolder, ProgramSettings, SettingsDialog
from visualizer.widgets import app_settings
from visualizer.widgets.app_settings import ANIMATION_EFFECTS, is_motion_reduced, set_motion_reduced
from visualizer.widgets.dialogs import open_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from PySide6.QtWidgets import QMainWindow, QWidget

    from visualizer.features.setup.controller import SetupController
    from visualizer.features.view_bar.view_controller import ViewController
    from visualizer.session.workspace import Workspace
    from visualizer.shell.document_controller import DocumentController
    from visualizer.widgets.theme import ColourScheme


class SettingsController(QObject):
    """Controller that keeps the Settings window in sync with changes in menus and panes."""

    schemeChosen = Signal(str)
    textSizeChosen = Signal()
    startPageChosen = Signal()
    shortcutsRequested = Signal()
    """Requests the editor of keyboard shortcuts."""
    shortcutsChosen = Signal()
    """Emitted when shortcuts have been changed, which affects all windows."""
    appearanceChosen = Signal()
    """Requests that the other windows adopt this window's appearance."""

    def __init__(
        self,
        window: QMainWindow,
        workspace: Workspace,
        view_controller: ViewController,
        setup: SetupController,
        document_controller: DocumentController,
        reduced_motion_controller: ReducedMotionController,
        set_command_tooltips: Callable[[Mapping[QWidget, str]], object],
    ) -> None:
        super().__init__(window)
        self._set_command_tooltips = set_command_tooltips
        self._window, self._workspace = window, workspace
        self._view_controller, self._setup = view_controller, setup
        self._document_controller = document_controller
        self._reduced_motion_controller = reduced_motion_controller
        self.dialog: SettingsDialog | None = None
        """The Settings window, or None if it is not open."""

    def open_settings(self) -> None:
        """Open the Settings window, or bring it to the front."""
        if self.dialog is None:
            self.dialog = dialog = SettingsDialog(self._window, list_data_folders())
            self._set_command_tooltips(
                {dialog.motion: "reduced_motion.toggle", dialog.shortcuts: "shortcuts.edit"}
            )
            dialog.finished.connect(self._clear_dialog)
            dialog.schemeChosen.connect(self.choose_colour_scheme)
            dialog.textSizeChosen.connect(self._choose_text_size)
            dialog.mapChosen.connect(self._view_controller.set_sequential_map)
            dialog.signedMapChosen.connect(self._view_controller.set_diverging_map)
            dialog.motionChosen.connect(self.toggle_reduced_motion)
            dialog.startPageChosen.connect(self._choose_start_page)
            dialog.deviceChosen.connect(self._choose_device)
            dialog.autosaveChosen.connect(self._choose_autosave)
            dialog.shortcutsRequested.connect(self.shortcutsRequested)
            dialog.folderOpenRequested.connect(self._open_folder)
        self.show_current_settings()
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def open_setting(self, name: str) -> None:
        """Open the Settings window, and focus a setting."""
        self.open_settings()
        if self.dialog:
            self.dialog.focus_setting(name)

    def _clear_dialog(self) -> None:
        self.dialog = None

    def show_current_settings(self) -> None:
        """Show the current values in the Settings window."""
        if self.dialog:
            colouring = self._workspace.requested_view.colouring
            self.dialog.show_settings(
                ProgramSettings(
                    app_settings.load_scheme(),
                    app_settings.load_text_size(),
                    app_settings.is_motion_reduced(),
                    app_settings.shows_start_page(),
                    colouring.sequential,
                    colouring.diverging,
                    self._workspace.document.spec.device,
                    app_settings.is_autosave_enabled(),
                )
            )

    def choose_colour_scheme(self, scheme: ColourScheme) -> None:
        """Set the colour scheme of all windows."""
        self.schemeChosen.emit(scheme.value)
        self.appearanceChosen.emit()

    def _choose_text_size(self, size: int) -> None:
        app_settings.save_text_size(size)
        self.textSizeChosen.emit()
        self.appearanceChosen.emit()

    def toggle_reduced_motion(self) -> None:
        """Turn the animations of all windows on or off."""
        self._reduced_motion_controller.toggle()
        self.appearanceChosen.emit()

    def _choose_start_page(self, is_on: bool) -> None:
        app_settings.set_start_page_shown(is_on)
        self.startPageChosen.emit()

    def _choose_device(self, device: object) -> None:
        self._setup.change_setting("device", device, is_continued_edit=False)

    def _choose_autosave(self, is_on: bool) -> None:
        app_settings.set_autosave_enabled(is_on)
        self._document_controller.track_changes()

    def _open_folder(self, folder: DataFolder) -> None:
        open_folder(self.dialog or self._window, folder.title, folder.path)


def list_data_folders() -> tuple[DataFolder, ...]:
    """List the folders in which the program stores data."""
    own = app_settings.user_data_folder()
    return (
        DataFolder("Settings", app_settings.settings_file().path.parent),
        DataFolder("Recent documents", own),
        DataFolder("Unsaved changes", own / app_settings.RECOVERY),
        DataFolder("Lessons", own / app_settings.LESSONS),
        DataFolder("Log", app_settings.user_log_folder()),
        DataFolder("Training runs", own / app_settings.RUNS),
    )


class ReducedMotionController(QObject):
    """Controller that applies the “Reduce motion” setting to a window."""

    changed = Signal()

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        self.is_on = is_motion_reduced()
        """Whether animations are off in this window."""
        self._effects = [
            effect for effect in ANIMATION_EFFECTS if QApplication.isEffectEnabled(effect)
        ]

    def toggle(self) -> None:
        set_motion_reduced(not is_motion_reduced())
        self.changed.emit()

    def apply(self) -> None:
        """Turn the animations of panes, menus, lists and tooltips on or off."""
        self.is_on = is_motion_reduced()
        self._window.setAnimated(not self.is_on)
        for effect in self._effects:
            QApplication.setEffectEnabled(effect, not self.is_on)
