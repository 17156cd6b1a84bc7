"""The table of heads as a Qt item model, sortable by column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, Qt

from visualizer.features.head_table.presenter import UNIFORM, UNIFORM_SAYS
from visualizer.widgets.fonts import font

if TYPE_CHECKING:
    from PySide6.QtCore import QPersistentModelIndex
    from PySide6.QtWidgets import QWidget

    from visualizer.features.head_table.presenter import HeadColumn, HeadRow, HeadTablePanel

if TYPE_CHECKING:
    Index = QModelIndex | QPersistentModelIndex

HEAD = "Click a row or press Enter to show only this head."
KEYS = f"{HEAD} Click a column title or press Space in a column to sort by it."
ROWS = 4
"""Rows of the table that stay visible below the sentences."""
DOT = 8
ARROWS = {Qt.SortOrder.AscendingOrder: "↑", Qt.SortOrder.DescendingOrder: "↓"}

SHAPE = str.maketrans("123456789", "0" * 9)
"""Replaces all digits, which are equally wide, so that texts of equal width become equal."""

Role = Qt.ItemDataRole
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
ROOT = QModelIndex()


class HeadTableModel(QAbstractTableModel):
    """The table of heads as a sortable Qt model; the row of means stays last."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.table: HeadTablePanel | None = None
        self.rows: tuple[HeadRow, ...] = ()
        self._by: HeadColumn | None = None
        self._order = Qt.SortOrder.AscendingOrder
        self._shapes: dict[int, tuple[int, ...]] = {}

    def show_table(self, table: HeadTablePanel | None) -> None:
        """Replace the table; its heads and columns may be different."""
        old = self.table
        is_alike = table and old and len(table.rows) == len(old.rows)
        if is_alike and _columns_of(table) == _columns_of(old):
            self.table = table
            self._sort_rows(table.rows if table else ())
            if self.rows:  # otherwise there is no valid range
                last = self.index(len(self.rows) - 1, self.columnCount() - 1)
                self.dataChanged.emit(self.index(0, 0), last)
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, self.columnCount() - 1)
        else:
            self.beginResetModel()
            self.table = table
            if (
                _columns_of(table) and not self.sorted_by
            ):  # without columns, there are no rows to sort
                self._by = None
            self._set_rows(table.rows if table else ())
            self.endResetModel()

    @property
    def sorted_by(self) -> int:
        """The index of the sort column; 0 is the column of the heads."""
        columns = _columns_of(self.table)
        return columns.index(self._by) + 1 if self._by in columns else 0

    def rowCount(self, parent: Index = ROOT) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = ROOT) -> int:
        return 0 if parent.isValid() or not self.table else 1 + len(self.table.columns)

    def data(self, index: Index, role: int = Role.DisplayRole) -> Any:
        row, column = self.rows[index.row()], index.column() - 1
        if role == Role.DisplayRole:
            return row.name if column < 0 else row.written[column]
        if role == Role.TextAlignmentRole and column >= 0:
            return RIGHT
        if role == Role.FontRole:
            return font(12)
        if role == Role.AccessibleTextRole:
            return self._accessible_text(row, column)
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Vertical or self.table is None:
            return None
        column = self.table.columns[section - 1] if section else None
        arrow = ARROWS[self._order] if section == self.sorted_by else ""
        if role == Role.DisplayRole:
            lower = " ".join(filter(None, (arrow, column.unit if column else "")))
            return f"{column.title if column else 'Head'}\n{lower}\n{self._uniform_text(section)}"
        if role in {Role.ToolTipRole, Role.AccessibleDescriptionRole}:
            if column is None:
                return HEAD
            return f"{column.says} {UNIFORM_SAYS}: {self._uniform_text(section)} {column.unit}."
        if role == Role.AccessibleTextRole:
            sorted_ = ", sorted" if arrow else ""
            return (f"{column.title}, {column.unit}" if column else "Head") + sorted_
        if role == Role.TextAlignmentRole:
            return RIGHT if column else Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        return None

    def _uniform_text(self, section: int) -> str:
        """Return a column's value for uniform attention; for the first column, the row title."""
        if section == 0 or self.table is None:
            return UNIFORM
        return self.table.columns[section - 1].written(self.table.uniform[section - 1])

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        if columns := _columns_of(self.table):
            self._by = columns[column - 1] if column > 0 else None
        self._order = order
        self._sort_rows(self.rows)
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, self.columnCount() - 1)

    def _sort_rows(self, rows: tuple[HeadRow, ...]) -> None:
        """Sort the rows; selection and current index follow their heads."""
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

    def rows_to_measure(self, column: int) -> tuple[int, ...]:
        """Return rows that include a column's widest text: one for each pattern of characters."""
        if column not in self._shapes:
            texts = [row.written[column - 1] if column else row.name for row in self.rows]
            places = {text.translate(SHAPE): at for at, text in enumerate(texts)}
            self._shapes[column] = tuple(places.values())
        return self._shapes[column]

    def _set_rows(self, rows: tuple[HeadRow, ...]) -> None:
        self.rows, self._shapes = self._sorted_rows(rows), {}

    def _sorted_rows(self, rows: tuple[HeadRow, ...]) -> tuple[HeadRow, ...]:
        """Sort by value, then by head; rows without a value come last."""
        falls = self._order is Qt.SortOrder.DescendingOrder
        sign, by = -1 if falls else 1, self.sorted_by

        def key(row: HeadRow) -> tuple[bool, bool, float, int, int]:
            layer, head = row.place or (0, 0)
            if by == 0:
                return row.place is None, False, 0, sign * layer, sign * head
            value = row.values[by - 1]
            return row.place is None, value is None, sign * (value or 0), layer, head

        return tuple(sorted(rows, key=key))

    def _accessible_text(self, row: HeadRow, column: int) -> str:
        if column < 0 or self.table is None:
            return row.full_name
        about = self.table.columns[column]
        uniform = self._uniform_text(column + 1)
        text = f"{row.full_name}, {about.title}: {row.written[column]} {about.unit}"
        return f"{text}; uniform attention: {uniform}"


def _columns_of(table: HeadTablePanel | None) -> tuple[HeadColumn, ...]:
    return table.columns if table else ()
