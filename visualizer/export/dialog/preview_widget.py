"""Preview of the export dialog: the pane, rendering on a worker thread, and playback."""

from __future__ import annotations

import threading
from bisect import bisect_right
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QElapsedTimer, QObject, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QColor, QFontDatabase, QPainter
from PySide6.QtWidgets import QPlainTextEdit, QSizePolicy, QWidget

from visualizer.errors import InputError, convert_memory_error
from visualizer.export.data.data_preview import create_preview_text, describe_file_size
from visualizer.export.export_settings import TALL_NOTE, describe_figure_size
from visualizer.export.figure_settings import PIXELS_PER_INCH
from visualizer.export.figures.cell_image import create_cell_image_source
from visualizer.export.figures.figure_page import create_sketched_figure_content, lay_out_page
from visualizer.export.figures.printed_text_size import SmallTextWarning, find_small_text
from visualizer.export.figures.rasterization import MAX_SIDE_PX, render_page
from visualizer.export.films.film_layout import lay_out_animation
from visualizer.export.formats import FormatKind
from visualizer.progress import CancelledError
from visualizer.session.computation_caption import describe_value_origin
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import QImage, QPaintEvent

    from visualizer.export.export_settings import ExportSettings
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.films.animation_frames import AnimationRenderer
    from visualizer.progress import Progress
    from visualizer.session.export_snapshot import ExportSnapshot
    from visualizer.widgets.theme import Theme

SUPERSAMPLING_FACTOR = 2
"""Supersampling factor of the preview, which keeps thin lines and single cells visible."""
PREVIEW_NOTE = " · preview; the file will be exact"
MAX_PREVIEW_ROWS = 512
"""Maximum number of rows that are read for the preview of a panel with one pixel per cell."""
RASTER_SUFFIX = ".png"
"""Raster format of figures; the other figure formats are vector graphics."""


class ExportPreview(Struct, frozen=True, eq=False):
    """Preview as an image or as text, with the size of the figure or file.

    Parameters
    ----------
    image : QImage or None
        The image, in device pixels.
    text : str
        The text to show instead of an image.
    description : str
        A text that states the size of the figure or file.
    animation : AnimationRenderer or None
        The animation to which the image belongs.
    small_text : SmallTextWarning or None
        Details of text that is printed too small.
    """

    image: QImage | None
    text: str
    description: str
    animation: AnimationRenderer | None = None
    frame: int = 0
    small_text: SmallTextWarning | None = None


def render_preview(
    snapshot: ExportSnapshot,
    settings: ExportSettings,
    room: QSize,
    ratio: float,
    progress: Progress,
) -> ExportPreview:
    """Render the preview of an export.

    Parameters
    ----------
    room : QSize
        The available size in logical pixels.
    ratio : float
        The device pixel ratio.
    progress : callable
        Called repeatedly; an exception that it raises cancels the rendering.
    """
    if settings.format.kind is FormatKind.NUMBERS:
        return ExportPreview(
            None,
            create_preview_text(snapshot, settings, progress),
            describe_file_size(snapshot, settings),
        )
    if settings.format.kind is FormatKind.DOCUMENT:
        lines = describe_value_origin(snapshot.run).replace(" · ", "\n")
        return ExportPreview(None, lines, settings.format.words)
    if settings.format.kind is FormatKind.FILM:
        return render_animation_frame(
            lay_out_animation(snapshot, settings.figure_settings, progress),
            0,
            room,
            ratio,
            progress,
        )
    return _render_figure_preview(snapshot, settings, room, ratio, progress)


