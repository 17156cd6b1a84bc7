"""The real sizes: every stage's shape, what it is multiplied with, and the split into heads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from visualizer.attention.spec import Dtype
from visualizer.state.products import Parameter, equations, multiply_adds, parameter_of
from visualizer.state.screen import PanelId
from visualizer.state.split import Split, split_of
from visualizer.state.words import counted, size

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.state.resolve import Resolved

_NAMES = {"token": "tokens", "query": "queries", "key": "keys", "head": "heads"}


@dataclass(frozen=True, slots=True)
class Dim:
    """One axis of a tensor: its name and its real size."""

    name: str
    size: int

    @property
    def counts(self) -> str:
        """What it counts: queries and keys are tokens, too."""
        return "tokens" if self.name in {"queries", "keys"} else self.name


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """One stage of the ledger.

    Parameters
    ----------
    dims : tuple of Dim
        The batch first.
    equations : tuple of str
        What becomes of shapes on the way, of one text; empty where the shape stays as it is.
    multiply_adds : int
        Of matrix products; 0 where there is none.
    bytes : int
        Of its numbers, whether they are stored or a view of another stage's.
    """

    stage: str
    title: str
    symbol: str
    says: str
    dims: tuple[Dim, ...]
    parameter: Parameter | None
    equations: tuple[str, ...]
    multiply_adds: int
    bytes: int
    is_current: bool = False

    @property
    def cost(self) -> str:
        """The multiply-adds, where there are any, and the bytes."""
        products = [counted(self.multiply_adds, "multiply-add")] if self.multiply_adds else []
        return "  ·  ".join([*products, size(self.bytes)])

    @property
    def plain(self) -> str:
        """The whole row, for readers of the screen."""
        dims = ", ".join(f"{dim.name} {dim.size}" for dim in self.dims)
        parts = (f"{self.title}: {dims}", self.says, *self.equations, self.cost)
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The Shapes pane.

    Parameters
    ----------
    batch : str
        What is said of the first axis.
    total : str
        What all stages take together.
    """

    rows: tuple[ShapeRow, ...] = ()
    batch: str = ""
    total: str = ""
    split: Split | None = None

    @property
    def current(self) -> str | None:
        """The stage that is looked at."""
        return next((row.stage for row in self.rows if row.is_current), None)


SHAPES: PanelId[Ledger] = PanelId("Shapes")


def present_shapes(resolved: Resolved, previous: Ledger) -> Ledger:
    """Show the shapes of a run; the row is marked of the stage that is played or pointed at."""
    run, current = resolved.run, _looked_at(resolved)
    rows = tuple(_row(run, stage, stage.name == current) for stage in run.trace.stages)
    products = sum(row.multiply_adds for row in rows)
    taken = f"{counted(products, 'multiply-add')} in matrix products"
    total = f"Together {taken}; the stages take {size(run.trace.bytes)}."
    made = Ledger(rows, _batch(run), total, split_of(run, current))
    return previous if made == previous else made


def _looked_at(resolved: Resolved) -> str | None:
    cell = resolved.hovered or resolved.pinned
    return resolved.focus or (cell.stage if cell else None)


def _batch(run: Run) -> str:
    texts, tokens = len(run.texts), counted(run.trace.tokens, "token")
    if run.captured:
        return f"{counted(texts, 'layer')} from {run.captured.called}."
    if texts == 1:
        return "Batch 1: there is one text."
    padded = f", padded to {tokens}" if run.trace.spec.lengths else f" of {tokens}"
    return f"Batch {texts:,}: as many texts{padded}. The equations are those of one."


def _row(run: Run, stage: Stage, is_current: bool) -> ShapeRow:
    trace, spec, texts = run.trace, run.trace.spec, len(run.texts)
    sizes = trace.tensor(stage.name).shape[-len(stage.dims) :]
    named = zip(stage.dims, sizes, strict=True)
    first = "layers" if run.captured else "batch"
    dims = (Dim(first, texts), *(Dim(_NAMES.get(name, name), size) for name, size in named))
    item = 8 if spec.dtype is Dtype.FLOAT64 else 4
    return ShapeRow(
        stage.name,
        stage.title,
        stage.symbol,
        stage.says,
        dims,
        parameter_of(spec, stage, trace.tokens),
        equations(spec, stage, trace.tokens),
        texts * multiply_adds(spec, stage, trace.tokens),
        texts * math.prod(sizes) * item,
        is_current,
    )
