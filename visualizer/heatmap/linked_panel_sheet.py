"""Place the target panel of a link as an overlay; other panels keep their positions."""

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
    """Place a board's overlay panel at the right or the left edge of the canvas.

    It is at the left only if the origin of the link is on the right.

    Its rows are level with those of the panel that the link came from.
    """
    sheet = board.sheet
    if sheet is None or not slots:
        return None
    origin = _origin_slot(board, slots)
    cell = _floor_to_pixel(origin.cells.height() / max(1, sheet.side[0]), pixel_ratio)
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
        place,
        left=_floor_to_pixel(left - area.left(), pixel_ratio),
        upper=_floor_to_pixel(upper, pixel_ratio),
    )
    return with_cell_numbers([placed.slot(sheet)])[0]


def _origin_slot(board: Board, slots: Sequence[PanelSlot]) -> PanelSlot:
    """Return the panel that the link came from, otherwise the first of the same head, or of all."""
    stage, head = board.origin
    sheet = board.sheet
    own = [slot for slot in slots if (slot.heatmap.stage, slot.heatmap.head) == (stage, head)]
    alike = [slot for slot in slots if sheet and slot.heatmap.head == sheet.head]
    return next(iter((*own, *alike, *slots)))


def _feature_width(sheet: Heatmap, cell: float, pixel_ratio: float) -> float:
    columns = sheet.side[1]
    side = cell * sheet.side[0]
    width = max(NARROWEST * text_scale(), min(cell * columns, NARROW_SHARE * side))
    return _floor_to_pixel(width / columns, pixel_ratio)


def _floor_to_pixel(length: float, pixel_ratio: float) -> float:
    return max(1, int(length * pixel_ratio + 1e-6)) / pixel_ratio
