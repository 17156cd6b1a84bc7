"""The view: the stages, heads, text, cells, colours and zoom. Its changes cannot be undone."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field

from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.roles import Role
from visualizer.brief_repr import brief_repr
from visualizer.session.head_order import HeadOrder
from visualizer.session.model_pane_options import AttributionOptions, HeadScatterOptions
from visualizer.session.timeline import PlaybackState
from visualizer.session.token_selection import TokenSelection
from visualizer.session.view_options import ColourOptions, LineViewOptions, MaskEditState

if TYPE_CHECKING:
    from visualizer.attention.display_transforms import HeadAggregate
    from visualizer.session.cell_address import Cell, ParameterCell
    from visualizer.session.comparison_state import Comparison
    from visualizer.session.document import Document
    from visualizer.session.user_prediction import Prediction
    from visualizer.session.zoom_ranges import ZoomRange


class CodeDialect(StrEnum):
    """Library that determines the names in generated code."""

    BOOK = "book"
    LECTURE = "lecture"
    SDPA = "sdpa"


class TableSelection(Struct, frozen=True):
    """The tensor that is shown in the table.

    Parameters
    ----------
    name : str
        The name of a stage, of a weight matrix or of a bias; see the tensor editor's model.
    problem : str
        The error in the value that the user entered; it is kept until the document changes.
    """

    name: str = Role.INPUT
    head: int = 0
    problem: str = ""
    document: Document | None = None


class LessonPosition(Struct, frozen=True):
    """A page of an open lesson."""

    lesson_id: str
    page: int


class ImmediateViewFields(Struct, frozen=True):
    """The part of a view that can be shown without a prefetch.

    Parameters
    ----------
    dialect : CodeDialect
        The naming dialect of the code.
    lesson : LessonPosition or None
        The open page of a lesson.
    table : TableSelection
        The tensor that is shown in the table.
    painting : MaskEditState
        The state of the mask editor.
    attribution : AttributionOptions
        The options of the Attribution pane.
    scatter : HeadScatterOptions
        The measures on the axes of the head scatter plot.
    """

    hovered: Cell | None = None
    hovered_parameter: ParameterCell | None = None
    pinned_parameter: ParameterCell | None = None
    dialect: CodeDialect = CodeDialect.BOOK
    lesson: LessonPosition | None = None
    table: TableSelection = field(default_factory=TableSelection)
    painting: MaskEditState = field(default_factory=MaskEditState)
    attribution: AttributionOptions = field(default_factory=AttributionOptions)
    scatter: HeadScatterOptions = field(default_factory=HeadScatterOptions)


class View(ImmediateViewFields, frozen=True):
    """The parts of a run to show, and how to show them.

    Parameters
    ----------
    stages : frozenset of str
        Stages with a panel, if the run has them.
    heads : frozenset of int or None
        Heads with a row of panels; None for all of them.
    folds : frozenset of HeadAggregate
        Head aggregates that also have a row of panels.
    lens : WeightTransform
        How weights are transformed for display.
    spread : bool
        Whether the texts of a batch, or else the layers, are shown side by side for one head.
    flow : bool
        Whether the flow board is shown: the whole computation of one head, from tokens to output.
    zoom : ZoomRange or None
        The visible part of every panel; None for the whole panel.
    text, layer : int
        Indices along the run's leading axes.
    lines : LineViewOptions
        Options of the line view.
    panes : frozenset of str
        The visible panes; other panels are not built.
    large : str or None
        The stage that the flow board enlarges; None for the weights.
    room : int
        Number of cells that fit along the side of a panel; if there are more, they are pooled.
    guess : Prediction or None
        The current prediction.
    comparison : Comparison or None
        The active comparison.
    tokens : TokenSelection
        The selection in the token strip.
    last_pinned : Cell or None
        The cell that was unpinned last.
    past, future : tuple of Cell
        Cells that were pinned before the current one, and cells to go forward to; in both, the
        nearest cell is last.
    head_order : HeadOrder
        The order of the heads in the overview of all layers.
    """

    stages: frozenset[str] = frozenset({Role.SCORES, Role.WEIGHTS, Role.DROPPED, Role.CONTEXT})
    text: int = 0
    layer: int = 0
    panes: frozenset[str] = frozenset()
    pinned: Cell | None = None
    heads: frozenset[int] | None = None
    folds: frozenset[HeadAggregate] = frozenset()
    lens: WeightTransform = WeightTransform.PLAIN
    spread: bool = False
    flow: bool = False
    zoom: ZoomRange | None = None
    colouring: ColourOptions = field(default_factory=ColourOptions)
    large: str | None = None
    room: int = 256
    playhead: PlaybackState = field(default_factory=PlaybackState)
    guess: Prediction | None = None
    comparison: Comparison | None = None
    tokens: TokenSelection = field(default_factory=TokenSelection)
    last_pinned: Cell | None = None
    past: tuple[Cell, ...] = ()
    future: tuple[Cell, ...] = ()
    lines: LineViewOptions = field(default_factory=LineViewOptions)
    head_order: HeadOrder = HeadOrder.LAYER

    __repr__ = brief_repr


WINDOW_VIEW = View(flow=True)
"""The view of a new window; exports and lessons choose their own."""
