"""The lessons of a window, and the document and view to restore when a lesson closes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from visualizer.session.history import History

if TYPE_CHECKING:
    from visualizer.features.lessons.lesson import Lessons
    from visualizer.session.document import Document
    from visualizer.session.view import View


@dataclass(slots=True)
class LessonState:
    """The lesson state of a window, used by the panes and when saving.

    Parameters
    ----------
    by_id : Lessons
        The lessons loaded when one of them was opened.
    before : tuple of (Document, View) or None
        The user's own document and view, to restore.
    history : History
        The undo history of that document; a lesson has a separate history.
    """

    by_id: Lessons = field(default_factory=dict)
    before: tuple[Document, View] | None = None
    history: History[Document] = field(default_factory=History)

    def __call__(self) -> Lessons:
        """The lessons by id."""
        return self.by_id