def _render_figure_preview(
    snapshot: ExportSnapshot,
    settings: ExportSettings,
    room: QSize,
    ratio: float,
    progress: Progress,
) -> ExportPreview:
    figure_settings = settings.figure_settings
    if settings.is_cell_image:
        return _render_cell_preview(snapshot, figure_settings, room, ratio)
    page = lay_out_page(
        create_sketched_figure_content(snapshot, figure_settings, progress), figure_settings
    )
    width, height = page.size.width(), page.size.height()
    scale = min(room.width() * ratio / width, room.height() * ratio / height)
    dpi = min(figure_settings.dpi, MAX_SIDE_PX / max(width, height) * PIXELS_PER_INCH)
    is_vector = settings.suffix != RASTER_SUFFIX
    fits = not is_vector and scale >= dpi / PIXELS_PER_INCH
    if fits:
        image = render_page(page, dpi)
    else:
        large = render_page(page, scale * SUPERSAMPLING_FACTOR * PIXELS_PER_INCH)
        size = QSize(max(1, round(width * scale)), max(1, round(height * scale)))
        image = large.scaled(size, mode=Qt.TransformationMode.SmoothTransformation)
    image.setDevicePixelRatio(ratio)
    note = PREVIEW_NOTE if snapshot.run.trace.is_blockwise else ""
    if "width_mm" not in settings.used_field_names:
        return ExportPreview(image, "", f"Fits the browser window{note}")
    tall = TALL_NOTE * figure_settings.is_taller_than_page(height)
    description = describe_figure_size(width, height, None if is_vector else dpi) + tall + note
    return ExportPreview(
        image, "", description, small_text=find_small_text(page, snapshot, figure_settings)
    )


def _render_cell_preview(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, room: QSize, ratio: float
) -> ExportPreview:
    cells = create_cell_image_source(snapshot, figure_settings)
    available = room * ratio
    image = cells.render_coarse(
        max(8, min(available.width(), available.height(), MAX_PREVIEW_ROWS))
    )
    size = QSize(*cells.size).scaled(available, Qt.AspectRatioMode.KeepAspectRatio)
    image = image.scaled(size.expandedTo(QSize(1, 1)))
    image.setDevicePixelRatio(ratio)
    note = PREVIEW_NOTE if snapshot.run.trace.is_blockwise else ""
    return ExportPreview(image, "", f"{cells.size_text}{note}")


def render_animation_frame(
    animation: AnimationRenderer, frame: int, room: QSize, ratio: float, progress: Progress
) -> ExportPreview:
    """Paint a frame of an animation as in the file; scale it down if it does not fit."""
    progress(frame, len(animation))
    image, available = animation.paint_frame(frame), room * ratio
    if image.width() > available.width() or image.height() > available.height():
        aspect, smooth = (
            Qt.AspectRatioMode.KeepAspectRatio,
            Qt.TransformationMode.SmoothTransformation,
        )
        image = image.scaled(available, aspect, smooth)
    image.setDevicePixelRatio(ratio)
    width, height = animation.size
    return ExportPreview(image, "", f"{width:,} × {height:,} pixels", animation, frame)


class PreviewController(QObject):
    """Renders previews on a worker thread; only the newest waiting request is kept."""

    rendered = Signal(object)
    refused = Signal(str)
    failed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._cancelled = threading.Event()
        self._request_count = self._answered_count = 0
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._deliver_result)
        self._worker.failed.connect(self._deliver_error)

    @property
    def is_working(self) -> bool:
        """Whether a preview is being rendered or has not been delivered yet."""
        return self._answered_count < self._request_count

    def request_preview(self, make: Callable[[Progress], object]) -> None:
        """Request a preview; cancel the rendering of an earlier preview."""
        self.cancel_request()
        self._cancelled = threading.Event()
        self._request_count += 1
        progress = partial(_raise_if_cancelled, self._cancelled)
        self._worker.submit(partial(_render_request, self._request_count, make, progress))

    def cancel_request(self) -> None:
        """Cancel the running request."""
        self._cancelled.set()

    def close(self) -> None:
        """End the worker thread; no more previews are rendered."""
        self.cancel_request()
        self._worker.abandon()

    def _deliver_result(self, answer: tuple[int, object]) -> None:
        number, result = answer
        if not isinstance(result, Exception):
            self._answered_count = number
            self.rendered.emit(result)
        elif number == self._request_count:  # otherwise, the error may be due to earlier settings
            self._deliver_error(result)

    def _deliver_error(self, error: Exception) -> None:
        self._answered_count = self._request_count
        if isinstance(error, CancelledError):
            return
        if isinstance(error, InputError):
            self.refused.emit(error.sentence)
        else:
            self.failed.emit(log_unexpected_error(error))


