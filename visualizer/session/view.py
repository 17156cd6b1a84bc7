"""What is looked at: stages, text, cells, colours. Not undone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from visualizer.attention.weight_transforms import HeadAggregate, WeightTransform
from visualizer.session.timeline import Playhead
from visualizer.session.token_selection import TokenSelection
from visualizer.session.view_options import CodeDialect, ColourOptions, LineOptions, MaskEditState

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell
    from visualizer.session.comparison import Comparison
    from visualizer.session.document import Document
    from visualizer.session.prediction import Prediction
    from visualizer.session.zoom import Zoom


@dataclass(frozen=True, slots=True)
class TableSelection:
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
    folds: frozenset[HeadAggregate] = frozenset()
    lens: WeightTransform = WeightTransform.PLAIN
    spread: bool = False
    zoom: Zoom | None = None
    colouring: ColourOptions = field(default_factory=ColourOptions)
    room: int = 256
    playhead: Playhead = field(default_factory=Playhead)
    guess: Prediction | None = None
    dialect: CodeDialect = field(default=CodeDialect.BOOK, metadata=AT_ONCE)
    lesson: LessonPosition | None = field(default=None, metadata=AT_ONCE)
    comparison: Comparison | None = None
    table: TableSelection = field(default_factory=TableSelection, metadata=AT_ONCE)
    tokens: TokenSelection = field(default_factory=TokenSelection)
    past: tuple[Cell, ...] = ()
    future: tuple[Cell, ...] = ()
    lines: LineOptions = field(default_factory=LineOptions)
    painting: MaskEditState = field(default_factory=MaskEditState, metadata=AT_ONCE)
