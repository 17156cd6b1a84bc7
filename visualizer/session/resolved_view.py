"""Which part of a stage is drawn, and how coarse.

What there really is to be shown of a view: clamped and looked up once a change.

Everything that is presented takes a `Resolved` and asks nothing again. Making one reads no numbers
of a stage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from visualizer.attention.weight_transforms import HeadAggregate
from visualizer.session.cell_address import Cell
from visualizer.session.comparison import ComparisonKind
from visualizer.session.dropout_samples import why_none
from visualizer.session.timeline import Timeline, leading
from visualizer.session.zoom import fitted

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace
    from visualizer.session.comparison import Comparison
    from visualizer.session.document import Document
    from visualizer.session.prediction import Prediction
    from visualizer.session.timeline import Place
    from visualizer.session.view import View
    from visualizer.session.zoom import Zoom


@dataclass(frozen=True, slots=True)
class PoolingExtent:
    """Which part of a stage is drawn, and how many of its rows and columns a drawn cell holds."""

    blocks: tuple[int, int]
    rows: range | None
    columns: range | None
    side: tuple[int, int]

    @property
    def cells(self) -> tuple[slice, slice]:
        """The drawn cells, among all that there would be of such blocks."""
        return _cells(self.rows, self.blocks[0]), _cells(self.columns, self.blocks[1])


def _cells(part: range | None, block: int) -> slice:
    return slice(None) if part is None else slice(part.start // block, -(-part.stop // block))


def pooling_extent(trace: Trace, stage: Stage, room: int, zoom: Zoom | None) -> PoolingExtent:
    """Say which part of a stage is drawn, and how coarse, with room for so many cells a side.

    Parameters
    ----------
    zoom : Zoom or None
        A part that the trace has; None for all of it.
    """
    sizes = trace.tensor(stage.name).shape[-2:]
    whole = blocks_of(trace, stage, room)
    side = (math.ceil(sizes[0] / whole[0]), math.ceil(sizes[1] / whole[1]))
    if zoom is None:
        return PoolingExtent(whole, None, None, side)
    rows, columns = zoom.of(stage)
    blocks = (_block(rows, room), whole[1] if columns is None else _block(columns, room))
    across = None if columns is None else _whole_blocks(columns, blocks[1], sizes[1])
    return PoolingExtent(blocks, _whole_blocks(rows, blocks[0], sizes[0]), across, side)


def _block(part: range, room: int) -> int:
    """Give a power of two: of those few there are, each is read once and kept."""
    return 1 << (math.ceil(len(part) / room) - 1).bit_length()


def _whole_blocks(part: range, block: int, size: int) -> range:
    return range(part.start // block * block, min(-(-part.stop // block) * block, size))


def blocks_of(trace: Trace, stage: Stage, room: int) -> tuple[int, int]:
    """Give how many rows and columns of a stage a drawn cell holds, with room for so many."""
    rows, columns = trace.tensor(stage.name).shape[-2:]
    return math.ceil(rows / room), math.ceil(columns / room)


@dataclass(frozen=True, eq=False)
class Resolved:
    """What is shown of a run.

    Parameters
    ----------
    document : Document
        The one that is worked on.
    view : View
        What is to be looked at, whether the run has it or not.
    computed : Document or None
        The one that the run is of.
    text, index : int, tuple of int
        The text that is looked at, and where it stands in every stage: nothing for the only one.
    prediction : Guess or None
        What is being predicted, with the marks on cells that there are.
    place : Place or None
        Where playback stands; None at the end, or while something is predicted.
    focus : str or None
        The one stage that all is about, while it is played or predicted.
    covered : frozenset of str
        Stages that a prediction covers: its own, and those that come of it.
    hovered, pinned : Cell or None
        Those that the run has.
    chosen, stages : frozenset of str
        Stages that were asked for, the weights where the run has none of them; and those with a
        panel: with them the pinned cell's, or else the one in focus with what it reads.
    heads, drawn_heads : tuple of int
        Heads with a row of panels; and for what knows no folds: all, where only folds have one.
    folds : tuple of Fold
        Ways of folding the heads into one that have a row.
    is_spread : bool
        Whether the texts of a batch stand side by side.
    zoom : Zoom or None
        Which part of every panel is seen; None for all of it.
    comparison : Comparison or None
        What is compared now; set aside while a step is played or predicted.
    why_not : str
        Why nothing can be compared as asked for; empty where it can.
    overview : str or None
        The stage of which all is shown beside parts; None where all is seen.
    """

    document: Document
    view: View
    run: Run
    computed: Document | None
    text: int
    index: tuple[int, ...]
    prediction: Prediction | None
    place: Place | None
    focus: str | None
    covered: frozenset[str]
    hovered: Cell | None
    pinned: Cell | None
    chosen: frozenset[str]
    stages: frozenset[str]
    heads: tuple[int, ...]
    drawn_heads: tuple[int, ...]
    folds: tuple[HeadAggregate, ...]
    is_spread: bool
    zoom: Zoom | None
    comparison: Comparison | None
    why_not: str
    overview: str | None
    made: dict[Hashable, object] = field(default_factory=dict, repr=False)
    """What several panels share, by what it is of: made when it is needed first."""
    _extents: dict[tuple[str, int, bool], PoolingExtent] = field(default_factory=dict, repr=False)

    # ------------------------------------------------------------------ panels

    def extent(self, stage: Stage) -> PoolingExtent:
        """Say which part of a stage is drawn, and how coarse."""
        return self._extent(stage, self.view.room, is_whole=False)

    def whole_extent(self, stage: Stage, room: int) -> PoolingExtent:
        """Say how coarse all of a stage is drawn, with room for so many cells a side."""
        return self._extent(stage, room, is_whole=True)

    def _extent(self, stage: Stage, room: int, *, is_whole: bool) -> PoolingExtent:
        key = (stage.name, room, is_whole)
        if key not in self._extents:
            zoom = None if is_whole else self.zoom
            self._extents[key] = pooling_extent(self.run.trace, stage, room, zoom)
        return self._extents[key]

    def rows_of(self, stage: Stage) -> Iterator[tuple[int | None, HeadAggregate | None]]:
        """Give the rows of panels that a stage has: one for each head shown and each fold."""
        if "head" not in stage.dims:
            yield None, None
            return
        for head in self.heads:
            yield head, None
        for by in self.folds:
            yield None, by

    @cached_property
    def shown_stages(self) -> tuple[Stage, ...]:
        """The stages with a panel, in the order of the computation."""
        return tuple(stage for stage in self.run.trace.stages if stage.name in self.stages)

    def spread_head(self, stage: Stage) -> int | None:
        """Give the head in which texts stand side by side: the pinned cell's, or the first."""
        if "head" not in stage.dims:
            return None
        head = self.pinned.head if self.pinned else None
        if head is not None:
            return head
        return (_heads(self.run, self.view, None, self.folds) or (0,))[0]

    @property
    def overview_head(self) -> int:
        """The head of the overview: the pinned cell's, or else the first."""
        return (self.pinned and self.pinned.head) or next(iter(self.heads), 0)

    @cached_property
    def square_stages(self) -> tuple[str, ...]:
        """The stages that are shown with a panel of queries and keys, or else the weights."""
        return _square(self.run, self.stages)

    @property
    def read_stage(self) -> str:
        """The stage of weights that says who reads whom: after dropout, where that is shown."""
        return "dropped" if "dropped" in self.stages else self.run.trace.attention

    # ------------------------------------------------------------------ what is compared

    @cached_property
    def kept(self) -> Resolved:
        """A of a comparison, looked at in the same way."""
        comparison = self.comparison
        assert comparison
        assert comparison.kept
        document = comparison.document or self.document
        return resolve(document, replace(self.view, comparison=None), comparison.kept, document)

    # ------------------------------------------------------------------ cells and steps

    @cached_property
    def timeline(self) -> Timeline:
        """All steps of the run, as large as those that are played."""
        return Timeline.of(self.run.trace, self.view.playhead.grain)

    def is_later(self, cell: Cell) -> bool:
        """Whether a cell is computed in a later step."""
        if self.place is None:
            return False
        rows, columns = self.timeline.reach(self.place, cell.stage)
        row, column = cell.place[-2:]
        return row > rows or (row == rows and column >= columns)

    @property
    def reached_hovered(self) -> Cell | None:
        """The cell under the pointer, where playback has come to it."""
        return self._reached(self.hovered)

    @property
    def reached_pinned(self) -> Cell | None:
        """The pinned cell, where playback has come to it."""
        return self._reached(self.pinned)

    def _reached(self, cell: Cell | None) -> Cell | None:
        return None if cell is None or self.is_later(cell) else cell

    @property
    def pointed(self) -> Cell | None:
        """The cell under the pointer, or else the pinned one."""
        return self.reached_hovered or self.reached_pinned

    @property
    def told_head(self) -> int:
        """The head that the sentence of a step is about: the pinned cell's, or the first."""
        pinned = self.view.pinned
        return min((pinned and pinned.head) or 0, self.run.trace.spec.heads - 1)

    @cached_property
    def step_key(self) -> Hashable:
        """All that what is said of the present step depends on."""
        view = self.view
        room = (view.room, view.zoom)
        return self.run, self.text, room, self.told_head, view.playhead, self.prediction

    @cached_property
    def step_cell(self) -> Cell | None:
        """The cell that the present step is about, told of while nothing is pointed at.

        Its numbers are read for it: where the step is large, by the worker.
        """
        if self.place is None:
            return None
        step = self.timeline.step(self.place)
        return Cell(step.stage, leading(self.run, self.text, step, self.told_head))

    @cached_property
    def directions(self) -> frozenset[int]:
        """Whether one can go back (−1) and on (1) along the cells one has followed."""
        there_are = ((-1, self.view.past), (1, self.view.future))
        return frozenset(
            way for way, cells in there_are if any(existing(self.run, cell) for cell in cells)
        )

    def with_known(self, earlier: Resolved | None) -> Resolved:
        """Take over what was read for an earlier one, as far as it is the same."""
        if earlier and "step_cell" in vars(earlier) and earlier.step_key == self.step_key:
            vars(self)["step_cell"] = earlier.step_cell
        return self


