"""Controller of the line view: hovered and pinned lines and tokens, and the line options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QObject

from visualizer.features.line_view.presenter import strongest_line_cell
from visualizer.session.view_changes import pin_cell
from visualizer.session.view_options import LineViewSide

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell
    from visualizer.session.view_options import LineViewOptions, LineViewToken
    from visualizer.session.workspace import Workspace


class LineViewController(QObject):
    """Controller that changes the cursor and the line options; each public method is one action."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._hovered: Cell | None = None
        """The cell that was last hovered in this view."""

    def set_option(self, name: str, value: object) -> None:
        """Set a field of `LineViewOptions`."""
        changes: dict[str, Any] = {name: value}
        self._workspace.change_view(lines=replace(self._workspace.requested_view.lines, **changes))

    def hover_cell(self, cell: Cell | None) -> None:
        """Mark the cell of a line as hovered; None clears the mark if this view has set it."""
        lines = self._options_with_pinned_keys(self._pinned_by_key)
        if cell is None and self._workspace.requested_view.hovered != self._hovered:
            self._workspace.change_view(lines=lines)
            return
        self._hovered = cell
        self._workspace.change_view(hovered=cell, lines=lines)

    def pin_cell(self, cell: Cell | None) -> None:
        """Pin the cell of a line, or unpin it if it is already pinned."""
        wanted = self._workspace.requested_view
        self._workspace.request_view(pin_cell(wanted, None if cell == wanted.pinned else cell))

    def hover_token(self, token: LineViewToken) -> None:
        """Highlight the lines of the token under the pointer, and mark the strongest as hovered."""
        self._hovered = cell = self._strongest_cell_of_token(token)
        self._workspace.change_view(hovered=cell, lines=self._options_for_token(cell, token))

    def pin_token(self, token: LineViewToken) -> None:
        """Pin the lines of a token, or unpin them if they are already pinned."""
        cell, wanted = self._strongest_cell_of_token(token), self._workspace.requested_view
        options = self._options_for_token(cell, token)
        is_pinned = cell == wanted.pinned and options == wanted.lines
        view = pin_cell(wanted, None if is_pinned else cell)
        self._workspace.request_view(replace(view, lines=options))

    def _strongest_cell_of_token(self, token: LineViewToken) -> Cell | None:
        resolved = self._workspace.screen.resolved
        return strongest_line_cell(resolved, token) if resolved else None

    def _options_for_token(self, cell: Cell | None, token: LineViewToken) -> LineViewOptions:
        own, by_key = frozenset({cell} if cell else ()), self._pinned_by_key
        return self._options_with_pinned_keys(
            by_key | own if token.side is LineViewSide.KEY else by_key - own
        )

    @property
    def _pinned_by_key(self) -> frozenset[Cell]:
        wanted = self._workspace.requested_view
        return frozenset(cell for cell in wanted.lines.by_key if cell == wanted.pinned)

    def _options_with_pinned_keys(self, by_key: frozenset[Cell]) -> LineViewOptions:
        return replace(self._workspace.requested_view.lines, by_key=by_key)
