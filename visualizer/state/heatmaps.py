"""The heatmaps as values: numbers, labels, limits of colours, marks. Nothing else is drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import Masking, allowed_by
from visualizer.attention.stages import is_hatched
from visualizer.language.tokenizers import all_visible
from visualizer.state.lines.choosing import needed_for_lines, warm_lines
from visualizer.state.playback.lights import focus
from visualizer.state.trail import followed
from visualizer.state.view import SHORT, ColourScale, existing

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace
    from visualizer.state.view import View


@dataclass(frozen=True, slots=True)
class Axis:
    """One side of a heatmap.

    Parameters
    ----------
    name : str
        What it counts: query, key, token or a size.
    labels : tuple of str
        One for every row or column, before pooling.
    block : int
        How many of them a pooled cell holds.
    """

    name: str
    labels: tuple[str, ...]
    block: int

    @property
    def is_token(self) -> bool:
        """Whether it counts tokens."""
        return self.name in {"query", "key", "token"}


@dataclass(frozen=True, slots=True)
class Colour:
    """How a heatmap's numbers become colours: map, scale, and the numbers at its two ends."""

    map: str
    scale: ColourScale
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Heatmap:
    """One panel.

    Parameters
    ----------
    head : int or None
        None for a stage without heads.
    values : numpy.ndarray
        [row, column], each a number of the trace or the largest of a block of them.
    forbidden, dropped : numpy.ndarray or None
        Boolean, of the same shape: cells that are no number of the scale.
    sums : numpy.ndarray or None
        Row sums, where a row should sum to 1 and does not.
    notes : tuple of str
        What must be said of the picture, shortest first.
    """

    key: Hashable
    stage: str
    title: str
    symbol: str
    head: int | None
    values: np.ndarray
    rows: Axis
    columns: Axis
    colour: Colour
    forbidden: np.ndarray | None
    dropped: np.ndarray | None
    sums: np.ndarray | None
    notes: tuple[str, ...]

    @property
    def is_pooled(self) -> bool:
        """Whether a cell stands for more than one number."""
        return self.rows.block * self.columns.block > 1


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """All panels: a column a stage, a row a head."""

    columns: tuple[tuple[Heatmap, ...], ...] = ()

    @property
    def heatmaps(self) -> tuple[Heatmap, ...]:
        """Every panel, column after column."""
        return tuple(heatmap for column in self.columns for heatmap in column)


def present_board(run: Run, view: View, previous: Board) -> Board:
    """Show the stages that are looked at; panels that did not change are the very same objects."""
    known = {heatmap.key: heatmap for heatmap in previous.heatmaps}
    shown = shown_stages(run, view)
    columns = []
    for stage in run.trace.stages:
        if stage.name in shown:
            heads = range(run.trace.spec.heads) if "head" in stage.dims else (None,)
            columns.append(tuple(_heatmap(run, view, stage, head, known) for head in heads))
    return Board(tuple(columns))


def shown_stages(run: Run, view: View) -> frozenset[str]:
    """Name the stages with a panel: those chosen, and the one of the pinned cell.

    While a stage is played or predicted, it and what it reads.
    """
    stage = focus(run, view)
    if stage:
        return frozenset({stage, *run.trace.stage(stage).reads})
    pinned = existing(run, view.pinned)
    return chosen_stages(run, view) | ({pinned.stage} if pinned else frozenset())


def chosen_stages(run: Run, view: View) -> frozenset[str]:
    """Name the stages that were asked for: the weights, where a spec has none of them."""
    return view.stages.intersection(run.trace.names) or frozenset({"weights"})


def toggled(run: Run, view: View, stage: str) -> View:
    """Show or hide a stage; the last one stays. With a panel goes the cell that is pinned in it."""
    shown = chosen_stages(run, view) ^ {stage}
    absent = view.stages.difference(run.trace.names)
    if view.pinned and view.pinned.stage == stage:
        view = followed(view, None)
        shown -= {stage}
    return replace(view, stages=absent | shown) if shown else view


def needs(run: Run, view: View) -> Hashable:
    """Name all that has to be read for a view; two views that need the same are read together."""
    shown = shown_stages(run, view)
    return view.room, shown, needed_for_lines(run, view, shown)


def warm(run: Run, view: View) -> None:
    """Read all that a view needs, so that whoever presents it finds it read: for the worker."""
    present_board(run, view, Board())
    warm_lines(run, view, shown_stages(run, view))


