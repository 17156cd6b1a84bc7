"""Texts for a point on the flow board: tooltips, and captions outside the cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.heatmap.flow_headings_paint import layer_name_column_at, state_label_at
from visualizer.heatmap.flow_labels_paint import flow_context_menu_target
from visualizer.heatmap.panel_margins import format_compact_scale
from visualizer.session.token_selection import TokenRole

if TYPE_CHECKING:
    from collections.abc import Container

    from PySide6.QtCore import QPointF

    from visualizer.heatmap.board import Heatmap
    from visualizer.heatmap.board_layout import ContextMenuTarget, FlowPlacement

MAX_NAMED = 3
"""Maximum number of other tokens that the description of a token names."""
BEYOND = "Cells with a cut corner are beyond the range."


def tooltip_at(placement: FlowPlacement, point: QPointF, hidden: Container[str]) -> str:
    """Return the tooltip at a point, or an empty string if there is none.

    Parameters
    ----------
    hidden : container of str
        The stages without visible numbers.
    """
    named, state = layer_name_column_at(placement, point), state_label_at(placement, point)
    if named is not None:
        return describe_layer_weights(placement, named)
    if state and not state.is_shown:
        return f"Show {state.title}. {_describe_states_at(placement, point)}"
    target = placement.click_target_at(point)
    if target and target.column is not None:
        return _describe_heading(placement, target.column)
    if placement.layout.legend.contains(point.x(), point.y()):
        return _describe_colour_ranges(placement)
    token = token_at(placement, point)
    return (
        f"{describe_token_attention(placement, token, hidden)} Click to select it." if token else ""
    )


def _describe_states_at(placement: FlowPlacement, point: QPointF) -> str:
    """List, in order, the states of the matrix whose heading is at a point."""
    target = placement.click_target_at(point)
    titles = placement.panels.titles[target.column] if target and target.column is not None else ()
    return f"This matrix has {len(titles)} states, one after the other: {' › '.join(titles)}."


def token_at(placement: FlowPlacement, point: QPointF) -> ContextMenuTarget | None:
    """Return the label of a token at a point."""
    place = flow_context_menu_target(placement, point)
    return place if place and place.token is not None else None


def describe_token_attention(
    placement: FlowPlacement, place: ContextMenuTarget, hidden: Container[str]
) -> str:
    """Describe which tokens a token attends to most, or which tokens attend to it most.

    Parameters
    ----------
    hidden : container of str
        The stages without visible numbers.
    """
    assert place.token is not None
    is_query, panels = place.role is TokenRole.QUERY, placement.panels.panels
    axes = (panel.rows if is_query else panel.columns for panel in panels)
    labels = next(axis.labels for axis in axes if axis.name in {"query", "key", "token"})
    name = f"“{labels[place.token]}” ({place.role.value} {place.token + 1:,})"
    found = next((one for one in panels if one.is_share and one.stage not in hidden), None)
    if found is None or found.is_pooled:
        return f"{name}."
    rows, columns = found.rows, found.columns
    own, other = (rows, columns) if is_query else (columns, rows)
    numbers = found.values if is_query else found.values.T
    shares = np.nan_to_num(numbers[own.cell_index_of(place.token)])
    largest = [at for at in np.argsort(-shares, kind="stable")[:MAX_NAMED] if shares[at] > 0]
    if not largest:
        return f"{name}: all weights are 0."
    told = ", ".join(
        f"“{other.labels[other.first_of_cell(at)]}” {shares[at]:.0%}" for at in largest
    )
    head = f" in head {found.head + 1}" if found.head is not None and placement.panels.heads else ""
    if is_query:
        return f"{name} attends most to {told}{head}."
    return f"{name} is attended to most by {told}{head}."


def describe_layer_weights(placement: FlowPlacement, at: int) -> str:
    """Describe the weights above a column by their name, shape and origin."""
    slot = placement.operands[at]
    assert slot is not None
    heatmap = slot.heatmap
    rows, columns = len(heatmap.rows.labels), len(heatmap.columns.labels)
    return (
        f"{_layer_name(heatmap)}: {rows:,} × {columns:,} weights, which are adjusted by "
        f"training; here {placement.panels.origin}."
    )


def _layer_name(heatmap: Heatmap) -> str:
    return heatmap.title + (f" of head {heatmap.head + 1}" if heatmap.head is not None else "")


def _describe_heading(placement: FlowPlacement, at: int) -> str:
    """Describe the states, the operation and the range of a column."""
    titles, panel = placement.panels.titles[at], placement.panels.panels[at]
    operation = placement.panels.operations[at]
    states = f" (states: {' › '.join(titles)})" if len(titles) > 1 else ""
    shown = titles[placement.panels.columns[at].states.index(panel.stage)]
    return f"{shown}{states}: {operation}. Colours: {_describe_colour_range(panel)}"


def _describe_colour_range(panel: Heatmap) -> str:
    low, high = format_compact_scale(panel)
    whole = f"{low} to {high}" if low else high
    return f"{whole}. {BEYOND}" if high.endswith("+") else f"{whole}."


def _describe_colour_ranges(placement: FlowPlacement) -> str:
    """Describe the colour range of each matrix."""
    panels = placement.panels
    shown = {}
    for column, titles, panel in zip(panels.columns, panels.titles, panels.panels, strict=True):
        low, high = format_compact_scale(panel)
        title = titles[column.states.index(panel.stage)]
        shown[title] = f"{title}: {low} to {high}" if low else f"{title}: {high}"
    is_beyond = any(text.endswith("+") for text in shown.values())
    return "\n".join(("Colour ranges", *shown.values(), *([f"+ {BEYOND}"] * is_beyond)))
