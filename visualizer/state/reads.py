"""Of which weights it is said who reads whom: of the head looked at, or of all in the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.derived import Fold
from visualizer.state.heatmaps import shown_stages
from visualizer.state.view import existing

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.state.view import Cell, View


def read_stage(run: Run, view: View) -> str:
    """Name the stage of weights that counts: after dropout, where that is shown."""
    return "dropped" if "dropped" in shown_stages(run, view) else run.trace.attention


def head_read(run: Run, cell: Cell | None) -> int | None:
    """Give the head that is looked at with a cell; None where it is all of them."""
    if run.trace.spec.heads == 1:
        return 0
    return cell.head if cell else None


def needs(run: Run, view: View) -> str | None:
    """Name the stage whose heads are folded into one for chosen tokens; mostly there is none."""
    is_folded = head_read(run, existing(run, view.pinned)) is None and view.tokens.chosen
    return read_stage(run, view) if is_folded else None


def warm(run: Run, view: View) -> None:
    """Fold the heads, where they are needed as one."""
    stage = needs(run, view)
    if stage:
        run.trace.seen(stage, by=Fold.MEAN)
