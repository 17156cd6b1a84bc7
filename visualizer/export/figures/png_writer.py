"""Writes figures, and the overview of all heads, as PNG."""

from __future__ import annotations

import io
import math
import os
import struct
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from PySide6.QtGui import QImage

from visualizer.documents.embedded_document import PNG_KEYWORD, encode_png_text
from visualizer.export.figure_settings import MM_PER_INCH
from visualizer.export.figures.cell_image import create_cell_image_source
from visualizer.export.figures.document_attachment import attach_to_png, document_to_attach
from visualizer.export.figures.rasterization import render_page
from visualizer.features.layer_overview.paint import paint_overview, uniform_cell_spacing
from visualizer.features.layer_overview.presenter import present_overview_of_runs
from visualizer.process_settings import run_in_thread
from visualizer.progress import Progress, ignore_progress, scale_progress
from visualizer.session.computation_caption import describe_value_origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from visualizer.attention.run import Run
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.figures.figure_page import FigurePage
    from visualizer.session.export_snapshot import ExportSnapshot
    from visualizer.session.head_order import HeadOrder

LEVEL, LARGE_LEVEL = 6, 1
"""zlib levels for small and large images; `LEVEL` halves the size of a small image."""
MIN_COMPRESSED_TEXT_BYTES = 2**10
"""Minimum size, in bytes, of metadata that is compressed, which makes base64 a quarter smaller."""
MAX_SMALL_PIXELS = 2**23
"""Size, in pixels, of the largest image that is compressed at `LEVEL`."""
ROWS_PER_BAND = 128
"""Number of rows that are compressed together; it is small so that their memory is reused."""
UP_FILTER = 2
"""PNG filter type Up: each byte is the difference from the byte above."""
TRUECOLOUR, INDEXED = 2, 3
"""PNG colour types."""
ZLIB_HEADER = b"\x78\x01"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def write_png(
    page: FigurePage,
    snapshot: ExportSnapshot,
    figure_settings: FigureSettings,
    file: BinaryIO,
    progress: Progress,
) -> None:
    """Write a figure as PNG, with its physical size and caption as metadata.

    Raises
    ------
    InputError
        If there is not enough memory for the image.
    """
    image = render_page(page, figure_settings.dpi, scale_progress(progress, 20, 60))
    attach_to_png(image, document_to_attach(snapshot, figure_settings))
    save_png_image(image, file, scale_progress(progress, 60, 100))


def write_cell_image(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, file: BinaryIO, progress: Progress
) -> None:
    """Write a PNG with one pixel per cell of a panel."""
    cells = create_cell_image_source(snapshot, figure_settings)
    dots = round(figure_settings.dpi / MM_PER_INCH * 1000)
    texts = {"Title": cells.stage.title, "Description": describe_value_origin(snapshot.run)}
    if document := document_to_attach(snapshot, figure_settings):
        texts[PNG_KEYWORD] = encode_png_text(document)
    save_png_bands(cells.render_bands(progress), cells.size, file, (dots, dots), texts)


def save_png_image(image: QImage, file: BinaryIO, progress: Progress = ignore_progress) -> None:
    """Write an image as PNG to an open file, with its palette, text chunks and physical size.

    For areas of one colour, unfiltered rows (filter 0) give smaller files than the predictive
    filters that Qt and Pillow use, and are three to four times as fast. Rows that are equal to the
    row above, which are common in enlarged cells, are stored as zeros (filter 2). See the PNG
    specification, third edition, sections 5, 9 and 11.
    """
    texts = {key: image.text(key) for key in image.textKeys()}
    dots = image.dotsPerMeterX(), image.dotsPerMeterY()
    size = image.width(), image.height()
    save_png_bands(
        _iterate_bands(image, progress), size, file, dots, texts, palette=image.colorTable()
    )


def save_png_bands(
    bands: Iterable[np.ndarray],
    size: tuple[int, int],
    file: BinaryIO,
    dots: tuple[int, int],
    texts: Mapping[str, str],
    palette: Sequence[int] = (),
) -> None:
    """Write an image as PNG from an iterable of bands of rows; see `save_png_image`.

    Parameters
    ----------
    bands : iterable of numpy.ndarray
        Arrays of uint8 [row, byte] with the red, green and blue bytes of each pixel, or with its
        index in the palette. An exception that the iterable raises cancels the work.
    size : tuple of int
        Width and height in pixels.
    dots : tuple of int
        Pixels per metre, horizontally and vertically.
    texts : mapping of str to str
        Metadata, keyed by PNG keyword.
    palette : sequence of int
        The colours of an indexed image, as 0xffrrggbb.
    """
    file.write(PNG_SIGNATURE)
    colour_type = INDEXED if palette else TRUECOLOUR
    _write_chunk(file, b"IHDR", struct.pack(">IIBBBBB", *size, 8, colour_type, 0, 0, 0))
    if palette:
        _write_chunk(file, b"PLTE", b"".join(struct.pack(">I", each)[1:] for each in palette))
    _write_chunk(file, b"pHYs", struct.pack(">IIB", *dots, 1))
    for key, text in texts.items():
        _write_chunk(file, b"iTXt", key.encode("latin-1") + _text_chunk_data(_encode_utf8(text)))
    run_in_thread(lambda: _write_rows(bands, size, file))
    _write_chunk(file, b"IEND", b"")


