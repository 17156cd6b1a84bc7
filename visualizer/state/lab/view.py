"""What is looked at in the lab: which text the model reads, and at which moment of its training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LabView:
    """What is looked at.

    Parameters
    ----------
    probe : str
        The text that the model reads.
    step : int or None
        The snapshot that is looked at; None for the model as it is now.
    layer, head : int
        What is chosen to be opened, counted from 0.
    overlaid : frozenset of str
        Names of other runs whose losses are shown, too.
    """

    probe: str = ""
    step: int | None = None
    layer: int = 0
    head: int = 0
    overlaid: frozenset[str] = frozenset()
