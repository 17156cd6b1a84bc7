"""Controller of the line view: the cursor on its lines and tokens, and the options of its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QObject

from visualizer.features.line_view.presenter import largest_cell
from visualizer.session.line_options import LineSide
from visualizer.session.stage_toggle_and_cell_pinning import pin_cell

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell
    from visualizer.session.line_options import LineOptions, LineToken
    from visualizer.session.workspace import Workspace


class LineViewController(QObject):
    """Turns input at the line view into cursor and view changes; each method is one user intent."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._hovered: Cell | None = None
        """Hovered here last."""

    def choose(self, name: str, value: object) -> None:
        """Set a field of `LineOptions`."""
        changes: dict[str, Any] = {name: value}
        options = replace(self._workspace.wanted.lines, **changes)
        self._workspace.look(lines=options)

    def hover(self, cell: Cell | None) -> None:
        """Hover a line's cell; None lets go of it, unless another pane has hovered one since."""
        hovered, lines = self._workspace.wanted.hovered, self._looking(self._kept)
        if cell is None and hovered != self._hovered:
            self._workspace.look(lines=lines)
            return
        self._hovered = cell
        self._workspace.look(hovered=cell, lines=lines)

    def pin(self, cell: Cell | None) -> None:
        """Pin a line's cell; a second time unpins it."""
        wanted = self._workspace.wanted
        self._workspace.want(pin_cell(wanted, None if cell == wanted.pinned else cell))

    def point(self, token: LineToken) -> None:
        """Highlight the lines of the token under the pointer; the largest is the hovered cell."""
        self._hovered = cell = self._largest(token)
        self._workspace.look(hovered=cell, lines=self._aimed(cell, token))

    def hold(self, token: LineToken) -> None:
        """Pin a token's lines; a second time unpins them."""
        cell, wanted = self._largest(token), self._workspace.wanted
        options = self._aimed(cell, token)
        is_held = cell == wanted.pinned and options == wanted.lines
        self._workspace.want(replace(pin_cell(wanted, None if is_held else cell), lines=options))

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
