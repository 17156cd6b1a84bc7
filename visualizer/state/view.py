"""What is looked at: stages, text, cells, colours. Not undone."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from visualizer.attention.derived import Fold, Lens
from visualizer.state.brushes import PaintLook
from visualizer.state.chosen import TokenLook
from visualizer.state.code.dialects import Dialect
from visualizer.state.colouring import Colouring
from visualizer.state.lines.look import LineLook
from visualizer.state.playback.timeline import Playhead

if TYPE_CHECKING:
    from visualizer.state.compare.comparison import Comparison
    from visualizer.state.document import Document
    from visualizer.state.zoom import Zoom


class Part(StrEnum):
    """Which number of a cell is meant, where there are several to compare."""

    PLAIN = "plain"
    A = "a"
    B = "b"
    MEAN = "mean"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a stage, of the text that is looked at.

    Parameters
    ----------
    place : tuple of int
        Within the stage's named dims; without the head, where heads are folded into one.
    fold : Fold or None
        How the heads are folded.
    part : Part
        In which of the panels of a comparison.
    """

    stage: str
    place: tuple[int, ...]
    fold: Fold | None = None
    part: Part = Part.PLAIN

    @property
    def head(self) -> int | None:
        """The head, of stages that have heads, where they are not folded."""
        return self.place[0] if len(self.place) == 3 else None


class Question(StrEnum):
    """What is to be predicted of a covered stage."""

    LARGEST = "largest"
    ZERO = "zero"


@dataclass(frozen=True, slots=True)
class Guess:
    """A stage that is covered until its cells have been predicted.

    Parameters
    ----------
    marks : tuple of Cell
        The cells that the viewer has marked.
    """

    stage: str
    question: Question = Question.LARGEST
    marks: tuple[Cell, ...] = ()
    is_revealed: bool = False


@dataclass(frozen=True, slots=True)
class TableLook:
    """Which numbers are read in the table.

    Parameters
    ----------
    name : str
        A stage, weights or a bias; see `tables.present_table`.
    problem : str
        What was wrong with what was typed, while the document is the one it was typed into.
    """

    name: str = "input"
    head: int = 0
    problem: str = ""
    document: Document | None = None


@dataclass(frozen=True, slots=True)
class LessonPosition:
    """The page of a lesson that is read."""

    lesson_id: str
    page: int


AT_ONCE = {"at once": True}
"""Marks the fields of a view that can be shown before anything else has been read for them."""


@dataclass(frozen=True, slots=True)
class View:
    """What of a run is shown.

    Parameters
    ----------
    stages : frozenset of str
        Stages with a panel, where the spec has them.
    heads : frozenset of int or None
        Heads with a row of panels; None for all of them.
    folds : frozenset of Fold
        Ways of folding the heads into one that have a row, too.
    lens : Lens
        What weights are looked at as.
    spread : bool
        Whether the texts of a batch stand side by side, in one head.
    zoom : Zoom or None
        Which part of every panel is seen; None for all of it.
    text : int
        Which text of a batch.
    lines : LineLook
        Which lines of the line view.
    painting : PaintLook
        Whether the mask is being painted.
    panes : frozenset of str
        The panes that can be seen: what is in others need not be made.
    room : int
        Cells that a panel's side has room for; more are pooled.
    guess : Guess or None
        What is being predicted.
    dialect : Dialect
        In whose words the code is.
    lesson : LessonPosition or None
        The page of a lesson that is read.
    comparison : Comparison or None
        What is looked at beside something else.
    table : TableLook
        Which numbers are read as a table.
    tokens : TokenLook
        Which tokens are looked at together.
    past, future : tuple of Cell
        Cells that were pinned before this one, and after it where one has gone back: nearest last.
    """

    stages: frozenset[str] = frozenset({"scores", "weights", "dropped", "context"})
    text: int = 0
    panes: frozenset[str] = frozenset()
    hovered: Cell | None = field(default=None, metadata=AT_ONCE)
    pinned: Cell | None = None
    heads: frozenset[int] | None = None
    folds: frozenset[Fold] = frozenset()
    lens: Lens = Lens.PLAIN
    spread: bool = False
    zoom: Zoom | None = None
    colouring: Colouring = field(default_factory=Colouring)
    room: int = 256
    playhead: Playhead = field(default_factory=Playhead)
    guess: Guess | None = None
    dialect: Dialect = field(default=Dialect.BOOK, metadata=AT_ONCE)
    lesson: LessonPosition | None = field(default=None, metadata=AT_ONCE)
    comparison: Comparison | None = None
    table: TableLook = field(default_factory=TableLook, metadata=AT_ONCE)
    tokens: TokenLook = field(default_factory=TokenLook)
    past: tuple[Cell, ...] = ()
    future: tuple[Cell, ...] = ()
    lines: LineLook = field(default_factory=LineLook)
    painting: PaintLook = field(default_factory=PaintLook, metadata=AT_ONCE)
