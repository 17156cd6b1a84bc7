"""The cursor in the line view, and which of its lines are shown: what a hand can want there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from visualizer.features.line_view.model import largest_cell
from visualizer.session.view_changes import pin_cell
from visualizer.session.view_options import LineSide

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell
    from visualizer.session.view_options import LineOptions, LineToken
    from visualizer.session.workspace import Workspace


class LineViewController(QObject):
    """Points at the lines of a workspace; every method is something a reader wants."""

    def __init__(self, workspace: Workspace, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace

    def choose(self, name: str, value: object) -> None:
        """Change which lines are shown, by the fields of `LineOptions`."""
        changes: dict[str, Any] = {name: value}
        look = replace(self._workspace.wanted.lines, **changes)
        self._workspace.look(lines=look)

    def hover(self, cell: Cell | None) -> None:
        """Look at the line under the pointer."""
        self._workspace.look(hovered=cell, lines=self._looking(self._kept))

    def pin(self, cell: Cell | None) -> None:
        """Hold on to a line; a second time lets go of it."""
        wanted = self._workspace.wanted
        self._workspace.want(pin_cell(wanted, None if cell == wanted.pinned else cell))

    def point(self, token: LineToken) -> None:
        """Look at all lines of the token under the pointer, and at the largest as a cell."""
        cell = self._largest(token)
        self._workspace.look(hovered=cell, lines=self._aimed(cell, token))

    def hold(self, token: LineToken) -> None:
        """Hold on to a token's lines; a second time lets go of them."""
        cell, wanted = self._largest(token), self._workspace.wanted
        look = self._aimed(cell, token)
        is_held = cell == wanted.pinned and look == wanted.lines
        self._workspace.want(replace(pin_cell(wanted, None if is_held else cell), lines=look))

    def _largest(self, token: LineToken) -> Cell | None:
        resolved = self._workspace.screen.resolved
        return largest_cell(resolved, token) if resolved else None

    def _aimed(self, cell: Cell | None, token: LineToken) -> LineOptions:
        own = frozenset({cell}) if cell else frozenset()
        return self._looking(self._kept | own if token.side is LineSide.KEY else self._kept - own)

    @property
    def _kept(self) -> frozenset[Cell]:
        wanted = self._workspace.wanted
        return wanted.lines.by_key & ({wanted.pinned} if wanted.pinned else frozenset())

    def _looking(self, by_key: frozenset[Cell]) -> LineOptions:
        return replace(self._workspace.wanted.lines, by_key=by_key)
