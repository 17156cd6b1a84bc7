"""Frames of an animation: the flow board at a playback step, with its motion and a caption."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace
from PySide6.QtCore import QRectF, QSizeF
from PySide6.QtGui import QPainter, QTextDocument
from shiboken6 import Shiboken

from visualizer.export.figures.figure_page import (
    create_step_motion,
    paint_motion,
    paint_page,
    paint_text,
)
from visualizer.export.figures.rasterization import create_image, image_pixels
from visualizer.features.playback.presenter import (
    PlaybackBarContents,
    equation_to_html,
    present_playback,
)
from visualizer.format import subscript_symbols
from visualizer.heatmap.board_arrangement import EDGE
from visualizer.heatmap.board_presenter import BoardContents, present_board
from visualizer.heatmap.cell_cursor import present_cursor
from visualizer.heatmap.flow_placement import place_flow_panels
from visualizer.heatmap.highlights import present_highlights
from visualizer.session.resolved_view import resolve_view
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.labels import FONT_SIZES_PX, largest_fitting_font_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from PySide6.QtGui import QImage

    from visualizer.export.figures.figure_page import FigurePage
    from visualizer.export.film_plan import AnimationPlan
    from visualizer.heatmap.flow_motion_paint import FlowMotion
    from visualizer.session.export_snapshot import ExportSnapshot
    from visualizer.session.timeline import PlaybackPosition
    from visualizer.session.view import View
    from visualizer.widgets.theme import Theme


SPACING_PX = 6


class FrameMargins(Struct, frozen=True, eq=False):
    """The title, the step's caption and the figure's caption around the board.

    Parameters
    ----------
    words : QRectF
        The rectangle of the step's caption; all rectangles are in pixels of the window.
    scale : float
        The scale relative to the window.
    """

    title: str
    title_at: QRectF
    words: QRectF
    caption: str
    caption_at: QRectF
    scale: float

    def paint(self, painter: QPainter, bar: PlaybackBarContents, theme: Theme) -> None:
        painter.scale(self.scale, self.scale)
        paint_text(painter, self.title_at.adjusted(0, EDGE / 2, 0, 0), self.title, 20, theme.ink)
        paint_text(painter, self.caption_at, self.caption, 12, theme.quiet)
        line = QRectF(self.words.topLeft(), QSizeF(self.words.width(), _line_height()))
        paint_caption_line(painter, line, bar.caption, theme)
        line.translate(0, _line_height() + SPACING_PX * text_scale())
        versions, result = equation_to_html(bar.equation, theme)
        usual = versions[(len(versions) - 1) // 2]
        paint_caption_line(painter, line, usual + result, theme)


def caption_height() -> float:
    """Return the height of a step's caption, which consists of a sentence and an equation."""
    return 2 * _line_height() + SPACING_PX * text_scale()


def _line_height() -> float:
    """Return the height of one line of the largest text or of two lines of the smallest text."""
    return max(
        font_metrics(FONT_SIZES_PX[0]).height(), 2 * font_metrics(FONT_SIZES_PX[-1]).height()
    )


class PaintedStep(Struct, frozen=True, eq=False):
    """Images of a painted step: its result and, if it has motion, the image below the motion."""

    result: QImage
    page: FigurePage
    motion: FlowMotion | None = None
    before: QImage | None = None


