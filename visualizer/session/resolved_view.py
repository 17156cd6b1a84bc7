"""Views resolved against a run: the visible stages, heads, cells and pooling extents.

All presenters take a `ResolvedView`. It is created once per change, without reading any stage data.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.attention.display_transforms import HeadAggregate
from visualizer.attention.flow_columns import (
    flow_columns,
    focused_column_index,
    previous_state,
    visible_state,
)
from visualizer.format import format_count
from visualizer.language.tokenizers import visible_tokens
from visualizer.session.cell_address import Cell
from visualizer.session.comparison_state import ComparisonKind
from visualizer.session.dropout_samples import no_samples_reason
from visualizer.session.timeline import StepSize, Timeline, caption_cell
from visualizer.session.token_selection import TokenRole
from visualizer.session.zoom_ranges import clamp_zoom

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from visualizer.attention.flow_columns import FlowColumn
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import LeadingIndex, Trace
    from visualizer.models.model_source import ModelSource
    from visualizer.session.cell_address import ParameterCell
    from visualizer.session.comparison_state import Comparison
    from visualizer.session.document import Document
    from visualizer.session.timeline import PlaybackPosition, Step
    from visualizer.session.user_prediction import Prediction
    from visualizer.session.view import View
    from visualizer.session.zoom_ranges import ZoomRange


class PoolingExtent(Struct, frozen=True):
    """The drawn part of a stage, and how many rows and columns are pooled into a drawn cell."""

    blocks: tuple[int, int]
    rows: range | None
    columns: range | None
    side: tuple[int, int]

    @property
    def drawn_slices(self) -> tuple[slice, slice]:
        """The indices of the drawn cells in the pooled stage."""
        return _block_slice(self.rows, self.blocks[0]), _block_slice(self.columns, self.blocks[1])


def _block_slice(part: range | None, block: int) -> slice:
    return slice(None) if part is None else slice(part.start // block, -(-part.stop // block))


def pooling_extent(
    trace: Trace,
    stage: Stage,
    room: tuple[int, int],
    zoom: ZoomRange | None,
    *,
    is_aligned: bool = False,
) -> PoolingExtent:
    """Return the drawn part of a stage and its pooling.

    Parameters
    ----------
    room : tuple of int
        Maximum numbers of drawn rows and columns.
    zoom : ZoomRange or None
        A part that exists in the trace; None for the whole stage.
    is_aligned : bool
        Whether the rows of all stages are the same tokens.
    """
    sizes = trace.shape(stage.name)[-2:]
    whole = pooling_block_shape(trace, stage, room)
    side = (math.ceil(sizes[0] / whole[0]), math.ceil(sizes[1] / whole[1]))
    if zoom is None:
        return PoolingExtent(whole, None, None, side)
    rows, columns = zoom.visible_ranges(stage, is_aligned=is_aligned)
    blocks = (
        _pooling_block_size(rows, room[0]),
        whole[1] if columns is None else _pooling_block_size(columns, room[1]),
    )
    across = None if columns is None else _align_to_blocks(columns, blocks[1], sizes[1])
    return PoolingExtent(blocks, _align_to_blocks(rows, blocks[0], sizes[0]), across, side)


def _pooling_block_size(part: range, room: int) -> int:
    """Return the block size: a power of two, so that few different poolings are read and cached."""
    return 1 << (math.ceil(len(part) / room) - 1).bit_length()


def _align_to_blocks(part: range, block: int, size: int) -> range:
    return range(part.start // block * block, min(-(-part.stop // block) * block, size))


def pooling_block_shape(trace: Trace, stage: Stage, room: tuple[int, int]) -> tuple[int, int]:
    """Return the numbers of rows and columns that are pooled into each drawn cell."""
    rows, columns = trace.shape(stage.name)[-2:]
    return math.ceil(rows / room[0]), math.ceil(columns / room[1])


MAX_FLOW_KEYS, MAX_FLOW_FEATURES, MAX_FLOW_HEAD_FEATURES = 64, 60, 40
"""Maximum numbers of columns that are drawn for a matrix on the flow board that is not in focus."""


class FlowBoardView(Struct, frozen=True):
    """The part of a run that the flow board shows.

    Parameters
    ----------
    stages : tuple of str
        The stage that is shown in each column.
    focus : int
        Index of the column that is drawn as large as possible.
    head : int
        The index of the head in front.
    earlier : str
        During playback, the stage of the same matrix from which the current one is computed;
        otherwise empty.
    """

    columns: tuple[FlowColumn, ...]
    stages: tuple[str, ...]
    focus: int
    head: int
    earlier: str = ""

    def max_drawn_size(self, stage: Stage, rows: int) -> tuple[int, int]:
        """Return the maximum numbers of rows and columns to draw for a stage."""
        if stage.name == self.stages[self.focus]:
            return rows, rows
        if stage.dims[-1] == "key":
            return rows, MAX_FLOW_KEYS
        return rows, MAX_FLOW_HEAD_FEATURES if "head" in stage.dims else MAX_FLOW_FEATURES


class AxisLabels(Struct, frozen=True):
    """The labels of a text's queries and keys."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def __hash__(self) -> int:
        # Hashing thousands of labels is slow, and every panel lookup needs the hash.
        return hash((len(self.rows), len(self.columns)))


