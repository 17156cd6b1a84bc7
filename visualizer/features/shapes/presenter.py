"""Presenter of the Shapes pane: the shape and cost of each stage, and the split into heads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.roles import VECTOR_ROLES, Role
from visualizer.attention.spec import Dtype, HeadArrangement
from visualizer.explanations.explain import EXPLAINERS
from visualizer.explanations.phrases import format_shape
from visualizer.format import format_count, format_size
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace
    from visualizer.explanations.phrases import WeightShape
    from visualizer.session.resolved_view import ResolvedView

# Limits on the part of a large matrix that is drawn.
MAX_COLUMNS = 64
MAX_HEADS = 16
MAX_ROWS = 8

_DRAWN = (*VECTOR_ROLES, Role.CONTEXT, Role.CONCAT)


class HeadSplit(Struct, frozen=True):
    """A matrix whose columns are divided among the heads.

    Parameters
    ----------
    stage : str
        The stage that contains the matrix.
    is_split : bool
        Whether the current stage has a head axis.
    """

    stage: str
    symbol: str
    tokens: int
    heads: int
    d_head: int
    arrangement: HeadArrangement
    is_split: bool

    @property
    def width(self) -> int:
        """Number of columns of all heads together."""
        return self.heads * self.d_head

    @property
    def joined_shape(self) -> str:
        """Shape of the matrix that contains the columns of all heads."""
        return format_shape(self.tokens, self.width)

    @property
    def split_shape(self) -> str:
        """Shape of the tensor that has a head axis."""
        return format_shape(self.heads, self.tokens, self.d_head)

    @property
    def head_of_each_column(self) -> tuple[int, ...]:
        """Head of each drawn column."""
        heads = min(self.heads, MAX_HEADS)
        each = min(self.d_head, max(1, MAX_COLUMNS // heads))
        return tuple(head for head in range(heads) for _ in range(each))

    @property
    def drawn_row_count(self) -> int:
        """Number of drawn rows."""
        return min(self.tokens, MAX_ROWS)

    @property
    def sentence(self) -> str:
        """A sentence that describes the split."""
        if self.heads == 1:
            columns = f"all {self.width} columns" if self.width > 1 else "the only column"
            return f"The only head has {columns}."
        if self.arrangement is HeadArrangement.STACKED:
            own = format_count(self.d_head, "column")
            return (
                f"Each of {self.heads} stacked heads has {own} of its own, {self.width} in total."
            )
        return f"Each of {self.heads} heads has {self.d_head} of the {self.width} columns."

    @property
    def omission_note(self) -> str:
        """Note on the part that is drawn, or an empty string if everything is drawn."""
        heads, each = len(set(self.head_of_each_column)), self.head_of_each_column.count(0)
        said = [f"{heads} of {self.heads} heads"] if heads < self.heads else []
        said += [f"{each} of {self.d_head} columns per head"] if each < self.d_head else []
        said += (
            [f"{self.drawn_row_count} of {self.tokens:,} tokens"]
            if self.drawn_row_count < self.tokens
            else []
        )
        return f"Drawn: {', '.join(said)}." if said else ""

    def left_edges(self, progress: float, gap: float) -> tuple[float, ...]:
        """Return the left edges of the drawn columns, in column widths.

        Parameters
        ----------
        progress : float
            0 if all columns form one matrix, 1 if the blocks of the heads are separate.
        gap : float
            The gap between two separate blocks.
        """
        return tuple(at + progress * gap * head for at, head in enumerate(self.head_of_each_column))


def find_head_split(run: Run, current: str | None) -> HeadSplit | None:
    """Return the split of the current stage or, if it cannot be drawn, of the first that can be.

    Return None if no stage can be drawn, as in captured attention.
    """
    trace, spec = run.trace, run.trace.spec
    drawn = [name for name in _DRAWN if name in trace]
    if not drawn:
        return None
    near = Role.CONCAT if current == Role.OUTPUT else current
    stage = trace.stage(near if near in drawn else drawn[0])
    has_heads = current is None or "head" in trace.stage(current).dims
    symbol = stage.symbol if len(stage.symbol) == 1 else stage.title
    return HeadSplit(
        stage.name, symbol, trace.query_count, spec.heads, spec.d_head, spec.arrangement, has_heads
    )


_NAMES = {"token": "tokens", "query": "queries", "key": "keys", "head": "heads"}


class TensorAxis(Struct, frozen=True):
    """One axis of a tensor: its name and its size."""

    name: str
    size: int

    @property
    def unit(self) -> str:
        """Unit of the axis: tokens for queries and keys, and the name of the axis otherwise."""
        return "tokens" if self.name in {"queries", "keys"} else self.name


class ShapeRow(Struct, frozen=True):
    """One stage in the table.

    Parameters
    ----------
    dims : tuple of TensorAxis
        The axes, batch first.
    equations : tuple of str
        How the operation changes the shapes, for one text; empty if it changes none.
    multiply_adds : int
        Multiply-adds of the matrix products; 0 if there are none.
    bytes : int
        Size of the tensor, even if it is a view of another stage.
    """

    stage: str
    title: str
    symbol: str
    says: str
    dims: tuple[TensorAxis, ...]
    parameter: WeightShape | None
    equations: tuple[str, ...]
    multiply_adds: int
    bytes: int
    is_current: bool = False

    @property
    def cost_text(self) -> str:
        """The multiply-adds, if any, and the size in bytes, as text."""
        products = [format_count(self.multiply_adds, "multiply-add")] if self.multiply_adds else []
        return "  ·  ".join([*products, format_size(self.bytes)])

    @property
    def plain_text(self) -> str:
        """The whole row as plain text, for screen readers."""
        dims = ", ".join(f"{dim.name} {dim.size}" for dim in self.dims)
        parts = (f"{self.title}: {dims}", self.says, *self.equations, self.cost_text)
        return "; ".join(parts)


class ShapesPanel(Struct, frozen=True):
    """The Shapes pane.

    Parameters
    ----------
    batch : str
        Description of the batch axis, as a sentence.
    total : str
        The total cost of all stages.
    """

    rows: tuple[ShapeRow, ...] = ()
    batch: str = ""
    total: str = ""
    split: HeadSplit | None = None

    @property
    def current_stage(self) -> str | None:
        """The current stage."""
        return next((row.stage for row in self.rows if row.is_current), None)


SHAPES_PANEL: PanelId[ShapesPanel] = PanelId("Shapes")


def present_shapes(resolved: ResolvedView, previous: ShapesPanel) -> ShapesPanel:
    """Present the shapes of a run; the stage in playback or under the pointer is current."""
    run, cell = resolved.run, resolved.hovered or resolved.pinned
    current = resolved.focus or (cell.stage if cell else None)
    rows = tuple(_build_row(run, stage, stage.name == current) for stage in run.trace.stages)
    products = sum(row.multiply_adds for row in rows)
    taken = f"{format_count(products, 'multiply-add')} in matrix products"
    total = f"Total: {taken}; the stages take {format_size(run.trace.bytes)}."
    made = ShapesPanel(rows, _describe_batch(run), total, find_head_split(run, current))
    return previous if made == previous else made


def _describe_batch(run: Run) -> str:
    texts, tokens = len(run.texts), format_count(run.trace.query_count, "token")
    if not run.trace.has_module:
        return (
            f"{format_count(run.trace.axis_size('layer'), 'layer')} from {run.source_display_name}."
        )
    if texts == 1:
        return "Batch size 1: one text."
    padded = f" padded to {tokens}" if run.trace.spec.lengths else f" of {tokens}"
    return f"Batch size {texts:,}: texts{padded}. The equations are for one text."


def _leading_axes(trace: Trace) -> tuple[TensorAxis, ...]:
    """Return the leading axes; a single text has a batch axis of size 1."""
    if not trace.has_module:
        return (TensorAxis("layers", trace.axis_size("layer")),)
    layers = (TensorAxis("layers", trace.axis_size("layer")),) if "layer" in trace.axes else ()
    return (*layers, TensorAxis("batch", trace.axis_size("text")))


def _build_row(run: Run, stage: Stage, is_current: bool) -> ShapeRow:
    trace, spec = run.trace, run.trace.spec
    matrices = math.prod(trace.leading_sizes)
    sizes = trace.shape(stage.name)[-len(stage.dims) :]
    named = zip(stage.dims, sizes, strict=True)
    dims = (
        *_leading_axes(trace),
        *(TensorAxis(_NAMES.get(name, name), size) for name, size in named),
    )
    text = EXPLAINERS[stage.operation]
    item = 8 if spec.dtype is Dtype.FLOAT64 else 4
    return ShapeRow(
        stage.name,
        stage.title,
        stage.symbol,
        stage.description,
        dims,
        text.weight_shape(spec, stage, trace.query_count),
        text.shape_equations(spec, stage, trace.query_count),
        matrices * text.count_multiply_adds(spec, stage, trace.query_count),
        matrices * math.prod(sizes) * item,
        is_current,
    )


PANEL = PanelSpec(
    SHAPES_PANEL,
    lambda resolved, inputs, previous: present_shapes(resolved, previous),
    ShapesPanel(),
    SHAPES_PANEL.name,
)
