"""Controller of the token strip: selects tokens, sets their role, and finds tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from visualizer.features.token_strip.presenter import TOKENS_PANEL, hovered_cell_of_token
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_lookup import cell_at
from visualizer.session.token_selection import (
    TokenRole,
    select_matching_tokens,
    select_next_matching_token,
)

if TYPE_CHECKING:
    from visualizer.features.token_strip.widget import TokenPane
    from visualizer.session.token_selection import TokenSelection
    from visualizer.session.workspace import Workspace


class TokenSelectionController(QObject):
    """Controller that selects tokens of a workspace; each public method is one user action."""

    matchReached = Signal(object)
    """Emitted with a cell of the found token, so that the heatmaps scroll it into view."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace

    def connect_pane(self, pane: TokenPane) -> None:
        """Connect the signals of the Tokens pane."""
        pane.tokensChosen.connect(self.select_tokens)
        pane.hovered.connect(self.hover_token)
        pane.roleChosen.connect(self.set_role)
        pane.searchTyped.connect(self.find_tokens)
        pane.stepped.connect(self.go_to_match)

    @property
    def _current_selection(self) -> TokenSelection:
        return self._workspace.requested_view.tokens

    def select_tokens(self, tokens: frozenset[int]) -> None:
        """Select tokens; if the set is empty, the weights of the cursor are shown."""
        self._update_selection(chosen=tokens, match=None)

    def select_token(self, token: int, role: TokenRole) -> None:
        """Select one token as a query or as a key."""
        self._update_selection(chosen=frozenset({token}), match=None, role=role)

    def toggle_token(self, token: int, role: TokenRole) -> None:
        """Select one token as a query or as a key; deselect it if it is the only one."""
        now = self._current_selection
        if now.chosen == {token} and now.role is role:
            self.deselect_all()
        else:
            self.select_token(token, role)

    def hover_token(self, token: int | None) -> None:
        """Mark the cell that corresponds to the token under the pointer as hovered."""
        resolved = self._workspace.screen.resolved
        cell = hovered_cell_of_token(resolved, token) if resolved and token is not None else None
        self._workspace.change_view(hovered=cell)

    def deselect_all(self) -> None:
        """Clear the selection."""
        self.select_tokens(frozenset())

    def set_role(self, role: TokenRole) -> None:
        self._update_selection(role=TokenRole(role))

    def switch_role(self) -> None:
        """Switch between query and key."""
        self.set_role(self._current_selection.role.opposite)

    def find_tokens(self, sought: str) -> None:
        """Select all tokens that contain the search text."""
        labels = self._workspace.screen.panel(TOKENS_PANEL).labels
        self._workspace.change_view(
            tokens=select_matching_tokens(self._current_selection, labels, sought)
        )

    def go_to_match(self, steps: int) -> None:
        """Select the next or the previous match, and scroll it into view."""
        labels = self._workspace.screen.panel(TOKENS_PANEL).labels
        selection = select_next_matching_token(self._current_selection, labels, steps)
        if selection.match is None:
            return
        (token,) = selection.chosen
        query, key = (token, None) if selection.role is TokenRole.QUERY else (None, token)
        zoom, run = self._workspace.requested_view.zoom, self._workspace.run
        if zoom and run:
            zoom = zoom.pan_to_include(run.trace.query_key_counts, query, key)
        self._workspace.change_view(tokens=selection, zoom=zoom)
        for panel in self._workspace.screen.panel(BOARD_CONTENTS).board.heatmaps:
            if panel.columns.name == "key":
                row, column = panel.rows.visible_range[0], panel.columns.visible_range[0]
                place = (token, column) if key is None else (row, token)
                self.matchReached.emit(cell_at(panel, *place))
                return

    def _update_selection(self, **changes: Any) -> None:
        self._workspace.change_view(tokens=replace(self._current_selection, **changes))