class ResolvedView(Struct, frozen=True, eq=False, dict=True):
    """A view resolved against a run.

    Parameters
    ----------
    document : Document
        The current document.
    view : View
        The requested view, even if the run lacks parts of it.
    computed : Document or None
        The document that the run was computed from.
    leading : tuple of int
        The index along the run's leading axes, which selects the layer and the text.
    prediction : Prediction or None
        The current prediction, with only the marks of cells that exist in the run.
    place : PlaybackPosition or None
        The playback position; None at the end and during a prediction.
    focus : str or None
        The single stage in focus during playback or a prediction.
    hidden_stages : frozenset of str
        The stages that a prediction hides: the predicted one and all later ones.
    hovered, pinned : Cell or None
        The hovered and the pinned cell, if they exist in the run.
    chosen : frozenset of str
        The requested stages that exist in the run, or the weights if none of them exists.
    stages : frozenset of str
        The stages with a panel: those of the flow board, or the chosen ones and the stage of the
        pinned cell.
    heads : tuple of int
        The heads with a row of panels.
    drawn_heads : tuple of int
        The heads for panes that do not show aggregates: `heads`, or all heads if it is empty.
    folds : tuple of HeadAggregate
        The head aggregates with a row of panels.
    is_spread : bool
        Whether the innermost leading axis is shown side by side: the texts, or else the layers.
    zoom : ZoomRange or None
        The visible part of every panel; None for the whole panel.
    comparison : Comparison or None
        The active comparison; None during playback and predictions.
    unavailable_reason : str
        Why the requested comparison is impossible; empty if it is possible.
    overview : str or None
        The stage of the minimap; None if everything is visible.
    is_led_to_flow : bool
        Whether the flow board is shown only because the pinned cell is in a stage that was not
        chosen.
    flow : FlowBoardView or None
        The content of the flow board; None if the panels are arranged by stage and head.
    """

    document: Document
    view: View
    run: Run
    computed: Document | None
    leading: LeadingIndex
    prediction: Prediction | None
    place: PlaybackPosition | None
    focus: str | None
    hidden_stages: frozenset[str]
    hovered: Cell | None
    pinned: Cell | None
    chosen: frozenset[str]
    stages: frozenset[str]
    heads: tuple[int, ...]
    drawn_heads: tuple[int, ...]
    folds: tuple[HeadAggregate, ...]
    is_spread: bool
    zoom: ZoomRange | None
    comparison: Comparison | None
    unavailable_reason: str
    overview: str | None
    is_led_to_flow: bool
    flow: FlowBoardView | None = None
    shared_values: dict[Hashable, object] = field(default_factory=dict)
    """Values that panels share, by key; they are computed on first use."""
    _side_labels: dict[int, AxisLabels] = field(default_factory=dict)
    _extents: dict[tuple[str, tuple[int, int], bool], PoolingExtent] = field(default_factory=dict)

    # ------------------------------------------------------------------ panels

    def side_labels(self, leading: LeadingIndex) -> AxisLabels:
        """Return the labels of a text's queries and keys; earlier views share the same object."""
        text = self.run.trace.axis_position("text", leading)
        if text not in self._side_labels:
            words = self.run.token_labels(leading), self.run.token_labels(leading, "key")
            self._side_labels[text] = AxisLabels(*map(visible_tokens, words))
        return self._side_labels[text]

    def extent(self, stage: Stage) -> PoolingExtent:
        """Return the drawn part of a stage and its pooling."""
        view = self.view
        if self.flow:
            return self._make_extent(
                stage, self.flow.max_drawn_size(stage, view.room), is_whole=False
            )
        return self._make_extent(stage, (view.room, view.room), is_whole=False)

    def full_extent(self, stage: Stage, room: int) -> PoolingExtent:
        """Return the pooling of a whole stage to at most ``room`` cells per side."""
        return self._make_extent(stage, (room, room), is_whole=True)

    def _make_extent(self, stage: Stage, room: tuple[int, int], *, is_whole: bool) -> PoolingExtent:
        key = (stage.name, room, is_whole)
        if key not in self._extents:
            zoom = None if is_whole else self.zoom
            trace = self.run.trace
            is_aligned = (
                self.flow is not None and trace.query_key_counts[0] == trace.query_key_counts[1]
            )
            extent = pooling_extent(trace, stage, room, zoom, is_aligned=is_aligned)
            self._extents[key] = extent
        return self._extents[key]

    def rows_of(self, stage: Stage) -> Iterator[tuple[int | None, HeadAggregate | None]]:
        """Yield the panel rows of a stage: one for each shown head and one for each aggregate."""
        if "head" not in stage.dims:
            yield None, None
            return
        for head in self.heads:
            yield head, None
        for by in self.folds:
            yield None, by

    @property
    def model_of_run(self) -> ModelSource | None:
        """The model of the document that the run was computed from, not the requested model."""
        return (self.computed or self.document).model

    @cached_property
    def layer_numbers(self) -> tuple[int, ...]:
        """The number of each layer in the model, counted from 0; without a model, the index."""
        count, model = self.run.trace.axis_size("layer"), self.model_of_run
        numbers = self.run.reading.layers if self.run.reading else (model.layers if model else ())
        return numbers if len(numbers) == count else tuple(range(count))

    @property
    def layer_number(self) -> int:
        """The number in the model, counted from 0, of the current layer."""
        return self.layer_numbers[self.run.trace.axis_position("layer", self.leading)]

    @property
    def target_heads(self) -> tuple[int, ...]:
        """The heads to which an action applies: that of the pinned cell, or all shown heads."""
        pinned = self.pinned
        if len(self.heads) > 1 and pinned and pinned.head is not None:
            return (pinned.head,)
        return self.heads

    @cached_property
    def shown_stages(self) -> tuple[Stage, ...]:
        """The stages with a panel, in order of computation."""
        return tuple(stage for stage in self.run.trace.stages if stage.name in self.stages)

    def display_number(self, axis: str, at: int) -> int:
        """Return the number, counted from 1, of the layer or text at an index."""
        return (self.layer_numbers[at] if axis == "layer" else at) + 1

    @property
    def leading_description(self) -> str:
        """The numbers of the current layer and text, if there are several layers or texts.

        If the index of a layer differs from its number in the model, both are given.
        """
        trace, parts = self.run.trace, []
        for axis, at, size in zip(trace.axes, self.leading, trace.leading_sizes, strict=True):
            number = self.display_number(axis, at)
            place = f" of {size:,}" if number == at + 1 else f" ({at + 1:,} of {size:,})"
            parts.append(f"{axis} {number:,}{place}")
        return ", ".join(parts)

    @property
    def side_by_side_indices(self) -> tuple[LeadingIndex, ...]:
        """The leading indices that are shown side by side."""
        *outer, _ = self.leading
        return tuple((*outer, at) for at in range(self.run.trace.leading_sizes[-1]))

    def side_by_side_head(self, stage: Stage) -> int | None:
        """Return the head of a side-by-side view: that of the pinned cell, or the first."""
        if "head" not in stage.dims:
            return None
        head = self.pinned.head if self.pinned else None
        if head is not None:
            return head
        return (_shown_heads(self.run, self.view, None, self.folds) or (0,))[0]

    @property
    def overview_head(self) -> int:
        """The head of the minimap: that of the pinned cell, or the first."""
        return (self.pinned and self.pinned.head) or next(iter(self.heads), 0)

    @cached_property
    def query_key_stages(self) -> tuple[str, ...]:
        """The shown stages with a query × key panel; only the weights if there are none."""
        return _query_key_stage_names(self.run, self.stages)

    def weights_stage(self, cell: Cell | None) -> str:
        """Return the stage of the weights that a pane shows for a cell and for its tokens.

        If the cell is a weight before or after dropout, its stage is used, so that a pane shows the
        same number as the cell. Otherwise, the weights after dropout are used if they are shown; if
        not, the weights before dropout are used. Head measures always use the weights before
        dropout (`trace.attention`).
        """
        trace = self.run.trace
        if cell and cell.stage in {trace.attention_stage_name, trace.dropout_stage_name}:
            return cell.stage
        return (
            trace.dropout_stage_name
            if trace.dropout_stage_name in self.stages
            else trace.attention_stage_name
        )

    # ------------------------------------------------------------------ comparison

    @cached_property
    def side_a(self) -> ResolvedView:
        """Side A of a comparison, resolved with the same view."""
        comparison = self.comparison
        assert comparison
        assert comparison.kept
        document = comparison.document or self.document
        return resolve_view(
            document, replace(self.view, comparison=None), comparison.kept, document
        )

    # ------------------------------------------------------------------ cells and steps

    @cached_property
    def timeline(self) -> Timeline:
        """All steps of the run at the playback granularity."""
        return view_timeline(self.run, self.view)

    def is_computed_later(self, cell: Cell) -> bool:
        """Return whether a cell is computed in a later step."""
        if self.place is None:
            return False
        rows, columns = self.timeline.playback_reach(self.place, cell.stage)
        row, column = cell.place[-2:]
        return row > rows or (row == rows and column >= columns)

    @property
    def reached_hovered_cell(self) -> Cell | None:
        """The hovered cell, if playback has reached it."""
        return self._cell_if_reached(self.hovered)

    @property
    def reached_pinned_cell(self) -> Cell | None:
        """The pinned cell, if playback has reached it."""
        return self._cell_if_reached(self.pinned)

    def _cell_if_reached(self, cell: Cell | None) -> Cell | None:
        return None if cell is None or self.is_computed_later(cell) else cell

    @property
    def hovered_or_pinned_cell(self) -> Cell | None:
        """The hovered or else the pinned cell, or None while steps are played."""
        if self.is_playing:
            return None
        return self.reached_hovered_cell or self.reached_pinned_cell

    @property
    def hovered_or_pinned_parameter(self) -> ParameterCell | None:
        """The hovered or else the pinned weight of a layer, or None while steps are played."""
        view = self.view
        found = (one for one in (view.hovered_parameter, view.pinned_parameter) if one)
        return next((one for one in found if self._has_parameter(one)), None)

    def _has_parameter(self, parameter: ParameterCell) -> bool:
        if self.flow is None or self.is_playing or parameter.stage not in self.run.trace:
            return False
        head = () if parameter.head is None else (parameter.head,)
        product = Cell(parameter.stage, (*head, 0, parameter.column))
        return existing_cell(self.run, product) is not None

    @property
    def caption_head(self) -> int:
        """The head that the step caption describes: that of the pinned cell, or the first shown."""
        pinned = self.view.pinned
        head = pinned.head if pinned else None
        if head is None:
            head = next(iter(self.heads), 0)
        return min(head, self.run.trace.spec.heads - 1)

    @cached_property
    def step_key(self) -> Hashable:
        """The cache key of the current step's caption."""
        view = self.view
        shown = (
            view.room,
            view.zoom,
            tour_focus_cell(self.run, view),
            tour_focus_row(self.run, view),
        )
        return self.run, self.leading, shown, self.caption_head, view.playhead, self.prediction

    @property
    def is_playing(self) -> bool:
        """Whether steps are played."""
        return self.place is not None and self.view.playhead.is_playing

    @property
    def described_position(self) -> PlaybackPosition | None:
        """The position of the described step; while a tour plays, the position of its full row."""
        if self.place is None or not self.is_playing:
            return self.place
        return self.timeline.described_position(self.place)

    @property
    def described_step(self) -> Step | None:
        """The step that is described, or the part of it that computes the cell of a tour."""
        if self.described_position is None:
            return None
        step, cell = (
            self.timeline.step_at(self.described_position),
            tour_focus_cell(self.run, self.view),
        )
        trace = self.run.trace
        if cell is None or self.timeline.grain is not StepSize.TOUR:
            return step
        row, column = cell.place[-2:]
        is_there = row in step.rows and column in step.columns
        if not is_there or trace.stage(cell.stage).dims != trace.stage(step.stage).dims:
            return step
        return replace(step, columns=range(column, column + 1))

    @cached_property
    def described_step_cell(self) -> Cell | None:
        """The cell that stands for the described step; it is explained while no cell is hovered.

        To find the cell, the values of the step are read; for a large step, the worker does this.
        """
        step = self.described_step
        if step is None:
            return None
        return Cell(step.stage, caption_cell(self.run, self.leading, step, self.caption_head))

    @cached_property
    def history_directions(self) -> frozenset[int]:
        """The directions in which the cell history can be followed: back (−1) and forward (1)."""
        there_are = ((-1, self.view.past), (1, self.view.future))
        return frozenset(
            way for way, cells in there_are if any(existing_cell(self.run, cell) for cell in cells)
        )

    def reuse_cached_values(self, earlier: ResolvedView | None) -> ResolvedView:
        """Copy the cached values of an earlier view that are still valid, and return this view."""
        if earlier and "step_cell" in vars(earlier) and earlier.step_key == self.step_key:
            vars(self)["step_cell"] = earlier.described_step_cell
        if earlier and earlier.run is self.run:
            self._side_labels.update(earlier._side_labels)
        return self