def _iterate_bands(image: QImage, progress: Progress) -> Iterator[np.ndarray]:
    """Yield the rows of an image in bands; see `save_png_bands`."""
    for top in range(0, image.height(), ROWS_PER_BAND):
        progress(top, image.height())
        height = min(ROWS_PER_BAND, image.height() - top)
        band = image.copy(0, top, image.width(), height)
        if not image.colorCount():
            band = band.convertToFormat(QImage.Format.Format_RGB888)
        rows = np.frombuffer(band.constBits(), np.uint8).reshape(height, band.bytesPerLine())
        yield rows[:, : image.width() * band.depth() // 8]


def _text_chunk_data(text: bytes) -> bytes:
    """Return the data after the keyword of an iTXt chunk: flags, two empty fields and text."""
    if len(text) < MIN_COMPRESSED_TEXT_BYTES:
        return bytes(5) + text
    return b"\0\1\0\0\0" + zlib.compress(text)


def _encode_utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _write_rows(bands: Iterable[np.ndarray], size: tuple[int, int], file: BinaryIO) -> None:
    """Write the pixels as one zlib stream (RFC 1950); compress several bands in parallel."""
    height = size[1]
    level = LEVEL if math.prod(size) <= MAX_SMALL_PIXELS else LARGE_LEVEL
    checksum, last_row, rows_written = zlib.adler32(b""), None, 0
    pending: deque[Future[bytes]] = deque()
    cores = os.cpu_count() or 1
    _write_chunk(file, b"IDAT", ZLIB_HEADER)
    with ThreadPoolExecutor(cores) as threads:  # zlib releases the GIL
        for pixels in bands:
            rows, last_row = _filter_rows(pixels, last_row)
            checksum, rows_written = zlib.adler32(rows.data, checksum), rows_written + len(rows)
            pending.append(threads.submit(_compress_rows, rows, level, rows_written >= height))
            if len(pending) > cores:
                _write_chunk(file, b"IDAT", pending.popleft().result())
        while pending:
            _write_chunk(file, b"IDAT", pending.popleft().result())
    _write_chunk(file, b"IDAT", struct.pack(">I", checksum))


def _compress_rows(rows: np.ndarray, level: int, is_last: bool) -> bytes:
    packer = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
    packed = packer.compress(rows.data)
    return packed + packer.flush(zlib.Z_FINISH if is_last else zlib.Z_SYNC_FLUSH)


def _filter_rows(pixels: np.ndarray, above: bytes | None) -> tuple[np.ndarray, bytes]:
    """Return rows with their filter bytes, [row, byte], and the pixels of the last row.

    Parameters
    ----------
    above : bytes or None
        The pixels of the row above the first.
    """
    rows = np.empty((len(pixels), 1 + pixels.shape[1]), np.uint8)
    is_repeated = np.empty(len(pixels), bool)
    is_repeated[0] = pixels[0].tobytes() == above
    is_repeated[1:] = (pixels[1:] == pixels[:-1]).all(1)
    rows[:, 0] = np.where(is_repeated, UP_FILTER, 0)
    rows[:, 1:] = pixels
    rows[is_repeated, 1:] = 0
    return rows, pixels[-1].tobytes()


def _write_chunk(file: BinaryIO, kind: bytes, data: bytes) -> None:
    if data or kind != b"IDAT":
        file.write(struct.pack(">I", len(data)) + kind + data)
        file.write(struct.pack(">I", zlib.crc32(kind + data)))


OVERVIEW_SIDE_PX = 64
"""Approximate distance, in pixels, between adjacent small heatmaps."""


def render_overview_png(
    runs: Sequence[tuple[Run, tuple[int, ...]]], order: HeadOrder, side: int = OVERVIEW_SIDE_PX
) -> bytes:
    """Return an overview of runs on the same text, as PNG; requires a Qt application.

    Parameters
    ----------
    runs : sequence of (Run, layers)
        Runs, each with the indices of its layers in the model.

    Raises
    ------
    InputError
        With field ``layer`` if the layers have different numbers of heads.
    """
    panel = present_overview_of_runs(runs, order)
    run = runs[0][0]
    tokens = run.texts[0]
    separator = "" if any(token.startswith(" ") for token in tokens) else " "
    source = run.source_display_name or describe_value_origin(run).partition(" · ")[0]
    description = f"{source}: “{separator.join(tokens).strip()}”"
    title = description if len(description) <= 80 else f"{description[:78]}…”"
    file = io.BytesIO()
    assert panel.weights is not None
    spacing = uniform_cell_spacing(max(panel.weights.shape[-2:]), side)
    save_png_image(paint_overview(panel, title, spacing), file)
    return file.getvalue()
