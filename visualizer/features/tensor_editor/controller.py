"""Numbers by hand: what a hand can want of the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication

from visualizer.errors import InputError
from visualizer.features.tensor_editor.model import TABLE, as_drawn, edited
from visualizer.features.tensor_editor.spreadsheet_clipboard import (
    format_block,
    parse_block,
    parse_number,
)
from visualizer.session.cell_address import Cell
from visualizer.session.view import TableSelection

if TYPE_CHECKING:
    from visualizer.session.document import Document
    from visualizer.session.workspace import Workspace


class TensorEditController(QObject):
    """Reads and edits the numbers of a workspace; each edit is one change to undo."""

    def __init__(self, workspace: Workspace, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace

    def choose(self, name: str) -> None:
        """Read another tensor, of the head that was read."""
        self._look(TableSelection(name, self._workspace.wanted.table.head))

    def choose_head(self, head: int) -> None:
        """Read another head; a cell that is pinned in this one goes along."""
        look, pinned = self._workspace.wanted.table, self._workspace.wanted.pinned
        if pinned and pinned.stage == look.name and pinned.head is not None:
            pinned = Cell(pinned.stage, (head, *pinned.place[1:]))
        self._workspace.look(table=TableSelection(look.name, head), pinned=pinned)

    def pin(self, cell: Cell) -> None:
        """Hold on to the cell that is marked in the table."""
        self._workspace.look(hovered=None, pinned=cell)

    def type(self, name: str, row: int, column: int, text: str) -> None:
        """Put the number that was typed into a cell."""
        try:
            self._put(name, row, column, np.array([[parse_number(text)]]))
        except InputError as refused:
            self._complain(refused)

    def paste(self, name: str, row: int, column: int, text: str) -> None:
        """Put a block of numbers into the cells from one on."""
        try:
            self._put(name, row, column, parse_block(text))
        except InputError as refused:
            self._complain(refused)

    def copy(self, rows: slice, columns: slice) -> None:
        """Put a block of the table on the clipboard, as spreadsheets take it."""
        table = self._workspace.screen.panel(TABLE)
        if table:
            try:
                text = format_block(table.block(rows, columns).numbers)
            except InputError as refused:
                self._complain(refused)
            else:
                QGuiApplication.clipboard().setText(text)

    def draw_again(self, name: str) -> None:
        """Give up the own numbers of a tensor for those of the seed."""
        workspace = self._workspace
        if workspace.run:
            self._change(as_drawn(workspace.document, workspace.run, name))

    def _put(self, name: str, row: int, column: int, values: np.ndarray) -> None:
        workspace = self._workspace
        if workspace.run:
            self._change(edited(workspace.document, workspace.run, name, row, column, values))

    def _change(self, document: Document) -> None:
        wanted = self._workspace.wanted
        look = TableSelection(wanted.table.name, wanted.table.head)
        self._workspace.show_document(document, replace(wanted, table=look))

    def _complain(self, refused: InputError) -> None:
        look, document = self._workspace.wanted.table, self._workspace.document
        self._look(TableSelection(look.name, look.head, refused.sentence, document))

    def _look(self, look: TableSelection) -> None:
        self._workspace.look(table=look)
