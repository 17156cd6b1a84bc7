"""Settings of figures and animations, and the view that a figure shows."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.brief_repr import brief_repr
from visualizer.session.resolved_view import resolve_view
from visualizer.session.timeline import PlaybackPosition, StepSize
from visualizer.session.token_selection import TokenSelection

if TYPE_CHECKING:
    from visualizer.session.export_snapshot import ExportSnapshot
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.view import View

FILM_WIDTHS_PX = (640, 960, 1280, 1920)


class AnimationSettings(Struct, frozen=True):
    """The settings of an animation of the computation.

    Parameters
    ----------
    span : tuple of (PlaybackPosition, str) or None
        The first step and the last stage to play; None for the entire computation.
    speed : float
        Multiple of the normal playback speed.
    loops : bool
        Whether the animation repeats, in formats that support this.
    width : int
        The width in pixels.
    has_motion : bool
        Whether the inputs of a step move to the cell that is computed from them, if the step is
        long enough.
    max_frames : int
        Maximum number of steps; an animation with more steps is rejected.
    """

    span: tuple[PlaybackPosition, str] | None = None
    grain: StepSize = StepSize.TOUR
    speed: float = 1.0
    loops: bool = True
    width: int = 1280
    has_motion: bool = True
    max_frames: int = 5000


MM_PER_INCH = 25.4
PIXELS_PER_INCH = 96
DEFAULT_POINTS = 9.0
"""Text size of the window in points (12 pixels)."""
MIN_SIDE_MM, MAX_SIDE_MM = 10.0, 5_000.0
PAGE_WIDTH_MM, MAX_PAGE_HEIGHT_MM = 210.0, 230.0
"""Width of a page, and height up to which a figure has room on it together with its legend."""
MIN_DPI, MAX_DPI = 36, 2_400
MIN_POINTS, MAX_POINTS = 3.0, 144.0


class FigureExtent(StrEnum):
    """The panels that a figure includes."""

    SHOWN = "shown"
    FLOW = "flow"
    PANEL = "panel"
    HEAD = "head"
    HEADS = "heads"
    STAGES = "stages"
    ALL = "all"
    CELLS = "cells"
    """One panel with one pixel per cell; formats other than PNG treat this as `PANEL`."""


class FigureTheme(StrEnum):
    """The colours of a figure."""

    PRINT = "print"
    LIGHT = "light"
    DARK = "dark"


class FigureSettings(Struct, frozen=True):
    """The settings of a figure.

    Parameters
    ----------
    width_mm : float
        The width in mm. The panels are laid out for this width; a trimmed figure is only as wide as
        the panels.
    height_mm : float or None
        The height in mm; None to fit the content.
    dpi : int
        The resolution in pixels per inch, for raster formats.
    points : float
        The text size in points.
    is_trimmed : bool
        Whether empty margins are removed.
    title : str
        The title above the panels; may be empty.
    has_caption : bool
        Whether a caption describes the computation.
    has_letters : bool
        Whether the stages have letters (a, b, …), to which a paper can refer.
    has_marks : bool
        Whether the pinned cell and the selected tokens are marked.
    film : AnimationSettings
        The animation settings, for animated formats.
    carries_document : bool
        Whether the document is attached to the file.
    has_all_layers : bool
        Whether the attached document contains all layers of captured attention instead of only the
        layer that the figure shows.
    """

    extent: FigureExtent = FigureExtent.SHOWN
    paper: FigureTheme = FigureTheme.PRINT
    width_mm: float = 1280 / PIXELS_PER_INCH * MM_PER_INCH
    height_mm: float | None = None
    dpi: int = 192
    points: float = DEFAULT_POINTS
    is_trimmed: bool = True
    title: str = ""
    has_caption: bool = True
    has_letters: bool = False
    has_marks: bool = True
    film: AnimationSettings = field(default_factory=AnimationSettings)
    carries_document: bool = True
    has_all_layers: bool = False

    __repr__ = brief_repr

    def is_taller_than_page(self, height: float) -> bool:
        """Return whether a figure for a page is higher than the page, in pixels of 1/96 inch."""
        is_for_page = self.width_mm <= PAGE_WIDTH_MM
        return is_for_page and height / PIXELS_PER_INCH * MM_PER_INCH > MAX_PAGE_HEIGHT_MM

    @property
    def width(self) -> float:
        """The width in pixels of 1/96 inch."""
        return self.width_mm / MM_PER_INCH * PIXELS_PER_INCH

    @property
    def height(self) -> float | None:
        """The height in pixels of 1/96 inch; None to fit the content."""
        return None if self.height_mm is None else self.height_mm / MM_PER_INCH * PIXELS_PER_INCH

    @property
    def scale(self) -> float:
        """The scale relative to the window."""
        return self.points / DEFAULT_POINTS

    @property
    def pixel_ratio(self) -> float:
        """Number of pixels in the file per pixel of the window."""
        return self.dpi / PIXELS_PER_INCH * self.scale


FIGURE_PRESETS: dict[str, FigureSettings] = {
    "As in the window": FigureSettings(),
    "Paper column": FigureSettings(
        width_mm=85, dpi=600, points=7, is_trimmed=False, has_letters=True
    ),
    "Paper page": FigureSettings(
        width_mm=178, dpi=600, points=8, is_trimmed=False, has_letters=True
    ),
    "Slide": FigureSettings(
        paper=FigureTheme.LIGHT,
        width_mm=338.667,
        height_mm=190.5,
        dpi=144,
        points=14,
        is_trimmed=False,
    ),
    "Poster": FigureSettings(width_mm=594, dpi=300, points=24, is_trimmed=False),
}
"""Settings for common purposes, keyed by their name in the export dialog."""


def resolve_figure_view(snapshot: ExportSnapshot, figure_settings: FigureSettings) -> ResolvedView:
    """Resolve the view of a figure, without the hovered cell and, if turned off, the marks."""
    view = replace(snapshot.view, hovered=None, panes=frozenset(), lesson=None)
    resolved = _resolve_view(snapshot, view)
    extent = figure_settings.extent
    extent = FigureExtent.PANEL if extent is FigureExtent.CELLS else extent
    if extent is not FigureExtent.SHOWN and not resolved.focus:
        resolved = _resolve_view(snapshot, _view_of_extent(resolved, extent))
    return (
        resolved
        if figure_settings.has_marks
        else _resolve_view(snapshot, _view_without_marks(resolved))
    )


def _resolve_view(snapshot: ExportSnapshot, view: View) -> ResolvedView:
    return resolve_view(snapshot.document, view, snapshot.run, snapshot.document)


def _view_without_marks(resolved: ResolvedView) -> View:
    """Return the view without the pin and the selection, but with the same panels."""
    view = resolved.view
    is_all = view.heads is None and resolved.flow is None
    heads = None if is_all else frozenset(resolved.heads)
    tokens = TokenSelection(role=view.tokens.role)
    return replace(view, stages=resolved.stages, heads=heads, pinned=None, tokens=tokens)


def _view_of_extent(resolved: ResolvedView, extent: FigureExtent) -> View:
    view, pinned, names = resolved.view, resolved.pinned, frozenset(resolved.run.trace.names)
    view = replace(view, flow=False)
    if extent in {FigureExtent.FLOW, FigureExtent.PANEL, FigureExtent.HEAD}:
        head = pinned.head if pinned and pinned.head is not None else resolved.drawn_heads[0]
        is_fold = extent is FigureExtent.PANEL and pinned is not None and pinned.fold is not None
        folds = view.folds if is_fold else frozenset()
        view = replace(view, heads=frozenset() if is_fold else frozenset({head}), folds=folds)
    if extent is FigureExtent.FLOW:
        view = replace(view, flow=True, spread=False, comparison=None)  # a flow has one run
    if extent is FigureExtent.PANEL:
        view = replace(view, stages=frozenset({_choose_stage(resolved)}), spread=False)
    if extent in {FigureExtent.HEADS, FigureExtent.ALL}:
        view = replace(view, heads=None)
    if extent in {FigureExtent.STAGES, FigureExtent.ALL}:
        view = replace(view, stages=names)
    return view


def _choose_stage(resolved: ResolvedView) -> str:
    """Return the stage of one panel: that of the pinned cell or, without one, the last weights."""
    if resolved.pinned:
        return resolved.pinned.stage
    stages = resolved.shown_stages
    return ([stage.name for stage in stages if stage.is_weights] or [stages[-1].name])[-1]
