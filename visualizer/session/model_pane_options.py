"""Options of the panes about model heads: the attributed token and two measures."""

from __future__ import annotations

from msgspec import Struct


class AttributionOptions(Struct, frozen=True):
    """Options of the Attribution pane.

    Parameters
    ----------
    token : str
        The candidate next token; empty for the most likely one.
    """

    token: str = ""


class HeadScatterOptions(Struct, frozen=True):
    """Names of the two measures on the axes of the Scatter pane."""

    across: str = "previous"
    up: str = "induction"
