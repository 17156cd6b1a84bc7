"""Shows the start page over the content of the window, and opens what the user chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QRect, Signal

from visualizer.documents import recent_files
from visualizer.documents.document_file import SavedDocument
from visualizer.features.start_page.examples import StartPageExample
from visualizer.features.start_page.widget import StartPage
from visualizer.session.document import default_document
from visualizer.session.view import WINDOW_VIEW
from visualizer.widgets import app_settings
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from PySide6.QtWidgets import QMainWindow, QWidget

    from visualizer.features.lessons.controller import LessonController
    from visualizer.session.document import Document
    from visualizer.session.workspace import Workspace
    from visualizer.shell.document_controller import DocumentController
    from visualizer.widgets.theme import Theme


class StartPageController(QObject):
    """Controller of the start page, which covers all but the menus and the status bar."""

    painted = Signal()
    """Emitted when the page has been painted."""
    trainingRequested = Signal()
    """Requests that a model is trained in the language lab."""
    startChosen = Signal()
    """Emitted when the user has changed whether the page is shown at startup."""
    opened = Signal()
    left = Signal()
    """Emitted when the page has been closed."""

    def __init__(
        self,
        window: QMainWindow,
        workspace: Workspace,
        document_controller: DocumentController,
        lesson_controller: LessonController,
        read_example: Callable[[], SavedDocument],
        set_command_tooltips: Callable[[Mapping[QWidget, str]], object],
    ) -> None:
        super().__init__(window)
        self._window, self._workspace = window, workspace
        self._document_controller = document_controller
        self._lesson_controller, self._read_example = lesson_controller, read_example
        self._set_command_tooltips = set_command_tooltips
        self._theme: Theme = LIGHT
        self._covered: Document | None = None
        self.page: StartPage | None = None
        """The page, or None if it is closed."""
        workspace.changed.connect(self._leave_if_document_changed)

    def open_page(self) -> None:
        if self.page:
            return
        self._covered = self._workspace.document
        self.page = page = StartPage(self._window)
        self._set_command_tooltips({page.open: "document.open"})
        page.exampleChosen.connect(self._open_example)
        page.documentChosen.connect(self._document_controller.open)
        page.openRequested.connect(self._document_controller.choose_and_open_file)
        page.startChosen.connect(self._set_shown_at_start)
        page.closed.connect(self.close_page)
        page.painted.connect(self.painted)
        self._window.installEventFilter(self)
        self.show_theme(self._theme)
        self._fit_to_window()
        page.show()
        page.raise_()
        page.focus_first_example()
        self.opened.emit()

    def close_page(self) -> None:
        page, self.page = self.page, None
        if page:
            self._window.removeEventFilter(self)
            page.hide()
            page.deleteLater()
            self.left.emit()

    def show_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update_page()

    def update_page(self) -> None:
        if self.page:
            recent = recent_files.load_recent_files(app_settings.user_data_folder())
            is_shown_at_start = app_settings.shows_start_page()
            self.page.show_page(recent, self._theme, is_shown_at_start=is_shown_at_start)

    def _set_shown_at_start(self, is_shown: bool) -> None:
        app_settings.set_start_page_shown(is_shown)
        self.startChosen.emit()

    def _open_example(self, example: str) -> None:
        if example == StartPageExample.TRAINING:
            self.trainingRequested.emit()
        elif example == StartPageExample.LESSON:
            self.close_page()
            self._lesson_controller.open_lesson(0)
        elif example == StartPageExample.TRAINED:
            self.close_page()
            self._document_controller.open_example(self._read_example)
        else:
            self.close_page()
            device = self._workspace.document.spec.device
            if self._workspace.document != default_document().with_setting("device", device):
                self._document_controller.open_example(_default_document)

    def _leave_if_document_changed(self) -> None:
        """Close the page if another document or a lesson has been opened behind it."""
        is_other = self._workspace.document != self._covered
        if self.page and (is_other or self._workspace.requested_view.lesson):
            self.close_page()

    def eventFilter(self, window: QObject, event: QEvent) -> bool:
        if event.type() in {QEvent.Type.Resize, QEvent.Type.LayoutRequest}:
            self._fit_to_window()
        return False

    def _fit_to_window(self) -> None:
        if self.page:
            window = self._window
            top = window.menuBar().geometry().bottom() + 1
            bottom = window.height() - window.statusBar().height()
            self.page.setGeometry(QRect(0, top, window.width(), bottom - top))


def _default_document() -> SavedDocument:
    return SavedDocument(default_document(), WINDOW_VIEW)
