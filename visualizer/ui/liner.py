"""The cursor in the line view, and which of its lines are shown: what a hand can want there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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
        look: LineLook = replace(self._workspace.wanted.lines, **{name: value})
        self._workspace.look(lines=look)

    def hover(self, cell: Cell | None) -> None:
        """Look at the line under the pointer."""
        self._workspace.look(hovered=cell)

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
        run = self._workspace.run
        return largest_cell(run, self._workspace.view, token) if run else None

    def _aimed(self, cell: Cell | None, token: Token) -> LineLook:
        wanted = self._workspace.wanted
        kept = wanted.lines.by_key & {wanted.pinned}
        own = frozenset({cell}) if cell else frozenset()
        return replace(wanted.lines, by_key=kept | own if token.side is Side.KEY else kept - own)