def resolve(document: Document, view: View, run: Run, computed: Document | None = None) -> Resolved:
    """Find out what a view of a run really shows; nothing that is handed in is changed.

    Parameters
    ----------
    document : Document
        The one that is worked on.
    computed : Document, optional
        The one that the run is of.
    """
    pinned = existing(run, view.pinned)
    prediction = _prediction(run, view)
    place = _place(run, view, prediction)
    focus = prediction.stage if prediction else place.stage if place else None
    chosen = view.stages.intersection(run.trace.names) or frozenset({run.trace.attention})
    stages = chosen | ({pinned.stage} if pinned else frozenset())
    if focus:
        stages = frozenset({focus, *run.trace.stage(focus).reads})
    is_foldable = run.trace.spec.heads > 1 and focus is None
    folds = tuple(by for by in HeadAggregate if by in view.folds and is_foldable)
    heads = _heads(run, view, pinned, folds)
    zoom = fitted(view.zoom, run.trace.sides)
    why_not = why_not_comparable(run, view.comparison) if view.comparison else ""
    return Resolved(
        document=document,
        view=view,
        run=run,
        computed=computed,
        text=run.nearest(view.text),
        index=run.index(view.text),
        prediction=prediction,
        place=place,
        focus=focus,
        covered=_covered(run, prediction),
        hovered=existing(run, view.hovered),
        pinned=pinned,
        chosen=chosen,
        stages=stages,
        heads=heads,
        drawn_heads=heads or tuple(range(run.trace.spec.heads)),
        folds=folds,
        is_spread=view.spread and len(run.texts) > 1 and focus is None,
        zoom=zoom,
        comparison=None if focus or why_not else view.comparison,
        why_not=why_not,
        overview=None if zoom is None else _overview(run, stages, pinned),
    )


