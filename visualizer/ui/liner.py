"""The cursor in the line view, and which of its lines are shown: what a hand can want there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from visualizer.state.lines.look import Side
from visualizer.state.lines.panel import largest_cell
from visualizer.state.trail import followed

if TYPE_CHECKING:
    from visualizer.state.lines.look import LineLook, Token
    from visualizer.state.view import Cell
    from visualizer.ui.workspace import Workspace


class Liner(QObject):
    """Points at the lines of a workspace; every method is something a reader wants."""

    def __init__(self, workspace: Workspace, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace

    def choose(self, name: str, value: object) -> None:
        """Change which lines are shown, by the fields of `LineLook`."""
        changes: dict[str, Any] = {name: value}
        look = replace(self._workspace.wanted.lines, **changes)
        self._workspace.look(lines=look)

    def hover(self, cell: Cell | None) -> None:
        """Look at the line under the pointer."""
        self._workspace.look(hovered=cell, lines=self._looking(self._kept))

    def pin(self, cell: Cell | None) -> None:
        """Hold on to a line; a second time lets go of it."""
        wanted = self._workspace.wanted
        self._workspace.want(followed(wanted, None if cell == wanted.pinned else cell))

    def point(self, token: Token) -> None:
        """Look at all lines of the token under the pointer, and at the largest as a cell."""
        cell = self._largest(token)
        self._workspace.look(hovered=cell, lines=self._aimed(cell, token))

    def hold(self, token: Token) -> None:
        """Hold on to a token's lines; a second time lets go of them."""
        cell, wanted = self._largest(token), self._workspace.wanted
        look = self._aimed(cell, token)
        is_held = cell == wanted.pinned and look == wanted.lines
        self._workspace.want(replace(followed(wanted, None if is_held else cell), lines=look))

    def _largest(self, token: Token) -> Cell | None:
        resolved = self._workspace.screen.resolved
        return largest_cell(resolved, token) if resolved else None

    def _aimed(self, cell: Cell | None, token: Token) -> LineLook:
        own = frozenset({cell}) if cell else frozenset()
        return self._looking(self._kept | own if token.side is Side.KEY else self._kept - own)

    @property
    def _kept(self) -> frozenset[Cell]:
        wanted = self._workspace.wanted
        return wanted.lines.by_key & ({wanted.pinned} if wanted.pinned else frozenset())

    def _looking(self, by_key: frozenset[Cell]) -> LineLook:
        return replace(self._workspace.wanted.lines, by_key=by_key)
