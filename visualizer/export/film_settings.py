"""Settings of a film of the computation."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from visualizer.session.timeline import Grain, Place

WIDTHS = (640, 960, 1280, 1920)


class FilmPanels(StrEnum):
    """The panels of a frame: those that the step computes and reads, or all stages."""

    STEP = "step"
    SPAN = "span"


class FilmSettings(Struct, frozen=True):
    """The settings of a film of the computation.

    Parameters
    ----------
    span : tuple of (Place, str) or None
        The first step and the last stage; None for the whole computation.
    speed : float
        Factor of the normal playback speed.
    loops : bool
        Whether it repeats, in formats that support it.
    width : int
        The width in pixels.
    has_motion : bool
        Whether what a step reads moves to where it is used, if the step lasts long enough.
    most_frames : int
        A film with more steps is refused.
    """

    span: tuple[Place, str] | None = None
    grain: Grain = Grain.ROW
    speed: float = 1.0
    loops: bool = True
    panels: FilmPanels = FilmPanels.STEP
    width: int = 1280
    has_motion: bool = True
    most_frames: int = 5000