def _render_request(
    number: int, make: Callable[[Progress], object], progress: Progress
) -> tuple[int, object]:
    """Return the number of a request with the result or the exception."""
    try:
        return number, make(progress)
    except CancelledError as error:
        return number, error.with_traceback(None)  # which keeps computed values alive
    except Exception as error:  # noqa: BLE001 - reported on the GUI thread
        return number, convert_memory_error(error)


def _raise_if_cancelled(cancelled: threading.Event, done: int, of: int) -> None:
    if cancelled.is_set():
        raise CancelledError


class AnimationPreviewPlayer(QObject):
    """Requests each frame of an animation when it is due.

    If painting is too slow, frames are dropped to keep the playback speed of the file.
    """

    frameRequested = Signal(object, int)
    """Emitted with the `AnimationRenderer` and the index of the frame to show."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.animation: AnimationRenderer | None = None
        """The animation that is playing or has ended."""
        self._loops = True
        self._ends: list[int] = []
        self._step = 0
        self._clock = QElapsedTimer()
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._request_frame)

    @property
    def is_playing(self) -> bool:
        """Whether another frame is scheduled."""
        return self._timer.isActive()

    def resume(self, animation: AnimationRenderer, loops: bool) -> None:
        """Continue from the current frame, or start a different animation at its first frame."""
        if animation is not self.animation:
            self.animation, self._loops, self._step = animation, loops, 0
            self._ends = list(accumulate(animation.film.frame_durations()))
            self._clock.start()
            self._schedule_frame()
        elif not self._timer.isActive():  # if it is active, the current frame was only repainted
            self._schedule_frame()

    def stop(self) -> None:
        """Stop playing."""
        self._timer.stop()
        self.animation = None

    def _schedule_frame(self) -> None:
        """Schedule the next frame; skip frames that are overdue."""
        elapsed = self._clock.elapsed()
        laps, within = divmod(elapsed, self._ends[-1])
        due = laps * len(self._ends) + bisect_right(self._ends, within)
        last = len(self._ends) - 1
        if self._loops or self._step < last:
            self._step = max(self._step + 1, due if self._loops else min(due, last))
            self._timer.start(max(0, self._step_start_ms(self._step) - elapsed))

    def _step_start_ms(self, step: int) -> int:
        """Return the start of a step in ms; step numbers continue across loops."""
        lap, frame = divmod(step, len(self._ends))
        return lap * self._ends[-1] + (self._ends[frame - 1] if frame else 0)

    def _request_frame(self) -> None:
        assert self.animation
        self.frameRequested.emit(self.animation, self._step % len(self._ends))


MIN_SIZE = QSize(360, 320)


class ExportPreviewWidget(QWidget):
    """Pane that shows the latest preview."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic
    resized = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.shown: ExportPreview | None = None
        self._theme = LIGHT
        self.setAccessibleName("Preview")
        self.setMinimumSize(MIN_SIZE)
        self.text = QPlainTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName("Beginning of the file")
        self.text.hide()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def create_preview_renderer(
        self, snapshot: ExportSnapshot, settings: ExportSettings
    ) -> Callable[[Progress], ExportPreview]:
        """Return a function that renders a preview at the size of this pane."""
        return partial(
            render_preview, snapshot, settings, self._available_size, self.devicePixelRatioF()
        )

    def create_frame_renderer(
        self, animation: AnimationRenderer, frame: int
    ) -> Callable[[Progress], ExportPreview]:
        """Return a function that paints a frame at the size of this pane."""
        return partial(
            render_animation_frame, animation, frame, self._available_size, self.devicePixelRatioF()
        )

    @property
    def _available_size(self) -> QSize:
        return self.size() - QSize(2, 2)

    def show_preview(self, preview: ExportPreview, theme: Theme) -> None:
        self.shown, self._theme = preview, theme
        set_accessible_value(self, preview.description)
        self.text.setVisible(preview.image is None)
        if self.text.toPlainText() != preview.text:
            self.text.setPlainText(preview.text)
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
            corner = QPointF(round(left), round(top))
            painter.drawImage(corner, image)
            painter.setPen(QColor(self._theme.border))
            painter.drawRect(QRectF(corner, size).adjusted(-1, -1, 0, 0))
        painter.end()
