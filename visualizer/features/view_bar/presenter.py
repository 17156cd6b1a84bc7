"""Presenter of the view controls: stages, heads and aggregates, colours and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.roles import Role
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.screen import PanelId
from visualizer.session.view_options import ColourLimits, ColourOptions

if TYPE_CHECKING:
    from visualizer.attention.display_transforms import HeadAggregate
    from visualizer.heatmap.board import Board, Heatmap
    from visualizer.heatmap.panel_colour_scale import ColourScale
    from visualizer.session.resolved_view import ResolvedView


class StageColourLimits(Struct, frozen=True):
    """The colour limits of a stage. If `is_signed`, the lower limit is the negated upper limit."""

    stage: str
    title: str
    low: float
    high: float
    is_signed: bool


class StageVisibility(Struct, frozen=True):
    """A stage, and whether its panels are shown."""

    stage: str
    title: str
    is_shown: bool


class ViewControlsPanel(Struct, frozen=True):
    """The current choices and the available options.

    Parameters
    ----------
    is_flow : bool
        Whether the flow board is shown, with its own stages and heads.
    heads : tuple of bool
        Whether each head has a row of panels.
    folds : frozenset of HeadAggregate
        The aggregates of the heads that have a row of panels, except during playback and
        predictions.
    range : str
        The range of the colour scale: the choice, and the resulting limits for the weights (or
        for the first stage of a run without weights).
    range_description : str
        Explanation of the range, with the resulting limits of each stage.
    part, part_description : str
        Descriptions of the visible part of the text; empty if the whole text is visible.
    has_values : bool
        Whether weights can be multiplied by the norms of the value vectors.
    """

    is_flow: bool = False
    stages: tuple[StageVisibility, ...] = ()
    heads: tuple[bool, ...] = ()
    folds: frozenset[HeadAggregate] = frozenset()
    lens: WeightTransform = WeightTransform.PLAIN
    colouring: ColourOptions = field(default_factory=ColourOptions)
    ends: tuple[StageColourLimits, ...] = ()
    range: str = ""
    range_description: str = ""
    part: str = ""
    part_description: str = ""
    has_values: bool = True


VIEW_CONTROLS_PANEL: PanelId[ViewControlsPanel] = PanelId("View controls")


def present_view_controls(resolved: ResolvedView, board: Board) -> ViewControlsPanel:
    """Return the current choices and the available options for the given view and board."""
    heads = tuple(head in resolved.heads for head in range(resolved.run.trace.spec.heads))
    return ViewControlsPanel(
        resolved.flow is not None,
        tuple(
            StageVisibility(stage.name, stage.title, stage.name in resolved.stages)
            for stage in resolved.run.trace.stages
        ),
        heads,
        resolved.view.folds,
        resolved.view.lens,
        resolved.view.colouring,
        _colour_limits(board),
        *_describe_range(board, resolved.view.colouring.limits),
        *_describe_visible_range(resolved),
        Role.VALUES in resolved.run.trace,
    )


def _colour_limits(board: Board) -> tuple[StageColourLimits, ...]:
    return tuple(
        StageColourLimits(
            first.stage, first.title, first.colour.low, first.colour.high, first.colour.is_signed
        )
        for first in _first_panel_per_stage(board)
    )


def _first_panel_per_stage(board: Board) -> list[Heatmap]:
    """Return the first panel of each stage; in a comparison, this is the panel of A."""
    firsts = {column[0].stage: column[0] for column in reversed(board.columns)}
    return [*reversed(firsts.values())]


LIMIT_CHOICE_LABELS = {
    ColourLimits.AUTO: "automatic, ",
    ColourLimits.SHARED: "shared, ",
    ColourLimits.TYPED: "custom, ",
}
SCALE_TOOLTIP = (
    "The values at the two ends of the colour scale. Automatic: for weights, the upper end is a "
    "round number that is exceeded by at most 10% of all heads’ weights and by at most 2% of those "
    "in rows with 4 or more keys; for other stages, it is the 98th percentile of the magnitudes. "
    "Cells beyond the range have a cut corner, and a plus sign marks the exceeded end"
)


def _describe_range(board: Board, chosen: ColourLimits) -> tuple[str, str]:
    """Return a short caption for the range of the colour scale, and a sentence about it."""
    firsts = _first_panel_per_stage(board)
    if not firsts:
        return "", ""
    told = next((first for first in firsts if not first.colour.is_signed), firsts[0])
    each = ", ".join(f"{first.title} {_format_limits(first.colour)}" for first in firsts)
    caption = LIMIT_CHOICE_LABELS.get(chosen, "") + _format_limits(told.colour)
    return caption, f"{SCALE_TOOLTIP}. Current range: {each}"


def _format_limits(colour: ColourScale) -> str:
    if colour.limits is ColourLimits.ROW:
        return "per row"
    if colour.limits is ColourLimits.PANEL:
        return "per panel"
    if colour.is_signed:
        return f"±{colour.high:.3g}"
    return f"{colour.low:.3g} to {colour.high:.3g}" + "+" * colour.is_exceeded


def _describe_visible_range(resolved: ResolvedView) -> tuple[str, str]:
    """Return a short caption for the visible queries and keys, and a sentence about them."""
    zoom = resolved.zoom
    if zoom is None:
        return "", ""
    queries, keys = (f"{span.start + 1}–{span.stop}" for span in (zoom.queries, zoom.keys))
    down, across = (f"of {count:,}" for count in resolved.run.trace.query_key_counts)
    if down == across:
        return f"{queries} × {keys} {down}", f"Showing queries {queries} and keys {keys} {down}"
    parts = f"{queries} {down}", f"{keys} {across}"
    return " × ".join(parts), "Showing queries {} and keys {}".format(*parts)


PANEL = PanelSpec(
    VIEW_CONTROLS_PANEL,
    lambda resolved, inputs, previous: present_view_controls(
        resolved, inputs.panel(BOARD_CONTENTS).board
    ),
    ViewControlsPanel(),
)
