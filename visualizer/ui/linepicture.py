"""The picture of all lines, drawn a part at a time, so that the window never waits for long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPixmap

from visualizer.ui.linepaint import Stroke, strokes

if TYPE_CHECKING:
    from visualizer.state.lines.choosing import Lines
    from visualizer.ui.linerows import Rows
    from visualizer.ui.theme import Theme

AT_A_TIME = 20_000
"""Pixels of a thin line that are drawn before the hand is looked at again."""
HIGHEST = 4096
"""A higher picture is of what is seen only, and is drawn anew when that is scrolled."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a picture is made of.

    Parameters
    ----------
    ratio : float
        Pixels of the screen a pixel.
    """

    lines: Lines
    rows: Rows
    width: int
    top: int
    height: int
    ratio: float
    theme: Theme

    @classmethod
    def of(
        cls, lines: Lines, rows: Rows, seen: QSize, offset: int, ratio: float, theme: Theme
    ) -> Frame:
        """Take in all rows, or what is seen of them where they are too many."""
        if rows.bottom > HIGHEST:
            return cls(lines, rows, seen.width(), offset, seen.height(), ratio, theme)
        height = max(seen.height(), round(rows.bottom))
        return cls(lines, rows, seen.width(), 0, height, ratio, theme)


class Picture:
    """The lines of a frame, on nothing."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.pixmap = QPixmap(QSize(frame.width, frame.height) * frame.ratio)
        self.pixmap.setDevicePixelRatio(frame.ratio)
        self.pixmap.fill(Qt.GlobalColor.transparent)
        seen = (frame.top, frame.top + frame.height)
        self._left: list[Stroke] = [*strokes(frame.lines, frame.rows, seen, frame.theme)]
        self._left.reverse()

    @property
    def is_complete(self) -> bool:
        """Whether every line is there."""
        return not self._left

    def go_on(self) -> None:
        """Draw the next lines."""
        painter = QPainter(self.pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(0, -self.frame.top)
        spent = 0.0
        while self._left and spent < AT_A_TIME:
            stroke = self._left.pop()
            painter.strokePath(stroke.path, stroke.pen)
            spent += stroke.cost
        painter.end()
