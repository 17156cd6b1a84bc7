"""Lays out and paints a figure on its page: title, panels and caption.

All coordinates are in pixels of 1/96 inch, independent of the file format, so PNG, SVG and PDF
are painted in the same way.
"""

from __future__ import annotations

import bisect
from functools import cache, partial
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace
from PySide6.QtCore import QPointF, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetricsF,
    QGradient,
    QImage,
    QPaintDevice,
    QPaintEngine,
    QPainter,
    QPainterPath,
    QPen,
    QTextDocument,
)

from visualizer.attention.spec import Dtype
from visualizer.export.figure_settings import (
    PIXELS_PER_INCH,
    FigureSettings,
    FigureTheme,
    resolve_figure_view,
)
from visualizer.features.comparison_bar.presenter import describe_comparison
from visualizer.heatmap import flow_paint, panel_margins_paint, panel_paint
from visualizer.heatmap.board_arrangement import EDGE
from visualizer.heatmap.board_presenter import (
    draw_panel_previews,
    draw_panels,
    present_board_contents,
)
from visualizer.heatmap.cell_cursor_paint import paint_cursor
from visualizer.heatmap.flow_cursor_paint import (
    paint_flow_cursor,
    paint_step_labels,
    panel_cursor,
    panel_highlights,
)
from visualizer.heatmap.flow_motion_paint import create_flow_motion
from visualizer.heatmap.flow_placement import place_flow_panels
from visualizer.heatmap.flow_timeline_paint import paint_flow_timeline
from visualizer.heatmap.highlight_paint import paint_highlights
from visualizer.heatmap.highlights import highlights_before_step
from visualizer.heatmap.panel_placement import lay_out_board
from visualizer.heatmap.step_motion_paint import target_areas
from visualizer.progress import Progress, ignore_progress
from visualizer.session.computation_caption import describe_value_origin
from visualizer.session.resolved_view import ResolvedView, resolve_view
from visualizer.widgets.fonts import scaled_font, text_scale
from visualizer.widgets.theme import DARK, LIGHT, PRINT, Theme

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.heatmap.board import Board
    from visualizer.heatmap.board_layout import BoardLayout
    from visualizer.heatmap.cell_cursor import CellCursor
    from visualizer.heatmap.flow_motion_paint import FlowMotion
    from visualizer.heatmap.highlights import Highlights
    from visualizer.session.export_snapshot import ExportSnapshot

_PAINTED_WITH = (
    *(Qt, QBrush, QColor, QFont, QGradient, QImage, QPaintDevice, QPaintEngine, QPainter),
    *(QPainterPath, QPen, QTextDocument),
)


def preload_painter_enums() -> None:
    """Access every painting enum once.

    Call this when a module that paints on threads is imported; the import lock prevents races.
    """
    for owner in _PAINTED_WITH:
        for name in dir(owner):
            getattr(owner, name, None)


preload_painter_enums()  # figures are painted on threads

PAPER_THEMES = {FigureTheme.PRINT: PRINT, FigureTheme.LIGHT: LIGHT, FigureTheme.DARK: DARK}
BEYOND_RANGE_TEXT = "cut corners: beyond the colour range"
MIN_WIDTH_PX = 480
SHEET_ASPECT_RATIO = 2**0.5
"""Ratio of height to width up to which panels keep their size, as in ISO 216 paper."""
SCREEN_ASPECT_RATIO = 0.75
"""The same for a figure without a given width, so that a notebook shows all of it."""
SCALE_STEP = 0.96
"""Ratio between consecutive scales that are tried if a figure does not fit."""
GALLOP_STEPS = (1, 2, 4, 8, 16, 32, 64, 96)
"""Numbers of scale steps that are tried before the binary search between two of them."""
MAX_CELLS = 8_000_000
"""Maximum number of cells in all panels; larger panels are pooled to limit time and file size."""
SKETCHED_ROWS, PREVIEW_ROWS = 512, 32
"""Total number of rows of a long text that are read for a sketch, and the minimum per panel."""
UNLIMITED_HEIGHT_PX = 1e6
"""Available height, in pixels, when wrapped text is measured; effectively unlimited."""
_WRAPPED = Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft


