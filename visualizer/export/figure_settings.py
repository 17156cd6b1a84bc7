"""What a figure shows of a run, and how large: as values, apart from how it is painted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from visualizer.export.film_settings import FilmSettings
from visualizer.session.resolve import resolve
from visualizer.session.token_selection import TokenSelection

if TYPE_CHECKING:
    from visualizer.session.resolve import Resolved
    from visualizer.session.screen import Snapshot
    from visualizer.session.view import View

MM_AN_INCH = 25.4
PIXELS_AN_INCH = 96
USUAL_POINTS = 9.0
"""The size of the window's usual text: 12 pixels."""


class FigureExtent(StrEnum):
    """Which of the panels are in a figure."""

    SHOWN = "shown"
    PANEL = "panel"
    HEAD = "head"
    HEADS = "heads"
    STAGES = "stages"
    ALL = "all"


class FigurePaper(StrEnum):
    """The colours of a figure."""

    PRINT = "print"
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True)
class FigureSettings:
    """How a figure looks.

    Parameters
    ----------
    width_mm : float
        Its width; one that is trimmed is as wide as its panels, laid out for this width.
    height_mm : float or None
        Its height; None for as high as it takes.
    dpi : int
        Pixels an inch, of formats that have pixels.
    points : float
        The size of its text.
    is_trimmed : bool
        Whether paper that nothing is on is left away.
    title : str
        What stands over it; nothing where empty.
    has_caption : bool
        Whether what was computed stands under it.
    has_marks : bool
        Whether the pinned cell and the chosen tokens are marked.
    film : FilmLook
        What of playback is shown, of formats that move.
    carries_document : bool
        Whether its file opens as the document that it was made of.
    """

    extent: FigureExtent = FigureExtent.SHOWN
    paper: FigurePaper = FigurePaper.PRINT
    width_mm: float = 1280 / PIXELS_AN_INCH * MM_AN_INCH
    height_mm: float | None = None
    dpi: int = 192
    points: float = USUAL_POINTS
    is_trimmed: bool = True
    title: str = ""
    has_caption: bool = True
    has_marks: bool = True
    film: FilmSettings = field(default_factory=FilmSettings)
    carries_document: bool = True

    @property
    def width(self) -> float:
        """Its width in pixels of 1/96 inch."""
        return self.width_mm / MM_AN_INCH * PIXELS_AN_INCH

    @property
    def height(self) -> float | None:
        """Its height in pixels of 1/96 inch; None for as high as it takes."""
        return None if self.height_mm is None else self.height_mm / MM_AN_INCH * PIXELS_AN_INCH

    @property
    def enlarged(self) -> float:
        """How much larger than in the window everything is drawn."""
        return self.points / USUAL_POINTS

    @property
    def pixel_ratio(self) -> float:
        """How many pixels of the file a pixel of the window becomes."""
        return self.dpi / PIXELS_AN_INCH * self.enlarged


PRESETS: dict[str, FigureSettings] = {
    "As in the window": FigureSettings(),
    "Paper column": FigureSettings(width_mm=85, dpi=600, points=7, is_trimmed=False),
    "Paper page": FigureSettings(width_mm=178, dpi=600, points=8, is_trimmed=False),
    "Slide": FigureSettings(
        paper=FigurePaper.LIGHT,
        width_mm=338.667,
        height_mm=190.5,
        dpi=144,
        points=14,
        is_trimmed=False,
    ),
    "Poster": FigureSettings(width_mm=594, dpi=300, points=24, is_trimmed=False),
}
"""Sizes that are often asked for, by what they are for."""


def framed(shot: Snapshot, look: FigureSettings) -> Resolved:
    """Look at what a figure shows; nothing is hovered, and nothing pinned that has no mark."""
    view = replace(shot.view, hovered=None, panes=frozenset(), lesson=None)
    resolved = _resolved(shot, view)
    if look.extent is not FigureExtent.SHOWN and not resolved.focus:
        resolved = _resolved(shot, _of_extent(resolved, look.extent))
    return resolved if look.has_marks else _resolved(shot, _unmarked(resolved))


def _resolved(shot: Snapshot, view: View) -> Resolved:
    return resolve(shot.document, view, shot.run, shot.document)


def _unmarked(resolved: Resolved) -> View:
    """Take away the pin and what is chosen; the panel that was there for the pin stays."""
    view = resolved.view
    heads = None if view.heads is None else frozenset(resolved.heads)
    tokens = TokenSelection(role=view.tokens.role)
    return replace(view, stages=resolved.stages, heads=heads, pinned=None, tokens=tokens)


def _of_extent(resolved: Resolved, extent: FigureExtent) -> View:
    view, pinned, names = resolved.view, resolved.pinned, frozenset(resolved.run.trace.names)
    if extent in {FigureExtent.PANEL, FigureExtent.HEAD}:
        head = pinned.head if pinned and pinned.head is not None else resolved.drawn_heads[0]
        is_fold = extent is FigureExtent.PANEL and pinned is not None and pinned.fold is not None
        kept = view.folds if is_fold else frozenset()
        view = replace(view, heads=frozenset() if is_fold else frozenset({head}), folds=kept)
    if extent is FigureExtent.PANEL:
        view = replace(view, stages=frozenset({_one_stage(resolved)}), spread=False)
    if extent in {FigureExtent.HEADS, FigureExtent.ALL}:
        view = replace(view, heads=None)
    if extent in {FigureExtent.STAGES, FigureExtent.ALL}:
        view = replace(view, stages=names)
    return view


def _one_stage(resolved: Resolved) -> str:
    """Name the stage of the one panel: that of the pinned cell, else the last of the weights."""
    if resolved.pinned:
        return resolved.pinned.stage
    shown = resolved.shown_stages
    return ([stage.name for stage in shown if stage.is_weights] or [shown[-1].name])[-1]
