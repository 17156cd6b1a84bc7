"""Controller of the Numbers pane: selects the tensor, and edits, copies and resets numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication

from visualizer.errors import InputError
from visualizer.features.tensor_editor.presenter import NUMBER_TABLE_PANEL
from visualizer.features.tensor_editor.spreadsheet_clipboard import (
    format_block,
    parse_block,
    parse_number,
)
from visualizer.features.tensor_editor.tensor_edit import replace_block, reset_to_random
from visualizer.session.cell_address import Cell
from visualizer.session.view import TableSelection

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.session.document import Document
    from visualizer.session.workspace import Workspace


class TensorEditController(QObject):
    """Controller that shows and edits the tensors of a workspace; each edit is one undo step."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace

    def select_tensor(self, name: str) -> None:
        """Show another tensor for the same head."""
        self._workspace.change_view(
            table=TableSelection(name, self._workspace.requested_view.table.head)
        )

    def select_head(self, head: int) -> None:
        """Show another head, and move a pinned cell of this tensor to it."""
        selection, pinned = (
            self._workspace.requested_view.table,
            self._workspace.requested_view.pinned,
        )
        if pinned and pinned.stage == selection.name and pinned.head is not None:
            pinned = Cell(pinned.stage, (head, *pinned.place[1:]))
        self._workspace.change_view(table=TableSelection(selection.name, head), pinned=pinned)

    def pin_cell(self, cell: Cell) -> None:
        """Pin the cell selected in the table."""
        self._workspace.change_view(hovered=None, pinned=cell)

    def set_cell_number(self, name: str, row: int, column: int, text: str) -> None:
        """Set a cell to the number that the user entered."""
        self._set_block(name, row, column, lambda: np.array([[parse_number(text)]]))

    def paste_block(self, name: str, row: int, column: int, text: str) -> None:
        """Paste a block of numbers; its upper left corner is at the given cell."""
        self._set_block(name, row, column, lambda: parse_block(text))

    def copy_block(self, rows: slice, columns: slice) -> None:
        """Copy a block of the table to the clipboard, in spreadsheet format."""
        table = self._workspace.screen.panel(NUMBER_TABLE_PANEL)
        if table:
            try:
                text = format_block(table.read_block(rows, columns).numbers)
            except InputError as refused:
                self._report_error(refused)
            else:
                QGuiApplication.clipboard().setText(text)

    def reset_tensor(self, name: str) -> None:
        """Replace the custom values of a tensor with random values generated from the seed."""
        workspace = self._workspace
        if workspace.run:
            self._show_document(reset_to_random(workspace.document, workspace.run, name))

    def _set_block(self, name: str, row: int, column: int, parse: Callable[[], np.ndarray]) -> None:
        workspace = self._workspace
        try:
            values = parse()
            if workspace.run:
                self._show_document(
                    replace_block(workspace.document, workspace.run, name, row, column, values)
                )
        except InputError as refused:
            self._report_error(refused)

    def _show_document(self, document: Document) -> None:
        wanted = self._workspace.requested_view
        selection = TableSelection(wanted.table.name, wanted.table.head)
        self._workspace.show_document(document, replace(wanted, table=selection))

    def _report_error(self, refused: InputError) -> None:
        selection, document = self._workspace.requested_view.table, self._workspace.document
        table = TableSelection(selection.name, selection.head, refused.sentence, document)
        self._workspace.change_view(table=table)
