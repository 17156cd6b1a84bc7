"""Renders the previews of the export dialog on a worker thread."""

from __future__ import annotations

import threading
import traceback
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QObject, QSize, Qt, Signal

from visualizer.errors import InputError
from visualizer.export.data.data_preview import preview_text
from visualizer.export.data.file_size_estimate import size_sentence
from visualizer.export.export_settings import size_in_words
from visualizer.export.figure_settings import PIXELS_AN_INCH
from visualizer.export.figures.figure_page import page_of, sketched_figure_of
from visualizer.export.figures.panel_cells_picture import panel_cells_of
from visualizer.export.figures.printed_text_size import SmallText, small_text
from visualizer.export.figures.rasterization import MAX_SIDE_PX, picture
from visualizer.export.films.film_layout import lay_out_film
from visualizer.export.formats import FormatKind
from visualizer.progress_callback import CancelledError
from visualizer.session.computation_caption import caption
from visualizer.session.newest_request_worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import QImage

    from visualizer.export.export_settings import ExportSettings
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.films.animation_frames import AnimationFrames
    from visualizer.progress_callback import Progress
    from visualizer.session.exportable_snapshot import Snapshot

FINER = 2
"""Supersampling factor, which keeps thin lines and single cells visible."""
FIRST_PICTURE = " · preview; the file is exact"
MAX_PREVIEW_ROWS = 512
"""Maximum rows of a panel read for a first picture of all its cells."""
PIXELS = ".png"
"""Raster format of figures; the other figure formats are vector graphics."""


class ExportPreview(Struct, frozen=True, eq=False):
    """Preview as an image or text, with the file size.

    Parameters
    ----------
    image : QImage or None
        The picture, in device pixels.
    text : str
        Text shown instead of a picture.
    animation : AnimationFrames or None
        The film that contains the picture as a frame.
    small_text : SmallText or None
        Details of text that is printed too small.
    """

    image: QImage | None
    text: str
    said: str
    animation: AnimationFrames | None = None
    frame: int = 0
    small_text: SmallText | None = None


def preview(
    snapshot: Snapshot, settings: ExportSettings, room: QSize, ratio: float, progress: Progress
) -> ExportPreview:
    """Render the preview of an export.

    Parameters
    ----------
    room : QSize
        The available size in logical pixels.
    ratio : float
        The device pixel ratio.
    progress : callable
        Called repeatedly; an exception from it cancels.
    """
    if settings.format.kind is FormatKind.NUMBERS:
        return ExportPreview(
            None, preview_text(snapshot, settings, progress), size_sentence(snapshot, settings)
        )
    if settings.format.kind is FormatKind.DOCUMENT:
        lines = caption(snapshot.run).replace(" · ", "\n")
        return ExportPreview(None, lines, settings.format.words)
    if settings.format.kind is FormatKind.FILM:
        return frame_of(
            lay_out_film(snapshot, settings.figure_settings, progress), 0, room, ratio, progress
        )
    return _preview_figure(snapshot, settings, room, ratio, progress)


def _preview_figure(
    snapshot: Snapshot, settings: ExportSettings, room: QSize, ratio: float, progress: Progress
) -> ExportPreview:
    figure_settings = settings.figure_settings
    if settings.is_of_cells:
        return _preview_cells(snapshot, figure_settings, room, ratio)
    page = page_of(sketched_figure_of(snapshot, figure_settings, progress), figure_settings)
    width, height = page.size.width(), page.size.height()
    fitted = min(room.width() * ratio / width, room.height() * ratio / height)
    dpi = min(figure_settings.dpi, MAX_SIDE_PX / max(width, height) * PIXELS_AN_INCH)
    is_drawing = settings.suffix != PIXELS
    is_whole = not is_drawing and fitted >= dpi / PIXELS_AN_INCH
    if is_whole:
        small = picture(page, dpi)
    else:
        large = picture(page, fitted * FINER * PIXELS_AN_INCH)
        size = QSize(max(1, round(width * fitted)), max(1, round(height * fitted)))
        small = large.scaled(size, mode=Qt.TransformationMode.SmoothTransformation)
    small.setDevicePixelRatio(ratio)
    first = FIRST_PICTURE if snapshot.run.trace.is_blockwise else ""
    if "width_mm" not in settings.deciding:
        return ExportPreview(small, "", f"Fits the browser window{first}")
    said = size_in_words(width, height, None if is_drawing else dpi) + first
    return ExportPreview(small, "", said, small_text=small_text(page, snapshot, figure_settings))


