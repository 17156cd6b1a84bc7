"""What will be in a file, seen before: a figure painted small, or a list of the numbers.

Playing a film before it is written: which frame is to be seen, by the clock.
"""

from __future__ import annotations

import threading
import traceback
from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from PySide6.QtCore import QElapsedTimer, QObject, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QColor, QFontDatabase, QImage, QPainter
from PySide6.QtWidgets import QPlainTextEdit, QSizePolicy, QWidget

from visualizer.errors import InputError
from visualizer.export.data.data_preview import beginning, told
from visualizer.export.export_settings import size_in_words
from visualizer.export.figure_settings import PIXELS_AN_INCH
from visualizer.export.figures.figure_page import figure_of, page_of
from visualizer.export.figures.png_writer import LARGEST_SIDE, picture
from visualizer.export.films.film_layout import reel_of
from visualizer.export.formats import FormatKind
from visualizer.progress_callback import CancelledError
from visualizer.session.run_caption import caption
from visualizer.session.worker import Worker
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import QPaintEvent

    from visualizer.export.export_settings import ExportSettings
    from visualizer.export.films.animation_frames import AnimationFrames
    from visualizer.progress_callback import Progress
    from visualizer.session.screen import Snapshot
    from visualizer.widgets.theme import Theme

FINER = 2
"""How much larger it is painted than shown, so that thin lines and single cells are seen."""
LEAST = QSize(360, 320)
PIXELS = ".png"
"""Figures of this format have pixels, others are drawings."""


@dataclass(frozen=True, slots=True, eq=False)
class ExportPreview:
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
    reel: AnimationFrames | None = None
    frame: int = 0


def preview(
    shot: Snapshot, wish: ExportSettings, room: QSize, ratio: float, progress: Progress
) -> ExportPreview:
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
    if wish.format.kind is FormatKind.NUMBERS:
        return ExportPreview(None, beginning(shot, wish, progress), told(shot, wish))
    if wish.format.kind is FormatKind.DOCUMENT:
        lines = caption(shot.run).replace(" · ", "\n")
        return ExportPreview(None, lines, wish.format.words)
    if wish.format.kind is FormatKind.FILM:
        return frame_of(reel_of(shot, wish.asked, progress), 0, room, ratio, progress)
    return _figure(shot, wish, room, ratio)


def _figure(shot: Snapshot, wish: ExportSettings, room: QSize, ratio: float) -> ExportPreview:
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
        return ExportPreview(small, "", "As large as the browser’s window")
    return ExportPreview(small, "", size_in_words(width, height, None if is_drawing else dpi))


def frame_of(
    reel: AnimationFrames, frame: int, room: QSize, ratio: float, progress: Progress
) -> ExportPreview:
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
    return ExportPreview(image, "", f"{width:,} × {height:,} pixels", reel, frame)


class PreviewController(QObject):
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
        self.shown: ExportPreview | None = None
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

    def maker(self, shot: Snapshot, wish: ExportSettings) -> Callable[[Progress], ExportPreview]:
        """Give what makes a preview that has room here."""
        return partial(preview, shot, wish, self._room, self.devicePixelRatioF())

    def painter_of(self, reel: AnimationFrames, frame: int) -> Callable[[Progress], ExportPreview]:
        """Give what paints a frame that has room here."""
        return partial(frame_of, reel, frame, self._room, self.devicePixelRatioF())

    @property
    def _room(self) -> QSize:
        return self.size() - QSize(2, 2)

    def show_preview(self, made: ExportPreview, theme: Theme) -> None:
        """Show a preview."""
        self.shown, self._theme = made, theme
        set_accessible_value(self, made.said)
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


class FilmPreviewPlayer(QObject):
    """Asks for the frames of a film, each when its turn has come.

    Frames that take longer to paint than they are to be seen are left out: time is as in the file.
    """

    wanted = Signal(object, int)
    """A reel, and which of its frames is to be seen now."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.reel: AnimationFrames | None = None
        """What is being played, or stands at its end."""
        self._loops = True
        self._ends: list[int] = []
        self._step = 0
        self._clock = QElapsedTimer()
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._want)

    @property
    def is_playing(self) -> bool:
        """Whether there is a frame to come."""
        return self._timer.isActive()

    def go_on(self, reel: AnimationFrames, loops: bool) -> None:
        """Go on from the frame that is seen now; another film begins with its first."""
        if reel is not self.reel:
            self.reel, self._loops, self._step = reel, loops, 0
            self._ends = list(accumulate(reel.film.durations()))
            self._clock.start()
            self._wait()
        elif not self._timer.isActive():  # else it is the same frame, painted anew
            self._wait()

    def stop(self) -> None:
        """Have the film stand still; it does not go on by itself."""
        self._timer.stop()
        self.reel = None

    def _wait(self) -> None:
        """Wait for the next frame, or for the one that is due by now."""
        passed = self._clock.elapsed()
        laps, within = divmod(passed, self._ends[-1])
        due = laps * len(self._ends) + bisect_right(self._ends, within)
        last = len(self._ends) - 1
        if self._loops or self._step < last:
            self._step = max(self._step + 1, due if self._loops else min(due, last))
            self._timer.start(max(0, self._starts_at(self._step) - passed))

    def _starts_at(self, step: int) -> int:
        """Give when a step begins, in ms from the first; steps count on where the film repeats."""
        lap, frame = divmod(step, len(self._ends))
        return lap * self._ends[-1] + (self._ends[frame - 1] if frame else 0)

    def _want(self) -> None:
        assert self.reel
        self.wanted.emit(self.reel, self._step % len(self._ends))