def existing(run: Run, cell: Cell | None) -> Cell | None:
    """Give a cell if the run has it."""
    if cell is None or cell.stage not in run.trace:
        return None
    sizes = tuple(run.trace.tensor(cell.stage).shape[len(run.trace.batch) :])
    if cell.fold:
        is_foldable = "head" in run.trace.stage(cell.stage).dims and run.trace.spec.heads > 1
        sizes = sizes[1:] if is_foldable else ()
    fits = len(sizes) == len(cell.place)
    inside = fits and all(at < size for at, size in zip(cell.place, sizes, strict=True))
    return cell if inside else None


def why_not_comparable(run: Run, comparison: Comparison) -> str:
    """Say why nothing at all can be compared; empty where it can."""
    spec = run.trace.spec
    if comparison.against is ComparisonKind.SAMPLES and run.captured:
        return "What was captured has no dropout of its own, so there are no samples of it."
    if comparison.against is ComparisonKind.SAMPLES:
        return why_none(spec)
    if comparison.against is ComparisonKind.HEAD and spec.heads <= max(comparison.heads):
        return f"There {'is one head' if spec.heads == 1 else f'are {spec.heads} heads'} only."
    return ""


def _prediction(run: Run, view: View) -> Prediction | None:
    guess = view.guess
    if guess is None or guess.stage not in run.trace:
        return None
    return replace(guess, marks=tuple(mark for mark in guess.marks if existing(run, mark)))


def _place(run: Run, view: View, prediction: Prediction | None) -> Place | None:
    if view.playhead.place is None or prediction:
        return None
    return Timeline.of(run.trace, view.playhead.grain).nearest(view.playhead.place)


def _covered(run: Run, prediction: Prediction | None) -> frozenset[str]:
    if prediction is None or prediction.is_revealed:
        return frozenset()
    names = run.trace.names
    return frozenset(names[names.index(prediction.stage) :])


def _heads(
    run: Run, view: View, pinned: Cell | None, folds: tuple[HeadAggregate, ...]
) -> tuple[int, ...]:
    heads = tuple(range(run.trace.spec.heads))
    if view.heads is None:
        return heads
    chosen = view.heads | ({pinned.head} if pinned else frozenset())
    shown = tuple(head for head in heads if head in chosen)
    return shown or (() if folds else heads)


def _overview(run: Run, stages: frozenset[str], pinned: Cell | None) -> str:
    square = _square(run, stages)
    usual = run.trace.attention if run.trace.attention in square else square[0]
    return pinned.stage if pinned and pinned.stage in square else usual


def _square(run: Run, stages: frozenset[str]) -> tuple[str, ...]:
    shown = (run.trace.stage(name) for name in stages)
    found = tuple(sorted(stage.name for stage in shown if stage.dims[-1] == "key"))
    return found or (run.trace.attention,)