class FigureContent(Struct, frozen=True, eq=False):
    """Content of a figure: a board with its cursor and highlights, a title and a caption."""

    board: Board
    cursor: CellCursor
    highlights: Highlights
    title: str
    caption: str
    has_letters: bool = False

    @property
    def name(self) -> str:
        """Title in the metadata of the file: the figure's title, or else its stages or its head."""
        if self.board.flow and not self.title:
            return f"Attention, head {self.board.flow.front + 1}"
        stages = dict.fromkeys(column[0].title for column in self.board.columns)
        return self.title or ", ".join(stages) or "Attention"


class FigurePage(Struct, frozen=True, eq=False):
    """A figure that is laid out on a page.

    Parameters
    ----------
    size : QSizeF
        The size of the page.
    scale : float
        The scale relative to the window.
    at : QPointF
        The top left corner of the figure.
    title, panels, caption : QRectF
        The rectangles of the figure's parts relative to `at`, in pixels of the window.
    fits : bool
        Whether everything fits on the page.
    """

    figure: FigureContent
    layout: BoardLayout
    size: QSizeF
    scale: float
    at: QPointF
    title: QRectF
    panels: QRectF
    caption: QRectF
    theme: Theme
    fits: bool


def create_figure_content(
    snapshot: ExportSnapshot, figure_settings: FigureSettings
) -> FigureContent:
    """Return the content of a figure, with cells pooled to fit.

    For a long text, the panels show only what has been computed so far; see
    `create_exact_figure_content`.
    """
    return _fit_cells(snapshot, figure_settings)[1]


def create_exact_figure_content(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, progress: Progress = ignore_progress
) -> FigureContent:
    """Return the content of a figure like `create_figure_content`, but draw a long text exactly.

    A window that shows the same run is not affected. Drawing accounts for the first fifth of the
    progress.
    """
    snapshot = snapshot.with_separate_tiles()
    resolved, figure = _fit_cells(snapshot, figure_settings)
    return _with_exact_panels(resolved, figure, figure_settings, progress)


