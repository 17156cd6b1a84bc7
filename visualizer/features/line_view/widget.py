"""The Lines pane: weights drawn as lines between tokens, and the controls that select them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QColor, QPainter
from PySide6.QtWidgets import QComboBox, QSpinBox, QWidget

from visualizer.features.line_view.paint import (
    HEADER_HEIGHT_PX,
    AttentionLinesLayout,
    IncrementalLinePicture,
    LinePenFactory,
    LinePictureKey,
    lay_out_lines,
    paint_column_titles,
    paint_highlighted_line,
    paint_labels,
    paint_lines,
)
from visualizer.features.line_view.presenter import LINES_PANEL, LinePanel
from visualizer.heatmap.cell_scroll_widget import CellScrollArea
from visualizer.session.cell_address import Cell
from visualizer.session.view_options import (
    FOLLOW_PINNED,
    MAX_LINES_PER_QUERY,
    LineViewOptions,
    LineViewSide,
    LineViewToken,
)
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.painted_message import paint_message
from visualizer.widgets.setting_controls import TrimmedDoubleSpinBox, set_number

if TYPE_CHECKING:
    from PySide6.QtGui import QMouseEvent, QPaintEvent, QResizeEvent

    from visualizer.features.line_view.line_selection import SelectedLines
    from visualizer.session.screen import Screen
    from visualizer.widgets.theme import Theme

PANE_WIDTH_PX = 290
EMPTY_MESSAGE = "Lines from each query to the keys that it attends to appear here."


class LinePane(QWidget):
    """The line view and its controls.

    `optionChosen` is emitted with the name of a field of `LineViewOptions` and its new value.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    optionChosen = Signal(str, object)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Lines")
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        self.view, self.notes = AttentionLinesView(), PlainTextLabel()
        self.heads, self.threshold, self.top = QComboBox(), TrimmedDoubleSpinBox(), QSpinBox()
        self._build_controls()

    def _build_controls(self) -> None:
        self.threshold.setRange(0, 1)
        self.threshold.setSingleStep(0.01)
        self.threshold.setPrefix("≥ ")
        self.threshold.valueChanged.connect(self._emit_threshold)
        self.top.setRange(0, MAX_LINES_PER_QUERY)
        self.top.setSpecialValueText("all lines")
        self.top.setPrefix("largest ")
        self.top.valueChanged.connect(self._emit_lines_per_query)
        self.heads.activated.connect(self._emit_solo_head)
        self.heads.setMinimumContentsLength(8)
        self.heads.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        row = row_layout(margins=(12, 0, 12, 0), spacing=8)
        for widget, name, tip, stretch in (
            (self.heads, "Heads shown as lines", "Heads for which lines are drawn", 1),
            (self.threshold, "Line threshold", "Hide the lines of smaller weights", 0),
            (self.top, "Lines per query and head", "Maximum number of lines per query and head", 0),
        ):
            widget.setAccessibleName(name)
            widget.setToolTip(plain_tooltip(tip))
            install_input_filters(widget)
            row.addWidget(widget, stretch)
        self.notes.setProperty("role", "quiet")
        self.notes.setWordWrap(True)
        self.notes.setContentsMargins(12, 0, 12, 0)
        column = column_layout(self, (0, 8, 0, 8), spacing=8)
        column.addLayout(row)
        column.addWidget(self.view, 1)
        column.addWidget(self.notes)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        """Show the lines of a screen, or a placeholder if there are none."""
        panel = screen.panel(LINES_PANEL) or LinePanel(message=EMPTY_MESSAGE)
        self.view.show_lines(panel, theme)
        self._show_options(panel, screen.wanted.lines)
        # Reserve space for the note on highlighted lines, so that the picture does not jump.
        has_room = panel.lines.is_thinned or panel.highlight_note
        notes = (*panel.notes, panel.highlight_note) if has_room else panel.notes
        self.notes.setText("\n".join(notes))
        self.notes.setVisible(bool(panel.notes))

    def _show_options(self, panel: LinePanel, options: LineViewOptions) -> None:
        for widget in (self.heads, self.threshold, self.top):
            widget.setEnabled(bool(panel.labels))
        if panel.heads != self.heads.count() - 2:
            self.heads.clear()
            self.heads.addItem("All shown heads", None)
            self.heads.addItem("The pinned cell’s head", FOLLOW_PINNED)
            for head in range(panel.heads):
                self.heads.addItem(f"Head {head + 1}", head)
        self.heads.setCurrentIndex(self._head_choice_index(options, panel.heads))
        set_number(self.threshold, options.threshold)
        set_number(self.top, options.top)

    @staticmethod
    def _head_choice_index(options: LineViewOptions, heads: int) -> int:
        if options.solo is None:
            return 0
        return 1 if options.solo == FOLLOW_PINNED else min(options.solo, heads - 1) + 2

    def _emit_solo_head(self, index: int) -> None:
        self.optionChosen.emit("solo", self.heads.itemData(index))

    def _emit_threshold(self, value: float) -> None:
        self.optionChosen.emit("threshold", round(value, 3))

    def _emit_lines_per_query(self, value: int) -> None:
        self.optionChosen.emit("top", value)


