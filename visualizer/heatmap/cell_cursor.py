"""The cell cursor: the hovered or pinned cell, and everything highlighted with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.session.token_selection import TokenRole
from visualizer.session.zoom_ranges import row_token_role

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell, ParameterCell
    from visualizer.session.resolved_view import ResolvedView


class CellCursor(Struct, frozen=True):
    """The hovered or pinned cell, and everything highlighted with it.

    Parameters
    ----------
    query, key : int or None
        The tokens highlighted in every panel and in the token strip.
    column : tuple of (stage, int) or None
        The highlighted column of a stage with columns other than tokens.
    queries, keys : frozenset of int
        Tokens that are selected in the token strip, as queries or as keys.
    pinned_parameter : ParameterCell or None
        The pinned weight of a layer.
    """

    hovered: Cell | None = None
    pinned: Cell | None = None
    query: int | None = None
    key: int | None = None
    column: tuple[str, int] | None = None
    queries: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()
    pinned_parameter: ParameterCell | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether a cell or a weight of a layer is pinned."""
        return self.pinned is not None or self.pinned_parameter is not None


def present_cursor(resolved: ResolvedView) -> CellCursor:
    """Return the cursor of the hovered cell, or else of the pinned cell."""
    cursor = create_cursor_on_cell(
        resolved, resolved.reached_hovered_cell, resolved.reached_pinned_cell
    )
    return replace(cursor, pinned_parameter=resolved.view.pinned_parameter)


def create_cursor_on_cell(
    resolved: ResolvedView, hovered: Cell | None, pinned: Cell | None
) -> CellCursor:
    """Return the cursor of the hovered or else the pinned cell; the cell must exist in this run."""
    cell, tokens_chosen = hovered or pinned, resolved.view.tokens
    count = resolved.run.trace.query_key_counts[tokens_chosen.role is TokenRole.KEY]
    chosen = tokens_chosen.tokens_below(count)
    if cell is None:
        return _with_selected_tokens(CellCursor(), tokens_chosen.role, chosen)
    stage = resolved.run.trace.stage(cell.stage)
    place = dict(zip(stage.dims[-len(cell.place) :], cell.place, strict=True))
    tokens = {row_token_role(stage.name): place["token"]} if "token" in place else place
    column = None if stage.dims[-1] == "key" else (stage.name, cell.place[-1])
    cursor = CellCursor(hovered, pinned, tokens.get("query"), tokens.get("key"), column)
    return _with_selected_tokens(cursor, tokens_chosen.role, chosen)


def _with_selected_tokens(
    cursor: CellCursor, role: TokenRole, chosen: frozenset[int]
) -> CellCursor:
    if role is TokenRole.QUERY:
        return replace(cursor, queries=chosen)
    return replace(cursor, keys=chosen)