def create_sketched_figure_content(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, progress: Progress = ignore_progress
) -> FigureContent:
    """Return the content of a figure, with a quick sketch of each panel for a long text."""
    if not snapshot.run.trace.is_blockwise:
        return create_figure_content(snapshot, figure_settings)
    snapshot = snapshot.with_separate_tiles()
    resolved, figure = _fit_cells(snapshot, figure_settings)
    room = max(PREVIEW_ROWS, SKETCHED_ROWS // max(1, len(figure.board.heatmaps)))
    draw_panel_previews(resolved, room, progress)
    return _read_figure_content(_choose_colours_again(resolved), figure_settings)


def _with_exact_panels(
    resolved: ResolvedView,
    figure: FigureContent,
    figure_settings: FigureSettings,
    progress: Progress,
) -> FigureContent:
    """Return a figure in which the panels of a long text are drawn exactly."""
    if not resolved.run.trace.is_blockwise:
        return figure
    draw_panels(resolved, lambda done, of: progress(done, 5 * of))
    return _read_figure_content(_choose_colours_again(resolved), figure_settings)


def _fit_cells(
    snapshot: ExportSnapshot, figure_settings: FigureSettings
) -> tuple[ResolvedView, FigureContent]:
    """Choose how many cells fit in a figure and read its content with that number."""
    resolved = resolve_figure_view(snapshot, figure_settings)
    width = figure_settings.width / figure_settings.scale
    height = _target_panel_height(figure_settings) / figure_settings.scale
    figure = _read_figure_content(resolved, figure_settings)
    max_side = int((MAX_CELLS / max(1, len(figure.board.heatmaps))) ** 0.5)
    layout = _lay_out_panels(figure, figure_settings, width, height)
    room = max(8, min(layout.room, max_side))
    if room != resolved.view.room:
        resolved = _with_max_cells(resolved, room)
        figure = _read_figure_content(resolved, figure_settings)
    page = lay_out_page(figure, figure_settings)
    if page.scale < figure_settings.scale and any(
        heatmap.is_pooled for heatmap in figure.board.heatmaps
    ):
        sides = (max(slot.cells.width(), slot.cells.height()) for slot in page.layout.slots)
        room = int(max(sides) * page.scale * figure_settings.dpi / PIXELS_PER_INCH) // 8 * 8
        resolved = _with_max_cells(resolved, max(8, room))
        figure = _read_figure_content(resolved, figure_settings)
    return resolved, figure


def create_pooled_figure_content(
    snapshot: ExportSnapshot,
    figure_settings: FigureSettings,
    most: Callable[[int], int],
    progress: Progress = ignore_progress,
) -> FigureContent:
    """Return the exact content of a figure, pooled to at most `most(panels)` cells per side."""
    resolved = resolve_figure_view(snapshot.with_separate_tiles(), figure_settings)
    panels = len(_read_figure_content(resolved, figure_settings).board.heatmaps)
    times = 2 if snapshot.run.trace.spec.dtype is Dtype.FLOAT64 else 1
    resolved = _with_max_cells(resolved, most(times * panels))
    return _with_exact_panels(
        resolved, _read_figure_content(resolved, figure_settings), figure_settings, progress
    )


def fit_flow_to_height(
    snapshot: ExportSnapshot,
    figure_settings: FigureSettings,
    board_height: Callable[[FigureContent], float],
) -> tuple[int, FigureContent, BoardLayout]:
    """Fit a flow board to the width of a figure and the given height.

    Parameters
    ----------
    board_height : callable
        Function that returns the height of a figure's board, in pixels of the window.

    Returns
    -------
    tuple of (int, FigureContent, BoardLayout)
        The maximum number of cells per side, the figure and its layout.
    """
    resolved = resolve_figure_view(snapshot, figure_settings)
    width = figure_settings.width / figure_settings.scale
    figure = _read_figure_content(resolved, figure_settings)
    layout = place_flow_panels(
        figure.board, width, board_height(figure), figure_settings.pixel_ratio, is_page=True
    )
    if layout.room == resolved.view.room:
        return layout.room, figure, layout
    figure = _read_figure_content(_with_max_cells(resolved, layout.room), figure_settings)
    fitted = place_flow_panels(
        figure.board, width, board_height(figure), figure_settings.pixel_ratio, is_page=True
    )
    return layout.room, figure, fitted


def _choose_colours_again(resolved: ResolvedView) -> ResolvedView:
    """Resolve the view again, because its colours were chosen before its panels were drawn."""
    return _with_max_cells(resolved, resolved.view.room)


def _with_max_cells(resolved: ResolvedView, room: int) -> ResolvedView:
    """Resolve the view again, with at most the given number of cells per side of a panel."""
    view = replace(resolved.view, room=room)
    return resolve_view(resolved.document, view, resolved.run, resolved.computed)


def _read_figure_content(resolved: ResolvedView, figure_settings: FigureSettings) -> FigureContent:
    picture, comparison = present_board_contents(resolved), describe_comparison(resolved)
    is_exceeded = any(panel.colour.is_exceeded for panel in picture.board.heatmaps)
    parts = [
        describe_value_origin(resolved.run),
        _describe_layer_and_text(resolved),
        comparison,
        BEYOND_RANGE_TEXT if is_exceeded else "",
    ]
    caption = " · ".join(part for part in parts if part) if figure_settings.has_caption else ""
    board = replace(picture.board, comparison_description=comparison)
    return FigureContent(
        board,
        picture.cursor,
        picture.highlights,
        figure_settings.title,
        caption,
        figure_settings.has_letters,
    )


def _describe_layer_and_text(resolved: ResolvedView) -> str:
    """Name the displayed text or layer if the run has several."""
    return "" if resolved.is_spread else resolved.leading_description


def lay_out_exact_page(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, progress: Progress = ignore_progress
) -> FigurePage:
    """Lay out the page of an exactly drawn figure; see `create_exact_figure_content`."""
    return lay_out_page(
        create_exact_figure_content(snapshot, figure_settings, progress), figure_settings
    )


def lay_out_page(figure: FigureContent, figure_settings: FigureSettings) -> FigurePage:
    """Lay out a figure in the width and height of the settings; cells are whole pixels.

    If the figure does not fit, it is scaled down by as little as necessary.
    """
    page = _place_figure(figure, figure_settings)
    if page.fits or figure_settings.is_trimmed:
        return page
    # A figure that fits at one scale also fits at smaller ones, so a binary search is enough.
    smaller = cache(lambda step: _place_figure(figure, figure_settings, SCALE_STEP**step))
    first_fitting = next((step for step in GALLOP_STEPS if smaller(step).fits), 0)
    if not first_fitting:
        return page
    steps = range(first_fitting // 2 + 1, first_fitting)
    first = bisect.bisect_left(steps, True, key=lambda step: smaller(step).fits)
    return smaller(steps.start + first)


def fits_at_scale(figure: FigureContent, figure_settings: FigureSettings, size: float) -> bool:
    """Return whether a figure fits on its page at the given text scale."""
    return figure_settings.is_trimmed or _place_figure(figure, figure_settings, size).fits


def _place_figure(
    figure: FigureContent, figure_settings: FigureSettings, factor: float = 1
) -> FigurePage:
    """Lay out a figure at the given text scale."""
    scale = figure_settings.scale * factor
    width, high = figure_settings.width / scale, _target_panel_height(figure_settings) / scale
    text = text_height(figure.title, 20, width) + text_height(figure.caption, 12, width)
    layout = _lay_out_panels(figure, figure_settings, width, high - text, factor)
    block = max(layout.width, min(width, MIN_WIDTH_PX))  # a caption needs a minimum width
    page_width = block if figure_settings.is_trimmed else width
    title_height = text_height(figure.title, 20, block)
    caption_height = text_height(figure.caption, 12, block)
    content = title_height + layout.height + caption_height
    height = figure_settings.height / scale if figure_settings.height else content
    return FigurePage(
        figure,
        layout,
        QSizeF(page_width, height) * scale,
        scale,
        QPointF((page_width - block) / 2, max(0.0, (height - content) / 2)),
        QRectF(EDGE, EDGE / 2, block - 2 * EDGE, title_height),
        QRectF(0, title_height, layout.width, layout.height),
        QRectF(EDGE, title_height + layout.height, block - 2 * EDGE, caption_height),
        PAPER_THEMES[figure_settings.paper],
        block <= page_width + 0.01 and content <= height + 0.01,
    )


def _lay_out_panels(
    figure: FigureContent,
    figure_settings: FigureSettings,
    width: float,
    height: float,
    size: float = 1,
) -> BoardLayout:
    """Lay out the panels; a page without a fixed height grows to fit them.

    At the given text scale, cells are whole pixels of the page.
    """
    ratio, is_free = figure_settings.pixel_ratio * size, not figure_settings.height
    if figure.board.flow:
        return place_flow_panels(
            figure.board, width, height, ratio, is_page=True, is_height_free=is_free
        )
    return lay_out_board(figure.board, width, height, ratio, is_height_free=is_free)


def _target_panel_height(figure_settings: FigureSettings) -> float:
    """Return the target height of the panels; if the height is not fixed, they may exceed it."""
    ratio = SCREEN_ASPECT_RATIO if figure_settings.is_trimmed else SHEET_ASPECT_RATIO
    return figure_settings.height or figure_settings.width * ratio


def text_height(text: str, size: int, width: float) -> float:
    """Return the height of a text with its spacing, or 0 if the text is empty."""
    if not text:
        return 0
    area = QRectF(0, 0, width - 2 * EDGE, UNLIMITED_HEIGHT_PX)
    return (
        QFontMetricsF(_text_font(size)).boundingRect(area, _WRAPPED, text).height()
        + 14 * text_scale()
    )


def _text_font(size: int) -> QFont:
    return scaled_font(size, QFont.Weight.DemiBold if size > 12 else QFont.Weight.Normal)


def paint_page(
    painter: QPainter,
    page: FigurePage,
    progress: Progress = ignore_progress,
    *,
    is_result_hidden: bool = False,
) -> None:
    """Paint a page; the unit of the painter's coordinates must be 1/96 inch.

    Parameters
    ----------
    progress : callable
        Called before each panel with the painted and the total number of panels.
    is_result_hidden : bool
        Whether the cells that the playback step computes are left empty.
    """
    figure, theme = page.figure, page.theme
    painter.fillRect(QRectF(QPointF(0, 0), page.size), QColor(theme.paper))
    painter.save()
    try:
        painter.scale(page.scale, page.scale)
        painter.translate(page.at)
        paint_text(painter, page.title, figure.title, 20, theme.ink)
        paint_text(painter, page.caption, figure.caption, 12, theme.quiet)
        painter.translate(page.panels.topLeft())
        flow = page.layout.flow
        if flow:
            flow_paint.paint_flow_board(painter, flow, theme)
            shown = (
                highlights_before_step(figure.highlights) if is_result_hidden else figure.highlights
            )
            flow_paint.blank_uncomputed_panels(painter, flow, shown, theme)
            paint_flow_timeline(painter, flow, figure.highlights, theme)
        for done, slot in enumerate(page.layout.slots):
            progress(done, len(page.layout.slots))
            panel_paint.paint_panel(painter, slot, theme)
            if figure.board.is_current(slot.heatmap):
                marks = panel_highlights(flow, figure.highlights)
                if flow and flow.earlier and flow.has_earlier_state(slot):
                    earlier = partial(panel_paint.paint_values, painter, flow.earlier, theme)
                    marks = flow_paint.paint_earlier_state(painter, slot, marks, earlier)
                paint_highlights(painter, slot, marks, theme)
                paint_cursor(painter, slot, panel_cursor(flow, figure.cursor), theme)
        if flow and figure.highlights.step:
            paint_step_labels(painter, flow, figure.highlights.leading, theme)
        elif flow:
            hidden = figure.highlights.hidden_stages
            paint_flow_cursor(painter, flow, figure.cursor.pinned, hidden, theme)
        panel_margins_paint.paint_column_headers(
            painter, page.layout.column_headers, theme, has_letters=figure.has_letters
        )
    finally:  # also if the progress callback raises an exception
        painter.restore()


class FlowBoardImages(Struct, frozen=True, eq=False):
    """Images of a page's flow board, without highlights.

    Parameters
    ----------
    ratio : float
        Number of pixels per 1/96 inch.
    drawn : dict
        Cached images of the board, keyed by whether they show the earlier states of matrices.
    """

    page: FigurePage
    ratio: float
    drawn: dict[bool, QImage] = field(default_factory=dict)

    def __call__(self, area: QRectF, *, is_earlier: bool = False) -> QImage:
        """Return an image of an area of the board."""
        if is_earlier not in self.drawn:
            self.drawn[is_earlier] = self._draw_board_image(is_earlier)
        whole, scale = self.drawn[is_earlier], self.page.scale * self.ratio
        size = (area.size() * scale).toSize().expandedTo(QSize(1, 1))
        copied = QImage(size, QImage.Format.Format_RGB32)
        painter = QPainter(copied)
        painter.drawImage(-area.topLeft() * scale, whole)
        painter.end()
        return copied

    def _draw_board_image(self, is_earlier: bool) -> QImage:
        page, scale = self.page, self.page.scale * self.ratio
        flow = page.layout.flow
        assert flow is not None
        image = QImage(
            (page.panels.size() * scale).toSize().expandedTo(QSize(1, 1)),
            QImage.Format.Format_RGB32,
        )
        image.fill(QColor(page.theme.paper))
        painter = QPainter(image)
        painter.scale(scale, scale)
        flow_paint.paint_flow_board(painter, flow, page.theme)
        for slot in page.layout.slots:
            shown = flow.earlier if is_earlier and flow.has_earlier_state(slot) else None
            panel_paint.paint_panel(painter, shown or slot, page.theme)
        painter.end()
        return image


def create_step_motion(page: FigurePage, ratio: float) -> FlowMotion | None:
    """Return the motion of the playback step on a page, or None if the step has none."""
    flow = page.layout.flow
    if flow is None or page.figure.highlights.step is None:
        return None
    seen = QRectF(QPointF(0, 0), page.panels.size())
    pictures = FlowBoardImages(page, ratio)
    return create_flow_motion(flow, page.figure.highlights, page.theme, seen, pictures)


def paint_motion(painter: QPainter, page: FigurePage, motion: FlowMotion, share: float) -> None:
    """Paint the motion of a page at a progress from 0 to 1; the computed cells are left empty."""
    painter.save()
    painter.scale(page.scale, page.scale)
    painter.translate(page.at + page.panels.topLeft())
    step = page.figure.highlights.step
    assert step is not None
    motion.paint(painter, share, target_areas(page.layout.slots, step))
    painter.restore()


def paint_text(painter: QPainter, area: QRectF, text: str, size: int, ink: str) -> None:
    """Draw wrapped text in a rectangle."""
    if text:
        painter.setFont(_text_font(size))
        painter.setPen(QColor(ink))
        painter.drawText(area, _WRAPPED, text)
