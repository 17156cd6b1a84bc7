"""Settings of a film of the computation."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from visualizer.session.timeline import PlaybackPosition, StepSize

FILM_WIDTHS_PX = (640, 960, 1280, 1920)


class FilmPanelChoice(StrEnum):
    """The panels of a frame: those that the step computes and reads, or all stages."""

    STEP = "step"
    SPAN = "span"


class FilmSettings(Struct, frozen=True):
    """The settings of a film of the computation.

    Parameters
    ----------
    span : tuple of (PlaybackPosition, str) or None
        The first step and the last stage; None for the whole computation.
    speed : float
        Multiple of the normal playback speed.
    loops : bool
        Whether it repeats, in formats that support it.
    width : int
        The width in pixels.
    has_motion : bool
        Whether the inputs of a step move to the cell that uses them, if the step is long enough.
    most_frames : int
        Maximum number of steps; longer films are rejected.
    """

    span: tuple[PlaybackPosition, str] | None = None
    grain: StepSize = StepSize.ROW
    speed: float = 1.0
    loops: bool = True
    panels: FilmPanelChoice = FilmPanelChoice.STEP
    width: int = 1280
    has_motion: bool = True
    most_frames: int = 5000
