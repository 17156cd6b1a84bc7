"""Places the panel that a link led to as a sheet over the others, which stay where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.heatmap.board_arrangement import (
    NARROW_SHARE,
    shared_notes,
)
from visualizer.heatmap.board_layout import (
    SHEET_AIR,
    PanelPlace,
    TitlePlace,
    with_cell_numbers,
)
from visualizer.heatmap.panel_margins import (
    HEAD,
    MAX_LABEL_PX,
    NARROWEST,
    NOTE,
    label_height,
    widest_label,
)
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.panel_and_board_types import Board, Heatmap


def sheet_slot(
    board: Board, slots: Sequence[PanelSlot], width: float, pixel_ratio: float
) -> PanelSlot | None:
    """Place a board's sheet at the right of the canvas, or at the left of the origin of its link.

    Its rows are level with those of the panel that one came from.
    """
    sheet = board.sheet
    if sheet is None or not slots:
        return None
    origin = _origin(board, slots)
    cell = _whole(origin.cells.height() / max(1, sheet.side[0]), pixel_ratio)
    across = cell if sheet.columns.is_token else _feature_width(sheet, cell, pixel_ratio)
    scale, columns = text_scale(), sheet.columns
    longest = MAX_LABEL_PX * scale
    labels = label_height(widest_label(columns.labels), columns.is_token, across, longest)
    head = (HEAD + NOTE * len(shared_notes((sheet,)))) * scale
    top = head + labels + 2 * scale
    place = PanelPlace(
        0, 0, across, cell, top, 0, longest, has_row_labels=False, has_column_labels=True,
        has_own_notes=False, head_at=None, is_head_short=False, title=TitlePlace.SHEET,
    )  # fmt: skip
    air, area = SHEET_AIR * scale, place.slot(sheet).sheet_area
    left = width - area.width() - air / 2
    if left < origin.cells.right() and origin.cells.left() > width - origin.cells.right():
        left = air / 2
    upper = max(origin.cells.top(), top + air / 2)
    placed = replace(
        place, left=_whole(left - area.left(), pixel_ratio), upper=_whole(upper, pixel_ratio)
    )
    return with_cell_numbers([placed.slot(sheet)])[0]


def _origin(board: Board, slots: Sequence[PanelSlot]) -> PanelSlot:
    """Find the panel that one came from; else the first of the same head, or of all."""
    stage, head = board.origin
    sheet = board.sheet
    own = [slot for slot in slots if (slot.heatmap.stage, slot.heatmap.head) == (stage, head)]
    alike = [slot for slot in slots if sheet and slot.heatmap.head == sheet.head]
    return next(iter((*own, *alike, *slots)))


def _feature_width(sheet: Heatmap, cell: float, pixel_ratio: float) -> float:
    columns = sheet.side[1]
    side = cell * sheet.side[0]
    width = max(NARROWEST * text_scale(), min(cell * columns, NARROW_SHARE * side))
    return _whole(width / columns, pixel_ratio)


def _whole(length: float, pixel_ratio: float) -> float:
    return max(1, int(length * pixel_ratio + 1e-6)) / pixel_ratio
