"""The tables of panels and panes are consistent."""

from __future__ import annotations

from visualizer.features.explain.stage_presenter import STAGE_PANEL
from visualizer.features.playback.presenter import PLAYBACK_PANEL
from visualizer.session.pane_spec import PanelSpec
from visualizer.shell.pane_table import PANELS, PANES

SMALL = {PLAYBACK_PANEL.name, STAGE_PANEL.name}
"""Rows whose prefetch reads data that the key of another row already covers."""


def test_the_panes_of_panels_are_panes_of_the_window() -> None:
    closable = {row.pane for row in PANELS if row.pane}
    assert closable
    assert closable <= {pane.id for pane in PANES}


def test_prefetched_data_have_a_key() -> None:
    usual = PanelSpec(PANELS[0].id, PANELS[0].present, PANELS[0].empty)
    others = [row for row in PANELS if row.id.name not in SMALL]
    rows = [row for row in others if row.prefetch is not usual.prefetch]
    assert rows
    assert not [row.id.name for row in rows if row.prefetch_key is usual.prefetch_key]