def resolve_view(
    document: Document, view: View, run: Run, computed: Document | None = None
) -> ResolvedView:
    """Resolve a view against a run without changing the arguments.

    Parameters
    ----------
    document : Document
        The current document.
    computed : Document, optional
        The document that the run was computed from.
    """
    pinned = existing_cell(run, view.pinned)
    prediction = _existing_prediction(run, view)
    place = _nearest_playback_position(run, view, prediction)
    focus = prediction.stage if prediction else place.stage if place else None
    chosen = view.stages.intersection(run.trace.names) or frozenset(
        {run.trace.attention_stage_name}
    )
    stages = chosen | ({pinned.stage} if pinned else frozenset())
    leading = run.trace.leading_index(layer=view.layer, text=view.text)
    is_foldable = run.trace.spec.heads > 1 and focus is None
    folds = tuple(by for by in HeadAggregate if by in view.folds and is_foldable)
    heads = _shown_heads(run, view, pinned, folds)
    zoom = clamp_zoom(view.zoom, run.trace.query_key_counts)
    why_not = not_comparable_reason(run, view.comparison) if view.comparison else ""
    is_spread = view.spread and bool(run.trace.axes) and focus is None
    comparison = None if focus or why_not else view.comparison
    is_single = not (is_spread or comparison)
    is_led_to_flow = is_single and not view.flow and stages != chosen
    flow = None
    if is_single and (view.flow or focus or is_led_to_flow):
        flow = _flow_view(run, view, focus, prediction, pinned, heads)
        stages, heads = frozenset(flow.stages), (flow.head,)
    return ResolvedView(
        document=document,
        view=view,
        run=run,
        computed=computed,
        leading=leading,
        prediction=prediction,
        place=place,
        focus=focus,
        hidden_stages=_stages_hidden_by_prediction(run, prediction),
        hovered=existing_cell(run, view.hovered),
        pinned=pinned,
        chosen=chosen,
        stages=stages,
        heads=heads,
        drawn_heads=heads or tuple(range(run.trace.spec.heads)),
        folds=folds,
        is_spread=is_spread,
        zoom=zoom,
        comparison=comparison,
        unavailable_reason=why_not,
        overview=None if zoom is None else _overview_stage(run, stages, pinned),
        is_led_to_flow=is_led_to_flow,
        flow=flow,
    )


