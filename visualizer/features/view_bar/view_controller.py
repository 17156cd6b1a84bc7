"""Controller of the view: layout, visible heads and texts, zoom, weight transform and colours."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QObject

from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.remote_numbers import NumbersPendingError, forbid_waiting_for_numbers
from visualizer.attention.roles import Role
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.cell_address import Cell
from visualizer.session.head_order import HeadOrder
from visualizer.session.model_pane_options import HeadScatterOptions
from visualizer.session.view import CodeDialect, View
from visualizer.session.view_changes import pin_cell
from visualizer.session.view_options import ColourCurve, ColourLimits, ColourMapKind
from visualizer.session.zoom_ranges import ZoomRange, row_token_role, zoom_by
from visualizer.widgets.app_settings import save_colour_map

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.features.view_bar.widget import ViewBar
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.workspace import Workspace

ZOOM_STEP = 1.5
PAN_DIVISOR = 4
"""A key pans by 1/`PAN_DIVISOR` of the visible range."""


class _PendingPin(Struct, frozen=True, eq=False):
    """A request to pin the largest weight of a row as soon as it is available.

    Parameters
    ----------
    leading : tuple of int
        The index of the layer along the run's leading axes.
    pinned : Cell or None
        The cell that was pinned at the time of the request.
    """

    run: Run
    leading: LeadingIndex
    head: int
    query: int
    pinned: Cell | None

    def is_pending(self, now: ResolvedView, wanted: View) -> bool:
        """Return whether the row is still shown and no cell has been pinned or unpinned since."""
        is_shown = (now.run, now.leading, now.heads[:1]) == (self.run, self.leading, (self.head,))
        return is_shown and wanted.pinned == self.pinned


class ViewController(QObject):
    """Controller that changes the view of a workspace; each public method is one user action."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._before = self._requested_view
        self._pending_pin: _PendingPin | None = None
        """The request, kept until the row is available; a server may still have to send the row."""
        self.front_head = 0
        """The head that was last in front on the flow board."""
        workspace.changed.connect(self._pin_largest)

    def connect_bar(self, bar: ViewBar) -> None:
        """Connect the view bar."""
        bar.stageToggled.connect(self._workspace.toggle_stage)
        bar.headToggled.connect(self.toggle_head)
        bar.soloHeadRequested.connect(self.solo_clicked_head)

    @property
    def _requested_view(self) -> View:
        return self._workspace.requested_view

    @property
    def _visible_range(self) -> ZoomRange | None:
        """The visible range, clamped to the text."""
        resolved = self._workspace.resolved_requested_view
        return resolved.zoom if resolved else None

    # ------------------------------------------------------------------ zoom

    def zoom(self, factor: float, at: tuple[float, float] | None = None) -> None:
        """Zoom by a factor around the given position or, if it is None, around the pinned cell."""
        resolved = self._workspace.resolved_requested_view
        if resolved:
            sides, seen = resolved.run.trace.query_key_counts, _visible_block_range(resolved)
            if seen and at is None:
                cursor = self._workspace.screen.panel(BOARD_CONTENTS).cursor
                seen = seen.pan_to_include(sides, cursor.query, cursor.key)
            at = at or self._zoom_centre(seen or ZoomRange.full_range(sides))
            self._workspace.change_view(zoom=zoom_by(seen, sides, factor, at))

    def zoom_at(self, factor: float, stage: str, row: float, column: float) -> None:
        """Zoom around a row and column of a stage, which stay under the pointer."""
        resolved = self._workspace.resolved_requested_view
        if resolved:
            at = self._query_and_key_at(stage, row, column)
            middle = self._zoom_centre(
                _visible_block_range(resolved)
                or ZoomRange.full_range(resolved.run.trace.query_key_counts)
            )
            query, key = (now if it is None else it for it, now in zip(at, middle, strict=True))
            self.zoom(factor, (query, key))

    def pan_by_cells(self, stage: str, down: int, right: int) -> None:
        """Pan by the given number of rows and columns of a stage."""
        queries, keys = self._query_and_key_at(stage, down, right)
        self.pan_by(int(queries or 0), int(keys or 0))

    def _query_and_key_at(
        self, stage: str, row: float, column: float
    ) -> tuple[float | None, float | None]:
        """Map a row and a column of a stage to a query and a key; None for other axes."""
        run = self._workspace.run
        if run and run.trace.stage(stage).dims[-1] == "key":
            return row, column
        return (None, row) if row_token_role(stage) == "key" else (row, None)

    def zoom_in(self) -> None:
        """Zoom in on the pinned cell, or on the centre of the visible range."""
        self.zoom(ZOOM_STEP)

    def zoom_out(self) -> None:
        self.zoom(1 / ZOOM_STEP)

    def reset_zoom(self) -> None:
        self._workspace.change_view(zoom=None)

    def pan_by_fraction(self, down: int, right: int) -> None:
        """Pan by a fraction of the visible range."""
        zoom = self._visible_range
        if zoom:
            rows, columns = (max(1, len(span) // PAN_DIVISOR) for span in (zoom.queries, zoom.keys))
            self.pan_by(down * rows, right * columns)

    def pan_by(self, queries: int, keys: int) -> None:
        """Pan by a number of queries and keys."""
        run, zoom = self._workspace.run, self._visible_range
        if run and zoom:
            self._workspace.change_view(zoom=zoom.pan_by(run.trace.query_key_counts, queries, keys))

    def centre_on(self, query: int, key: int) -> None:
        """Centre the visible range on a query and a key."""
        zoom = self._visible_range
        if zoom:
            queries, keys = zoom.queries, zoom.keys
            middle_query, middle_key = (each.start + len(each) // 2 for each in (queries, keys))
            self.pan_by(query - middle_query, key - middle_key)

    def _zoom_centre(self, seen: ZoomRange) -> tuple[float, float]:
        cursor = self._workspace.screen.panel(BOARD_CONTENTS).cursor
        query, key = (span.start + len(span) / 2 for span in (seen.queries, seen.keys))
        at_query = query if cursor.query is None else cursor.query + 0.5
        return at_query, key if cursor.key is None else cursor.key + 0.5

    # ------------------------------------------------------------------ layouts and heads

    def show_flow(self) -> None:
        """Show the flow board of the chosen head, or of the head that was last in front."""
        heads = self._requested_view.heads
        if heads is None:
            heads = frozenset({self.front_head})
        self._workspace.change_view(
            flow=True, heads=heads, large=None, folds=frozenset(), spread=False
        )

    def _leave_flow(self, **changes: Any) -> None:
        """Show panels instead of the flow board, and remember the head in front."""
        resolved = self._workspace.resolved_requested_view
        if resolved and resolved.flow:
            self.front_head = resolved.flow.head
        self._workspace.change_view(flow=False, **changes)

    def focus_stage(self, stage: str) -> None:
        """Enlarge a stage on the flow board; unpin a cell in another stage of the same column."""
        resolved, pinned = self._workspace.resolved_requested_view, self._requested_view.pinned
        if resolved is None or resolved.flow is None:
            return
        states = next(one.states for one in resolved.flow.columns if stage in one.states)
        is_replaced = pinned is not None and pinned.stage in states and pinned.stage != stage
        self._workspace.change_view(large=stage, pinned=None if is_replaced else pinned)

    def bring_to_front(self, head: int) -> None:
        """Bring a head to the front of the flow board; a pinned cell moves to this head."""
        self._show_only_head(head)
        self._workspace.change_view(hovered=None)

    def show_all_panels(self) -> None:
        """Show the stages side by side, one row per head."""
        stages = self._requested_view.stages
        several = stages if len(stages) > 1 else View().stages
        self._leave_flow(heads=None, stages=several, large=None)

    def show_one_stage(self) -> None:
        """Show one stage for all heads: that of the pinned cell, or the last stage with heads."""
        resolved = self._workspace.resolved_requested_view
        if resolved is None:
            return
        run, pinned = resolved.run, self._requested_view.pinned
        with_heads = [
            stage.name
            for stage in run.trace.stages
            if "head" in stage.dims and stage.name in resolved.chosen
        ]
        shares = [name for name in with_heads if run.trace.stage(name).is_weights]
        last = (shares or with_heads or [run.trace.attention_stage_name])[-1]
        stage = pinned.stage if pinned and pinned.head is not None else last
        self._leave_flow(stages=frozenset({stage}), heads=None)

    def show_stage_of_all_heads(self, stage: str) -> None:
        """Show one stage for all heads."""
        self.show_stage_alone(stage)
        self._leave_flow(heads=None)

    def show_only_head(self, head: int) -> None:
        """Show the selected stages of one head side by side."""
        self._show_only_head(head)
        self._workspace.change_view(flow=False, large=None)

    def show_head_flow(self, head: int) -> None:
        """Show the flow board of a head."""
        if not self._requested_view.flow:
            self.show_flow()
        self.bring_to_front(head)

    def show_stage_alone(self, stage: str) -> None:
        """Show only one stage; a cell pinned in another stage is unpinned."""
        pinned = self._requested_view.pinned
        kept = pinned if pinned and pinned.stage == stage else None
        self._workspace.change_view(stages=frozenset({stage}), pinned=kept)

    def enlarge_stage_of_cell(self, cell: Cell) -> None:
        """Pin a cell, and enlarge its stage on the flow board of its head."""
        resolved = self._workspace.resolved_requested_view
        if resolved is None or resolved.comparison or resolved.is_spread:
            return
        # The first click of a double click has toggled the pin.
        self._workspace.change_view(pinned=None if cell.fold else cell)
        if not resolved.flow:
            self.show_head_flow(cell.head or 0)
        self.focus_stage(cell.stage)

    def step_head(self, steps: int) -> None:
        """Show only the next or the previous head."""
        resolved = self._workspace.resolved_requested_view
        if resolved:
            shown = resolved.heads[:1] or (0,)
            chosen = self._requested_view.heads or frozenset()
            head = min(chosen) + steps if len(chosen) == 1 else shown[0]
            self._show_only_head(head % resolved.run.trace.spec.heads)

    def toggle_head(self, head: int) -> None:
        """Show or hide a head, unless nothing would remain visible."""
        resolved, self._before = self._workspace.resolved_requested_view, self._requested_view
        if resolved:
            shown = frozenset(resolved.heads) ^ {head}
            if shown or self._requested_view.folds:
                is_all = len(shown) == resolved.run.trace.spec.heads
                self._unpin_cell_of_heads({head} - shown)
                self._workspace.change_view(heads=None if is_all else shown)

    def solo_head(self, head: int) -> None:
        """Show only the given head, or all heads if no other head is visible."""
        if self._requested_view.heads == frozenset({head}):
            self._workspace.change_view(heads=None)
        else:
            self._show_only_head(head)

    def solo_head_of_layer(self, layer: int | None, head: int) -> None:
        """Show only the given head of a layer, or all heads if no other head is visible."""
        if layer is None or layer == self._requested_view.layer:
            self.solo_head(head)
        else:
            self.show_head_of_layer(layer, head)

    def solo_clicked_head(self, head: int) -> None:
        """Show only the double-clicked head, and revert the effect of the first click."""
        self._workspace.change_view(heads=self._before.heads, pinned=self._before.pinned)
        self.solo_head(head)

    def _show_only_head(self, head: int) -> None:
        """Show only a head; a pinned cell moves to the same place in this head."""
        pinned = self._requested_view.pinned
        if pinned and pinned.head is not None:
            pinned = replace(pinned, place=(head, *pinned.place[1:]))
        self._workspace.change_view(heads=frozenset({head}), pinned=pinned)

    def show_head_of_layer(self, layer: int, head: int) -> None:
        """Show only the given head of a layer; both are indices in the run."""
        run = self._workspace.run
        if run is None:
            return
        if "layer" in run.trace.axes and layer != self._requested_view.layer:
            at = {"layer": layer, "text": self._requested_view.text}
            self._workspace.show_leading_index(tuple(at[axis] for axis in run.trace.axes))
        if run.trace.spec.heads > 1:
            self._show_only_head(head)

    def show_head_flow_of_layer(self, layer: int, head: int) -> None:
        """Show the flow board of the given head of a layer; both are indices in the run."""
        self.show_flow()
        self.show_head_of_layer(layer, head)

    def show_head_of_model(self, number: int, head: int) -> None:
        """Show a head of the layer with the given number in the model; −1 keeps the shown heads."""
        run = self._workspace.run
        layers = run.reading.layers if run and run.reading else ()
        if number in layers and head >= 0:
            self.show_head_of_layer(layers.index(number), head)
        elif run and number in layers and "layer" in run.trace.axes:
            self._workspace.show_leading_index(run.trace.leading_index(layer=layers.index(number)))

    def show_token_of_layer(self, number: int, query: int) -> None:
        """Show the layer with the given model number, and pin the largest weight of a query."""
        workspace = self._workspace
        reading = workspace.run.reading if workspace.run else None
        resolved = workspace.resolved_requested_view
        if reading is None or resolved is None or number not in reading.layers:
            return
        trace, layer = resolved.run.trace, reading.layers.index(number)
        leading = trace.leading_index(layer=layer)
        if "layer" in trace.axes:
            workspace.show_leading_index(leading)
        is_shown = Role.WEIGHTS in trace and Role.WEIGHTS in resolved.chosen
        if is_shown and resolved.heads and query < trace.query_key_counts[0]:
            pinned = workspace.requested_view.pinned
            self._pending_pin = _PendingPin(resolved.run, leading, resolved.heads[0], query, pinned)
            self._pin_largest()

    def _pin_largest(self) -> None:
        """Pin the largest weight of the requested row once it is available and still shown.

        If a cell has been pinned or unpinned in the meantime, the request is discarded.
        """
        row, now = self._pending_pin, self._workspace.resolved_requested_view
        if row is None:
            return
        if now is None or not row.is_pending(now, self._workspace.requested_view):
            self._pending_pin = None
            return
        with forbid_waiting_for_numbers(), suppress(NumbersPendingError):
            index = (*row.leading, row.head, row.query)
            key = int(row.run.trace.read(Role.WEIGHTS, index).argmax())
            self._pending_pin = None
            pinned = pin_cell(
                self._workspace.requested_view, Cell(Role.WEIGHTS, (row.head, row.query, key))
            )
            self._workspace.request_view(pinned)

    def set_scatter_axes(self, across: str, up: str) -> None:
        """Choose the horizontal and the vertical measure of the scatter plot by name."""
        self._workspace.change_view(scatter=HeadScatterOptions(across, up))

    def set_head_order(self, order: str) -> None:
        """Choose the order of the heads in the overview of all layers (a `HeadOrder`)."""
        self._workspace.change_view(head_order=HeadOrder(order))

    def toggle_head_aggregate(self, by: str) -> None:
        """Show or hide an aggregate of all heads (mean or maximum) as an additional head."""
        folds, pinned = (
            self._requested_view.folds ^ {HeadAggregate(by)},
            self._requested_view.pinned,
        )
        is_hidden = pinned is not None and pinned.fold is not None and pinned.fold not in folds
        self._workspace.change_view(folds=folds, pinned=None if is_hidden else pinned)

    def toggle_side_by_side(self) -> None:
        """Switch between all texts or layers of one head, and all heads of one text or layer."""
        self._workspace.change_view(spread=not self._requested_view.spread)

    def select_hovered_text_or_layer(self, leading: LeadingIndex) -> None:
        """Make the text or layer of the hovered panel current."""
        run = self._workspace.run
        if run:
            self._workspace.change_view(**dict(zip(run.trace.axes, leading, strict=True)))

    def step_text_or_layer(self, step: int) -> None:
        """Show the next or previous text; after the last text of a layer, the next layer."""
        resolved = self._workspace.screen.resolved
        if resolved:
            indices = list(resolved.run.trace.leading_indices())
            at = (indices.index(resolved.leading) + step) % len(indices)
            self._workspace.show_leading_index(indices[at])

    def set_code_dialect(self, dialect: str) -> None:
        self._workspace.change_view(dialect=CodeDialect(dialect))

    def _unpin_cell_of_heads(self, heads: set[int]) -> None:
        pinned = self._requested_view.pinned
        if pinned and pinned.head in heads:
            self._workspace.change_view(pinned=None)

    def set_weight_transform(self, lens: str) -> None:
        """Choose how weights are shown: plain, without the first token, or times the value norm."""
        self._workspace.change_view(lens=WeightTransform(lens))

    # ------------------------------------------------------------------ colours

    def set_colour_curve(self, curve: str) -> None:
        """Choose how values map to colours (a `ColourCurve`)."""
        self._update_colours(curve=ColourCurve(curve))

    def set_colour_limits(self, limits: str) -> None:
        """Choose how the limits of the colour scale are determined (a `ColourLimits`)."""
        self._update_colours(limits=ColourLimits(limits))

    def set_sequential_map(self, name: str) -> None:
        """Choose the colour map for weights, here and in new windows."""
        save_colour_map(name, ColourMapKind.SEQUENTIAL)
        self._update_colours(sequential=name)

    def set_diverging_map(self, name: str) -> None:
        """Choose the colour map for signed values, here and in new windows."""
        save_colour_map(name, ColourMapKind.DIVERGING)
        self._update_colours(diverging=name)

    def set_stage_limits(self, stage: str, low: float, high: float) -> None:
        """Set the colour limits of a stage."""
        typed = self._requested_view.colouring.typed
        others = tuple(ends for ends in typed if ends[0] != stage)
        self._update_colours(limits=ColourLimits.TYPED, typed=(*others, (stage, low, high)))

    def _update_colours(self, **changes: Any) -> None:
        self._workspace.change_view(colouring=replace(self._requested_view.colouring, **changes))


def _visible_block_range(resolved: ResolvedView) -> ZoomRange | None:
    """Return the visible range, rounded to whole pooling blocks."""
    trace = resolved.run.trace
    extent = resolved.extent(trace.stage(trace.attention_stage_name))
    return ZoomRange(extent.rows, extent.columns) if extent.rows and extent.columns else None
