"""Presents the flow board: a panel for each matrix, its operands, and thumbnails of all heads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.layer_operations import LinearLayer
from visualizer.attention.spec import BIAS_SUFFIX, layer_symbol
from visualizer.attention.stages import Operation, parameter_names
from visualizer.explanations.explain import explain
from visualizer.heatmap.board import (
    FlowBoardPanels,
    Heatmap,
    HeatmapAxis,
    IdentityKey,
    numbered_labels,
)
from visualizer.heatmap.colour_range import find_range_of_samples, sample_cells
from visualizer.heatmap.panel_colour_scale import ColourScale
from visualizer.heatmap.panel_presenter import PanelSource
from visualizer.session.provenance import describe_provenance
from visualizer.session.resolved_view import PoolingExtent
from visualizer.session.view_options import ColourCurve, ColourLimits

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.flow_columns import FlowColumn
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace
    from visualizer.explanations.cell_terms import Factor
    from visualizer.session.resolved_view import FlowBoardView, ResolvedView

MAX_OPERAND_ROWS = 64
"""Maximum number of drawn rows of an operand; more are pooled."""
MAX_THUMBNAIL_CELLS = 64
TOKEN_VECTORS = "token vectors"
OPERATION_SIGN = " · "
"""Sign between a matrix and the layer by which it is multiplied."""
BIAS_TEXT = " + bias"
SIDE_BY_SIDE = "heads side by side"
OPERATION_TEXTS = {
    Operation.CONCAT_HEADS: SIDE_BY_SIDE,
    Operation.MASK_BEFORE_SOFTMAX: "−∞ where masked",
    Operation.CAPTURED: "recorded from the model",
}
"""Descriptions of the operations with symbols that need an explanation."""
SHORTER_TEXTS = {TOKEN_VECTORS: ("vectors",), SIDE_BY_SIDE: ("side by side", "heads")}
"""Shorter descriptions, for narrow headings."""


def present_flow(resolved: ResolvedView, known: dict[Hashable, Heatmap]) -> FlowBoardPanels:
    """Present the panels and operands of the head in front, and the thumbnails."""
    flow = resolved.flow
    assert flow is not None
    panels = [_present_panel(resolved, name, flow.head, known) for name in flow.stages]
    operands = [
        _present_operand(resolved, flow, column, panel, known)
        for column, panel in zip(flow.columns, panels, strict=True)
    ]
    return FlowBoardPanels(
        flow.columns,
        tuple(panels),
        tuple(operands),
        tuple(source.build_heatmap(known) for source in thumbnail_sources(resolved)),
        flow.focus,
        flow.head,
        _state_titles(resolved, flow),
        tuple(
            _describe_operation(resolved, column, panel)
            for column, panel in zip(flow.columns, panels, strict=True)
        ),
        _present_panel(resolved, flow.earlier, flow.head, known)
        if flow.earlier and not resolved.run.trace.is_blockwise
        else None,
        describe_provenance(resolved.run),
    )


def _present_panel(
    resolved: ResolvedView, name: str, head: int, known: dict[Hashable, Heatmap]
) -> Heatmap:
    stage = resolved.run.trace.stage(name)
    return PanelSource(resolved, stage, head if "head" in stage.dims else None, None).build_heatmap(
        known
    )


def _state_titles(resolved: ResolvedView, flow: FlowBoardView) -> tuple[tuple[str, ...], ...]:
    """Return the short titles of the states of each column."""
    trace = resolved.run.trace
    return tuple(
        tuple(short_title(trace.stage(name)) for name in column.states) for column in flow.columns
    )


def short_title(stage: Stage) -> str:
    """Return the symbol of a stage if it is a single letter, otherwise the title."""
    return stage.symbol if len(stage.symbol) == 1 else stage.title


def _describe_operation(resolved: ResolvedView, column: FlowColumn, panel: Heatmap) -> str:
    """Describe in a few words how the visible state of a column is computed."""
    trace = resolved.run.trace
    stage = trace.stage_in_layer(panel.stage, resolved.leading)
    if stage.name == column.layer_stage and stage.reads:
        read = short_title(trace.stage(stage.reads[0]))
        bias = BIAS_TEXT if _has_bias(trace, stage) else ""
        return f"{read}{OPERATION_SIGN}{layer_symbol(column.layer)}{bias}"
    if stage.operation in OPERATION_TEXTS:
        return OPERATION_TEXTS[stage.operation]
    return stage.symbol if len(stage.symbol) > 1 else TOKEN_VECTORS


def _has_bias(trace: Trace, stage: Stage) -> bool:
    """Return whether a layer adds a bias to its product."""
    if isinstance(stage.step, LinearLayer):
        return stage.step.has_bias
    names = (name for layer in stage.parameters for name in parameter_names(trace.spec, layer))
    return any(name.endswith(BIAS_SUFFIX) for name in names)


class ThumbnailPanelSource(PanelSource):
    """Builds the thumbnail of a head's weights, without row sums and notes."""

    def _read_values(self) -> np.ndarray:
        if self.head is None or self.tensor.is_blockwise:
            return super()._read_values()
        # All heads are shown, and pooling all of them together takes half the time.
        own = slice(self.head, self.head + 1)
        values: np.ndarray = self.tensor.read_pooled(*self.extent.blocks, (*self.leading, own))[0]
        return values

    def _row_sums(self) -> None:
        return None

    def _panel_notes(self, *drawn: object) -> tuple[str, ...]:
        return ()


