"""Which heatmaps there are, and what is in each: made from a run for a view."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from visualizer.state.colouring import Curve
from visualizer.state.panel import Panel, TextPanel
from visualizer.state.panels import Board, Heatmap
from visualizer.state.trail import followed

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from visualizer.attention.stages import Stage
    from visualizer.state.resolve import Resolved
    from visualizer.state.view import View

OVERVIEW = 96


def present_board(resolved: Resolved, previous: Board) -> Board:
    """Show the stages that are looked at; panels that did not change are the very same objects."""
    known = previous.known
    columns = tuple(
        tuple(panel.heatmap(known) for panel in _panels(resolved, stage))
        for stage in resolved.shown_stages
    )
    text = resolved.text if resolved.is_spread else None
    return Board(columns, overview_of(resolved, known), resolved.zoom, text)


def _panels(resolved: Resolved, stage: Stage) -> Iterator[Panel]:
    """Give a stage's panels: of every text, or of the heads of one."""
    if not resolved.is_spread:
        for whose in resolved.rows_of(stage):
            yield Panel(resolved, stage, *whose)
        return
    head = resolved.spread_head(stage)
    for text in range(len(resolved.run.texts)):
        yield TextPanel(resolved, stage, head, None, text=text)


def overview_of(resolved: Resolved, known: dict[Hashable, Heatmap]) -> Heatmap | None:
    """Show all of a panel of queries and keys, where only a part is seen of the others.

    It is of the pinned cell's head, or else of the first.
    """
    if resolved.overview is None:
        return None
    return _overview(resolved, resolved.overview, resolved.overview_head, known)


def _overview(resolved: Resolved, name: str, head: int, known: dict[Hashable, Heatmap]) -> Heatmap:
    stage = resolved.run.trace.stage(name)
    look = resolved.whole_extent(stage, OVERVIEW)
    return Panel(resolved, stage, head, None, look=look).heatmap(known)


def toggled(resolved: Resolved, stage: str) -> View:
    """Show or hide a stage; the last one stays. With a panel goes the cell that is pinned in it."""
    view, shown = resolved.view, resolved.chosen ^ {stage}
    absent = view.stages.difference(resolved.run.trace.names)
    if view.pinned and view.pinned.stage == stage:
        view = followed(view, None)
        shown -= {stage}
    return replace(view, stages=absent | shown) if shown else view


def needs(resolved: Resolved) -> Hashable:
    """Name what has to be read for the panels of a view."""
    looks = frozenset(resolved.extent(stage).blocks for stage in resolved.shown_stages)
    chosen, pinned = resolved.view.colouring, resolved.pinned
    folds = () if resolved.is_spread else resolved.folds
    return (
        resolved.stages,
        looks,
        resolved.view.lens,
        resolved.is_spread,
        bool(resolved.heads),  # else folds alone
        frozenset({*folds, *([pinned.fold] if pinned and pinned.fold else [])}),
        (chosen.limits, chosen.curve is Curve.LINEAR),
        resolved.overview is not None,
    )


def warm(resolved: Resolved) -> None:
    """Read what may be pointed at: the map of whichever has the pinned cell, and a folded cell.

    Of a comparison, the numbers that are told of a cell are those of its usual panel, too.
    """
    pinned = resolved.pinned
    if resolved.comparison:
        present_board(resolved, Board())
    for name in resolved.square_stages if resolved.overview else ():
        _overview(resolved, name, 0, {})
    if pinned and pinned.fold:
        resolved.run.trace.seen(pinned.stage, resolved.view.lens, pinned.fold)
