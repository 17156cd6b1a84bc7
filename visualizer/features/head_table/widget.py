"""The Heads pane: sentences about the leading heads above a sortable table of measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QColor,
    QContextMenuEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPen,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from visualizer.features.head_table.presenter import (
    HEADS_PANEL,
    UNIFORM_DESCRIPTION,
    UNIFORM_LABEL,
    format_tsv,
)
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.fonts import scaled_font, text_scale
from visualizer.widgets.head_mark import paint_head_mark
from visualizer.widgets.head_measurement_control import MeasurementControl
from visualizer.widgets.labels import PlainTextLabel
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtCore import QPersistentModelIndex
    from PySide6.QtGui import QResizeEvent

    from visualizer.features.head_table.presenter import (
        HeadTableColumn,
        HeadTableContents,
        HeadTableRow,
    )
    from visualizer.session.screen import Screen

    Index = QModelIndex | QPersistentModelIndex

EMPTY_MESSAGE = "Head measures appear here when attention weights are available and not hidden."
PANE_WIDTH_PX = 252
CLICK_HELP = "Click a row or press Enter to show only this head."
KEYBOARD_HELP = f"{CLICK_HELP} Click a column title or press Space in a column to sort by it."
MIN_VISIBLE_ROWS = 4
"""Minimum number of table rows that stay visible below the sentences."""
DOT_SIZE_PX = 8
SORT_ARROWS = {Qt.SortOrder.AscendingOrder: "↑", Qt.SortOrder.DescendingOrder: "↓"}

DIGIT_PLACEHOLDERS = str.maketrans("123456789", "0" * 9)
"""Replaces each digit with 0; all digits have the same width, so equal results do as well."""

Role = Qt.ItemDataRole
ALIGN_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
ALIGN_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
ROOT_INDEX = QModelIndex()


class HeadTableModel(QAbstractTableModel):
    """The table of heads as a sortable Qt model; the row of means stays last."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.table: HeadTableContents | None = None
        self.rows: tuple[HeadTableRow, ...] = ()
        self._by: HeadTableColumn | None = None
        self._order = Qt.SortOrder.AscendingOrder
        self._widest: dict[int, tuple[int, ...]] = {}

    def show_table(self, table: HeadTableContents | None) -> None:
        """Replace the table; the new table may have different heads and columns."""
        old = self.table
        if table and old and (table.columns, len(table.rows)) == (old.columns, len(old.rows)):
            self.table = table
            self._sort_rows(table.rows)
            if self.rows:  # otherwise, the range of cells would be invalid
                last = self.index(len(self.rows) - 1, self.columnCount() - 1)
                self.dataChanged.emit(self.index(0, 0), last)
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, self.columnCount() - 1)
        else:
            self.beginResetModel()
            self.table = table
            if self._columns and not self.sort_column:  # without columns, there is nothing to sort
                self._by = None
            self._set_rows(table.rows if table else ())
            self.endResetModel()

    @property
    def sort_column(self) -> int:
        """The index of the sort column; 0 is the column of the heads."""
        return self._columns.index(self._by) + 1 if self._by in self._columns else 0

    @property
    def _columns(self) -> tuple[HeadTableColumn, ...]:
        return self.table.columns if self.table else ()

    def rowCount(self, parent: Index = ROOT_INDEX) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = ROOT_INDEX) -> int:
        return 0 if parent.isValid() or not self.table else 1 + len(self.table.columns)

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:
        row, column = self.rows[index.row()], index.column() - 1
        if role == Role.DisplayRole:
            return row.name if column < 0 else row.texts[column]
        if role == Role.TextAlignmentRole and column >= 0:
            return ALIGN_RIGHT
        if role == Role.FontRole:
            return scaled_font(12)
        if role == Role.AccessibleTextRole:
            return self._accessible_text(row, column)
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Vertical or self.table is None:
            return None
        column = self.table.columns[section - 1] if section else None
        arrow = SORT_ARROWS[self._order] if section == self.sort_column else ""
        if role == Role.DisplayRole:
            lower = " ".join(filter(None, (arrow, column.unit if column else "")))
            return f"{column.title if column else 'Head'}\n{lower}\n{self._uniform_text(section)}"
        if role in {Role.ToolTipRole, Role.AccessibleDescriptionRole}:
            if column is None:
                return CLICK_HELP
            uniform = f"{UNIFORM_DESCRIPTION}: {self._uniform_text(section)} {column.unit}."
            return f"{column.description} {uniform}"
        if role == Role.AccessibleTextRole:
            sorted_ = ", sorted" if arrow else ""
            return (f"{column.title}, {column.unit}" if column else "Head") + sorted_
        if role == Role.TextAlignmentRole:
            return ALIGN_RIGHT if column else ALIGN_LEFT
        return None

    def _uniform_text(self, section: int) -> str:
        """Return a column's value for uniform attention or, for the first column, the row title."""
        if section == 0 or self.table is None:
            return UNIFORM_LABEL
        return self.table.columns[section - 1].format_value(self.table.uniform[section - 1])

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        if self._columns:
            self._by = self._columns[column - 1] if column > 0 else None
        self._order = order
        self._sort_rows(self.rows)
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, self.columnCount() - 1)

    def _sort_rows(self, rows: tuple[HeadTableRow, ...]) -> None:
        """Sort the rows; the selection and the current index follow their heads."""
        self.layoutAboutToBeChanged.emit()
        old = self.persistentIndexList()
        heads = [self.rows[index.row()].place for index in old]
        self._set_rows(rows)
        places = {row.place: at for at, row in enumerate(self.rows)}
        new = [
            self.index(places[head], index.column()) for head, index in zip(heads, old, strict=True)
        ]
        self.changePersistentIndexList(old, new)
        self.layoutChanged.emit()

    def widest_rows(self, column: int) -> tuple[int, ...]:
        """Return rows that include a column's widest text: one row per pattern of characters."""
        if column not in self._widest:
            texts = [row.texts[column - 1] if column else row.name for row in self.rows]
            places = {text.translate(DIGIT_PLACEHOLDERS): at for at, text in enumerate(texts)}
            self._widest[column] = tuple(places.values())
        return self._widest[column]

    def _set_rows(self, rows: tuple[HeadTableRow, ...]) -> None:
        self.rows, self._widest = self._sorted_rows(rows), {}

    def _sorted_rows(self, rows: tuple[HeadTableRow, ...]) -> tuple[HeadTableRow, ...]:
        """Return the rows sorted by value, then by head; rows without a value are last."""
        falls = self._order is Qt.SortOrder.DescendingOrder
        sign, by = -1 if falls else 1, self.sort_column

        def key(row: HeadTableRow) -> tuple[bool, bool, float, int, int]:
            layer, head = row.place or (0, 0)
            if by == 0:
                return row.place is None, False, 0, sign * layer, sign * head
            value = row.values[by - 1]
            return row.place is None, value is None, sign * (value or 0), layer, head

        return tuple(sorted(rows, key=key))

    def _accessible_text(self, row: HeadTableRow, column: int) -> str:
        if column < 0 or self.table is None:
            return row.full_name
        about = self.table.columns[column]
        uniform = self._uniform_text(column + 1)
        text = f"{row.full_name}, {about.title}: {row.texts[column]} {about.unit}"
        return f"{text}; uniform attention: {uniform}"


