"""The lessons of a window, the view that a page opens, and the document to restore."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.attention.display_transforms import WeightTransform
from visualizer.session.history import History
from visualizer.session.view_options import ColourLimits

if TYPE_CHECKING:
    from visualizer.features.lessons.lesson import Lesson, LessonsById, Page
    from visualizer.session.document import Document
    from visualizer.session.view import View


@dataclass(slots=True)
class LessonState:
    """The lesson state of a window, used by the panes and when saving.

    Parameters
    ----------
    by_id : LessonsById
        The lessons loaded when one of them was opened.
    before : tuple of (Document, View) or None
        The user's own document and view, to restore.
    history : History
        The undo history of that document; a lesson has a separate history.
    """

    by_id: LessonsById = field(default_factory=dict)
    before: tuple[Document, View] | None = None
    history: History[Document] = field(default_factory=History)

    def __call__(self) -> LessonsById:
        """The lessons by id."""
        return self.by_id


def view_of_page(lesson: Lesson, page: int, view: View) -> View:
    """The view of a page, with the reader's colours and playback speed."""
    shown = lesson.pages[page]
    is_chosen = view.colouring.limits is not ColourLimits.AUTO
    limits = view.colouring.limits if is_chosen else shown.limits
    grain = shown.grain or view.playhead.grain
    playhead = replace(
        pause_playback(view).playhead, place=shown.place, grain=grain, span=shown.span
    )
    return replace(
        view,
        stages=shown.stages,
        heads=None,
        folds=frozenset(),
        lens=WeightTransform.PLAIN,
        colouring=replace(view.colouring, limits=limits),
        zoom=None,
        text=0,
        hovered=None,
        pinned=shown.cell,
        playhead=playhead,
        guess=None,
        past=(),
        future=(),
    )


def drop_page_limits(page: Page, view: View) -> View:
    """The same view without the colour limits that the page has set."""
    if view.colouring.limits is not page.limits:
        return view
    return replace(view, colouring=replace(view.colouring, limits=ColourLimits.AUTO))


def pause_playback(view: View) -> View:
    """The same view with playback paused."""
    return replace(view, playhead=replace(view.playhead, is_playing=False))


def keep_interaction_options(view: View, other: View) -> View:
    """A view with another view's colours, layout of panes, code dialect and playback speed."""
    playhead = replace(view.playhead, speed=other.playhead.speed, loops=other.playhead.loops)
    manners = {name: getattr(other, name) for name in ("colouring", "room", "dialect", "panes")}
    return replace(view, playhead=playhead, **manners)
