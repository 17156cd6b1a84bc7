"""Of which weights it is said who reads whom: of the head looked at, or of all in the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.derived import Fold

if TYPE_CHECKING:
    from visualizer.state.resolve import Resolved
    from visualizer.state.view import Cell


def head_read(resolved: Resolved, cell: Cell | None) -> int | None:
    """Give the head that is looked at with a cell; None where it is all of them."""
    if resolved.run.trace.spec.heads == 1:
        return 0
    return cell.head if cell else None


def needs(resolved: Resolved) -> str | None:
    """Name the stage whose heads are folded into one for chosen tokens; mostly there is none."""
    is_folded = head_read(resolved, resolved.pinned) is None and resolved.view.tokens.chosen
    return resolved.read_stage if is_folded else None


def warm(resolved: Resolved) -> None:
    """Fold the heads, where they are needed as one."""
    stage = needs(resolved)
    if stage:
        resolved.run.trace.seen(stage, by=Fold.MEAN)
