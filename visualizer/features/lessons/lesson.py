"""A lesson: pages, each with a document, a view and claims."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.display_transforms import WeightTransform
from visualizer.session.history import History
from visualizer.session.view import LessonPosition
from visualizer.session.view_options import ColourLimits

if TYPE_CHECKING:
    import numpy as np

    from visualizer.session.cell_address import Cell
    from visualizer.session.document import Document
    from visualizer.session.timeline import PlaybackPosition, StepSize
    from visualizer.session.view import View


class ClaimedProperty(StrEnum):
    """The property of a stage that a claim compares."""

    NUMBERS = auto()
    SHAPE = auto()
    CROSS_ENTROPY = "cross-entropy"
    MEAN_CROSS_ENTROPY = "mean cross-entropy"


class LessonClaim(Struct, frozen=True, eq=False):
    """Printed numbers, and the part of a stage to compare them with.

    Parameters
    ----------
    section, name : str
        The names under which the numbers are printed.
    at : tuple of int
        Indices along the leading axes of the stage, batch axes first; the other axes are compared
        in full.
    factor : float
        Factor by which the numbers of the stage are multiplied before they are compared.
    targets : tuple of (int, int)
        For a cross-entropy, the row of the logits and the column of the target of each prediction.
    """

    section: str
    name: str
    stage: str
    at: tuple[int, ...]
    printed_numbers: np.ndarray
    factor: float = 1.0
    measure: ClaimedProperty = ClaimedProperty.NUMBERS
    targets: tuple[tuple[int, int], ...] = ()

    @property
    def label(self) -> str:
        """The name of the claim without its note in brackets, and the number of its section."""
        name, chapter = self.name.partition(" (")[0], self.section.split()[0]
        return f"{name} ({chapter})" if chapter[0].isdigit() else name

    @property
    def source(self) -> str:
        """The source of the printed numbers: a publication or a calculation by hand."""
        if self.section.startswith("by hand"):
            return "the worked example"
        return "the notes" if self.section.startswith("notes") else "the book"


class Page(Struct, frozen=True, eq=False):
    """One page of a lesson; it does not depend on other pages.

    Parameters
    ----------
    markup : str
        The text, with ``**bold**``, code in backticks, and blank lines between paragraphs.
    span : tuple of (PlaybackPosition, str) or None
        The position where playback starts, and its last stage; None without playback.
    limits : ColourLimits
        Limits of the colour scale, used unless the reader has chosen others.
    """

    title: str
    markup: str
    document: Document
    stages: frozenset[str]
    cell: Cell | None = None
    span: tuple[PlaybackPosition, str] | None = None
    grain: StepSize | None = None
    claims: tuple[LessonClaim, ...] = ()
    limits: ColourLimits = ColourLimits.AUTO

    @property
    def playback_start(self) -> PlaybackPosition | None:
        """The position where playback starts."""
        return self.span[0] if self.span else None


class Lesson(Struct, frozen=True, eq=False):
    """The pages of a lesson, in order.

    Parameters
    ----------
    name : str
        The name of the file.
    section : str
        The section of the book or the notes that covers its subject.
    """

    name: str
    title: str
    section: str
    pages: tuple[Page, ...]


LessonsById = Mapping[str, Lesson]
"""Lessons by id, in the order of the menu."""


def assign_ids(lessons: Iterable[Lesson]) -> LessonsById:
    """Assign an id to each lesson: the name of its file, numbered if files have the same name."""
    found: dict[str, Lesson] = {}
    for lesson in lessons:
        again = (f"{lesson.name} ({at})" for at in itertools.count(2))
        names = itertools.chain([lesson.name], again)
        found[next(name for name in names if name not in found)] = lesson
    return found


def advance_page(
    lessons: LessonsById, position: LessonPosition, pages: int
) -> LessonPosition | None:
    """Return the position the given number of pages away, or None if that page does not exist.

    The last page of a lesson is followed by the next lesson.
    """
    ids, lesson = [*lessons], lessons[position.lesson_id]
    page, number = position.page + pages, ids.index(position.lesson_id)
    if page == len(lesson.pages):
        page, number = 0, number + 1
    if page < 0 or number == len(ids):
        return None
    return LessonPosition(ids[number], page)


@dataclass(slots=True)
class LessonState:
    """The state of the lessons in a window, used by panes and when a document is saved.

    Parameters
    ----------
    by_id : LessonsById
        The lessons that were loaded when the current lesson was opened.
    before : tuple of (Document, View) or None
        The document and view from before the lesson, which are restored when it is closed.
    history : History
        The undo history of that document; a lesson has a separate history.
    """

    by_id: LessonsById = field(default_factory=dict)
    before: tuple[Document, View] | None = None
    history: History[Document] = field(default_factory=History)


def view_of_page(lesson: Lesson, page: int, view: View) -> View:
    """Return the view of a page, with the reader's colours and playback speed."""
    shown = lesson.pages[page]
    is_chosen = view.colouring.limits is not ColourLimits.AUTO
    limits = view.colouring.limits if is_chosen else shown.limits
    grain = shown.grain or view.playhead.grain
    playhead = replace(
        pause_playback(view).playhead, place=shown.playback_start, grain=grain, span=shown.span
    )
    return replace(
        view,
        stages=shown.stages,
        flow=False,
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


def remove_page_colour_limits(page: Page, view: View) -> View:
    """Return the view without the colour limits that the page has set."""
    if view.colouring.limits is not page.limits:
        return view
    return replace(view, colouring=replace(view.colouring, limits=ColourLimits.AUTO))


def pause_playback(view: View) -> View:
    """Return the view with playback paused."""
    return replace(view, playhead=replace(view.playhead, is_playing=False))


def copy_display_options(view: View, other: View) -> View:
    """Return a view with another view's colours, pane layout, code dialect and playback speed."""
    playhead = replace(view.playhead, speed=other.playhead.speed, loops=other.playhead.loops)
    manners = {name: getattr(other, name) for name in ("colouring", "room", "dialect", "panes")}
    return replace(view, playhead=playhead, **manners)
