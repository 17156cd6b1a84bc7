"""Which heatmaps there are, and what is in each: made from a run for a view."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from visualizer.attention.derived import Fold
from visualizer.state.colouring import Curve
from visualizer.state.extent import look_of
from visualizer.state.panel import Panel, TextPanel
from visualizer.state.panels import Board, Heatmap
from visualizer.state.playback.lights import focus
from visualizer.state.trail import followed
from visualizer.state.view import existing
from visualizer.state.zoom import fitted

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.state.view import View

OVERVIEW = 96


def present_board(run: Run, view: View, previous: Board) -> Board:
    """Show the stages that are looked at; panels that did not change are the very same objects."""
    known, columns = previous.known, []
    for stage in run.trace.stages:
        if stage.name in shown_stages(run, view):
            panels = (
                _of_texts(run, view, stage)
                if is_spread(run, view)
                else (Panel(run, view, stage, *whose) for whose in rows_of(run, view, stage))
            )
            columns.append(tuple(panel.heatmap(known) for panel in panels))
    zoom = fitted(view.zoom, run.trace.sides)
    text = run.nearest(view.text) if is_spread(run, view) else None
    return Board(tuple(columns), overview_of(run, view, known), zoom, text)


def is_spread(run: Run, view: View) -> bool:
    """Whether the texts of a batch stand side by side; not while something is played."""
    return view.spread and len(run.texts) > 1 and focus(run, view) is None


def _of_texts(run: Run, view: View, stage: Stage) -> Iterator[Panel]:
    """Give a stage's panels of every text."""
    head = spread_head(run, view, stage)
    for text in range(len(run.texts)):
        yield TextPanel(run, replace(view, text=text), stage, head, None)


def spread_head(run: Run, view: View, stage: Stage) -> int | None:
    """Give the head in which texts stand side by side: the pinned cell's, or else the first."""
    if "head" not in stage.dims:
        return None
    pinned = existing(run, view.pinned)
    head = pinned.head if pinned else None
    return drawn_heads(run, replace(view, pinned=None))[0] if head is None else head


def overview_of(run: Run, view: View, known: dict[Hashable, Heatmap]) -> Heatmap | None:
    """Show all of a panel of queries and keys, where only a part is seen of the others.

    It is of the pinned cell's head, or else of the first.
    """
    name = _overview_stage(run, view)
    if name is None:
        return None
    pinned = existing(run, view.pinned)
    head = (pinned and pinned.head) or next(iter(shown_heads(run, view)), 0)
    whole = replace(view, zoom=None, room=OVERVIEW)
    return Panel(run, whole, run.trace.stage(name), head, None).heatmap(known)


def _overview_stage(run: Run, view: View) -> str | None:
    """Name the stage of the overview; None where all is seen."""
    if fitted(view.zoom, run.trace.sides) is None:
        return None
    pinned = existing(run, view.pinned)
    square = _square(run, view)
    usual = run.trace.attention if run.trace.attention in square else square[0]
    return pinned.stage if pinned and pinned.stage in square else usual


def _square(run: Run, view: View) -> list[str]:
    """Name the stages that are shown with a panel of queries and keys, or else the weights."""
    stages = (run.trace.stage(name) for name in shown_stages(run, view))
    return sorted(stage.name for stage in stages if stage.dims[-1] == "key") or [
        run.trace.attention
    ]


def shown_stages(run: Run, view: View) -> frozenset[str]:
    """Name the stages with a panel: those chosen, and the one of the pinned cell.

    While a stage is played or predicted, it and what it reads.
    """
    stage = focus(run, view)
    if stage:
        return frozenset({stage, *run.trace.stage(stage).reads})
    pinned = existing(run, view.pinned)
    return chosen_stages(run, view) | ({pinned.stage} if pinned else frozenset())


def chosen_stages(run: Run, view: View) -> frozenset[str]:
    """Name the stages that were asked for: the weights, where a spec has none of them."""
    return view.stages.intersection(run.trace.names) or frozenset({run.trace.attention})


def toggled(run: Run, view: View, stage: str) -> View:
    """Show or hide a stage; the last one stays. With a panel goes the cell that is pinned in it."""
    shown = chosen_stages(run, view) ^ {stage}
    absent = view.stages.difference(run.trace.names)
    if view.pinned and view.pinned.stage == stage:
        view = followed(view, None)
        shown -= {stage}
    return replace(view, stages=absent | shown) if shown else view


def shown_heads(run: Run, view: View) -> tuple[int, ...]:
    """Give the heads with a row of panels: those chosen, and the one of the pinned cell."""
    heads = range(run.trace.spec.heads)
    if view.heads is None:
        return tuple(heads)
    pinned = existing(run, view.pinned)
    chosen = view.heads | ({pinned.head} if pinned else frozenset())
    shown = tuple(head for head in heads if head in chosen)
    return shown or (() if shown_folds(run, view) else tuple(heads))


def drawn_heads(run: Run, view: View) -> tuple[int, ...]:
    """Give the heads with a row, for what knows no folds: all, where only folds have one."""
    return shown_heads(run, view) or tuple(range(run.trace.spec.heads))


def shown_folds(run: Run, view: View) -> tuple[Fold, ...]:
    """Give the ways of folding the heads into one that have a row; of one head there is none."""
    is_foldable = run.trace.spec.heads > 1 and focus(run, view) is None
    return tuple(by for by in Fold if by in view.folds and is_foldable)


def needs(run: Run, view: View) -> Hashable:
    """Name what has to be read for the panels of a view."""
    stages = shown_stages(run, view)
    looks = frozenset(look_of(run.trace, run.trace.stage(name), view).blocks for name in stages)
    colours = view.colouring.limits, view.colouring.curve is Curve.LINEAR
    pinned, is_mapped = existing(run, view.pinned), _overview_stage(run, view) is not None
    are_apart = is_spread(run, view)
    folds = {*(() if are_apart else shown_folds(run, view)), *([pinned.fold] if pinned else [])}
    has_heads = bool(shown_heads(run, view))  # else folds alone
    return (
        stages,
        looks,
        view.lens,
        are_apart,
        has_heads,
        frozenset(folds - {None}),
        colours,
        is_mapped,
    )


def warm(run: Run, view: View) -> None:
    """Read what panels need, the map of whichever will have the pinned cell, and a folded cell."""
    board, pinned = present_board(run, view, Board()), existing(run, view.pinned)
    whole = replace(view, zoom=None, room=OVERVIEW)
    for name in _square(run, view) if board.overview else ():
        Panel(run, whole, run.trace.stage(name), 0, None).heatmap({})
    if pinned and pinned.fold:
        run.trace.seen(pinned.stage, view.lens, pinned.fold)


def rows_of(run: Run, view: View, stage: Stage) -> Iterator[tuple[int | None, Fold | None]]:
    """Give the rows of panels that a stage has: one for each head shown and each fold."""
    if "head" not in stage.dims:
        yield None, None
        return
    for head in shown_heads(run, view):
        yield head, None
    for by in shown_folds(run, view):
        yield None, by
