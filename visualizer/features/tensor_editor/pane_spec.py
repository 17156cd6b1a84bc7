"""Numbers pane: one tensor as an editable table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.tensor_editor.presenter import PANEL
from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.tensor_editor.widget import NumberTablePane


def connect(pane: NumberTablePane, to: FeatureControllers) -> None:
    """Connect the selection and the editing of a tensor."""
    from visualizer.features.tensor_editor.controller import TensorEditController

    controller = TensorEditController(to.workspace, pane)
    pane.tensorChosen.connect(controller.select_tensor)
    pane.headChosen.connect(controller.select_head)
    pane.cellPinned.connect(controller.pin_cell)
    pane.numberEntered.connect(controller.set_cell_number)
    pane.numbersPasted.connect(controller.paste_block)
    pane.copyRequested.connect(controller.copy_block)
    pane.resetRequested.connect(controller.reset_tensor)


PANE = PaneSpec(
    "Numbers",
    "Numbers",
    "One tensor as an editable table",
    "visualizer.features.tensor_editor.widget:NumberTablePane",
    connect,
    is_open=True,
    panel=PANEL,
)
