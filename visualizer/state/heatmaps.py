"""Which heatmaps there are, and what is in each: made from a run for a view."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.derived import Fold, Lens
from visualizer.attention.masks import Masking
from visualizer.attention.stages import is_hatched
from visualizer.language.tokenizers import all_visible
from visualizer.state.colouring import Limits, beyond, colour_of
from visualizer.state.drawn import drawn_cells, forbidden_blocks
from visualizer.state.panels import Axis, Board, Heatmap
from visualizer.state.playback.lights import focus
from visualizer.state.trail import followed
from visualizer.state.view import existing
from visualizer.state.zoom import fitted

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from visualizer.attention.held import Held
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace
    from visualizer.state.colouring import Colour
    from visualizer.state.view import View

OVERVIEW = 96
FOLDS = {Fold.MEAN: "Mean", Fold.MAX: "Largest"}


def present_board(run: Run, view: View, previous: Board) -> Board:
    """Show the stages that are looked at; panels that did not change are the very same objects."""
    known = {heatmap.key: heatmap for heatmap in previous.heatmaps}
    if previous.overview:
        known[previous.overview.key] = previous.overview
    columns = []
    for stage in run.trace.stages:
        if stage.name in shown_stages(run, view):
            panels = (_Panel(run, view, stage, *whose) for whose in _rows(run, view, stage))
            columns.append(tuple(panel.heatmap(known) for panel in panels))
    zoom = fitted(view.zoom, run.trace.tokens)
    return Board(tuple(columns), _overview(run, view, known) if zoom else None, zoom)


def _overview(run: Run, view: View, known: dict[Hashable, Heatmap]) -> Heatmap:
    """Show all of a panel of queries and keys: of the pinned cell's, or else of the first head."""
    pinned = existing(run, view.pinned)
    stages = (run.trace.stage(name) for name in shown_stages(run, view))
    square = sorted(stage.name for stage in stages if stage.dims[-1] == "key")
    weights = "weights" if "weights" in square or not square else square[0]
    name = pinned.stage if pinned and pinned.stage in square else weights
    head = (pinned and pinned.head) or next(iter(shown_heads(run, view)), 0)
    whole = replace(view, zoom=None, room=OVERVIEW)
    return _Panel(run, whole, run.trace.stage(name), head, None).heatmap(known)


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


def shown_heads(run: Run, view: View) -> tuple[int, ...]:
    """Give the heads with a row of panels: those chosen, and the one of the pinned cell."""
    heads = range(run.trace.spec.heads)
    if view.heads is None:
        return tuple(heads)
    pinned = existing(run, view.pinned)
    chosen = view.heads | ({pinned.head} if pinned else frozenset())
    return tuple(head for head in heads if head in chosen) or (() if view.folds else tuple(heads))


def shown_folds(run: Run, view: View) -> tuple[Fold, ...]:
    """Give the ways of folding the heads into one that have a row; of one head there is none."""
    is_foldable = run.trace.spec.heads > 1 and focus(run, view) is None
    return tuple(by for by in Fold if by in view.folds and is_foldable)


def needs(run: Run, view: View) -> Hashable:
    """Name what has to be read for the panels of a view."""
    stages = shown_stages(run, view)
    looks = frozenset(look_of(run.trace, run.trace.stage(name), view).blocks for name in stages)
    limits = view.colouring.limits in {Limits.AUTO, Limits.ROW, Limits.PANEL}
    return stages, looks, view.lens, shown_folds(run, view), limits


def warm(run: Run, view: View) -> None:
    """Read what the panels of a view need."""
    present_board(run, view, Board())


def _rows(run: Run, view: View, stage: Stage) -> Iterator[tuple[int | None, Fold | None]]:
    if "head" not in stage.dims:
        yield None, None
        return
    for head in shown_heads(run, view):
        yield head, None
    for by in shown_folds(run, view):
        yield None, by


@dataclass(frozen=True, slots=True)
class Look:
    """Which part of a stage is drawn, and how many of its rows and columns a drawn cell holds."""

    blocks: tuple[int, int]
    rows: range | None
    columns: range | None
    side: tuple[int, int]

    @property
    def cells(self) -> tuple[slice, slice]:
        """The drawn cells, among all that there would be of such blocks."""
        return drawn_cells(self.rows, self.blocks[0]), drawn_cells(self.columns, self.blocks[1])


def look_of(trace: Trace, stage: Stage, view: View) -> Look:
    """Say which part of a stage a view shows, and how coarse."""
    sizes = trace.tensor(stage.name).shape[-2:]
    whole = blocks_of(trace, stage, view.room)
    side = (math.ceil(sizes[0] / whole[0]), math.ceil(sizes[1] / whole[1]))
    zoom = fitted(view.zoom, trace.tokens)
    if zoom is None:
        return Look(whole, None, None, side)
    rows, columns = zoom.of(stage)
    blocks = (_block(rows, view.room), whole[1] if columns is None else _block(columns, view.room))
    across = None if columns is None else _whole_blocks(columns, blocks[1], sizes[1])
    return Look(blocks, _whole_blocks(rows, blocks[0], sizes[0]), across, side)


def _block(part: range, room: int) -> int:
    """Give a power of two: of those few there are, each is read once and kept."""
    return 1 << (math.ceil(len(part) / room) - 1).bit_length()


