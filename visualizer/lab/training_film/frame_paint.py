"""Paints the frames of a training film."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from visualizer.export.figures.figure_page import THEMES, paint_text
from visualizer.export.figures.rasterization import blank, words_of
from visualizer.heatmap import panel_margins_paint, panel_paint
from visualizer.lab.attention_view.layout import MARGIN
from visualizer.lab.snapshot_bar.paint import SnapshotAxis
from visualizer.widgets.fonts import font, metrics

if TYPE_CHECKING:
    import numpy as np

    from visualizer.heatmap.board_layout import BoardLayout
    from visualizer.lab.training_film.film_frames import TrainingFilm
SAMPLES = 5
SPACE = 8


class TrainingFilmFrames(Struct, frozen=True, eq=False):
    """A film with its layout.

    Parameters
    ----------
    layout : BoardLayout
        The layout of the panels, the same in every frame.
    shrunk : float
        Scale of the panels relative to the window.
    top : float
        The y at which panels start, in pixels of the film, as for all margins.
    """

    film: TrainingFilm
    layout: BoardLayout
    shrunk: float
    top: float
    size: tuple[int, int]

    def __len__(self) -> int:
        return len(self.film)

    def durations(self, unit_ms: int) -> tuple[int, ...]:
        """Return the number of time units for which each frame is shown."""
        return self.film.durations(unit_ms)

    def samples(self) -> list[int]:
        """Return a few frame numbers spread over the training."""
        last = len(self) - 1
        return sorted({round(last * part / (SAMPLES - 1)) for part in range(SAMPLES)})

    def pixels(self, frame: int) -> np.ndarray:
        """Paint a frame as 0xrrggbb, uint32 [row, column]."""
        return words_of(self.picture(frame))

    def picture(self, frame: int) -> QImage:
        image, settings = blank(*self.size), self.film.settings
        theme = THEMES[settings.paper]
        image.fill(QColor(theme.paper))
        painter = QPainter(image)
        titled = QRectF(MARGIN, MARGIN / 2, settings.width - 2 * MARGIN, self.top)
        paint_text(painter, titled, settings.title, 20, theme.ink)
        self._paint_panels(painter, frame)
        scrub = self.film.scrub(frame)
        line = metrics(14).height()
        under = self.top + self.layout.height * self.shrunk + SPACE
        painter.setFont(font(14))
        painter.setPen(QColor(theme.ink))
        painter.drawText(QPointF(MARGIN, under + metrics(14).ascent()), scrub.said)
        painter.translate(MARGIN, under + line + SPACE)
        SnapshotAxis(scrub, settings.width - 2 * MARGIN).paint(painter, theme)
        painter.end()
        return image

    def _paint_panels(self, painter: QPainter, frame: int) -> None:
        theme = THEMES[self.film.settings.paper]
        painter.save()
        painter.translate(self._left, self.top)
        painter.scale(self.shrunk, self.shrunk)
        panels = {(one.layer, one.head): one for one in self.film.board(frame).heatmaps}
        for slot in self.layout.slots:
            panel = panels[slot.heatmap.layer, slot.heatmap.head]
            panel_paint.paint_slot(painter, replace(slot, heatmap=panel), theme)
        panel_margins_paint.paint_column_heads(painter, self.layout.column_heads, theme)
        painter.restore()

    @property
    def _left(self) -> float:
        """The x at which centred panels start, a whole pixel."""
        return max(0, round((self.film.settings.width - self.layout.width * self.shrunk) / 2))