def thumbnail_sources(resolved: ResolvedView) -> tuple[PanelSource, ...]:
    """Return a thumbnail source per head and aggregate, or none if there is only one head."""
    trace = resolved.run.trace
    heads = trace.spec_at(resolved.leading).heads
    if heads == 1:
        return ()
    stage = trace.stage(resolved.weights_stage(None))
    extent = resolved.full_extent(stage, MAX_THUMBNAIL_CELLS)
    shown = (*((head, None) for head in range(heads)), *((None, by) for by in resolved.folds))
    return tuple(ThumbnailPanelSource(resolved, stage, *one, extent=extent) for one in shown)


def _present_operand(
    resolved: ResolvedView,
    flow: FlowBoardView,
    column: FlowColumn,
    panel: Heatmap,
    known: dict[Hashable, Heatmap],
) -> Heatmap | None:
    """Return the panel above a column."""
    if column.operand:
        return _present_stage_operand(resolved, flow, column, panel, known)
    return _present_layer_weights(resolved, column, panel, known) if column.layer else None


def _present_stage_operand(
    resolved: ResolvedView,
    flow: FlowBoardView,
    column: FlowColumn,
    panel: Heatmap,
    known: dict[Hashable, Heatmap],
) -> Heatmap:
    """Return the stage above a column: the transposed keys, or the values."""
    trace = resolved.run.trace
    stage = trace.stage(column.operand)
    rows, columns = trace.shape(stage.name)[-2:]
    if column.is_operand_transposed:
        part, block = panel.columns.part, panel.columns.block
        across = math.ceil(columns / MAX_OPERAND_ROWS)
    else:
        part, block = None, math.ceil(rows / MAX_OPERAND_ROWS)
        across = panel.columns.block
    side = (math.ceil(rows / block), math.ceil(columns / across))
    extent = PoolingExtent((block, across), part, None, side)
    head = flow.head if "head" in stage.dims else None
    source = PanelSource(resolved, stage, head, None, extent=extent).build_heatmap(known)
    key = ("operand", column.is_operand_transposed, source.key)
    if key in known:
        return known[key]
    if not column.is_operand_transposed:
        return replace(source, key=key)
    return replace(source.transposed(key), is_unlinked=True)


def _present_layer_weights(
    resolved: ResolvedView, column: FlowColumn, panel: Heatmap, known: dict[Hashable, Heatmap]
) -> Heatmap | None:
    """Return a layer's weights for the head in front, with one row per column of the input."""
    trace = resolved.run.trace
    stage = trace.stage_in_layer(column.layer_stage, resolved.leading)
    # Runs that differ only in the mask have the same parameters.
    held = (*trace.parameters.values(), *trace.model_weights.values())
    weights = tuple(map(IdentityKey, held))
    diverging = resolved.view.colouring.diverging
    key = ("layer", weights, stage.name, resolved.leading, panel.head, panel.columns.block,
           diverging)  # fmt: skip
    if key in known:
        return known[key]
    values = _layer_weights(resolved, stage, panel.head)
    if values is None:
        return None
    blocks = (math.ceil(len(values) / MAX_OPERAND_ROWS), panel.columns.block)
    pooled = _pool_largest_magnitudes(values, *blocks)
    found = find_range_of_samples([sample_cells(values)])
    return replace(
        panel,
        key=key,
        stage=column.layer,
        title=layer_symbol(column.layer),
        values=pooled,
        rows=HeatmapAxis("d_in", numbered_labels(len(values)), blocks[0]),
        columns=HeatmapAxis("d_out", numbered_labels(values.shape[1]), blocks[1]),
        colour=ColourScale(
            diverging,
            ColourCurve.LINEAR,
            ColourLimits.AUTO,
            -found.end,
            found.end,
            found.is_exceeded,
        ),
        forbidden=None,
        dropped=None,
        hidden=None,
        sums=None,
        ends=None,
        notes=(),
        side=pooled.shape,
        is_unlinked=True,
        is_share=False,
    )


def _layer_weights(resolved: ResolvedView, stage: Stage, head: int | None) -> np.ndarray | None:
    """Return the weight matrix [input, column] of a stage's layer, or None if there is none.

    The weights are found in the explanations of the first and the last cell, for any head
    arrangement.
    """
    trace = resolved.run.trace
    last = trace.shape(stage.name)[-1] - 1
    before = (*resolved.leading, *(() if head is None else (head,)), 0)
    first, final = (layer_weight_factor(resolved, stage, (*before, at)) for at in (0, last))
    if first is None or final is None or first.name != final.name or len(first.index) != 2:
        return None
    whole = trace.read(first.name)
    if first.index[0] is None and first.index[1] is not None and final.index[1] is not None:
        return whole[:, first.index[1] : final.index[1] + 1]
    if first.index[1] is None and first.index[0] is not None and final.index[0] is not None:
        return whole[first.index[0] : final.index[0] + 1].T
    return None


def layer_weight_factor(
    resolved: ResolvedView, stage: Stage, index: tuple[int, ...]
) -> Factor | None:
    """Return the factor that holds the layer weights from which a cell is computed."""
    trace = resolved.run.trace
    found = (
        factor
        for group in explain(trace, stage.name, index).groups
        for factor in group.factors
        if factor.name in trace.parameters or factor.name in trace.model_weights
    )
    return next((factor for factor in found if None in factor.index), None)


def _pool_largest_magnitudes(values: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Return the number with the largest magnitude in each block."""
    if (rows, columns) == (1, 1):
        return values
    height, width = (
        math.ceil(size / block) for size, block in zip(values.shape, (rows, columns), strict=True)
    )
    whole = np.zeros((height * rows, width * columns), dtype=values.dtype)
    whole[: values.shape[0], : values.shape[1]] = values
    blocks = whole.reshape(height, rows, width, columns).swapaxes(1, 2).reshape(height, width, -1)
    largest = np.abs(blocks).argmax(axis=-1, keepdims=True)
    return np.take_along_axis(blocks, largest, axis=-1)[..., 0]
