"""Tables of the panes and of all panels, in display order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from visualizer.features.comparison_bar import presenter as comparison_bar_presenter
from visualizer.features.explain import code_presenter, stage_presenter
from visualizer.features.explain import pane_spec as explain
from visualizer.features.head_scatter import pane_spec as head_scatter
from visualizer.features.head_table import pane_spec as head_table
from visualizer.features.layer_overview import pane_spec as layer_overview
from visualizer.features.lessons import pane_spec as lessons
from visualizer.features.line_view import pane_spec as line_view
from visualizer.features.logit_attribution import pane_spec as logit_attribution
from visualizer.features.logit_lens import pane_spec as logit_lens
from visualizer.features.mask_editor import presenter as mask_editor_presenter
from visualizer.features.model_generation import pane_spec as model_generation
from visualizer.features.next_token import pane_spec as next_token
from visualizer.features.playback import presenter as playback_presenter
from visualizer.features.shapes import pane_spec as shapes
from visualizer.features.tensor_editor import pane_spec as tensor_editor
from visualizer.features.token_strip import pane_spec as token_strip
from visualizer.features.view_bar import pane_spec as view_bar
from visualizer.features.view_bar import presenter as view_bar_presenter
from visualizer.heatmap import board_presenter

if TYPE_CHECKING:
    from visualizer.session.pane_spec import PanelSpec, PaneSpec

PANES: tuple[PaneSpec, ...] = (
    lessons.PANE,
    explain.PANE,
    token_strip.PANE,
    line_view.PANE,
    layer_overview.PANE,
    logit_lens.PANE,
    logit_attribution.PANE,
    head_scatter.PANE,
    view_bar.PANE,
    tensor_editor.PANE,
    shapes.PANE,
    head_table.PANE,
    next_token.PANE,
    model_generation.PANE,
)
PANELS: tuple[PanelSpec[Any], ...] = (
    board_presenter.PANEL,
    playback_presenter.PANEL,
    comparison_bar_presenter.PANEL,
    view_bar_presenter.PANEL,
    mask_editor_presenter.PANEL,
    code_presenter.PANEL,
    stage_presenter.PANEL,
    *(pane.panel for pane in PANES if pane.panel),
)
"""The panels of a screen; prefetched panels follow the panels on which they depend."""
