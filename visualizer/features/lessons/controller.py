"""Controller that fills the Lessons menu, turns pages, and restores the previous document."""

from __future__ import annotations

import textwrap
from functools import cache
from html import escape
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject
from PySide6.QtGui import QAction

from visualizer.features.lessons.lesson import (
    advance_page,
    assign_ids,
    copy_display_options,
    pause_playback,
    remove_page_colour_limits,
    view_of_page,
)
from visualizer.format import format_count
from visualizer.resources import resource_path
from visualizer.session.view import LessonPosition
from visualizer.widgets.app_settings import LESSONS, user_data_folder
from visualizer.widgets.commands import add_separator
from visualizer.widgets.dialogs import open_folder, show_message

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from PySide6.QtWidgets import QMenu, QWidget

    from visualizer.features.lessons.claim_check import PrintedNumbers
    from visualizer.features.lessons.lesson import Lesson, LessonState
    from visualizer.features.lessons.lesson_file import LessonError
    from visualizer.session.document import Document
    from visualizer.session.history import History
    from visualizer.session.view import View
    from visualizer.session.workspace import Workspace

MAX_LESSON_KEYS = 10
"""Maximum number of lessons with a digit that selects them in the menu."""
MAX_TITLE_LENGTH = 60
MAX_SECTION_LENGTH = 20
MAX_LISTED_ERRORS = 12
PRINTED_NUMBER_FILES = ("chapter3.json", "notebook.json", "by_hand.json")


class LessonController(QObject):
    """Controller that opens lessons and turns pages; each public method is one user action."""

    def __init__(
        self, workspace: Workspace, opened: LessonState, menu: QMenu, window: QWidget
    ) -> None:
        super().__init__(window)
        self._state = opened
        self._workspace, self._menu, self._window = workspace, menu, window
        self._fixed_actions = menu.actions()
        # The user may have added a file to the folder.
        menu.aboutToShow.connect(self.load_lesson_menu)
        self._menu_actions: list[QAction] = []
        self.lessons: tuple[Lesson, ...] = ()
        self.errors: tuple[LessonError, ...] = ()

    def load_lesson_menu(self) -> None:
        """Fill the menu with the bundled lessons, the user's own lessons, and a list of errors."""
        from visualizer.features.lessons.lesson_file import load_lessons

        folders = [resource_path("lessons"), _user_lessons_folder()]
        self.lessons, self.errors = load_lessons(folders, _printed_numbers())
        for action in self._menu_actions:
            self._menu.removeAction(action)
            action.deleteLater()
        self._menu_actions = [*map(self._add_lesson_action, range(len(self.lessons)))]
        if self.errors:
            title = f"{format_count(len(self.errors), 'lesson')} with errors…"
            self._menu_actions.append(self._add_menu_action(title, self.show_lesson_errors))
        self._menu_actions.append(add_separator(self._menu, self._fixed_actions[0]))

    def _add_lesson_action(self, number: int) -> QAction:
        lesson = self.lessons[number]
        title = textwrap.shorten(lesson.title, MAX_TITLE_LENGTH, placeholder="…")
        section = textwrap.shorten(lesson.section, MAX_SECTION_LENGTH, placeholder="…")
        title = (f"{title} ({section})" if section else title).replace("&", "&&")
        digit = (number + 1) % MAX_LESSON_KEYS  # the tenth lesson has the key 0
        key = f"&{digit}  " if number < MAX_LESSON_KEYS else ""
        action = self._add_menu_action(f"{key}{title}", self._open_lesson_of_action)
        action.setData(number)
        return action

    def _add_menu_action(self, words: str, do: Callable[[], None]) -> QAction:
        action = QAction(words, self._menu)
        action.triggered.connect(do)
        self._menu.insertAction(self._fixed_actions[0], action)
        return action

    # ------------------------------------------------------------------ navigation

    @property
    def position(self) -> LessonPosition | None:
        """The open lesson and page, or None if no lesson is open."""
        return self._workspace.requested_view.lesson

    def open_lesson(self, number: int) -> None:
        """Open a lesson; closing it restores the previous document and view."""
        if not self.lessons:  # opened from the start page before the menu was loaded
            self.load_lesson_menu()
        workspace = self._workspace
        is_first = self.position is None or self._state.before is None
        if is_first:
            self._state.before = workspace.document, pause_playback(workspace.requested_view)
        self._state.by_id = assign_ids(self.lessons)
        history = self._show_page(LessonPosition([*self._state.by_id][number], 0))
        if is_first:
            self._state.history = history

    def _open_lesson_of_action(self) -> None:
        action = self.sender()
        if isinstance(action, QAction):
            self.open_lesson(action.data())

    def turn_pages(self, pages: int) -> None:
        """Turn the given number of pages forward or back, if that page exists."""
        position = self.position
        following = advance_page(self._state.by_id, position, pages) if position else None
        if following:
            self._show_page(following)

    def restore_page_settings(self) -> None:
        """Restore the page's own settings."""
        if self.position:
            self._workspace.show_document(*self._document_and_view_of_page(self.position))

    def close_lesson(self) -> None:
        """Close the lesson and restore the previous document, view and undo history."""
        if self.position and self._state.before:
            workspace, (document, view) = self._workspace, self._state.before
            device = workspace.document.spec.device
            view = copy_display_options(view, self._view_without_page_limits())
            workspace.show_with_own_history(
                document.with_setting("device", device), view, self._state.history
            )

    def _show_page(self, position: LessonPosition) -> History[Document]:
        """Show a page with an empty undo history; return the previous undo history."""
        return self._workspace.show_with_own_history(*self._document_and_view_of_page(position))

    def _document_and_view_of_page(self, position: LessonPosition) -> tuple[Document, View]:
        lesson = self._state.by_id[position.lesson_id]
        view = view_of_page(lesson, position.page, self._view_without_page_limits())
        document = lesson.pages[position.page].document
        device = self._workspace.document.spec.device  # the reader's choice
        document = document.with_setting("device", device)
        return document, replace(view, lesson=position, comparison=None)

    def _view_without_page_limits(self) -> View:
        """Return the current view without the colour limits set by the open page."""
        wanted, position = self._workspace.requested_view, self.position
        lesson = self._state.by_id.get(position.lesson_id) if position else None
        if position is None or lesson is None or position.page >= len(lesson.pages):
            return wanted
        return remove_page_colour_limits(lesson.pages[position.page], wanted)

    # ------------------------------------------------------------------ the user's lessons

    def open_lessons_folder(self) -> None:
        """Open the folder of the user's own lessons in the file manager."""
        open_folder(self._window, "Lessons", _user_lessons_folder())

    def show_lesson_errors(self) -> None:
        """Show the errors in lesson files, with their lines."""
        message = "".join(
            f"<p>{escape(str(error)[:300])}</p>" for error in self.errors[:MAX_LISTED_ERRORS]
        )
        if len(self.errors) > MAX_LISTED_ERRORS:
            message += f"<p>… and {len(self.errors) - MAX_LISTED_ERRORS} more.</p>"
        show_message(self._window, "Lessons with errors", message)


@cache
def _printed_numbers() -> PrintedNumbers:
    from visualizer.features.lessons.claim_check import PrintedNumbers

    return PrintedNumbers.read_files(
        *(resource_path("lessons", name) for name in PRINTED_NUMBER_FILES)
    )


def _user_lessons_folder() -> Path:
    return user_data_folder() / LESSONS
