"""Describes the flow board for a web page: its panels and how their cells are computed.

The calculation of each cell is derived from the values on the page, so that the page never shows a
calculation with a different result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, to_builtins

from visualizer.export.figures.svg_pdf_writer import draw_svg_picture
from visualizer.heatmap import flow_paint
from visualizer.heatmap.flow_placement import place_flow_panels

if TYPE_CHECKING:
    from PySide6.QtGui import QPainter

    from visualizer.heatmap.board import Board, Heatmap
    from visualizer.heatmap.board_layout import BoardLayout, FlowPlacement, PanelSlot
    from visualizer.widgets.theme import Theme

WIDTH_PX, MAX_HEIGHT_PX = 1280, 2000
"""Width and maximum height of the layout; the browser scales it."""
TOLERANCE = 2e-4
"""Maximum relative difference between a value and the result of its calculation."""


class PanelComputation(Struct, frozen=True, rename="camel"):
    """Description of a panel and of how its cells are computed.

    Parameters
    ----------
    panel : int
        Index of the panel on the page.
    row : int or None
        Index of the panel that contains the row from which a cell is computed.
    above : int or None
        Index of the panel that contains the column from which a cell is computed.
    kind : str
        ``product`` for the product of the row and the column, ``softmax`` for the softmax of the
        row, or ``other``.
    factor : float
        Factor by which the products are multiplied.
    bias : list of float or None
        The values that are added to the columns of a product.
    """

    panel: int
    row: int | None = None
    above: int | None = None
    kind: str = "other"
    factor: float = 1.0
    bias: list[float] | None = None


class WebpageFlowBoard:
    """The flow board of a page."""

    def __init__(self, board: Board) -> None:
        layout: BoardLayout = place_flow_panels(
            board, WIDTH_PX, MAX_HEIGHT_PX, 1, is_page=True, is_height_free=True
        )
        assert layout.flow is not None
        self.placement: FlowPlacement = layout.flow
        self._size = layout.width, layout.height
        columns = [slot for slot in self.placement.slots if slot]
        operands = [slot for slot in self.placement.operands if slot]
        self._slots: list[PanelSlot] = [*columns, *operands, *self.placement.thumbnails]

    @property
    def panels(self) -> list[Heatmap]:
        """The panels of the page: the columns, the panels above them, and the heads' thumbnails."""
        return [slot.heatmap for slot in self._slots]

    @property
    def height(self) -> float:
        """Height of the layout, in pixels."""
        return self._size[1]

    def describe_layout(self) -> dict[str, object]:
        """Describe the layout and the calculations, without images and cells."""
        return {
            "width": self._size[0],
            "height": self._size[1],
            "areas": [
                [slot.cells.left(), slot.cells.top(), slot.cells.width(), slot.cells.height()]
                for slot in self._slots
            ],
            "columns": [to_builtins(column) for column in self._panel_computations()],
            "thumbnails": len(self.placement.thumbnails),
        }

    def draw_decorations(self, theme: Theme) -> bytes:
        """Draw the headings, the legend and the lines around the cells as SVG."""

        def paint(painter: QPainter) -> None:
            flow = self.placement
            flow_paint.paint_frame(painter, flow, theme)
            flow_paint.paint_headings(painter, flow, range(len(flow.panels.columns)), theme)
            flow_paint.paint_legend(painter, flow, theme)

        return draw_svg_picture(*self._size, paint)

    def _panel_computations(self) -> list[PanelComputation]:
        index = {id(heatmap): at for at, heatmap in enumerate(self.panels)}
        flow, found = self.placement, []
        columns = flow.panels.columns
        for column, slot, operand in zip(columns, flow.slots, flow.operands, strict=True):
            if slot is None:
                continue
            reads = [
                other.heatmap
                for one, other in zip(columns, flow.slots, strict=True)
                if other and one is not column and {*one.states} & {*column.reads}
            ]
            rows = [one for one in reads if not operand or one.stage != operand.heatmap.stage]
            row, above = (rows[0] if rows else None), (operand.heatmap if operand else None)
            kind, factor, bias = "other", 1.0, None
            if row is not None:
                kind, factor, bias = _find_calculation(slot.heatmap, row, above)
            found.append(
                PanelComputation(
                    index[id(slot.heatmap)],
                    None if row is None else index[id(row)],
                    None if above is None else index[id(above)],
                    kind,
                    factor,
                    bias,
                )
            )
        return found


def _find_calculation(
    result: Heatmap, row: Heatmap, above: Heatmap | None
) -> tuple[str, float, list[float] | None]:
    """Return the kind, factor and bias of the calculation of a panel from `row` and `above`."""
    panels = (result, row, *([above] if above else []))
    if any(one.is_pooled or one.is_zoomed for one in panels):
        return "other", 1.0, None
    values, left = result.values.astype(np.float64), row.values.astype(np.float64)
    if above is None:
        is_softmax = left.shape == values.shape and _is_close(values, _softmax(left))
        return ("softmax" if is_softmax else "other"), 1.0, None
    top = above.values.astype(np.float64)
    if left.shape[1] != top.shape[0] or (len(left), top.shape[1]) != values.shape:
        return "other", 1.0, None
    product = left @ top
    counts = np.isfinite(values) & (values != 0) & (np.abs(product) > TOLERANCE)
    if not np.isfinite(product).all() or not counts.any():
        return "other", 1.0, None
    factor = round(float(np.median(values[counts] / product[counts])), 6)
    if _is_close(values, factor * product):
        return "product", factor, None
    bias = np.median(values - product, axis=0)
    if np.isfinite(bias).all() and _is_close(values, product + bias):
        return "product", 1.0, bias.tolist()
    return "other", 1.0, None


def _is_close(values: np.ndarray, expected: np.ndarray) -> bool:
    """Return whether all finite values are close to the expected values."""
    counts = np.isfinite(values)
    scale = np.abs(values[counts]).max(initial=0)
    return bool(np.allclose(values[counts], expected[counts], atol=TOLERANCE * scale, rtol=0))


def _softmax(scores: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: np.ndarray = exponentials / exponentials.sum(axis=1, keepdims=True)
    return shares