class HeadTablePane(QWidget):
    """Sentences above the table of heads."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    headChosen = Signal(object, int)
    """Emitted with the layer of the chosen head (None if there is only one), and the head."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Heads")
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        self._column = column = column_layout(self, (12, 8, 8, 8), spacing=6)
        self.sentences, self.summary = PlainTextLabel(), PlainTextLabel()
        self.measuring = MeasurementControl()
        self.view = HeadTableView()
        self.view.headActivated.connect(self.headChosen)
        for label in (self.sentences, self.summary):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            column.addWidget(label)
        self.summary.setProperty("role", "quiet")
        column.addWidget(self.measuring)
        column.addWidget(self.view, 1)
        column.addStretch()
        self._shown: tuple[HeadTableContents | None, Theme] | None = None
        self.show_heads(None, LIGHT)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        self.show_heads(screen.panel(HEADS_PANEL), theme)

    def show_heads(self, table: HeadTableContents | None, theme: Theme) -> None:
        """Show the table, or a placeholder if there is none."""
        if self._shown and self._shown[0] is table and self._shown[1] == theme:
            return
        self._shown = (table, theme)
        offer = table.offer if table else None
        self.measuring.show_measurement_status(offer)
        text = "\n".join(table.sentences) if table else EMPTY_MESSAGE
        text = "\n".join(filter(None, (offer.message, text))) if offer else text
        set_accessible_value(self, text)
        self.sentences.setText(text)
        self.sentences.setVisible(bool(text))
        self.summary.setText(table.summary if table else "")
        self.summary.setVisible(table is not None and offer is None)
        self.view.setVisible(table is not None and bool(table.rows))
        self.view.show_table(table, theme)
        self._fit_label_heights()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_label_heights()

    def _fit_label_heights(self) -> None:
        """Set the labels' height to that of their text, because a dock ignores height-for-width."""
        margins = self._column.contentsMargins()
        width = self.width() - margins.left() - margins.right()
        for label in (self.sentences, self.summary):
            label.setMinimumHeight(0)  # otherwise, the old height would be required
            label.setFixedHeight(max(0, label.heightForWidth(width)))


