"""Colour options: maps, curve and limits."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from visualizer.session.colour_maps import AUTOMATIC, USUAL


class ColourCurve(StrEnum):
    """How numbers between the limits map to colours: linearly, by logarithm or by rank."""

    LINEAR = "linear"
    LOG = "log"
    RANK = "rank"


class ColourLimits(StrEnum):
    """The values at the ends of the colour map.

    Automatic is 0 and 1 for the weights of a short text and each row's maximum for those of a long
    one; for other stages, the maximum over all heads. From 0 to 1 also applies only to weights.
    """

    AUTO = "automatic"
    UNIT = "unit"
    ROW = "row"
    PANEL = "panel"
    SHARED = "shared"
    TYPED = "typed"


class ColourOptions(Struct, frozen=True):
    """Colour options of all panels.

    Parameters
    ----------
    typed : tuple of (stage, low, high)
        Typed limits of stages. For a stage with negative values, the colours are symmetric about
        0, whatever the lower limit.
    diverging : str
        The colour map for signed values; automatic is close to the background colour at 0.
    """

    curve: ColourCurve = ColourCurve.LINEAR
    limits: ColourLimits = ColourLimits.AUTO
    typed: tuple[tuple[str, float, float], ...] = ()
    sequential: str = USUAL
    diverging: str = AUTOMATIC

    def ends(self, stage: str) -> tuple[float, float] | None:
        """Return the limits typed for a stage."""
        found = ((low, high) for name, low, high in self.typed if name == stage)
        return next(found, None)