class AnimationRenderer(Struct, frozen=True, eq=False):
    """An animation with its layout; its frames can be painted in any order.

    Parameters
    ----------
    first : FigurePage
        The page of the first step.
    margins : FrameMargins
        The parts above and below the board.
    size : tuple of int
        Width and height of every frame in pixels; even, as video encoders require.
    ratio : float
        Number of pixels per 1/96 inch of the page.
    latest_steps : dict
        The most recently painted step, keyed by its playback position.
    """

    snapshot: ExportSnapshot
    film: AnimationPlan
    first: FigurePage
    margins: FrameMargins
    size: tuple[int, int]
    ratio: float
    latest_steps: dict[PlaybackPosition, PaintedStep] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.film)

    def frame_durations(self, unit_ms: int) -> tuple[int, ...]:
        """Return the duration of each frame in units of `unit_ms`."""
        return self.film.frame_durations(unit_ms)

    def sample_frames(self) -> Iterable[int]:
        """Return the last frame of each stage, which contains all of its colours."""
        return {self.film.position_of_frame(at).stage: at for at in range(len(self))}.values()

    def view_at_frame(self, frame: int) -> View:
        view = self.snapshot.view
        return replace(
            view, playhead=replace(view.playhead, place=self.film.position_of_frame(frame))
        )

    def lay_out_frame(self, frame: int) -> tuple[FigurePage, PlaybackBarContents]:
        """Return the page and the playback bar of a frame."""
        snapshot, first = self.snapshot, self.first
        resolved = resolve_view(
            snapshot.document, self.view_at_frame(frame), snapshot.run, snapshot.document
        )
        board, highlights = (
            present_board(resolved, first.figure.board),
            present_highlights(resolved),
        )
        figure = replace(
            first.figure, board=board, cursor=present_cursor(resolved), highlights=highlights
        )
        size, ratio = first.panels.size(), self.ratio * first.scale
        layout = place_flow_panels(board, size.width(), size.height(), ratio, is_page=True)
        page = replace(first, figure=figure, layout=layout)
        return page, present_playback(
            resolved, PlaybackBarContents(), BoardContents(board, step_highlights=highlights)
        )

    def paint_frame(self, frame: int) -> QImage:
        """Paint a frame; the static parts of a step are painted only once for all of its frames."""
        place, motion_progress = (
            self.film.position_of_frame(frame),
            self.film.frames[frame].motion_progress,
        )
        step = self.latest_steps.get(place)
        if step is None:
            step = self._paint_step(frame)
            self.latest_steps.clear()
            self.latest_steps[place] = step
        if motion_progress is None or step.motion is None or step.before is None:
            return step.result.copy()
        image = step.before.copy()
        painter = QPainter(image)
        painter.scale(self.ratio, self.ratio)
        paint_motion(painter, step.page, step.motion, motion_progress)
        painter.end()
        return image

    def _paint_step(self, frame: int) -> PaintedStep:
        page, bar = self.lay_out_frame(frame)
        place = self.film.position_of_frame(frame)
        is_moving = any(
            one.motion_progress is not None for one in self.film.frames_at_position(place)
        )
        motion = create_step_motion(page, self.ratio) if is_moving else None
        before = self._paint_page(page, bar, is_result_hidden=True) if motion else None
        return PaintedStep(self._paint_page(page, bar), page, motion, before)

    def _paint_page(
        self, page: FigurePage, bar: PlaybackBarContents, *, is_result_hidden: bool = False
    ) -> QImage:
        image = create_image(*self.size)
        image.fill(page.theme.paper)
        painter = QPainter(image)
        painter.scale(self.ratio, self.ratio)
        paint_page(painter, page, is_result_hidden=is_result_hidden)
        self.margins.paint(painter, bar, page.theme)
        painter.end()
        return image

    def frame_pixels(self, frame: int) -> np.ndarray:
        """Paint a frame as 0xrrggbb, uint32 [row, column]."""
        return image_pixels(self.paint_frame(frame))


_THREAD_STATE = threading.local()


def _thread_text_document() -> QTextDocument:
    """Return the text document of this thread, created once per Qt application.

    Creating a document connects signals: Qt acquires its locks while this thread holds the GIL. A
    thread that disconnects signals acquires the two in the opposite order, so that the threads
    would deadlock.
    """
    document: QTextDocument | None = getattr(_THREAD_STATE, "document", None)
    if document is None or not Shiboken.isValid(
        document
    ):  # the application deletes the document when it ends
        _THREAD_STATE.document = document = QTextDocument()
        document.setDocumentMargin(0)
        document.setUndoRedoEnabled(False)
    return document


def paint_caption_line(painter: QPainter, area: QRectF, html: str, theme: Theme) -> None:
    """Draw text as large as fits; if necessary, wrap it to two lines or scale it down."""
    size, _ = largest_fitting_font_size(html, area.width())
    document = _thread_text_document()
    document.setDefaultFont(scaled_font(size))
    document.setHtml(f"<span style='color:{theme.ink}'>{subscript_symbols(html)}</span>")
    document.setTextWidth(area.width())
    scale = min(1.0, area.height() / document.size().height())
    painter.save()
    painter.translate(area.topLeft())
    painter.scale(scale, scale)
    document.drawContents(painter)
    painter.restore()
