"""Lessons as data: pages, each a document and a view with claims that are checked.

A claim compares the shown numbers with those that a book prints, each time the page is shown.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import Device
from visualizer.attention.weight_transforms import WeightTransform
from visualizer.number_format import format_number
from visualizer.session.screen import PanelId
from visualizer.session.view import LessonPosition

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.cell_address import Cell
    from visualizer.session.document import Document
    from visualizer.session.timeline import Grain, Place
    from visualizer.session.view import View

# Half a unit of the fourth decimal, plus the rounding error of float32.
NEAR = 0.00005 + 0.00001


class Measure(StrEnum):
    """The property of a stage that a claim compares."""

    NUMBERS = auto()
    SHAPE = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """Printed numbers, and where in a stage they should stand.

    Parameters
    ----------
    section, name : str
        The names under which the numbers are printed.
    at : tuple of int
        Leading indices into the stage, batch axes first; the remaining axes are compared whole.
    factor : float
        Multiplies the stage's numbers before they are compared.
    """

    section: str
    name: str
    stage: str
    at: tuple[int, ...]
    printed: np.ndarray
    factor: float = 1.0
    measure: Measure = Measure.NUMBERS

    @property
    def called(self) -> str:
        """Its name without brackets, with the section's number where there is one."""
        name, chapter = self.name.partition(" (")[0], self.section.split()[0]
        return f"{name} ({chapter})" if chapter[0].isdigit() else name

    @property
    def source(self) -> str:
        """The publication that prints it."""
        return "the notes" if self.section.startswith("notes") else "the book"


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """One page of a lesson, independent of the page before it.

    Parameters
    ----------
    says : str
        The text, in light markup: ``**bold**``, code between backticks;
        a blank line ends a paragraph.
    span : tuple of (Place, str) or None
        Where playback starts, and the stage it ends with; None where everything is computed.
    """

    title: str
    says: str
    document: Document
    stages: frozenset[str]
    cell: Cell | None = None
    span: tuple[Place, str] | None = None
    grain: Grain | None = None
    claims: tuple[Claim, ...] = ()

    @property
    def place(self) -> Place | None:
        """Where playback starts."""
        return self.span[0] if self.span else None


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """The pages of a lesson, in order.

    Parameters
    ----------
    name : str
        The file's name.
    section : str
        The section of the book or the notes that covers its subject.
    """

    name: str
    title: str
    section: str
    pages: tuple[Page, ...]


Lessons = Mapping[str, Lesson]
"""Lessons in order, by their ids."""


def ids_of(lessons: Iterable[Lesson]) -> Lessons:
    """Give every lesson an id: its file's name, numbered where several share one."""
    found: dict[str, Lesson] = {}
    for lesson in lessons:
        again = (f"{lesson.name} ({at})" for at in itertools.count(2))
        names = itertools.chain([lesson.name], again)
        found[next(name for name in names if name not in found)] = lesson
    return found


def turned(lessons: Lessons, position: LessonPosition, pages: int) -> LessonPosition | None:
    """The position some pages forward or back; a lesson's last page leads to the next lesson."""
    ids, lesson = [*lessons], lessons[position.lesson_id]
    page, number = position.page + pages, ids.index(position.lesson_id)
    if page == len(lesson.pages):
        page, number = 0, number + 1
    if page < 0 or number == len(ids):
        return None
    return LessonPosition(ids[number], page)


class TickState(StrEnum):
    """The result of checking a claim."""

    MATCHES = auto()
    DIFFERS = auto()
    WAITING = auto()
    CHANGED = auto()


@dataclass(frozen=True, slots=True)
class Tick:
    """A claim with the result of its check."""

    words: str
    state: TickState
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LessonPanel:
    """The Lesson pane: one page with its checked claims.

    Parameters
    ----------
    number : int
        The page's number, from 1.
    text : str
        HTML.
    is_changed : bool
        Whether the reader has changed what the page set.
    next_lesson : str
        The lesson that follows where this page is the last; empty where none does.
    """

    lesson: str
    section: str
    number: int
    count: int
    title: str
    text: str
    ticks: tuple[Tick, ...] = ()
    is_changed: bool = False
    next_lesson: str = ""

    @property
    def has_next(self) -> bool:
        """Whether a page follows, of this lesson or of the next."""
        return self.number < self.count or bool(self.next_lesson)


LESSON: PanelId[LessonPanel | None] = PanelId("Lesson")


