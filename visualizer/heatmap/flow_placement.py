"""Places the panels of the flow board."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QRectF
from PySide6.QtGui import QFont, QFontMetricsF

from visualizer.attention.flow_columns import FlowPart
from visualizer.attention.roles import Role
from visualizer.attention.stages import axis_noun
from visualizer.heatmap.board import FlowBoardPanels
from visualizer.heatmap.board_layout import (
    BoardLayout,
    FlowPlacement,
    PanelSlot,
    TitlePlacement,
    with_number_formats,
)
from visualizer.heatmap.flow_layout import (
    Box,
    ColumnConstraints,
    FlowConstraints,
    lay_out_flow,
    readable_figure_height,
)
from visualizer.heatmap.panel_margins import row_sums_width
from visualizer.widgets.fonts import scaled_font, system_font, text_scale

if TYPE_CHECKING:
    from visualizer.attention.flow_columns import FlowColumn
    from visualizer.heatmap.board import Board, Heatmap, HeatmapAxis

TITLE_PX, OPERATION_PX, LABEL_PX, SMALL_LABEL_PX, TINY_LABEL_PX = 14, 11, 13, 11, 9
MAX_ROW_LABEL_PX, MAX_KEY_LABEL_PX = 120, 72
DOTS_GAP_PX, DOT_PITCH_PX, DOT_RADIUS_PX = 9, 9, 2.5
"""Dots after the title of a matrix with several states: gap to the title, pitch and radius."""
MAX_LABEL_SHARE = 0.2
"""Maximum width of the row labels, relative to the canvas."""
MIN_LABELLED_CELL_PX = 10
"""Minimum distance between words in the smallest font size."""
MAX_LABELLED_TOKENS = 64
MIN_KEY_MATRICES = 3
"""Number of matrices as wide as the keys into which the board's width is divided, to estimate
whether every key has room for a label before the widths are known."""
"""Maximum number of tokens that are labelled by words even if only some words fit."""
MIN_ROOM_CELLS = 16
PAGE_ASPECT_RATIO = 0.62
"""Default ratio of height to width for a board on a page."""
MIN_WHOLE_BOARD_PX = 480
"""Minimum width of a board that shows all columns."""
KEY_LABEL_MARGIN_PX = 4


class FlowPanelSlot(PanelSlot, frozen=True, dict=True):
    """A panel of the flow board; its labels and title belong to the board."""

    @property
    def whole_area(self) -> QRectF:
        """The area of the cells, their outline and the row sums."""
        return self.cells.adjusted(-1, -1, 1 + row_sums_width(self.heatmap), 1)


def place_flow_panels(
    board: Board,
    width: float,
    height: float,
    ratio: float,
    *,
    is_page: bool = False,
    is_height_free: bool = False,
) -> BoardLayout:
    """Place the panels of the flow board.

    Parameters
    ----------
    ratio : float
        Device pixels per logical pixel.
    is_page : bool
        Whether the board is on a page or in an animation, where it cannot be clicked.
    is_height_free : bool
        Whether the board may be lower than `height`, on a page that adapts its height to the board.
    """
    flow = board.flow
    assert flow is not None
    scale = text_scale()
    if width < MIN_WHOLE_BOARD_PX * scale:
        flow = _without_collapsible_columns(flow)
    sizes = tuple(_column_constraints(flow, at) for at in range(len(flow.columns)))
    rows = max((panel.values.shape[0] for panel in flow.panels), default=1)
    axis = _row_axis(flow)
    size = FlowConstraints(
        width, height, rows, max(1, len(flow.thumbnails)),
        min(_row_label_width(axis, height), MAX_LABEL_SHARE * width),
        _key_label_height(flow, width / 2), _has_residual(flow), is_page, scale,
        _upright_label_height(flow, width / 2),
    )  # fmt: skip
    if is_height_free:
        size = replace(size, height=PAGE_ASPECT_RATIO * width)
        size = replace(
            size, height=min(height, max(size.height, readable_figure_height(sizes, size)))
        )
    layout = lay_out_flow(sizes, size)
    slots = [
        None if placed.is_hidden else _create_slot(panel, placed.cells, panel.values.shape[0], rows)
        for panel, placed in zip(flow.panels, layout.columns, strict=True)
    ]
    operands = [
        _create_operand_slot(panel, placed.operand)
        for panel, placed in zip(flow.operands, layout.columns, strict=True)
    ]
    formatted = iter(with_number_formats([slot for slot in slots if slot]))
    numbered = tuple(next(formatted) if slot else None for slot in slots)
    formatted = iter(with_number_formats([slot for slot in operands if slot]))
    tabs = layout.tabs.heads
    first = flow.first_head_with_tab(len(tabs))
    placement = FlowPlacement(
        flow,
        layout,
        numbered,
        tuple(next(formatted) if slot else None for slot in operands),
        tuple(
            _create_slot(panel, thumbnail_area(tab, panel, scale), panel.values.shape[0])
            for panel, tab in zip(flow.thumbnails[first:], tabs, strict=False)
        ),
        _earlier_slot(flow, numbered),
    )
    room = max(MIN_ROOM_CELLS, int(min(height - layout.rows_top - 80 * scale, width / 2) * ratio))
    shown = tuple(slot for slot in numbered if slot)
    bottom = layout.bottom if is_height_free else height
    return BoardLayout(shown, width, bottom, 0, room, flow=placement)


def _without_collapsible_columns(flow: FlowBoardPanels) -> FlowBoardPanels:
    """Return the columns that never become spines: those of the head and its operands."""
    kept = [
        at for at, one in enumerate(flow.columns) if at == flow.focus or not fold_level(flow, one)
    ]
    return FlowBoardPanels(
        tuple(flow.columns[at] for at in kept),
        tuple(flow.panels[at] for at in kept),
        tuple(flow.operands[at] for at in kept),
        flow.thumbnails,
        kept.index(flow.focus),
        flow.front,
        tuple(flow.titles[at] for at in kept),
        tuple(flow.operations[at] for at in kept),
        flow.earlier,
        flow.origin,
    )


def _earlier_slot(flow: FlowBoardPanels, slots: tuple[PanelSlot | None, ...]) -> PanelSlot | None:
    """Return the slot of a matrix's earlier state, at the position of the visible state."""
    states = (column.states for column in flow.columns)
    placed = zip(states, slots, strict=True)
    stage = flow.earlier.stage if flow.earlier else ""
    slot = next((slot for names, slot in placed if slot and stage in names), None)
    if slot is None or flow.earlier is None:
        return None
    return with_number_formats([replace(slot, heatmap=flow.earlier)])[0]