MAX_POINTING_DISTANCE_PX = 5
QUERY_SNAP_SHARE = 0.3
"""Distance from the queries, as a fraction of the width, at which a line is marked."""
DIMMED_OPACITY = 0.16


class AttentionLinesView(CellScrollArea):
    """Scrollable picture of lines; `tokenHovered` and `tokenClicked` emit a `LineViewToken`."""

    tokenHovered = Signal(object)
    tokenClicked = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Lines from queries to keys")
        self.panel = LinePanel()
        self.rows = AttentionLinesLayout(0, 0, 1, 1, 0)
        self.picture: IncrementalLinePicture | None = None
        self._draw_timer = QTimer(self, singleShot=True, interval=0)
        self._draw_timer.timeout.connect(self._continue_drawing)

    # ------------------------------------------------------------------ showing

    def show_lines(self, panel: LinePanel, theme: Theme) -> None:
        before, self.panel = self.panel, panel
        is_moved = (panel.labels, panel.tokens, panel.drawn_heads) != (
            before.labels, before.tokens, before.drawn_heads
        )  # fmt: skip
        if is_moved or theme is not self._theme:
            self._theme = theme
            self._lay_out_rows()
        if panel.lines is not before.lines:
            self._later.start()  # a different line may now be under the pointer
        now, then = ((each.pinned, each.tokens) for each in (panel, before))
        if panel.pinned is not None and now != then:
            self._scroll_to_pinned(panel)
        self.viewport().repaint()  # before the window is laid out: the user may be looking here

    def line_position(self, cell: Cell) -> QPointF:
        """Return a viewport position on a cell's line near its query, where few lines overlap."""
        head, query, key = cell.place
        rows = self.rows
        x = rows.left + (rows.right - rows.left) * QUERY_SNAP_SHARE
        begin, end = (float(rows.line_ends(head, at)) for at in (query, key))
        return QPointF(x, begin + (end - begin) * rows.curve_fraction(x) - self._scroll_offset())

    def _scroll_to_pinned(self, panel: LinePanel) -> None:
        """Scroll the pinned query and key into view, or only the query if both do not fit."""
        bar, part = self.verticalScrollBar(), self.viewport().height()
        tokens = (token for token in (panel.key, panel.query) if token is not None)
        for at in map(self.rows.row_of, tokens):
            if at is not None:
                middle = self.rows.row_middle(at)
                low, high = middle - HEADER_HEIGHT_PX * text_scale() - 20, middle + 20
                bar.setValue(round(min(max(bar.value(), high - part), low)))

    def _lay_out_rows(self) -> None:
        size = self.viewport().size()
        labels, tokens, heads = self.panel.labels, self.panel.tokens, self.panel.drawn_heads
        self.rows = lay_out_lines(labels, heads, size.width(), size.height(), tokens)
        bar = self.verticalScrollBar()
        bar.setRange(0, max(0, round(self.rows.bottom) - size.height()))
        bar.setPageStep(size.height())
        bar.setSingleStep(40)
        self._later.start()
        self.viewport().update()

    def _scroll_offset(self) -> int:
        return self.verticalScrollBar().value()

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, panel, theme = QPainter(self.viewport()), self.panel, self._theme
        painter.fillRect(self.viewport().rect(), QColor(theme.paper))
        offset, height = self._scroll_offset(), self.viewport().height()
        seen = (offset, offset + height)
        if panel.message:
            painter.setPen(QColor(theme.quiet))
            paint_message(painter, self.viewport().rect(), panel.message, 12)
        self._paint_picture(painter)
        painter.translate(0, -offset)
        if panel.highlighted_lines is not None:
            brush = LinePenFactory.for_picture(panel.lines)
            paint_lines(painter, panel.highlighted_lines, self.rows, seen, theme, brush)
            paint_highlighted_line(painter, panel, self.rows, theme)
        if panel.labels:
            paint_labels(painter, panel, self.rows, seen, theme)
            painter.translate(0, offset)
            paint_column_titles(painter, self.rows, theme)
        self._paint_focus_frame(painter)
        painter.end()
        self.painted.emit()

    def _paint_picture(self, painter: QPainter) -> None:
        """Paint the finished part of the picture of all lines; dim it if lines are highlighted."""
        offset = self._scroll_offset()
        frame = LinePictureKey.for_view(
            self.panel.lines,
            self.rows,
            self.viewport().size(),
            offset,
            self.devicePixelRatioF(),
            self._theme,
        )
        if self.picture is None or self.picture.frame != frame:
            self.picture = IncrementalLinePicture(frame)
            self.picture.paint_next_slice()
        if not self.picture.is_complete:
            self._draw_timer.start()  # do not delay this frame
        painter.setOpacity(1 if self.panel.highlighted_lines is None else DIMMED_OPACITY)
        painter.drawPixmap(0, frame.top - offset, self.picture.pixmap)
        painter.setOpacity(1)

    def _continue_drawing(self) -> None:
        if self.picture and self.isVisible():  # otherwise it continues when it is painted again
            self.picture.paint_next_slice()
            if self.picture.is_complete:
                self.viewport().update()
            else:
                self._draw_timer.start()  # do not repaint yet: it would redraw highlighted lines

    # ------------------------------------------------------------------ user input

    def _hover_at(self, point: QPointF) -> None:
        found = self._cell_or_token_at(point)
        if found != self._pointed:
            self._pointed = found
            if isinstance(found, LineViewToken):
                self.tokenHovered.emit(found)
            else:
                self.cellHovered.emit(found)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        found = self._cell_or_token_at(event.position())
        if isinstance(found, LineViewToken):
            self.tokenClicked.emit(found)
        else:
            self.cellClicked.emit(found)

    def _cell_or_token_at(self, point: QPointF) -> Cell | LineViewToken | None:
        rows, y = self.rows, point.y() + self._scroll_offset()
        if not self.panel.labels or point.y() < HEADER_HEIGHT_PX * text_scale():
            return None
        if rows.left <= point.x() <= rows.right:
            return self._line_at(point.x(), y)
        row = rows.row_at(y)
        side = LineViewSide.QUERY if point.x() < rows.left else LineViewSide.KEY
        return None if row is None else LineViewToken(side, rows.token_at(row))

    def _line_at(self, x: float, y: float) -> Cell | None:
        """Return the cell of the line nearest to a point, preferring lines of the pinned cell."""
        pinned = self.panel.pinned_lines
        cell = self._nearest_cell(pinned, x, y) if pinned else None
        return cell or self._nearest_cell(self.panel.lines, x, y)

    def _nearest_cell(self, lines: SelectedLines, x: float, y: float) -> Cell | None:
        if not len(lines):
            return None
        rows, share = self.rows, self.rows.curve_fraction(x)
        begins, ends = (rows.line_ends(lines.heads, side) for side in (lines.queries, lines.keys))
        away = np.abs(begins + (ends - begins) * share - y)
        near = away.min()
        if near > MAX_POINTING_DISTANCE_PX * text_scale():
            return None
        at = int(np.nonzero(away <= near + 0.5)[0][-1])  # the largest of coinciding lines
        place = (int(lines.heads[at]), int(lines.queries[at]), int(lines.keys[at]))
        return Cell(self.panel.stage, place)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._lay_out_rows()