def _whole_blocks(part: range, block: int, size: int) -> range:
    return range(part.start // block * block, min(-(-part.stop // block) * block, size))


def blocks_of(trace: Trace, stage: Stage, room: int) -> tuple[int, int]:
    """Give how many rows and columns of a stage a drawn cell holds, with room for so many."""
    rows, columns = trace.tensor(stage.name).shape[-2:]
    return math.ceil(rows / room), math.ceil(columns / room)


class _Panel:
    """One heatmap on its way."""

    def __init__(
        self, run: Run, view: View, stage: Stage, head: int | None, by: Fold | None
    ) -> None:
        self.run, self.view, self.stage, self.head, self.by = run, view, stage, head, by
        self.trace, self.spec = run.trace, run.trace.spec
        self.text = run.nearest(view.text)
        self.lens = view.lens if stage.is_weights else Lens.PLAIN
        self.held: Held = self.trace.seen(stage.name, view.lens, by)
        self.look = look_of(self.trace, stage, view)
        self.index = (*run.index(self.text), *(() if head is None else (head,)))
        self.whole = (*self.index, *self.look.cells)

    def heatmap(self, known: dict[Hashable, Heatmap]) -> Heatmap:
        """Make the panel, or give the one that was made of the same before."""
        trace, stage = self.trace, self.stage
        hatch = Masking.of(self.spec, stage.name) if is_hatched(self.spec, stage.name) else None
        before = trace.holding("weights") if stage.name == "dropped" else None
        largest = self._largest() if self.view.colouring.limits is Limits.PANEL else None
        colour = colour_of(trace, stage, self.held, self.lens, self.view.colouring, largest)
        labels = self.run.texts[self.text]
        key = (self.held, before, self.text, self.head, self.by, self.lens, self.look, colour,
               hatch, labels, stage.symbol)  # fmt: skip
        if key in known:
            return known[key]
        forbidden = self._forbidden(hatch) if hatch else None
        rows, columns = self._axes(all_visible(labels))
        values = self.held.read_pooled(*self.look.blocks, self.whole)
        return Heatmap(
            key, stage.name, stage.title, stage.symbol, self.head, self.by, self.text,
            self._label(), values, rows, columns,
            colour, forbidden, self._dropped(forbidden) if before else None, self._sums(),
            self._notes(colour, values, forbidden), self._unit(), self.look.side,
            self._row_ends() if colour.limits is Limits.ROW else None, self._hidden(),
        )  # fmt: skip

    def _label(self) -> str:
        if self.by:
            return FOLDS[self.by]
        return "" if self.head is None else f"Head {self.head + 1}"

    def _largest(self) -> float:
        return float(self.held.row_ends(self.index).max())

    def _row_ends(self) -> np.ndarray:
        ends = self.held.row_ends(self.index)
        blocks = np.maximum.reduceat(ends, np.arange(0, len(ends), self.look.blocks[0]))
        return np.asarray(blocks[self.look.cells[0]])

    def _forbidden(self, hatch: Masking) -> np.ndarray:
        whole = forbidden_blocks(hatch, self.trace.tokens, self.text, *self.look.blocks)
        return np.asarray(whole[self.look.cells])

    def _hidden(self) -> np.ndarray | None:
        if self.lens is not Lens.WITHOUT_FIRST or self.look.blocks != (1, 1):
            return None
        keys = range(self.trace.tokens)[self.look.cells[1]]
        shape = (len(range(self.trace.tokens)[self.look.cells[0]]), len(keys))
        return np.broadcast_to(np.array(keys) == 0, shape)

    def _dropped(self, forbidden: np.ndarray | None) -> np.ndarray | None:
        if self.by or self.lens is not Lens.PLAIN:
            return None
        before = self.trace.holding("weights").read_pooled(*self.look.blocks, self.whole)
        left = self.held.read_pooled(*self.look.blocks, self.whole)
        dropped: np.ndarray = (left == 0) & (before != 0)
        return dropped if forbidden is None else dropped & ~forbidden

    def _axes(self, tokens: tuple[str, ...]) -> tuple[Axis, Axis]:
        row, column = self.stage.dims[-2:]
        count = self.trace.tensor(self.stage.name).shape[-1]
        labels = tokens if column == "key" else counted_from_one(count)
        return (
            Axis(row, tokens, self.look.blocks[0], self.look.rows),
            Axis(column, labels, self.look.blocks[1], self.look.columns),
        )

    def _sums(self) -> np.ndarray | None:
        is_share = self.stage.is_weights and self.lens is Lens.PLAIN and self.by is not Fold.MAX
        if not is_share or self.look.blocks != (1, 1):
            return None
        rows = self.held.read((*self.index, self.look.cells[0]))
        sums: np.ndarray = rows.sum(axis=-1, dtype=np.float64)
        return None if np.allclose(sums, 1, atol=1e-4) else sums

    def _notes(
        self, colour: Colour, values: np.ndarray, forbidden: np.ndarray | None
    ) -> tuple[str, ...]:
        notes = []
        if self.stage.name == "dropped":
            notes.append(f"kept ×{1 / (1 - self.spec.dropout):.4g}")
        if self.lens is Lens.WITHOUT_FIRST:
            notes.append("first token hidden, ÷ the rest")
        if self.look.blocks != (1, 1):
            which = "farthest from 0" if self.held.limits()[0] < 0 else "largest"
            blocks = " × ".join(map(str, self.look.blocks))
            notes.append(f"each cell: {which} of {blocks}")
        found = beyond(values, forbidden, colour)
        if found:
            below, above = (int(cells.sum()) for cells in found)
            notes.append(f"▲ {above:,} above, ▼ {below:,} below")
        return tuple(notes)

    def _unit(self) -> str:
        times = " × ‖value‖" if self.lens is Lens.TIMES_VALUE else ""
        return self.stage.title.lower() + times if len(self.stage.title) > 1 else self.stage.name


@lru_cache(maxsize=32)
def counted_from_one(count: int) -> tuple[str, ...]:
    """Give the labels of an axis that counts no tokens."""
    return tuple(str(number) for number in range(1, count + 1))
