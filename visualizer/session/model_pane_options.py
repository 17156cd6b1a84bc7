"""What the panes about a model's heads show: the token that is asked about, and two measures."""

from __future__ import annotations

from msgspec import Struct


class AttributionOptions(Struct, frozen=True):
    """What the Attribution pane asks.

    Parameters
    ----------
    token : str
        The token that may come next; empty for the likeliest.
    """

    token: str = ""


class HeadScatterOptions(Struct, frozen=True):
    """The two measures between which the Scatter pane places the heads, by their names."""

    across: str = "previous"
    up: str = "induction"