def page_view(lesson: Lesson, page: int, view: View) -> View:
    """The view of a page, with the reader's colours and playback speed."""
    shown = lesson.pages[page]
    grain = shown.grain or view.playhead.grain
    playhead = replace(stopped(view).playhead, place=shown.place, grain=grain, span=shown.span)
    return replace(
        view,
        stages=shown.stages,
        heads=None,
        folds=frozenset(),
        lens=WeightTransform.PLAIN,
        zoom=None,
        text=0,
        hovered=None,
        pinned=shown.cell,
        playhead=playhead,
        guess=None,
        past=(),
        future=(),
    )


def stopped(view: View) -> View:
    """The same view with playback paused."""
    return replace(view, playhead=replace(view.playhead, is_playing=False))


def with_manners_of(view: View, other: View) -> View:
    """A view with another's colours, layout of panes, code dialect and playback speed."""
    playhead = replace(view.playhead, speed=other.playhead.speed, loops=other.playhead.loops)
    manners = {name: getattr(other, name) for name in ("colouring", "room", "dialect", "panes")}
    return replace(view, playhead=playhead, **manners)


def present_position(
    lessons: Lessons,
    position: LessonPosition,
    document: Document,
    run: Run | None,
    computed: Document | None,
    is_working: bool = True,
) -> LessonPanel:
    """Present the page at a position, and the lesson that follows it."""
    lesson, following = lessons[position.lesson_id], turned(lessons, position, 1)
    panel = present_lesson(lesson, position.page, document, run, computed, is_working)
    is_last = following is not None and following.lesson_id != position.lesson_id
    next_lesson = lessons[following.lesson_id].title if following and is_last else ""
    return replace(panel, next_lesson=next_lesson)


def present_lesson(
    lesson: Lesson,
    page: int,
    document: Document,
    run: Run | None,
    computed: Document | None,
    is_working: bool = True,
) -> LessonPanel:
    """Present a page, with each of its claims checked against the run.

    Parameters
    ----------
    document : Document
        The current document, which may differ from the page's.
    computed : Document or None
        The document that the run was computed from.
    is_working : bool
        Whether a computation is pending.
    """
    shown = lesson.pages[page]
    is_changed = _anywhere(document) != _anywhere(shown.document)
    answer = run if run and computed == document else None
    ticks = tuple(_tick(claim, answer, is_changed, is_working) for claim in shown.claims)
    numbers = (page + 1, len(lesson.pages))
    text = as_html(shown.says)
    return LessonPanel(lesson.title, lesson.section, *numbers, shown.title, text, ticks, is_changed)


def _anywhere(document: Document) -> Document:
    """The document without its device, which is the reader's choice."""
    return replace(document, spec=replace(document.spec, device=Device.AUTO))


def as_html(says: str) -> str:
    """Convert a page's markup to HTML."""
    safe = escape(says.strip(), quote=False)
    marked = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", safe)
    marked = re.sub(r"\*\*([^*\n]+)\*\*", r"<b>\1</b>", marked)
    return "".join(f"<p>{part}</p>" for part in re.split(r"\n\s*\n", marked))


def _tick(claim: Claim, run: Run | None, is_changed: bool, is_working: bool) -> Tick:
    is_shape = claim.measure is Measure.SHAPE
    exactly = "" if is_shape else " to four decimals"
    if is_changed:
        return Tick(f"{claim.called}: not compared, as you changed something", TickState.CHANGED)
    if run is None:
        why = "waiting for the numbers" if is_working else "not computed"
        return Tick(f"{claim.called}: {why}", TickState.WAITING)
    detail = _shape_difference(claim, run) if is_shape else _difference(claim, run)
    if detail:
        return Tick(f"{claim.called}: differs from {claim.source}", TickState.DIFFERS, detail)
    return Tick(f"{claim.called}: matches {claim.source}{exactly}", TickState.MATCHES)


def _difference(claim: Claim, run: Run) -> str:
    """Describe the first number that differs from the printed one."""
    here = run.trace.read(claim.stage, claim.at).astype(float) * claim.factor
    printed = np.broadcast_to(claim.printed, here.shape)
    with np.errstate(invalid="ignore"):
        is_near = (np.abs(here - printed) <= NEAR) | (here == printed)
    if is_near.all():
        return ""
    place = tuple(int(axis) for axis in np.argwhere(~is_near)[0])
    where = ", ".join(str(axis + 1) for axis in place)
    start = f"Number {where}: printed" if place else "Printed"
    return (
        f"{start} {format_number(float(printed[place]))}, here {format_number(float(here[place]))}."
    )


def _shape_difference(claim: Claim, run: Run) -> str:
    here = run.trace.tensor(claim.stage).shape
    printed = tuple(int(size) for size in claim.printed)
    if tuple(here) == printed:
        return ""
    sizes = (" × ".join(map(str, shape)) for shape in (printed, here))
    return "Printed {}, here {}.".format(*sizes)