def thumbnail_area(tab: Box, panel: Heatmap, scale: float) -> Box:
    """Return the area of the cells in a tab: below the name, and as large as possible."""
    rows, columns = panel.values.shape
    line, margin = 22 * scale, min(8 * scale, tab.width / 10)
    cell = min((tab.width - 2 * margin) / columns, (tab.height - line - margin) / rows)
    cell = max(cell, 0.05)
    return Box(tab.left + margin, tab.top + line, cell * columns, cell * rows)


def _create_slot(panel: Heatmap, area: Box, drawn: int, rows: int = 0) -> PanelSlot:
    """Return the slot of a panel; a panel with fewer rows than the others has less height."""
    height = area.height * (drawn / (rows or drawn))
    cells = QRectF(area.left, area.top, area.width, height)
    count = panel.values.shape
    return FlowPanelSlot(
        panel, cells, area.width / count[1], height / count[0], 0, 0,
        has_row_labels=False, has_column_labels=False, title=TitlePlacement.NONE,
    )  # fmt: skip


def _create_operand_slot(panel: Heatmap | None, area: Box | None) -> PanelSlot | None:
    if panel is None or area is None:
        return None
    return _create_slot(panel, area, panel.values.shape[0])


def _column_constraints(flow: FlowBoardPanels, at: int) -> ColumnConstraints:
    column, panel, operand = flow.columns[at], flow.panels[at], flow.operands[at]
    focus = flow.columns[flow.focus]
    own = [name for name in focus.reads if name in column.states]
    title = title_width(flow.titles[at][column.states.index(panel.stage)])
    states = max(map(title_width, flow.titles[at])) + dots_width(len(column.states))
    return ColumnConstraints(
        panel.values.shape[1],
        column.part,
        title,
        operand.values.shape[0] if operand else 0,
        column.is_query_key,
        at == flow.focus,
        bool(own),
        fold_level(flow, column),
        bool(column.operand) and not column.is_query_key,
        row_sums_width(panel),
        states - title,
    )


def fold_level(flow: FlowBoardPanels, column: FlowColumn) -> int:
    """Return the level of sacrifice at which a column becomes a spine, or 0 if it never does.

    Keys and values can become spines, because copies of them are above other columns.
    """
    if column.is_query_key:
        return 0
    if column.part is FlowPart.BEFORE_HEADS:
        return 2
    if column.part is FlowPart.HEADS:
        operands = {one.operand for one in flow.columns}
        return 0 if operands.isdisjoint(column.states) else 6
    if column.states[0] == Role.CONCAT:
        return 1
    return 4 if column.is_feed_forward else 3


def title_width(title: str) -> float:
    """Return the width of a title."""
    return _widest_text_width((title,), TITLE_PX, QFont.Weight.DemiBold, system_font()) + 2


