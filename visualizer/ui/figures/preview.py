"""What will be in a file, seen before: a figure painted small, or a list of the numbers."""

from __future__ import annotations

import threading
import traceback
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QFontDatabase, QImage, QPainter
from PySide6.QtWidgets import QPlainTextEdit, QSizePolicy, QWidget

from visualizer.attention.spec import InputError
from visualizer.state.caption import caption
from visualizer.state.figure import PIXELS_AN_INCH
from visualizer.state.formats import Kind
from visualizer.state.progress import CancelledError
from visualizer.state.wish import size_in_words
from visualizer.ui.accessible import tell
from visualizer.ui.beginning import beginning, told
from visualizer.ui.figures.film import reel_of
from visualizer.ui.figures.page import figure_of, page_of
from visualizer.ui.figures.png import LARGEST_SIDE, picture
from visualizer.ui.theme import LIGHT
from visualizer.ui.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import QPaintEvent

    from visualizer.state.figure import Shot
    from visualizer.state.progress import Progress
    from visualizer.state.wish import Wish
    from visualizer.ui.figures.reel import Reel
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
    reel : Reel or None
        The film that the picture is a frame of.
    """

    image: QImage | None
    text: str
    said: str
    reel: Reel | None = None
    frame: int = 0


def preview(shot: Shot, wish: Wish, room: QSize, ratio: float, progress: Progress) -> Preview:
    """Make what is seen before a file is written.

    Parameters
    ----------
    room : QSize
        What it may take, in pixels of the window.
    ratio : float
        Pixels of the screen a pixel of the window.
    progress : callable
        Asked whether to go on, where it takes its time.
    """
    if wish.format.kind is Kind.NUMBERS:
        return Preview(None, beginning(shot, wish, progress), told(shot, wish))
    if wish.format.kind is Kind.DOCUMENT:
        lines = caption(shot.run).replace(" · ", "\n")
        return Preview(None, lines, wish.format.words)
    if wish.format.kind is Kind.FILM:
        return frame_of(reel_of(shot, wish.asked, progress), 0, room, ratio, progress)
    return _figure(shot, wish, room, ratio)


def _figure(shot: Shot, wish: Wish, room: QSize, ratio: float) -> Preview:
    look = wish.asked
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
    if "width_mm" not in wish.deciding:
        return Preview(small, "", "As large as the browser’s window")
    return Preview(small, "", size_in_words(width, height, None if is_drawing else dpi))


def frame_of(reel: Reel, frame: int, room: QSize, ratio: float, progress: Progress) -> Preview:
    """Paint a frame of a film: the very one of the file, made smaller where there is less room."""
    progress(frame, len(reel))
    image, most = reel.picture(frame), room * ratio
    if image.width() > most.width() or image.height() > most.height():
        aspect, smooth = (
            Qt.AspectRatioMode.KeepAspectRatio,
            Qt.TransformationMode.SmoothTransformation,
        )
        image = image.scaled(most, aspect, smooth)
    image.setDevicePixelRatio(ratio)
    width, height = reel.size
    return Preview(image, "", f"{width:,} × {height:,} pixels", reel, frame)


class Previewer(QObject):
    """Makes previews off the GUI thread; of what is asked for meanwhile, the newest."""

    made = Signal(object)
    refused = Signal(str)
    broke = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._called_off = threading.Event()
        self._asked = self._answered = 0
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)

    @property
    def is_working(self) -> bool:
        """Whether one is on its way: being made, or not handed over yet."""
        return self._answered < self._asked

    def ask(self, make: Callable[[Progress], object]) -> None:
        """Have a preview made; what is being made is called off, if it can be."""
        self.call_off()
        self._called_off = threading.Event()
        self._asked += 1
        progress = partial(_go_on, self._called_off)
        self._worker.ask(partial(_numbered, self._asked, make, progress))

    def call_off(self) -> None:
        """Have no more made of what was asked for, if it takes its time."""
        self._called_off.set()

    def close(self) -> None:
        """End the thread."""
        self.call_off()
        self._worker.stop()

    def _take(self, answer: tuple[int, object]) -> None:
        self._answered, made = answer
        self.made.emit(made)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, CancelledError) and not self._called_off.is_set():
            return  # something newer is on its way
        self._answered = self._asked
        if isinstance(error, CancelledError):
            return
        if isinstance(error, InputError):
            self.refused.emit(error.sentence)
        else:
            self.broke.emit("".join(traceback.format_exception(error)))


def _numbered(
    number: int, make: Callable[[Progress], object], progress: Progress
) -> tuple[int, object]:
    return number, make(progress)


def _go_on(called_off: threading.Event, done: int, of: int) -> None:
    if called_off.is_set():
        raise CancelledError


class PreviewPane(QWidget):
    """Shows the last preview until there is a newer one."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic
    resized = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.shown: Preview | None = None
        self._theme = LIGHT
        self.setAccessibleName("Preview")
        self.setMinimumSize(LEAST)
        self.text = QPlainTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName("How the file begins")
        self.text.hide()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def maker(self, shot: Shot, wish: Wish) -> Callable[[Progress], Preview]:
        """Give what makes a preview that has room here."""
        return partial(preview, shot, wish, self._room, self.devicePixelRatioF())

    def painter_of(self, reel: Reel, frame: int) -> Callable[[Progress], Preview]:
        """Give what paints a frame that has room here."""
        return partial(frame_of, reel, frame, self._room, self.devicePixelRatioF())

    @property
    def _room(self) -> QSize:
        return self.size() - QSize(2, 2)

    def show_preview(self, made: Preview, theme: Theme) -> None:
        """Show a preview."""
        self.shown, self._theme = made, theme
        tell(self, made.said)
        self.text.setVisible(made.image is None)
        if self.text.toPlainText() != made.text:
            self.text.setPlainText(made.text)
        self.update()

    def resizeEvent(self, _: object) -> None:
        self.text.setGeometry(self.rect())
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
        painter.end()
