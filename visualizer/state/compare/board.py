"""The board of a comparison: beside each other what is compared, and then the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.state.compare.comparison import Against, mismatch
from visualizer.state.compare.panels import (
    ChangePanel,
    HeadPanel,
    MeanPanel,
    SamplePanel,
    SidePanel,
)
from visualizer.state.heatmaps import overview_of, present_board
from visualizer.state.panels import Board
from visualizer.state.view import Part
from visualizer.state.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from visualizer.state.compare.comparison import Comparison
    from visualizer.state.panel import Panel
    from visualizer.state.resolve import Resolved

_CHANGE = "B − A"


def present_compared(resolved: Resolved, previous: Board) -> Board:
    """Show what is compared; the usual panels, where nothing is."""
    comparison = resolved.comparison
    if comparison is None:
        return present_board(resolved, previous)
    known = previous.known
    columns = _COLUMNS[comparison.against](resolved, comparison)
    made = tuple(tuple(panel.heatmap(known) for panel in column) for column in columns)
    return Board(made, overview_of(resolved, known), resolved.zoom)


def _kept(resolved: Resolved, comparison: Comparison) -> Iterator[Sequence[Panel]]:
    kept, run, a = comparison.kept, resolved.run, resolved.kept
    assert kept
    for stage in resolved.shown_stages:
        rows = list(resolved.rows_of(stage))
        if not mismatch(kept, run, stage):
            yield [SidePanel(a, stage, whose, Part.A, run) for whose in rows]
            yield [SidePanel(resolved, stage, whose, Part.B, kept) for whose in rows]
            yield [ChangePanel(resolved, stage, whose, comparison, _CHANGE) for whose in rows]
            continue
        if stage.name in kept.trace:
            own = kept.trace.stage(stage.name)
            yield [SidePanel(a, own, whose, Part.A, None) for whose in a.rows_of(own)]
        yield [SidePanel(resolved, stage, whose, Part.B, None) for whose in rows]


def _heads(resolved: Resolved, comparison: Comparison) -> Iterator[Sequence[Panel]]:
    one, other = comparison.heads
    title = f"Head {other + 1} − head {one + 1}"
    trace = resolved.run.trace
    with_heads = [stage for stage in resolved.shown_stages if "head" in stage.dims]
    for stage in with_heads or [trace.stage(trace.attention)]:
        yield [HeadPanel(resolved, stage, one, other)]
        yield [HeadPanel(resolved, stage, other, one)]
        yield [ChangePanel(resolved, stage, (other, None), comparison, title)]


def _samples(resolved: Resolved, comparison: Comparison) -> Iterator[Sequence[Panel]]:
    weights, dropped = (resolved.run.trace.stage(name) for name in ("weights", "dropped"))
    heads = resolved.drawn_heads
    mean, change = f"Mean of {counted(comparison.count, 'sample')}", "Mean − weights"
    yield [SamplePanel(resolved, weights, head, comparison, "Weights") for head in heads]
    yield [SamplePanel(resolved, dropped, head, comparison, "One sample") for head in heads]
    yield [MeanPanel(resolved, dropped, head, comparison, mean) for head in heads]
    yield [ChangePanel(resolved, dropped, (head, None), comparison, change) for head in heads]


_COLUMNS = {Against.KEPT: _kept, Against.HEAD: _heads, Against.SAMPLES: _samples}