def dots_width(states: int) -> float:
    """Return the width of the dots for a number of states, or 0 for a single state."""
    width = DOTS_GAP_PX + DOT_PITCH_PX * (states - 1) + DOT_RADIUS_PX
    return width * text_scale() if states > 1 else 0.0


@lru_cache(maxsize=64)
def _widest_text_width(
    texts: tuple[str, ...], size: int, weight: QFont.Weight, font: QFont
) -> float:
    metrics = QFontMetricsF(scaled_font(size, weight))
    return max(map(metrics.horizontalAdvance, texts), default=0.0)


def _widest_label_width(labels: tuple[str, ...]) -> float:
    return _widest_text_width(labels, LABEL_PX, QFont.Weight.Normal, system_font())


def _row_axis(flow: FlowBoardPanels) -> HeatmapAxis:
    panel = next((one for one in flow.panels if one.rows.name == "query"), flow.panels[0])
    return panel.rows


def row_axis_name(axis: HeatmapAxis) -> str:
    """Return the name of the rows, for use above their labels."""
    return f"{axis_noun(axis.name)} ↓"


def shows_token_labels(count: int, pitch: float) -> bool:
    """Return whether the labels of tokens contain words instead of only positions.

    Parameters
    ----------
    pitch : float
        Distance between two tokens, or an upper limit if it is not known yet.
    """
    return count <= MAX_LABELLED_TOKENS or has_room_for_all_tokens(count, pitch)


def has_room_for_all_tokens(count: int, pitch: float) -> bool:
    """Return whether every token has a label at a distance between two tokens."""
    return count == 1 or pitch >= MIN_LABELLED_CELL_PX * text_scale()


def token_label_text(labels: tuple[str, ...], at: int, pitch: float) -> str:
    """Return the word of a token, after its position if other words are left out.

    In long texts, the other labels are positions, and the word needs the whole width.
    """
    count = len(labels)
    is_whole = has_room_for_all_tokens(count, pitch) or not shows_token_labels(count, pitch)
    return labels[at] if is_whole else f"{at + 1:,} {labels[at]}"


def _token_label_texts(labels: tuple[str, ...], pitch: float) -> tuple[str, ...]:
    return tuple(token_label_text(labels, at, pitch) for at in range(len(labels)))


def _row_label_width(axis: HeatmapAxis, height: float) -> float:
    """Return the width of the row labels and of their name.

    Parameters
    ----------
    height : float
        Maximum total height of the rows.
    """
    labels, scale = axis.labels, text_scale()
    pitch, font = height / max(1, len(labels)), system_font()
    name = (row_axis_name(axis),)
    least = _widest_text_width(name, OPERATION_PX, QFont.Weight.Normal, font) + 8 * scale
    if not shows_token_labels(len(labels), pitch):
        last = (f"{len(labels):,}",)
        position = _widest_text_width(last, OPERATION_PX, QFont.Weight.DemiBold, font)
        return max(least, position + 2)
    texts = _token_label_texts(labels, pitch)
    return max(least, min(MAX_ROW_LABEL_PX * scale, _widest_label_width(texts) + 2))


def _key_label_height(flow: FlowBoardPanels, width: float) -> float:
    """Return the height of upright words above the keys, or of a line if there are positions.

    The height does not depend on the focus, so that a change of focus never moves the rows.

    Parameters
    ----------
    width : float
        Maximum width of the keys.
    """
    scale, keys = text_scale(), _key_token_labels(flow, width)
    if not keys:
        return 20 * scale
    return min(
        MAX_KEY_LABEL_PX * scale, _widest_label_width(keys) + 2 * KEY_LABEL_MARGIN_PX * scale
    )


def _upright_label_height(flow: FlowBoardPanels, width: float) -> float:
    """Return the height of small upright words above the keys, or 0 if there are positions."""
    keys = _key_token_labels(flow, width)
    if not keys:
        return 0.0
    longest = _widest_text_width(keys, SMALL_LABEL_PX, QFont.Weight.DemiBold, system_font())
    margin = (KEY_LABEL_MARGIN_PX + 1) * text_scale()
    return min(MAX_KEY_LABEL_PX * text_scale(), longest + margin)


def _key_token_labels(flow: FlowBoardPanels, width: float) -> tuple[str, ...]:
    """Return the words above the keys, or none if the keys are labelled by their positions."""
    labelled = (panel.columns.labels for panel in flow.panels if panel.columns.is_token)
    keys = next(labelled, ())
    if not keys or not shows_token_labels(len(keys), width / len(keys)):
        return ()
    return _token_label_texts(keys, width / len(keys) / MIN_KEY_MATRICES)


def _has_residual(flow: FlowBoardPanels) -> bool:
    return any(column.is_residual_addition for column in flow.columns)
