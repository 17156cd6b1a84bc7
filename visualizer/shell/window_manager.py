"""Opens, closes and tracks the program's windows: one per document, and the language lab."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QCoreApplication, QObject, QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from shiboken6 import isValid

from visualizer.features.lessons.lesson import LessonState
from visualizer.models.model_folder import is_model_folder
from visualizer.session.document import Document, default_document
from visualizer.session.view import WINDOW_VIEW, View
from visualizer.session.workspace import Workspace
from visualizer.shell.window import MainWindow
from visualizer.widgets import app_settings
from visualizer.widgets.incremental_gui_task import IncrementalTask

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from PySide6.QtWidgets import QMainWindow

    from visualizer.documents.document_file import SavedDocument
    from visualizer.documents.recovery_file import CrashRecoveryFile
    from visualizer.lab.window import LabWindow
    from visualizer.shell.injected_services import WindowServices


_ONCE = Qt.ConnectionType(
    Qt.ConnectionType.QueuedConnection.value | Qt.ConnectionType.SingleShotConnection.value
)
WINDOW_OFFSET = QPoint(32, 32)
"""Offset of a new window, in pixels, from the window in which it was requested."""


def create_initial_document() -> Document:
    """Return the initial document of a new window, with the user's default device."""
    return default_document().with_setting("device", app_settings.load_device())


def create_window(
    program: WindowServices, document: Document, view: View = WINDOW_VIEW
) -> MainWindow:
    """Create a window for a document; the document is computed after the window becomes visible."""
    lessons = LessonState()
    presenter = program.presenter(lambda: lessons.by_id)
    view = replace(view, colouring=app_settings.load_colour_maps())
    workspace = Workspace(program.compute, presenter, document, on_idle=program.rest, view=view)
    window = MainWindow(workspace, program, lessons, find_window)
    workspace.setParent(window)
    # If torch were loaded earlier, the window would appear later.
    window.painted.connect(window.start_deferred_work, _ONCE)
    return window


def find_window(path: Path) -> MainWindow | None:
    """Return the visible window in which a file is open."""
    file = path.resolve()
    windows = (each for each in QApplication.topLevelWidgets() if isinstance(each, MainWindow))
    seen = (
        (each, each.controllers.document_controller.path) for each in windows if each.isVisible()
    )
    return next((each for each, its in seen if its and its.resolve() == file), None)