def _flow_view(
    run: Run,
    view: View,
    focus: str | None,
    prediction: Prediction | None,
    pinned: Cell | None,
    heads: tuple[int, ...],
) -> FlowBoardView:
    """Return the content of the flow board; playback does not enlarge its stage.

    Otherwise, all panels would move at each change of stage.
    """
    columns = flow_columns(run.trace.stages)
    chosen = [name for name in (focus, view.large) if name]
    enlarged = [name for name in (prediction.stage if prediction else None, view.large) if name]
    shown = [*chosen[:1], *([pinned.stage] if pinned else []), *chosen]
    head = pinned.head if pinned else None
    return FlowBoardView(
        columns,
        tuple(visible_state(column, shown) for column in columns),
        focused_column_index(columns, enlarged),
        next(iter(heads), 0) if head is None else head,
        previous_state(columns, focus) if focus and prediction is None else "",
    )


def existing_cell(run: Run, cell: Cell | None) -> Cell | None:
    """Return the cell if it exists in the run."""
    if cell is None or cell.stage not in run.trace:
        return None
    if cell.layer is not None and cell.layer >= run.trace.axis_size("layer"):
        return None
    sizes = tuple(run.trace.shape(cell.stage)[len(run.trace.axes) :])
    if cell.fold:
        is_foldable = "head" in run.trace.stage(cell.stage).dims and run.trace.spec.heads > 1
        sizes = sizes[1:] if is_foldable else ()
    fits = len(sizes) == len(cell.place)
    inside = fits and all(at < size for at, size in zip(cell.place, sizes, strict=True))
    return cell if inside else None


