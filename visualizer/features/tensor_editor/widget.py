"""Numbers pane: a stage or a weight matrix as a table that can be viewed, copied and edited.

The Qt model reads visible blocks on demand; the view handles keys like a spreadsheet.
"""

from __future__ import annotations

from functools import lru_cache
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
    Signal,
)
from PySide6.QtGui import QAccessible, QColor, QFocusEvent, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QTableView,
    QWidget,
)

from visualizer.features.tensor_editor.presenter import NUMBER_TABLE_PANEL
from visualizer.format import format_count, format_number
from visualizer.session.cell_address import Cell
from visualizer.widgets.context_menu import MenuEntry, open_context_menu
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QContextMenuEvent

    from visualizer.features.tensor_editor.presenter import NumberBlock, NumberTablePanel
    from visualizer.heatmap.board import HeatmapAxis
    from visualizer.session.screen import Screen

    Index = QModelIndex | QPersistentModelIndex


EMPTY_MESSAGE = "Numbers appear here once attention has been computed."
PANE_WIDTH_PX = 252


class NumberTablePane(QWidget):
    """Table of numbers, with lists to choose the tensor and the head, and with notes.

    Entered and pasted text is emitted with the name of the tensor and the row and column of the
    first cell.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    tensorChosen = Signal(str)
    headChosen = Signal(int)
    cellPinned = Signal(object)
    numberEntered = Signal(str, int, int, str)
    numbersPasted = Signal(str, int, int, str)
    copyRequested = Signal(object, object)
    resetRequested = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Numbers")
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        self.tensor, self.head, self.grid = QComboBox(), QComboBox(), NumberTableView()
        self.facts, self.note, self.problem = PlainTextLabel(), PlainTextLabel(), PlainTextLabel()
        self.reset_button = QPushButton("Use random values")
        self._table: NumberTablePanel | None = None
        self._theme = LIGHT
        self._build_layout()
        self.tensor.activated.connect(self._emit_tensor)
        self.head.activated.connect(self.headChosen)
        self.reset_button.clicked.connect(self._request_reset)
        self.grid.currentCellChanged.connect(self._emit_pinned)
        self.grid.entered.connect(self._emit_entered)
        self.grid.pasted.connect(self._emit_pasted)
        self.grid.copyRequested.connect(self.copyRequested)
        self._show_table(None)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        self.show_table(screen.panel(NUMBER_TABLE_PANEL), theme)

    def show_table(self, table: NumberTablePanel | None, theme: Theme) -> None:
        """Show a table, or a placeholder if there is none."""
        if (table, theme) != (self._table, self._theme):
            self._theme = theme
            self._show_table(table)

    # ------------------------------------------------------------------ building

    def _build_layout(self) -> None:
        column = column_layout(self, (12, 8, 12, 8), spacing=8)
        chosen, foot = QHBoxLayout(), QHBoxLayout()
        for row in (chosen, foot):
            row.setSpacing(8)
        for box, name in ((self.tensor, "Tensor"), (self.head, "Head")):
            box.setAccessibleName(name)
            box.setAccessibleDescription(name)  # screen readers use the current text as the name
            box.setMinimumContentsLength(5)
            box.setSizeAdjustPolicy(
                QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
            )
            install_input_filters(box)
            chosen.addWidget(box, 2 if box is self.tensor else 1)
        self.facts.setProperty("role", "quiet")
        self.note.setProperty("role", "quiet")
        self.problem.setProperty("role", "warning")
        for label in (self.facts, self.note, self.problem):
            label.setWordWrap(True)
        foot.addWidget(self.facts, 1)
        foot.addWidget(self.reset_button)
        column.addLayout(chosen)
        column.addLayout(foot)
        column.addWidget(self.grid, 1)
        column.addWidget(self.problem)
        column.addWidget(self.note)

    # ------------------------------------------------------------------ showing

    def _show_table(self, table: NumberTablePanel | None) -> None:
        before, self._table = self._table, table
        for widget in (self.tensor, self.facts, self.reset_button, self.grid):
            widget.setVisible(table is not None)
        self.head.setVisible(table is not None and table.heads > 1)
        self.note.setText(table.note if table else EMPTY_MESSAGE)
        self.problem.setText(table.problem if table else "")
        self.problem.setVisible(bool(self.problem.text()))
        self.grid.show_table(table, self._theme)
        if table is None:
            return
        if before is None or before.choices != table.choices:
            self.tensor.clear()
            self.tensor.addItems([title for _, title in table.choices])
        self.tensor.setCurrentIndex([name for name, _ in table.choices].index(table.name))
        if self.head.count() != table.heads:
            self.head.clear()
            self.head.addItems([f"Head {head + 1}" for head in range(table.heads)])
        self.head.setCurrentIndex(table.head)
        self.reset_button.setEnabled(table.is_custom)
        self.reset_button.setVisible(table.is_custom or table.is_editable)
        self.facts.setText(_describe_size(table))
        head = f", head {table.head + 1}" if table.heads else ""
        self.grid.setAccessibleName(f"Numbers of {table.title}{head}")
        self.grid.setAccessibleDescription(table.problem or table.note)

    # ------------------------------------------------------------------ user input

    def _emit_tensor(self, index: int) -> None:
        if self._table:
            self.tensorChosen.emit(self._table.choices[index][0])

    def _request_reset(self) -> None:
        if self._table:
            self.resetRequested.emit(self._table.name)

    def _emit_pinned(self, row: int, column: int) -> None:
        table = self._table
        if table and table.is_stage and table.current != (row, column):
            self.cellPinned.emit(Cell(table.name, table.cell_indices(row, column)))

    def _emit_entered(self, row: int, column: int, text: str) -> None:
        if self._table:
            self.numberEntered.emit(self._table.name, row, column, text)

    def _emit_pasted(self, row: int, column: int, text: str) -> None:
        if self._table:
            self.numbersPasted.emit(self._table.name, row, column, text)


def _describe_size(table: NumberTablePanel) -> str:
    rows, columns = table.shape
    across = format_count(columns, table.columns.name if table.columns.is_token else "column")
    down = format_count(rows, table.rows.name if table.rows.is_token else "row")
    return f"{down} × {across}".replace("querys", "queries")


ROOT_INDEX = QModelIndex()
BLOCK_SIDE_CELLS = 64
"""Number of rows and columns of a block that is read at once."""
MAX_NAME_WIDTH_PX = 104
HORIZONTAL = Qt.Orientation.Horizontal
ItemRole = Qt.ItemDataRole


class NumberTableModel(QAbstractTableModel):
    """Qt model of a `NumberTablePanel`; edits are emitted by `entered`, not applied here."""

    entered = Signal(int, int, str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.table: NumberTablePanel | None = None
        self._theme = LIGHT
        self._read: dict[tuple[int, int], NumberBlock] = {}

    def show_table(self, table: NumberTablePanel | None, theme: Theme) -> None:
        """Replace the table; keep the selection if rows and columns are the same."""
        is_same = _has_same_cells(table, self.table)
        is_read = (table and table.run, theme) == (self.table and self.table.run, self._theme)
        if not is_same:
            self.beginResetModel()
        if not (is_same and is_read):
            self._read = {}
        self.table, self._theme = table, theme
        if not is_same:
            self.endResetModel()
        elif table and not is_read and all(table.shape):
            rows, columns = table.shape
            self.dataChanged.emit(self.index(0, 0), self.index(rows - 1, columns - 1))

    def rowCount(self, parent: Index = ROOT_INDEX) -> int:
        return self.table.shape[0] if self.table and not parent.isValid() else 0

    def columnCount(self, parent: Index = ROOT_INDEX) -> int:
        return self.table.shape[1] if self.table and not parent.isValid() else 0

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled
        is_editable = self.table is not None and self.table.is_editable
        return flags | Qt.ItemFlag.ItemIsEditable if is_editable else flags

    def data(self, index: Index, role: int = ItemRole.DisplayRole) -> Any:
        if self.table is None or not index.isValid():
            return None
        if role == ItemRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == ItemRole.EditRole:
            return self.table.format_exactly(index.row(), index.column())
        if role == ItemRole.ForegroundRole:
            return QColor(self._theme.quiet if self._cell_content(index)[1] else self._theme.ink)
        if role in (ItemRole.DisplayRole, ItemRole.AccessibleTextRole):
            value, word = self._cell_content(index)
            said = word or format_number(value)
            return (
                said
                if role == ItemRole.DisplayRole
                else f"{self._describe_position(index)}: {said}"
            )
        return None

    def setData(self, index: Index, value: Any, role: int = ItemRole.EditRole) -> bool:
        """Emit the entered text; the new number arrives with the next table."""
        if self.table and str(value) != self.table.format_exactly(index.row(), index.column()):
            self.entered.emit(index.row(), index.column(), str(value))
        return False

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = ItemRole.DisplayRole
    ) -> Any:
        if self.table is None:
            return None
        axis = self.table.columns if orientation == HORIZONTAL else self.table.rows
        if role == ItemRole.DisplayRole:
            return _row_or_column_label(axis, section)
        if role == ItemRole.ToolTipRole:
            return plain_tooltip(_row_or_column_label(axis, section))
        if role == ItemRole.AccessibleTextRole:
            return f"{axis.name} {_row_or_column_label(axis, section)}"
        if role == ItemRole.ForegroundRole:
            return QColor(self._theme.quiet)
        if role == ItemRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def _describe_position(self, index: Index) -> str:
        assert self.table
        rows, columns = self.table.rows, self.table.columns
        row, column = (
            _row_or_column_label(rows, index.row()),
            _row_or_column_label(columns, index.column()),
        )
        return f"{rows.name} {row}, {columns.name} {column}"

    def _cell_content(self, index: Index) -> tuple[float, str]:
        """Return the number of a cell and the word shown instead, if any; blocks are cached."""
        assert self.table
        row, column = index.row(), index.column()
        place = row // BLOCK_SIDE_CELLS, column // BLOCK_SIDE_CELLS
        if place not in self._read:
            self._read[place] = self.table.read_block(
                *(slice(at * BLOCK_SIDE_CELLS, min(at * BLOCK_SIDE_CELLS + BLOCK_SIDE_CELLS, size))
                  for at, size in zip(place, self.table.shape, strict=True))
            )  # fmt: skip
        block, inside = self._read[place], (row % BLOCK_SIDE_CELLS, column % BLOCK_SIDE_CELLS)
        return float(block.numbers[inside]), block.replacement_text(*inside)


def _has_same_cells(table: NumberTablePanel | None, other: NumberTablePanel | None) -> bool:
    if table is None or other is None:
        return table is other
    one, two = (
        (each.name, each.head, each.leading, each.rows, each.columns) for each in (table, other)
    )
    return one == two


def _column_width(table: NumberTablePanel) -> int:
    """Return the common width of the columns, which fits the widest possible text."""
    said = ["−0.0000", *(["masked"] if table.can_show_replacement_text else [])]
    return round(max(map(font_metrics(12).horizontalAdvance, said)) + 14 * text_scale())


@lru_cache(maxsize=8)
def _row_header_width(rows: HeatmapAxis) -> int:
    """Return the width of the row headers, up to a limit."""
    longest = nlargest(8, set(rows.labels), key=len)  # measuring every label of a long text is slow
    last = f"{len(rows.labels)} " if rows.is_token else ""
    needed = max((font_metrics(12).horizontalAdvance(last + name) for name in longest), default=0)
    return round(min(needed + 28, MAX_NAME_WIDTH_PX * text_scale()))


def _row_or_column_label(axis: HeatmapAxis, section: int) -> str:
    """Return the name of a row or column; the name of a token includes its position."""
    label = axis.labels[section]
    is_named = axis.is_token and label != str(section + 1)  # some captured positions have no token
    return f"{section + 1} {label}" if is_named else label


class NumberTableView(QTableView):
    """Table view in which one can move, type, copy and paste as in a spreadsheet.

    `currentCellChanged` is emitted if the user makes another cell the current one.
    """

    currentCellChanged = Signal(int, int)
    entered = Signal(int, int, str)
    pasted = Signal(int, int, str)
    copyRequested = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        self._model = NumberTableModel(self)
        self._model.entered.connect(self.entered)
        self._is_gaining_focus = False
        self.setModel(self._model)
        self.setFont(scaled_font(12))
        self.setSelectionMode(QAbstractItemView.SelectionMode.ContiguousSelection)
        self.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked
            | QAbstractItemView.EditTrigger.AnyKeyPressed
        )
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setWordWrap(False)
        self._configure_headers()

    def show_table(self, table: NumberTablePanel | None, theme: Theme) -> None:
        before = self._model.table
        self._model.show_table(table, theme)
        if table and not (before and _has_same_cells(table, before)):
            self.horizontalHeader().setDefaultSectionSize(_column_width(table))
            self.verticalHeader().setFixedWidth(_row_header_width(table.rows))
            self.scrollToTop()
        moved = before is None or not table or table.current != before.current
        if table and table.current and (moved or not self.currentIndex().isValid()):
            self._set_current_cell(*table.current)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Take the focus without `currentCellChanged`, so that Tab does not select a cell."""
        self._is_gaining_focus = True
        super().focusInEvent(event)
        self._is_gaining_focus = False

    def currentChanged(self, current: Index, previous: Index) -> None:
        super().currentChanged(current, previous)
        if current.isValid() and not self._is_gaining_focus:
            self.currentCellChanged.emit(current.row(), current.column())

    def dataChanged(self, first: Index, last: Index, roles: Sequence[int] = ()) -> None:
        """Repaint changed numbers, but keep the text of an open editor."""
        if self._is_typing:
            self.viewport().update()
        else:
            super().dataChanged(first, last, roles)

    def commitData(self, editor: QWidget) -> None:
        """Commit the entered text, unless the table was replaced in the meantime."""
        if self._is_typing:
            super().commitData(editor)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle copy, paste and the start of an edit, as a spreadsheet does."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self._request_copy()
        elif event.matches(QKeySequence.StandardKey.Paste):
            self._emit_pasted()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._start_editing()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        copy = MenuEntry("copy", "Copy", self._request_copy)
        paste = MenuEntry("paste", "Paste", self._emit_pasted)
        is_editable = bool(self.currentIndex().flags() & Qt.ItemFlag.ItemIsEditable)
        if self.currentIndex().isValid():
            entries = [copy, *([paste] if is_editable else [])]
            open_context_menu(self, [entries], event.globalPos())

    @property
    def _is_typing(self) -> bool:
        return self.state() == QAbstractItemView.State.EditingState

    def _start_editing(self) -> None:
        index = self.currentIndex()  # an open editor forwards the key that closes it to the view
        if not self._is_typing and index.flags() & Qt.ItemFlag.ItemIsEditable:
            self.edit(index)

    def _configure_headers(self) -> None:
        across, down = self.horizontalHeader(), self.verticalHeader()
        for header in (across, down):
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
            header.setSectionsClickable(True)
            header.setHighlightSections(True)
            header.setTextElideMode(Qt.TextElideMode.ElideRight)
            header.setFont(scaled_font(12))
        across.setMinimumSectionSize(1)
        down.setMinimumSectionSize(1)
        down.setDefaultSectionSize(round(font_metrics(12).height() + 8))

    def _set_current_cell(self, row: int, column: int) -> None:
        index = self._model.index(row, column)
        if index != self.currentIndex():
            self.selectionModel().setCurrentIndex(
                index, QItemSelectionModel.SelectionFlag.ClearAndSelect
            )
            self.scrollTo(index)

    def _selected_range(self) -> tuple[slice, slice] | None:
        """Return the selected rows and columns."""
        ranges = self.selectionModel().selection()
        if ranges.isEmpty():
            return None
        first = ranges.first()
        rows = slice(first.top(), first.bottom() + 1)
        return rows, slice(first.left(), first.right() + 1)

    def _request_copy(self) -> None:
        marked = self._selected_range()
        if marked:
            self.copyRequested.emit(*marked)

    def _emit_pasted(self) -> None:
        marked = self._selected_range()
        if marked:
            rows, columns = marked
            self.pasted.emit(rows.start, columns.start, QGuiApplication.clipboard().text())
