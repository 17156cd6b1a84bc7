"""Numbers pane: one tensor as an editable table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.tensor_editor.presenter import PANEL
from visualizer.session.pane_spec import Area, PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.tensor_editor.widget import NumberTablePane


def connect(pane: NumberTablePane, to: FeatureControllers) -> None:
    """Connect viewing and editing the numbers of one tensor."""
    from visualizer.features.tensor_editor.controller import TensorEditController

    typist = TensorEditController(to.workspace, pane)
    pane.tensorChosen.connect(typist.select_tensor)
    pane.headChosen.connect(typist.select_head)
    pane.cellPinned.connect(typist.pin_cell)
    pane.numberTyped.connect(typist.set_number)
    pane.numbersPasted.connect(typist.paste_block)
    pane.copyRequested.connect(typist.copy_block)
    pane.resampleRequested.connect(typist.resample_tensor)


PANE = PaneSpec(
    "Numbers",
    "Numbers",
    "One tensor as an editable table",
    "visualizer.features.tensor_editor.widget:NumberTablePane",
    connect,
    "F7",
    Area.RIGHT,
    is_open=True,
    panel=PANEL,
)