def tour_focus_cell(run: Run, view: View) -> Cell | None:
    """Return the cell with the row that a tour shows in full: the pinned or last unpinned cell."""
    return existing_cell(run, view.pinned) or existing_cell(run, view.last_pinned)


def tour_focus_row(run: Run, view: View) -> int | None:
    """Return the row that a tour shows in full: that of its cell or of the only selected query."""
    cell, tokens = tour_focus_cell(run, view), view.tokens
    if cell is not None:
        return cell.place[-2]
    chosen = [at for at in tokens.chosen if at < run.trace.query_key_counts[0]]
    return chosen[0] if tokens.role is TokenRole.QUERY and len(chosen) == 1 else None


def view_timeline(run: Run, view: View) -> Timeline:
    """Return the steps of a run at the granularity of a view."""
    return Timeline.from_trace(run.trace, view.playhead.grain, tour_focus_row(run, view))


def not_comparable_reason(run: Run, comparison: Comparison) -> str:
    """Return why the comparison is impossible, or an empty string if it is possible."""
    spec = run.trace.spec
    kept = comparison.kept
    for name, side in (("The text", run), ("The text of A", kept)):
        if side is not None and side.trace.is_blockwise:
            most = format_count(side.max_full_matrix_tokens, "token")
            return (
                f"{name} is too long to compare: its matrices are not kept in memory. "
                f"Use at most about {most}."
            )
    if comparison.against is ComparisonKind.SAMPLES and not run.trace.has_module:
        return "Captured attention has no dropout, so samples cannot be compared."
    if comparison.against is ComparisonKind.SAMPLES:
        return no_samples_reason(spec)
    if comparison.against is ComparisonKind.HEAD and spec.heads <= max(comparison.heads):
        return f"There {'is only one head' if spec.heads == 1 else f'are only {spec.heads} heads'}."
    return ""


