"""The lessons of which one is read in a window, and what was there before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.features.lessons.model import Lessons
    from visualizer.session.document import Document
    from visualizer.session.view import View


@dataclass(slots=True)
class OpenLessons:
    """What a window's lesson controller knows, for those who show and save.

    Parameters
    ----------
    by_id : Lessons
        Those that there were when one of them was opened.
    before : tuple of (Document, View) or None
        The user's own, to go back to.
    """

    by_id: Lessons = field(default_factory=dict)
    before: tuple[Document, View] | None = None

    def __call__(self) -> Lessons:
        """Give the lessons."""
        return self.by_id
