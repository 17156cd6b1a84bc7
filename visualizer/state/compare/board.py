"""The board of a comparison: beside each other what is compared, and then the difference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from visualizer.attention.derived import Lens
from visualizer.state.compare.bar import present_bar
from visualizer.state.compare.comparison import Against, compared, mismatch
from visualizer.state.compare.panels import (
    ChangePanel,
    HeadPanel,
    MeanPanel,
    SamplePanel,
    SidePanel,
)
from visualizer.state.heatmaps import (
    drawn_heads,
    overview_of,
    present_board,
    rows_of,
    shown_stages,
)
from visualizer.state.panels import Board
from visualizer.state.view import Part, existing
from visualizer.state.words import counted
from visualizer.state.zoom import fitted

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.state.compare.comparison import Comparison
    from visualizer.state.panel import Panel
    from visualizer.state.view import View

_CHANGE = "B − A"


def present_compared(run: Run, view: View, previous: Board) -> Board:
    """Show what is compared; the usual panels, where nothing is."""
    comparison = compared(run, view)
    if comparison is None:
        return present_board(run, view, previous)
    known = previous.known
    columns = _COLUMNS[comparison.against](run, view, comparison)
    made = tuple(tuple(panel.heatmap(known) for panel in column) for column in columns)
    zoom = fitted(view.zoom, run.trace.sides)
    return Board(made, overview_of(run, view, known), zoom)


def needs(run: Run, view: View) -> Hashable:
    """Name what is compared, and of what its largest differences are looked for."""
    comparison = compared(run, view)
    if comparison is None:
        return None
    pinned = existing(run, view.pinned)
    stage = pinned.stage if pinned else None
    return id(comparison), run.nearest(view.text), drawn_heads(run, view), stage


def warm(run: Run, view: View) -> None:
    """Work out what a comparison needs, if there is one: for the worker."""
    if compared(run, view):
        present_compared(run, view, Board())
        present_bar(run, view, None)


def _stages(run: Run, view: View) -> list[Stage]:
    shown = shown_stages(run, view)
    return [stage for stage in run.trace.stages if stage.name in shown]


def _kept(run: Run, view: View, comparison: Comparison) -> Iterator[Sequence[Panel]]:
    kept = comparison.kept
    assert kept
    for stage in _stages(run, view):
        rows = list(rows_of(run, view, stage))
        if not mismatch(kept, run, stage):
            yield [SidePanel(kept, view, stage, whose, Part.A, run) for whose in rows]
            yield [SidePanel(run, view, stage, whose, Part.B, kept) for whose in rows]
            yield [ChangePanel(run, view, stage, whose, comparison, _CHANGE) for whose in rows]
            continue
        if stage.name in kept.trace:
            own = kept.trace.stage(stage.name)
            theirs = rows_of(kept, view, own)
            yield [SidePanel(kept, view, own, whose, Part.A, None) for whose in theirs]
        yield [SidePanel(run, view, stage, whose, Part.B, None) for whose in rows]


def _heads(run: Run, view: View, comparison: Comparison) -> Iterator[Sequence[Panel]]:
    one, other = comparison.heads
    title = f"Head {other + 1} − head {one + 1}"
    with_heads = [stage for stage in _stages(run, view) if "head" in stage.dims]
    for stage in with_heads or [run.trace.stage(run.trace.attention)]:
        yield [HeadPanel(run, view, stage, one, other)]
        yield [HeadPanel(run, view, stage, other, one)]
        yield [ChangePanel(run, view, stage, (other, None), comparison, title)]


def _samples(run: Run, view: View, comparison: Comparison) -> Iterator[Sequence[Panel]]:
    view = replace(view, lens=Lens.PLAIN)
    weights, dropped = (run.trace.stage(name) for name in ("weights", "dropped"))
    heads = drawn_heads(run, view)
    mean, change = f"Mean of {counted(comparison.count, 'sample')}", "Mean − weights"
    yield [SamplePanel(run, view, weights, head, comparison, "Weights") for head in heads]
    yield [SamplePanel(run, view, dropped, head, comparison, "One sample") for head in heads]
    yield [MeanPanel(run, view, dropped, head, comparison, mean) for head in heads]
    yield [ChangePanel(run, view, dropped, (head, None), comparison, change) for head in heads]


_COLUMNS = {Against.KEPT: _kept, Against.HEAD: _heads, Against.SAMPLES: _samples}