def _existing_prediction(run: Run, view: View) -> Prediction | None:
    guess = view.guess
    if guess is None or guess.stage not in run.trace:
        return None
    return replace(guess, marks=tuple(mark for mark in guess.marks if existing_cell(run, mark)))


def _nearest_playback_position(
    run: Run, view: View, prediction: Prediction | None
) -> PlaybackPosition | None:
    if view.playhead.place is None or prediction:
        return None
    return Timeline.from_trace(run.trace, view.playhead.grain).nearest_position(view.playhead.place)


def _stages_hidden_by_prediction(run: Run, prediction: Prediction | None) -> frozenset[str]:
    if prediction is None or prediction.is_revealed:
        return frozenset()
    names = run.trace.names
    return frozenset(names[names.index(prediction.stage) :])


def _shown_heads(
    run: Run, view: View, pinned: Cell | None, folds: tuple[HeadAggregate, ...]
) -> tuple[int, ...]:
    heads = tuple(range(run.trace.spec.heads))
    if view.heads is None:
        return heads
    chosen = view.heads | ({pinned.head} if pinned else frozenset())
    shown = tuple(head for head in heads if head in chosen)
    return shown or (() if folds else heads)


def _overview_stage(run: Run, stages: frozenset[str], pinned: Cell | None) -> str:
    square = _query_key_stage_names(run, stages)
    usual = (
        run.trace.attention_stage_name if run.trace.attention_stage_name in square else square[0]
    )
    return pinned.stage if pinned and pinned.stage in square else usual


def _query_key_stage_names(run: Run, stages: frozenset[str]) -> tuple[str, ...]:
    shown = (run.trace.stage(name) for name in stages)
    found = tuple(sorted(stage.name for stage in shown if stage.dims[-1] == "key"))
    return found or (run.trace.attention_stage_name,)