def _preview_cells(
    snapshot: Snapshot, figure_settings: FigureSettings, room: QSize, ratio: float
) -> ExportPreview:
    cells = panel_cells_of(snapshot, figure_settings)
    most = room * ratio
    image = cells.sketched(max(8, min(most.width(), most.height(), MAX_PREVIEW_ROWS)))
    size = QSize(*cells.size).scaled(most, Qt.AspectRatioMode.KeepAspectRatio)
    image = image.scaled(size.expandedTo(QSize(1, 1)))
    image.setDevicePixelRatio(ratio)
    first = FIRST_PICTURE if snapshot.run.trace.is_blockwise else ""
    return ExportPreview(image, "", f"{cells.size_in_words}{first}")


def frame_of(
    animation: AnimationFrames, frame: int, room: QSize, ratio: float, progress: Progress
) -> ExportPreview:
    """Paint a film frame as in the file, scaled down to fit."""
    progress(frame, len(animation))
    image, most = animation.picture(frame), room * ratio
    if image.width() > most.width() or image.height() > most.height():
        aspect, smooth = (
            Qt.AspectRatioMode.KeepAspectRatio,
            Qt.TransformationMode.SmoothTransformation,
        )
        image = image.scaled(most, aspect, smooth)
    image.setDevicePixelRatio(ratio)
    width, height = animation.size
    return ExportPreview(image, "", f"{width:,} × {height:,} pixels", animation, frame)


class PreviewController(QObject):
    """Renders previews on a worker thread, only for the newest pending request."""

    made = Signal(object)
    refused = Signal(str)
    broke = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._called_off = threading.Event()
        self._asked = self._answered = 0
        self._worker = Worker(self)
        self._worker.answered.connect(self._deliver_answer)
        self._worker.failed.connect(self._deliver_error)

    @property
    def is_working(self) -> bool:
        """Whether a preview is being rendered or has not been delivered yet."""
        return self._answered < self._asked

    def ask(self, make: Callable[[Progress], object]) -> None:
        """Request a preview; cancels a running one if possible."""
        self.call_off()
        self._called_off = threading.Event()
        self._asked += 1
        progress = partial(_raise_if_cancelled, self._called_off)
        self._worker.ask(partial(_call_numbered, self._asked, make, progress))

    def call_off(self) -> None:
        """Cancel the request."""
        self._called_off.set()

    def close(self) -> None:
        """End the worker; no more previews are rendered."""
        self.call_off()
        self._worker.leave()

    def _deliver_answer(self, answer: tuple[int, object]) -> None:
        self._answered, made = answer
        self.made.emit(made)

    def _deliver_error(self, error: Exception) -> None:
        if isinstance(error, CancelledError) and not self._called_off.is_set():
            return  # a newer request is pending
        self._answered = self._asked
        if isinstance(error, CancelledError):
            return
        if isinstance(error, InputError):
            self.refused.emit(error.sentence)
        else:
            self.broke.emit("".join(traceback.format_exception(error)))


def _call_numbered(
    number: int, make: Callable[[Progress], object], progress: Progress
) -> tuple[int, object]:
    return number, make(progress)


def _raise_if_cancelled(called_off: threading.Event, done: int, of: int) -> None:
    if called_off.is_set():
        raise CancelledError
