"""Presents the attention of a language model in panels, with a row per layer."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from visualizer.format import format_percentage, shorten
from visualizer.heatmap.board import Board, Heatmap, HeatmapAxis, describe_pooling
from visualizer.heatmap.cell_cursor import CellCursor
from visualizer.heatmap.cell_lookup import move_cursor, shows_cell
from visualizer.heatmap.colour_range import (
    AutomaticColourRange,
    find_range_of_samples,
    sample_layer_weights,
)
from visualizer.heatmap.panel_colour_scale import ColourScale
from visualizer.language.tokenizers import visible_token, visible_tokens
from visualizer.language.training_settings import ModelKind
from visualizer.session.comparison import ROUNDING_TOLERANCE, format_signed
from visualizer.session.view_options import ColourLimits, ColourOptions

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from visualizer.lab.attention_view.probe_result import ProbeResult
    from visualizer.session.cell_address import Cell

UNIT, SCORED, CHANGE = "weights", "weights;  % on target", "change of the weights"
"""Captions of the colour bar; the second one is used if the target token is known, and the last one
for a comparison of two steps.
"""
FIGURE_SPACE = "\u2007"
"""A space as wide as a digit, so that panels stay in place when the scores change."""

ATTENTION_MISSING = "This model has no attention weights: it predicts from the current token only."
TEXT_REQUIRED = "Enter a probe text to see its attention."
NON_CAUSAL_NOTE = (
    "Every token attends equally to all tokens, including later ones. The average contains the "
    "tokens to predict, so the loss of this model is misleading: during generation, later tokens "
    "do not exist."
)


class LabAttentionPanel(Struct, frozen=True, eq=False):
    """The content of the lab's attention view.

    Parameters
    ----------
    description : str
        Description of the hovered or pinned cell.
    notices : tuple of str
        Notices about the heatmaps.
    message : str
        Text that is shown if the view has no heatmaps.
    inputs : tuple
        Cache key of the board; if the keys are equal, the same object is reused.
    """

    board: Board = field(default_factory=Board)
    cursor: CellCursor = field(default_factory=CellCursor)
    description: str = ""
    notices: tuple[str, ...] = ()
    message: str = ""
    inputs: tuple[Hashable, ...] = ()


def present_attention(
    result: ProbeResult | None,
    model: ModelKind | None,
    pointing: LabCellSelection,
    room: int = 256,
    colouring: ColourOptions | None = None,
    before: LabAttentionPanel | None = None,
) -> LabAttentionPanel:
    """Present the attention for a text, and highlight the hovered or pinned cell.

    Parameters
    ----------
    result : ProbeResult or None
        None until the first result arrives.
    model : ModelKind or None
        None for a recorded model, whose mask is inferred from its weights.
    room : int
        Number of cells that fit along the side of a panel; larger matrices are pooled.
    colouring : ColourOptions, optional
        By default, the limits are automatic.
    before : LabAttentionPanel, optional
        The previous panel; its board may be reused.
    """
    if result is None:
        return LabAttentionPanel(message="Computing attention…")
    if result.weights is None:
        return LabAttentionPanel(notices=_create_notices(result, model), message=ATTENTION_MISSING)
    if not result.tokens:
        return LabAttentionPanel(message=TEXT_REQUIRED)
    colouring = colouring or ColourOptions()
    inputs = result, model, room, colouring
    is_same = before is not None and before.inputs == inputs
    board = before.board if is_same and before else create_board(result, model, room, colouring)
    cursor = create_cell_cursor(result, board, pointing)
    cell = cursor.hovered or cursor.pinned
    description = describe_cell(result, board, cell) if cell else ""
    notices = _create_notices(result, model)
    return LabAttentionPanel(board, cursor, description, notices, inputs=inputs)


def _create_notices(result: ProbeResult, model: ModelKind | None) -> tuple[str, ...]:
    found = [NON_CAUSAL_NOTE] if model is ModelKind.AVERAGE else []
    if result.cut:
        omitted = "token is" if result.cut == 1 else f"{result.cut:,} tokens are"
        found.append(f"The first {omitted} omitted because the text is longer than the block.")
    return tuple(found)


def find_layer_ranges(
    results: Sequence[ProbeResult], model: ModelKind | None
) -> tuple[AutomaticColourRange, ...]:
    """Return the automatic range of each layer's weights, which is the same for all results."""
    count = len(results[0].tokens)
    is_causal = all(_is_causal(model, result) for result in results)
    allowed = np.tri(count, dtype=bool) if is_causal else np.ones((count, count), dtype=bool)
    is_change = results[0].is_change
    magnitudes = [
        np.abs(result.weights) if is_change else result.weights
        for result in results
        if result.weights is not None
    ]
    return tuple(
        find_range_of_samples(
            [sample_layer_weights(weights[layer], allowed) for weights in magnitudes],
            is_share=not is_change,
            smallest=ROUNDING_TOLERANCE if is_change else 0.0,
        )
        for layer in range(results[0].layers)
    )


