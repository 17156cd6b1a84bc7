"""Changes to a view: toggling stages, pinning cells and the history of pinned cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.session.resolved_view import existing_cell

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.cell_address import Cell, ParameterCell
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.view import View


def with_stage_toggled(resolved: ResolvedView, stage: str) -> View:
    """Toggle a stage, but keep at least one; hiding a stage unpins a cell in its panel."""
    view, shown = resolved.view, resolved.chosen ^ {stage}
    absent = view.stages.difference(resolved.run.trace.names)
    if view.pinned and view.pinned.stage == stage and stage in resolved.chosen:
        view = pin_cell(view, None)
        shown -= {stage}
    return replace(view, stages=absent | shown) if shown else view


MAX_PINNED_HISTORY = 100


def pin_cell(view: View, cell: Cell | None) -> View:
    """Pin a cell in its layer and record the previous one; unpinning clears the history."""
    view = replace(view, pinned_parameter=None)
    if cell is None:
        unpinned = view.pinned or view.last_pinned
        return replace(view, pinned=None, last_pinned=unpinned, past=(), future=())
    if cell == view.pinned:
        return view
    past = (*view.past, *_previous_pin(view, cell))[-MAX_PINNED_HISTORY:]
    return replace(_pin_in_layer(view, cell), past=past, future=())


def pin_parameter(view: View, parameter: ParameterCell | None) -> View:
    """Pin a weight of a layer instead of a cell; None unpins it."""
    return replace(pin_cell(view, None), pinned_parameter=parameter)


def _previous_pin(view: View, cell: Cell) -> tuple[Cell, ...]:
    """Return the pinned cell, with its layer, to record when another one is pinned."""
    if view.pinned is None:
        return ()
    return (view.pinned if cell.layer is None else replace(view.pinned, layer=view.layer),)


def _pin_in_layer(view: View, cell: Cell) -> View:
    """Pin a cell in its layer."""
    layer = view.layer if cell.layer is None else cell.layer
    return replace(view, pinned=replace(cell, layer=None), layer=layer)


def pin_previous_cell(run: Run, view: View) -> View:
    """Pin the previous cell in the history that still exists."""
    return _pin_from_history(run, view, "past", "future")


def pin_next_cell(run: Run, view: View) -> View:
    """Pin the next cell in the history that still exists."""
    return _pin_from_history(run, view, "future", "past")


def _pin_from_history(run: Run, view: View, source: str, target: str) -> View:
    cells = tuple(cell for cell in getattr(view, source) if existing_cell(run, cell))
    if not cells:
        return view
    others = (*getattr(view, target), *_previous_pin(view, cells[-1]))
    history = {source: cells[:-1], target: others}
    return replace(_pin_in_layer(view, cells[-1]), hovered=None, **history)