class HeadTableDelegate(QStyledItemDelegate):
    """Delegate that draws the head's colour dot, the rule above the means and the focus frame."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.theme = LIGHT

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        option.state &= ~QStyle.StateFlag.State_HasFocus  # the style's own frame is hardly visible
        if index.column() == 0 and head_row_at(index).head is not None:
            side = round(DOT_SIZE_PX * text_scale())
            room = QSize(side + side // 2, side)  # includes the gap between dot and number
            option.features |= QStyleOptionViewItem.ViewItemFeature.HasDecoration
            option.decorationSize = room

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        super().paint(painter, option, index)
        if option.state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QPen(QColor(self.theme.on_accent), 1))
            painter.drawRect(option.rect.adjusted(1, 1, -2, -2))
        head = head_row_at(index).head
        if head is None:
            rect = option.rect
            painter.fillRect(rect.left(), rect.top(), rect.width(), 1, QColor(self.theme.border))
        elif index.column() == 0:
            self._paint_head_dot(painter, option, head)

    def _paint_head_dot(self, painter: QPainter, option: QStyleOptionViewItem, head: int) -> None:
        side = DOT_SIZE_PX * text_scale()
        top = QRectF(option.rect).center().y() + 1 - side / 2
        dot = QRectF(option.rect.left() + 3, top, side, side)
        # Outline the dot in selected rows, where some colours are hard to see on the accent.
        is_selected = bool(option.state & QStyle.StateFlag.State_Selected)
        edge = self.theme.on_accent if is_selected else ""
        paint_head_mark(painter, dot, head, self.theme, edge)


class HeadTableView(QTableView):
    """Table view in which a click on a title or Space sorts by a column, and Enter opens a head."""

    headActivated = Signal(object, int)
    headMenuRequested = Signal(object, int, QPoint)

    def __init__(self) -> None:
        super().__init__()
        self._model, self._delegate = HeadTableModel(self), HeadTableDelegate(self)
        self.setModel(self._model)
        self.setItemDelegate(self._delegate)
        self.setAccessibleName("Heads")
        self.setAccessibleDescription(KEYBOARD_HELP)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setSectionResizeMode(header.ResizeMode.ResizeToContents)
        header.setHighlightSections(False)
        header.setSortIndicator(0, Qt.SortOrder.AscendingOrder)
        header.setMinimumSectionSize(1)
        self.setSortingEnabled(True)
        header.setSortIndicatorShown(False)  # it would widen the columns; the titles show the order
        self.clicked.connect(self._open_head)

    @property
    def rows(self) -> tuple[HeadTableRow, ...]:
        """The rows, from top to bottom."""
        return self._model.rows

    def show_table(self, table: HeadTableContents | None, theme: Theme) -> None:
        self._delegate.theme = theme
        style = _style_sheet(theme)
        if style != self.styleSheet():  # setting it makes Qt measure all rows
            self.setStyleSheet(style)
        row = round(22 * text_scale())
        self.verticalHeader().setDefaultSectionSize(row)
        if table is not self._model.table:
            self._model.show_table(table)
            header = self.horizontalHeader()
            header.setSortIndicator(self._model.sort_column, header.sortIndicatorOrder())
        self.setMinimumHeight(self.horizontalHeader().sizeHint().height() + MIN_VISIBLE_ROWS * row)

    def sizeHintForColumn(self, column: int) -> int:
        """Measure only a few of the rows, because a model may have more than a thousand heads."""
        self.ensurePolished()
        option = QStyleOptionViewItem()
        self.initViewItemOption(option)
        hints = (
            self._delegate.sizeHint(option, self._model.index(row, column))
            for row in self._model.widest_rows(column)
        )
        return max((hint.width() for hint in hints), default=0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            if self._model.table:
                QGuiApplication.clipboard().setText(format_tsv(self._model.table, self.rows))
        elif event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self._open_head(self.currentIndex())
        elif event.key() == Qt.Key.Key_Space:
            self._sort_by_current_column()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        is_by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if is_by_key else self.indexAt(event.pos())
        row = head_row_at(index) if index.isValid() else None
        if row and row.head is not None:
            at = self.visualRect(index).center() if is_by_key else event.pos()
            self.headMenuRequested.emit(row.layer, row.head, self.viewport().mapToGlobal(at))

    def _open_head(self, index: QModelIndex) -> None:
        row = head_row_at(index) if index.isValid() else None
        if row and row.head is not None:
            self.headActivated.emit(row.layer, row.head)

    def _sort_by_current_column(self) -> None:
        """Sort by the current column, or reverse the order if the table is already sorted by it."""
        header, column = self.horizontalHeader(), max(0, self.currentIndex().column())
        falls = header.sortIndicatorOrder() is Qt.SortOrder.DescendingOrder
        is_same = header.sortIndicatorSection() == column
        is_descending = is_same != falls  # like a click on the title
        order = Qt.SortOrder.DescendingOrder if is_descending else Qt.SortOrder.AscendingOrder
        self.sortByColumn(column, order)


def head_row_at(index: Index) -> HeadTableRow:
    """Return the `HeadTableRow` at an index of a `HeadTableModel`."""
    model = index.model()
    assert isinstance(model, HeadTableModel)
    return model.rows[index.row()]


def _style_sheet(theme: Theme) -> str:
    return f"""
        QTableView {{ background: {theme.paper}; border: none; }}
        QHeaderView {{ background: {theme.paper}; border: none; }}
        QHeaderView::section {{ background: {theme.paper}; color: {theme.quiet}; border: none;
            border-bottom: 1px solid {theme.border}; padding: 2px 1px; }}
        QHeaderView::section:hover {{ color: {theme.ink}; background: {theme.raised}; }}
    """
