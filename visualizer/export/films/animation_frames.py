"""Frames of a film: each is a figure of one playback step with margins and moving cells.

The margin below the panels shows the description of the step, its calculation and the track.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QTextDocument
from shiboken6 import Shiboken

from visualizer.export.figures.figure_page import (
    find_moving_cells,
    paint_motion,
    paint_page,
    paint_text,
)
from visualizer.export.figures.rasterization import create_image, image_words
from visualizer.features.playback.presenter import (
    PlaybackBarState,
    equation_to_html,
    format_step_count,
    present_playback,
)
from visualizer.features.playback.timeline_paint import TimelineSegments, paint_track, track_height
from visualizer.heatmap.cell_cursor import present_cursor
from visualizer.heatmap.highlights import present_highlights
from visualizer.session.resolved_view import resolve_view
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.labels import FONT_SIZES_PX, fit_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from PySide6.QtGui import QImage

    from visualizer.export.figures.figure_page import FigurePage
    from visualizer.export.film_plan import FilmPlan
    from visualizer.heatmap.step_motion_paint import MovingCells
    from visualizer.session.exportable_snapshot import Snapshot
    from visualizer.session.timeline import PlaybackPosition
    from visualizer.session.view import View
    from visualizer.widgets.theme import Theme


class FrameMargins(Struct, frozen=True, eq=False):
    """The title, step sentence and track around the panels, in full size even if panels shrink.

    Parameters
    ----------
    words : QRectF
        The rectangle of the step's sentence, in pixels of the window as all rectangles here.
    scale : float
        The scale relative to the window.
    """

    title: str
    title_at: QRectF
    words: QRectF
    caption: str
    caption_at: QRectF
    scale: float

    def paint(self, painter: QPainter, bar: PlaybackBarState, theme: Theme) -> None:
        painter.scale(self.scale, self.scale)
        paint_text(painter, self.title_at, self.title, 20, theme.ink)
        paint_text(painter, self.caption_at, self.caption, 12, theme.quiet)
        paint_caption(painter, self.words, bar, theme)


class PaintedStep(Struct, frozen=True, eq=False):
    """A painted step without its moving cells, its page, and the cells that move over it."""

    still: QImage
    page: FigurePage
    cells: tuple[MovingCells, ...]


class AnimationFrames(Struct, frozen=True, eq=False):
    """Film with its layout; frames can be painted in any order.

    Parameters
    ----------
    pages : dict
        The page by the computed stage.
    margins : FrameMargins
        The parts over and under the panels.
    size : tuple of int
        Width and height of every frame in pixels; even, as video encoders need.
    latest_steps : dict
        The most recently painted step, by its playback position.
    """

    snapshot: Snapshot
    film: FilmPlan
    pages: dict[str, FigurePage]
    margins: FrameMargins
    size: tuple[int, int]
    ratio: float
    latest_steps: dict[PlaybackPosition, PaintedStep] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.film)

    def durations(self, unit_ms: int) -> tuple[int, ...]:
        """Return the duration of each frame in time units."""
        return self.film.durations(unit_ms)

    def samples(self) -> Iterable[int]:
        """Return the last frame of each stage, which has all of its colours."""
        return {self.film.place(at).stage: at for at in range(len(self))}.values()

    def view(self, frame: int) -> View:
        view = self.snapshot.view
        return replace(view, playhead=replace(view.playhead, place=self.film.place(frame)))

    def page(self, frame: int) -> tuple[FigurePage, PlaybackBarState]:
        """Return the page of a frame, and its playback bar."""
        snapshot = self.snapshot
        resolved = resolve_view(
            snapshot.document, self.view(frame), snapshot.run, snapshot.document
        )
        highlights = present_highlights(resolved)
        page = self.pages[self.film.place(frame).stage]
        figure = replace(page.figure, cursor=present_cursor(resolved), highlights=highlights)
        return replace(page, figure=figure), present_playback(
            resolved, PlaybackBarState(), highlights
        )

    def picture(self, frame: int) -> QImage:
        """Paint a frame; the static part of a step is painted once for all of its frames."""
        place, motion_progress = self.film.place(frame), self.film.frames[frame].motion_progress
        step = self.latest_steps.get(place)
        if step is None:
            step = self._paint_step(frame)
            self.latest_steps.clear()
            self.latest_steps[place] = step
        image = step.still.copy()
        if motion_progress is not None:
            painter = QPainter(image)
            painter.scale(self.ratio, self.ratio)
            paint_motion(painter, step.page, step.cells, motion_progress)
            painter.end()
        return image

    def _paint_step(self, frame: int) -> PaintedStep:
        page, bar = self.page(frame)
        image = create_image(*self.size)
        image.fill(page.theme.paper)
        painter = QPainter(image)
        painter.scale(self.ratio, self.ratio)
        paint_page(painter, page)
        self.margins.paint(painter, bar, page.theme)
        painter.end()
        cells = find_moving_cells(page) if self.film.has_motion else ()
        return PaintedStep(image, page, cells)

    def pixels(self, frame: int) -> np.ndarray:
        """Paint a frame as 0xrrggbb, uint32 [row, column]."""
        return image_words(self.picture(frame))


SPACING_PX = 6


def caption_height() -> float:
    """Return the height of the part under the panels, the same for every step."""
    return 2 * _line_height() + track_height() + 2 * SPACING_PX * text_scale()


def _line_height() -> float:
    """Return the height of a line: one in large text, or two in the smallest."""
    return max(
        font_metrics(FONT_SIZES_PX[0]).height(), 2 * font_metrics(FONT_SIZES_PX[-1]).height()
    )


def paint_caption(painter: QPainter, area: QRectF, bar: PlaybackBarState, theme: Theme) -> None:
    """Draw the sentence and calculation of a step, and the track."""
    sentence = QRectF(area.left(), area.top(), area.width(), _line_height())
    paint_caption_line(painter, sentence, bar.caption, theme)
    calculation = sentence.translated(0, _line_height() + SPACING_PX * text_scale())
    equation = "".join(equation_to_html(bar.equation, theme))
    paint_caption_line(painter, calculation, equation, theme)
    count = format_step_count(bar)
    count_width = font_metrics(12).horizontalAdvance(f"{bar.count:,} of {bar.count:,}")
    painter.save()
    painter.translate(area.left(), calculation.bottom() + SPACING_PX * text_scale())
    track_width = area.width() - count_width - 12
    painter.setFont(scaled_font(12))
    painter.setPen(QColor(theme.quiet))
    count_area = QRectF(track_width, 0, area.width() - track_width, font_metrics(12).height())
    painter.drawText(count_area, Qt.AlignmentFlag.AlignRight, count)
    paint_track(painter, TimelineSegments(bar, track_width), theme)
    painter.restore()


_THREAD_STATE = threading.local()


def _text_document() -> QTextDocument:
    """Return the text document of this thread, created once per Qt application.

    Creating one connects signals: Qt takes its locks while this thread holds the GIL. A thread that
    disconnects takes the two in the opposite order, so the two threads would deadlock.
    """
    document: QTextDocument | None = getattr(_THREAD_STATE, "document", None)
    if document is None or not Shiboken.isValid(
        document
    ):  # the application deletes it when it ends
        _THREAD_STATE.document = document = QTextDocument()
        document.setDocumentMargin(0)
        document.setUndoRedoEnabled(False)
    return document


def paint_caption_line(painter: QPainter, area: QRectF, html: str, theme: Theme) -> None:
    """Draw a line as large as fits, wrapped to two lines or smaller if necessary."""
    size, _ = fit_line(html, area.width())
    document = _text_document()
    document.setDefaultFont(scaled_font(size))
    document.setHtml(f"<span style='color:{theme.ink}'>{html}</span>")
    document.setTextWidth(area.width())
    scale = min(1.0, area.height() / document.size().height())
    painter.save()
    painter.translate(area.topLeft())
    painter.scale(scale, scale)
    document.drawContents(painter)
    painter.restore()