def _is_causal(model: ModelKind | None, result: ProbeResult) -> bool:
    return result.is_causal if model is None else model is not ModelKind.AVERAGE


def create_board(
    result: ProbeResult,
    model: ModelKind | None,
    room: int = 256,
    colouring: ColourOptions | None = None,
    ranges: tuple[AutomaticColourRange, ...] = (),
) -> Board:
    """Create the panels, with one column per head and one row per layer.

    Parameters
    ----------
    ranges : tuple of AutomaticColourRange, optional
        The automatic range of each layer, if several boards share the ranges.
    """
    source = LabPanelSource(result, model, room, colouring or ColourOptions(), ranges)
    layers = range(result.layers)
    return Board(
        tuple(
            tuple(source.build_panel(layer, head) for layer in layers)
            for head in range(result.heads)
        )
    )


class LabPanelSource:
    """Builds the panels of a board, and holds the values that all panels share."""

    def __init__(
        self,
        result: ProbeResult,
        model: ModelKind | None,
        room: int,
        colouring: ColourOptions,
        ranges: tuple[AutomaticColourRange, ...] = (),
    ) -> None:
        self.result = result
        count = len(result.tokens)
        self.block = math.ceil(count / max(1, room))
        labels = visible_tokens(result.tokens)
        self.rows, self.columns = (
            HeatmapAxis(name, labels, self.block) for name in ("query", "key")
        )
        self.side = math.ceil(count / self.block)
        is_by_row = colouring.limits is ColourLimits.ROW
        limits = ColourLimits.ROW if is_by_row else ColourLimits.AUTO
        if is_by_row:
            ranges = result.layers * (AutomaticColourRange(1.0, False),)
        self.ranges = ranges or find_layer_ranges((result,), model)
        map_ = colouring.diverging if result.is_change else colouring.sequential
        self.colours = [
            ColourScale(
                map_, colouring.curve, limits, -one.end if result.is_change else 0.0, *astuple(one)
            )
            for one in self.ranges
        ]
        self.unit = CHANGE if result.is_change else SCORED if result.has_scores else UNIT
        self.forbidden = _causal_mask(self.side) if _is_causal(model, result) else None
        assert result.weights is not None
        self.values = pool_largest(result.weights, self.block)
        self.ends = np.abs(self.values).max(axis=-1, keepdims=True) if is_by_row else None

    def build_panel(self, layer: int, head: int) -> Heatmap:
        return Heatmap(
            (self.result, layer, head), f"layer {layer + 1}", f"Head {head + 1}", "softmax",
            head, None, (layer,), self._layer_label(layer), self.values[layer, head],
            self.rows, self.columns, self.colours[layer], self.forbidden, None, None,
            self._panel_notes(layer, head), self.unit, (self.side, self.side),
            ends=None if self.ends is None else self.ends[layer, head],
            layer=layer, is_marked=self._is_best_head(layer, head),
        )  # fmt: skip

    def _layer_label(self, layer: int) -> str:
        """Return the label of a layer, with its range if the ranges of the layers differ."""
        differs = len(set(self.ranges)) > 1
        low = "±" if self.result.is_change else "0 to "
        return f"Layer {layer + 1}" + f": {low}{self.ranges[layer]}" * differs

    def _is_best_head(self, layer: int, head: int) -> bool:
        return self.result.layers * self.result.heads > 1 and self.result.best_head == (layer, head)

    def _panel_notes(self, layer: int, head: int) -> tuple[str, ...]:
        notes = []
        score = self.result.score(layer, head)
        if score is not None:
            percent = f"{100 * score:.0f}".rjust(3, FIGURE_SPACE)
            notes.append(f"{percent}%")
        if self.block > 1:
            notes.append(describe_pooling(self.result.is_change, self.block, self.block))
        return tuple(notes)


@lru_cache(maxsize=8)
def _causal_mask(side: int) -> np.ndarray:
    """Return which drawn cells contain only keys later than their queries, bool [row, column]."""
    return ~np.tri(side, dtype=bool)


