"""Tokens pane: the tokens of the text, coloured by attention, with selection and search."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from visualizer.features.token_strip.presenter import PANEL
from visualizer.session.pane_spec import PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.token_strip.widget import TokenPane

MENU_COMMANDS = (
    (
        "token_selection.switch_role",
        "token_selection.go_to_largest_weight",
        "token_selection.find",
    ),
    ("token_selection.clear",),
)
"""Commands in the context menu of a token, in groups."""


def connect(pane: TokenPane, to: FeatureControllers) -> None:
    """Connect the pane to the controller of the token selection."""
    to.token_selection_controller.connect_pane(pane)
    pane.menuRequested.connect(partial(to.open_command_menu, pane, MENU_COMMANDS))


PANE = PaneSpec(
    "Tokens",
    "Tokens",
    "The sentence, coloured by the attention from or to the selected tokens",
    "visualizer.features.token_strip.widget:TokenPane",
    connect,
    is_open=True,
    panel=PANEL,
    commands={
        "token_selection.find": lambda pane: pane.open_search(),
        "token_selection.go_to_largest_weight": lambda pane: (
            pane.visible_strip.go_to_largest_weight()
        ),
    },
)