class WindowManager(QObject):
    """Owner of all open windows."""

    def __init__(self, program: WindowServices) -> None:
        super().__init__()
        app_settings.restrict_folder_access()
        self._program = program
        self.all: list[MainWindow] = []
        self.lab: LabWindow | None = None
        self._closed: list[QObject] = []
        """Closed windows and their parts, until they are deleted."""
        self._held: list[object] = []
        """Data of closed windows, until nothing else references them."""
        self._making: IncrementalTask | None = None
        self._styling: IncrementalTask | None = None
        self._run: Path | None = None
        """Folder of the run to open in the lab, or None if there is none."""
        self._trains = False
        """Whether the lab should start a training run."""

    def open_window(self, document: Document) -> MainWindow:
        window = create_window(self._program, document)
        window.controllers.document_controller.newDocumentRequested.connect(
            self._open_in_new_window
        )
        window.controllers.document_controller.recoveredInNewWindow.connect(
            self._recover_in_new_window
        )
        window.controllers.document_controller.quitRequested.connect(self.quit)
        window.labRequested.connect(self.open_lab)
        window.controllers.start_page.trainingRequested.connect(self.open_training_lab)
        window.controllers.settings_controller.appearanceChosen.connect(self._restyle_other_windows)
        window.controllers.settings_controller.shortcutsChosen.connect(self._update_shortcuts)
        window.closed.connect(self._remove_window)
        if self.all:
            beside = window.frameGeometry().translated(
                self.all[-1].pos() + WINDOW_OFFSET - window.pos()
            )
            if window.screen().availableGeometry().contains(beside):
                window.move(beside.topLeft())
        self.all.append(window)
        window.show()
        return window

    def open_first_window(self, saved: SavedDocument | None, path: Path | None) -> None:
        """Open the first window.

        Parameters
        ----------
        saved : SavedDocument or None
            The document that was requested on the command line. If None, the last open document or
            the start page is shown.
        path : Path or None
            The file from which the document was read, or the folder of its model, which is loaded
            in the window.
        """
        window = self._open_last_file() if saved is None else self._open_requested_file(saved, path)
        window.painted.connect(
            window.controllers.document_controller.autosave_controller.find_crash_recoveries, _ONCE
        )

    def open_file(self, path: Path) -> None:
        """Open a document that the desktop requested while the program is running."""
        window = self.all[-1] if self.all else self.open_window(create_initial_document())
        window.controllers.document_controller.open(path)
        window.raise_()
        window.activateWindow()

    def _open_last_file(self) -> MainWindow:
        window = self.open_window(create_initial_document())
        if last := app_settings.load_last_file():
            window.controllers.document_controller.open(last)
        elif app_settings.shows_start_page():
            window.controllers.start_page.open_page()
        return window

    def _open_requested_file(self, saved: SavedDocument, path: Path | None) -> MainWindow:
        is_model = path is not None and is_model_folder(path)
        window = self.open_window(
            saved.document.with_setting("model", None) if is_model else saved.document
        )
        window.controllers.document_controller.is_requested = True
        if path and is_model:
            window.controllers.document_controller.open(path)
        elif path:
            window.controllers.document_controller.show_opened_document(saved, path)
        return window

    @property
    def front_window(self) -> MainWindow | LabWindow | None:
        """The window for messages that concern no particular window, or None if none is open."""
        if self.lab and self.lab.isVisible() and (self.lab.isActiveWindow() or not self.all):
            return self.lab
        return self.all[-1] if self.all else None

    def open_lab(self, folder: Path | None = None) -> None:
        """Open the language lab or bring it to the front, with a run if one is given."""
        self._run = folder or self._run
        if self.lab:
            self._show_lab()
        elif self._making is None or not self._making.is_working:
            # The last window may be closed before the lab has opened.
            QGuiApplication.setQuitOnLastWindowClosed(False)
            self._making = IncrementalTask(self._create_lab_in_steps(), self)
            self._making.ended.connect(self._finish_lab_creation)

    def open_training_lab(self) -> None:
        """Open the language lab and start training, unless a run is already open in the lab."""
        self._trains = True
        self.open_lab()

    def _create_lab_in_steps(self) -> Generator[None]:
        """Load and create the lab in steps, so that open windows stay responsive."""
        # Import on only one thread, because two threads would compete for the import lock.
        loading = Thread(target=import_module, args=("visualizer.lab.window",))
        loading.start()
        yield
        while loading.is_alive():
            yield
        from visualizer.lab.settings.widget import SettingsPane
        from visualizer.lab.window import LabWindow

        pane = SettingsPane()
        yield
        self.lab = LabWindow(settings_pane=pane)
        self.lab.appearanceChosen.connect(self._restyle_other_windows)
        self.lab.layerOpened.connect(partial(self._open_in_new_window, path=None))
        self.lab.modelRequested.connect(self._open_model)
        self.lab.closed.connect(self._delete_lab)
        yield
        self.lab.apply_style_sheet()
        yield
        self._show_lab()

    def _show_lab(self) -> None:
        assert self.lab
        self.lab.show()
        self.lab.raise_()
        self.lab.activateWindow()
        run, self._run = self._run, None
        trains, self._trains = self._trains, False
        if run:
            self.lab.open_run(run)
        elif trains:
            self.lab.start_training()

    def _cancel_lab_creation(self) -> None:
        if self._making and self._making.is_working:
            self._making.stop()

    def _finish_lab_creation(self) -> None:
        QGuiApplication.setQuitOnLastWindowClosed(True)
        if not self.all and not (self.lab and self.lab.isVisible()):
            QCoreApplication.quit()

    def _delete_lab(self, lab: LabWindow) -> None:
        self._cancel_lab_creation()
        self.lab = None
        self._delete_window(lab)

    def exit_without_window(self) -> None:
        """End the program if no window could be opened."""
        QCoreApplication.exit(1)

    def quit(self) -> None:
        """Ask about unsaved changes in each window and then in the lab; then close all windows.

        If the user cancels, the remaining windows stay open.
        """
        self._cancel_lab_creation()
        for window in self.all.copy():
            if not window.controllers.document_controller.may_close(
                partial(self._close_and_continue, window)
            ):
                return
        if self.lab:
            if not self.lab.may_close(self.quit):
                self.lab.raise_()  # this window shows the reason
                return
            self.lab.close()
        for window in self.all.copy():
            window.close()

    def _close_and_continue(self, window: MainWindow) -> None:
        if window.close():
            self.quit()

    def _open_in_new_window(self, saved: SavedDocument | None, path: Path | None) -> None:
        window = self.open_window(saved.document if saved else create_initial_document())
        if saved:
            window.controllers.document_controller.show_opened_document(saved, path)

    def _open_model(self, path: Path, text: str) -> None:
        window = self.open_window(create_initial_document().with_setting("text", text))
        window.controllers.document_controller.open(path)

    def _recover_in_new_window(self, saved: SavedDocument, left: CrashRecoveryFile) -> None:
        """Open a recovered document in another window, behind the requested document."""
        requested = next(
            (each for each in self.all if each.controllers.document_controller.is_requested), None
        )
        self.open_window(saved.document).controllers.document_controller.show_recovered_document(
            saved, left
        )
        if requested:
            requested.raise_()
            requested.activateWindow()

    def _restyle_other_windows(self) -> None:
        """Apply changed appearance settings to all other windows."""
        if self._styling and self._styling.is_working:
            self._styling.stop()
        changed = (self.sender(), self.sender().parent())
        others = [window for window in self._all_windows() if window not in changed]
        work = self._style_windows(others)
        next(work)
        self._styling = IncrementalTask(work, self)

    def _update_shortcuts(self) -> None:
        """Use shortcuts that were changed in one of the windows in all others."""
        for window in self.all:
            if window.controllers.settings_controller is not self.sender():
                window.actions_.update_shortcuts()
        if self.lab:
            self.lab.menus.update_shortcuts()

    def _all_windows(self) -> list[MainWindow | LabWindow]:
        return [*self.all, *([self.lab] if self.lab else [])]

    def _style_windows(self, windows: list[MainWindow | LabWindow]) -> Generator[None]:
        """Style and paint the windows one after another, so that the program stays responsive."""
        for window in windows:
            window.setUpdatesEnabled(False)
        try:
            yield
            for window in windows:
                if window in self._all_windows():  # the window may have been closed
                    window.set_colour_scheme(app_settings.load_scheme())
                    yield
                if window in self._all_windows():
                    window.setUpdatesEnabled(True)
                yield
        finally:
            for window in set(windows).intersection(self._all_windows()):
                window.setUpdatesEnabled(True)

    def _remove_window(self, window: MainWindow) -> None:
        self.all.remove(window)
        self._held += window.workspace.large_objects
        self._delete_window(window)

    def _delete_window(self, window: QMainWindow) -> None:
        """Delete a closed window so that its memory is freed soon.

        The parts of a window reference each other. Garbage collection would free them late, and
        those of the first window never, because it ignores objects that existed when torch was
        imported.
        """
        self._closed += [window, *window.findChildren(QObject)]
        window.destroyed.connect(self._clear_deleted_objects, Qt.ConnectionType.QueuedConnection)
        window.deleteLater()

    def _clear_deleted_objects(self) -> None:
        for part in [each for each in self._closed if not isValid(each)]:
            vars(part).clear()
        self._closed = [each for each in self._closed if isValid(each)]
        if not self._closed:  # freeing gigabytes takes long, so use another thread
            held, self._held = self._held, []
            Thread(target=held.clear).start()