def pool_largest(weights: np.ndarray, block: int) -> np.ndarray:
    """Return the number with the largest magnitude in each block of queries and keys.

    The result is an array [layer, head, row, column].
    """
    if block == 1:
        return weights
    high, low = (_pool(weights, block, function) for function in (np.maximum, np.minimum))
    return np.where(-low > high, low, high)


def _pool(weights: np.ndarray, block: int, function: np.ufunc) -> np.ndarray:
    starts = np.arange(0, weights.shape[-1], block)
    rows = function.reduceat(weights, starts, axis=-2)
    return np.asarray(function.reduceat(rows, starts, axis=-1))


class LabCellSelection(Struct, frozen=True):
    """The hovered and the pinned cell."""

    hovered: Cell | None = None
    pinned: Cell | None = None

    def with_hovered_cell(self, cell: Cell | None) -> LabCellSelection:
        return replace(self, hovered=cell)

    def with_toggled_pin(self, cell: Cell | None) -> LabCellSelection:
        """Pin a cell, or unpin it if it is already pinned."""
        return replace(self, pinned=None if cell == self.pinned else cell)

    def with_moved_pin(self, board: Board, down: int, right: int) -> LabCellSelection:
        """Move the pin, possibly into the next layer or head; without a pin, pin the first cell."""
        return LabCellSelection(pinned=move_cursor(board, self.pinned, down, right))


def create_cell_cursor(result: ProbeResult, board: Board, pointing: LabCellSelection) -> CellCursor:
    """Return the cursor for all panels; cells that the current text does not have are omitted."""
    hovered, pinned = (
        strongest_cell(result, board, cell) if cell and _panel_of_cell(board, cell) else None
        for cell in (pointing.hovered, pointing.pinned)
    )
    cell = hovered or pinned
    return CellCursor(hovered, pinned, cell.place[-2], cell.place[-1]) if cell else CellCursor()


def _panel_of_cell(board: Board, cell: Cell) -> Heatmap | None:
    """Return the panel that contains a cell, or None if no panel contains it."""
    row, column = cell.place[-2:]
    return next(
        (
            panel
            for panel in board.heatmaps
            if shows_cell(panel, cell)
            and row in panel.rows.visible_range
            and column in panel.columns.visible_range
        ),
        None,
    )


def layer_head_index(board: Board, cell: Cell) -> tuple[int, int] | None:
    """Return a cell's layer and head, counted from 0."""
    panel = _panel_of_cell(board, cell)
    if panel is None or panel.layer is None or panel.head is None:
        return None
    return panel.layer, panel.head


def strongest_cell(result: ProbeResult, board: Board, cell: Cell) -> Cell:
    """Return the cell with the largest magnitude in the pooled block to which a cell belongs."""
    panel, weights = _panel_of_cell(board, cell), result.weights
    if panel is None or weights is None or not panel.is_pooled:
        return cell
    row, column = cell.place[-2:]
    rows, columns = (axis.block for axis in (panel.rows, panel.columns))
    top, left = row // rows * rows, column // columns * columns
    block = weights[panel.layer, panel.head, top : top + rows, left : left + columns]
    down, right = divmod(int(np.argmax(np.abs(block))), block.shape[1])
    return replace(cell, place=(*cell.place[:-2], top + down, left + right))


def describe_cell(result: ProbeResult, board: Board, cell: Cell) -> str:
    """Describe how much a query attends to a key; return "" if the cell does not exist."""
    panel = _panel_of_cell(board, cell)
    if panel is None or result.weights is None:
        return ""
    query, key = cell.place[-2:]
    one, other = (
        f"“{shorten(visible_token(result.tokens[position]))}” ({position + 1})"
        for position in (query, key)
    )
    where = f"layer {(panel.layer or 0) + 1}, head {(panel.head or 0) + 1}"
    pooled_cell = panel.rows.cell_index_of(query), panel.columns.cell_index_of(key)
    if panel.forbidden is not None and panel.forbidden[pooled_cell]:
        return f"query {one} cannot attend to {other}, which comes later; {where}"
    weight = float(result.weights[panel.layer or 0, panel.head or 0, query, key])
    if not math.isfinite(weight):
        return f"query {one} has no valid weights (NaN); {where}"
    if result.reference_step is not None:
        steps = f"from step {result.reference_step:,} to step {result.step:,}"
        change = f"weight changed by {format_signed(weight)} {steps}"
        return f"{change}: query {one} to {other}, {where}"
    return f"weight {format_percentage(weight)} from query {one} to {other}, {where}"
