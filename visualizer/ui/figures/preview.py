"""What will be in a file, seen before: a figure painted small, or a list of the numbers."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QSizePolicy, QWidget

from visualizer.attention.spec import InputError
from visualizer.state.caption import caption
from visualizer.state.figure import PIXELS_AN_INCH
from visualizer.state.formats import Kind
from visualizer.state.wish import size_in_words
from visualizer.ui.accessible import tell
from visualizer.ui.figures.page import figure_of, page_of
from visualizer.ui.figures.png import LARGEST_SIDE, picture
from visualizer.ui.theme import LIGHT, font
from visualizer.ui.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import QPaintEvent

    from visualizer.state.figure import Shot
    from visualizer.state.wish import Wish
    from visualizer.ui.theme import Theme

FINER = 2
"""How much larger it is painted than shown, so that thin lines and single cells are seen."""
LEAST = QSize(360, 320)
PIXELS = ".png"
"""Figures of this format have pixels, others are drawings."""


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """A figure or a text, and how large it will be.

    Parameters
    ----------
    image : QImage or None
        As many pixels as it is shown with.
    text : str
        What is shown instead of a picture.
    """

    image: QImage | None
    text: str
    said: str


def preview(shot: Shot, wish: Wish, room: QSize, ratio: float) -> Preview:
    """Make what is seen before a file is written.

    Parameters
    ----------
    room : QSize
        What it may take, in pixels of the window.
    ratio : float
        Pixels of the screen a pixel of the window.
    """
    if wish.format.kind is Kind.NUMBERS:
        return Preview(None, contents(shot), wish.format.words)
    if wish.format.kind is Kind.DOCUMENT:
        return Preview(None, caption(shot.run), wish.format.words)
    look = wish.look
    page = page_of(figure_of(shot, look), look)
    width, height = page.size.width(), page.size.height()
    fitted = min(room.width() * ratio / width, room.height() * ratio / height)
    dpi = min(look.dpi, LARGEST_SIDE / max(width, height) * PIXELS_AN_INCH)
    is_drawing = wish.suffix != PIXELS
    is_whole = not is_drawing and fitted >= dpi / PIXELS_AN_INCH
    if is_whole:
        small = picture(page, dpi)
    else:
        large = picture(page, fitted * FINER * PIXELS_AN_INCH)
        size = QSize(max(1, round(width * fitted)), max(1, round(height * fitted)))
        small = large.scaled(size, mode=Qt.TransformationMode.SmoothTransformation)
    small.setDevicePixelRatio(ratio)
    return Preview(small, "", size_in_words(width, height, None if is_drawing else dpi))


def contents(shot: Shot) -> str:
    """List the stages with their sizes."""
    trace = shot.run.trace
    lines = []
    for stage in trace.stages:
        sizes = zip(stage.dims, trace.tensor(stage.name).shape[-len(stage.dims) :], strict=True)
        lines.append(f"{stage.name}  " + " × ".join(f"{size:,} {dim}" for dim, size in sizes))
    return "\n".join(lines)


class Previewer(QObject):
    """Makes previews off the GUI thread; of what is asked for meanwhile, the newest."""

    made = Signal(object)
    refused = Signal(str)
    broke = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._worker = Worker(self)
        self._worker.answered.connect(self.made)
        self._worker.failed.connect(self._fail)

    @property
    def is_working(self) -> bool:
        """Whether one is on its way."""
        return self._worker.is_working

    def ask(self, make: Callable[[], object]) -> None:
        """Have a preview made."""
        self._worker.ask(make)

    def close(self) -> None:
        """End the thread."""
        self._worker.stop()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, InputError):
            self.refused.emit(error.sentence)
        else:
            self.broke.emit("".join(traceback.format_exception(error)))


class PreviewPane(QWidget):
    """Shows the last preview until there is a newer one."""

    resized = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.shown: Preview | None = None
        self._theme = LIGHT
        self.setAccessibleName("Preview")
        self.setMinimumSize(LEAST)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def maker(self, shot: Shot, wish: Wish) -> Callable[[], Preview]:
        """Give what makes a preview that has room here."""
        room = self.size() - QSize(2, 2)
        return partial(preview, shot, wish, room, self.devicePixelRatioF())

    def show_preview(self, made: Preview, theme: Theme) -> None:
        """Show a preview."""
        self.shown, self._theme = made, theme
        tell(self, made.text or made.said)
        self.update()

    def resizeEvent(self, _: object) -> None:
        self.resized.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if self.shown and self.shown.image:
            image = self.shown.image
            size = image.deviceIndependentSize()
            left, top = (self.width() - size.width()) / 2, (self.height() - size.height()) / 2
            at = QPointF(round(left), round(top))
            painter.drawImage(at, image)
            painter.setPen(QColor(self._theme.border))
            painter.drawRect(QRectF(at, size).adjusted(-1, -1, 0, 0))
        elif self.shown:
            painter.setFont(font(12))
            painter.setPen(QColor(self._theme.ink))
            wrapped = Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft
            painter.drawText(self.rect().adjusted(8, 8, -8, -8), wrapped, self.shown.text)
        painter.end()
