"""Numbers pane: one tensor as an editable table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.tensor_editor.presenter import PANEL
from visualizer.session.pane import Area, Pane

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.tensor_editor.widget import NumberTablePane


def connect(pane: NumberTablePane, to: FeatureControllers) -> None:
    """Connect viewing and editing the numbers of one tensor."""
    from visualizer.features.tensor_editor.controller import TensorEditController

    typist = TensorEditController(to.workspace, pane)
    pane.tensorChosen.connect(typist.choose)
    pane.headChosen.connect(typist.choose_head)
    pane.cellPinned.connect(typist.pin)
    pane.numberTyped.connect(typist.type)
    pane.numbersPasted.connect(typist.paste)
    pane.copyRequested.connect(typist.copy)
    pane.resampleRequested.connect(typist.resample_tensor)


PANE = Pane(
    "Numbers",
    "Numbers",
    "One tensor as an editable table",
    "visualizer.features.tensor_editor.widget:NumberTablePane",
    connect,
    "F7",
    Area.RIGHT,
    height=280,
    beside="Code",
    panel=PANEL,
)
