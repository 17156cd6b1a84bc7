"""Which stages, heads, zoom and marks of a snapshot a figure shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.export.figure_settings import FigureExtent
from visualizer.session.resolved_view import resolve_view
from visualizer.session.token_selection import TokenSelection

if TYPE_CHECKING:
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.exportable_snapshot import Snapshot
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.view import View


def resolve_figure_view(snapshot: Snapshot, figure_settings: FigureSettings) -> ResolvedView:
    """Resolve what a figure shows: without hover, and without a pin unless marks are shown."""
    view = replace(snapshot.view, hovered=None, panes=frozenset(), lesson=None)
    resolved = _resolve_view(snapshot, view)
    extent = figure_settings.extent
    extent = FigureExtent.PANEL if extent is FigureExtent.CELLS else extent
    if extent is not FigureExtent.SHOWN and not resolved.focus:
        resolved = _resolve_view(snapshot, _view_of_extent(resolved, extent))
    return (
        resolved
        if figure_settings.has_marks
        else _resolve_view(snapshot, _view_without_marks(resolved))
    )


def _resolve_view(snapshot: Snapshot, view: View) -> ResolvedView:
    return resolve_view(snapshot.document, view, snapshot.run, snapshot.document)


def _view_without_marks(resolved: ResolvedView) -> View:
    """Remove the pin and the selection; the panel shown for the pin stays."""
    view = resolved.view
    heads = None if view.heads is None else frozenset(resolved.heads)
    tokens = TokenSelection(role=view.tokens.role)
    return replace(view, stages=resolved.stages, heads=heads, pinned=None, tokens=tokens)


def _view_of_extent(resolved: ResolvedView, extent: FigureExtent) -> View:
    view, pinned, names = resolved.view, resolved.pinned, frozenset(resolved.run.trace.names)
    if extent in {FigureExtent.PANEL, FigureExtent.HEAD}:
        head = pinned.head if pinned and pinned.head is not None else resolved.drawn_heads[0]
        is_fold = extent is FigureExtent.PANEL and pinned is not None and pinned.fold is not None
        kept = view.folds if is_fold else frozenset()
        view = replace(view, heads=frozenset() if is_fold else frozenset({head}), folds=kept)
    if extent is FigureExtent.PANEL:
        view = replace(view, stages=frozenset({_one_stage(resolved)}), spread=False)
    if extent in {FigureExtent.HEADS, FigureExtent.ALL}:
        view = replace(view, heads=None)
    if extent in {FigureExtent.STAGES, FigureExtent.ALL}:
        view = replace(view, stages=names)
    return view


def _one_stage(resolved: ResolvedView) -> str:
    """Return the stage of the single panel: the pinned cell's, else the last weights."""
    if resolved.pinned:
        return resolved.pinned.stage
    shown = resolved.shown_stages
    return ([stage.name for stage in shown if stage.is_weights] or [shown[-1].name])[-1]