def _heatmap(
    run: Run, view: View, stage: Stage, head: int | None, known: dict[Hashable, Heatmap]
) -> Heatmap:
    trace, text = run.trace, run.nearest(view.text)
    blocks = blocks_of(trace, stage, view.room)
    colour = _colour(trace, stage, view)
    hatch = Masking.of(trace.spec, stage.name) if is_hatched(trace.spec, stage.name) else None
    held, labels = trace.holding(stage.name), run.texts[text]
    below = trace.holding("weights") if stage.name == "dropped" else None
    key = (held, below, text, head, blocks, colour, hatch, labels, stage.symbol)
    if key in known:
        return known[key]
    index = (*run.index(text), *(() if head is None else (head,)))
    forbidden = _forbidden(hatch, trace.tokens, text, *blocks) if hatch else None
    dropped = _dropped(trace, index, blocks, forbidden) if stage.name == "dropped" else None
    rows, columns = _axes(stage, all_visible(labels), trace, blocks)
    values = trace.read_pooled(stage.name, *blocks, index)
    sums = _sums(trace, stage, index) if blocks == (1, 1) else None
    notes = _notes(trace.spec, stage, blocks)
    return Heatmap(
        key, stage.name, stage.title, stage.symbol, head, values, rows, columns, colour,
        forbidden, dropped, sums, notes,
    )  # fmt: skip


def blocks_of(trace: Trace, stage: Stage, room: int) -> tuple[int, int]:
    """Give how many rows and columns of a stage a drawn cell holds, with room for so many."""
    rows, columns = trace.tensor(stage.name).shape[-2:]
    return math.ceil(rows / room), math.ceil(columns / room)


def _colour(trace: Trace, stage: Stage, view: View) -> Colour:
    low, high = trace.limits(stage.name)
    scale = view.scale
    if stage.is_weights and low >= 0:
        if scale is ColourScale.AUTO:
            scale = ColourScale.LINEAR if trace.tokens <= SHORT else ColourScale.ROW
        # Weights and what dropout leaves of them share a scale, whichever cells are dropped.
        kept = trace.limits("weights")[1] / (1 - trace.spec.dropout) if "dropped" in trace else 0
        return Colour(view.sequential, scale, 0.0, max(1.0, high, kept))
    largest = max(abs(low), abs(high)) or 1.0
    scale = ColourScale.ROW if scale is ColourScale.ROW else ColourScale.LINEAR
    return Colour(view.diverging, scale, -largest, largest)


@lru_cache(maxsize=8)
def _forbidden(masking: Masking, tokens: int, text: int, rows: int, columns: int) -> np.ndarray:
    allowed = allowed_by(masking, tokens)
    cells = allowed[text, 0] if allowed.ndim > 2 else allowed
    if (rows, columns) != (1, 1):
        cells = np.maximum.reduceat(cells, np.arange(0, tokens, rows), axis=0)
        cells = np.maximum.reduceat(cells, np.arange(0, tokens, columns), axis=1)
    return ~cells


def _dropped(
    trace: Trace, index: tuple[int, ...], blocks: tuple[int, int], forbidden: np.ndarray | None
) -> np.ndarray:
    left = trace.read_pooled("dropped", *blocks, index)
    before = trace.read_pooled("weights", *blocks, index)
    dropped: np.ndarray = (left == 0) & (before != 0)
    return dropped if forbidden is None else dropped & ~forbidden


def _axes(
    stage: Stage, tokens: tuple[str, ...], trace: Trace, blocks: tuple[int, int]
) -> tuple[Axis, Axis]:
    row, column = stage.dims[-2:]
    if column == "key":
        return Axis(row, tokens, blocks[0]), Axis(column, tokens, blocks[1])
    count = trace.tensor(stage.name).shape[-1]
    return Axis(row, tokens, blocks[0]), Axis(column, _counted(count), blocks[1])


@lru_cache(maxsize=32)
def _counted(count: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(1, count + 1))


def _sums(trace: Trace, stage: Stage, index: tuple[int, ...]) -> np.ndarray | None:
    if not stage.is_weights:
        return None
    sums: np.ndarray = trace.read(stage.name, index).sum(axis=-1, dtype=np.float64)
    return None if np.allclose(sums, 1, atol=1e-4) else sums


def _notes(spec: AttentionSpec, stage: Stage, blocks: tuple[int, int]) -> tuple[str, ...]:
    notes = []
    if stage.name == "dropped":
        notes.append(f"kept ×{1 / (1 - spec.dropout):.4g}")
    if blocks != (1, 1):
        notes.append(f"each cell: largest of {blocks[0]} × {blocks[1]}")
    return tuple(notes)
