"""Writes figures as vector graphics with searchable text: as SVG, as PDF and to the clipboard."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, BinaryIO
from xml.sax.saxutils import escape, unescape

from msgspec import Struct
from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QMimeData, QRectF, QSizeF
from PySide6.QtGui import QFont, QFontInfo, QFontMetricsF, QPageSize, QPainter, QPdfWriter
from PySide6.QtSvg import QSvgGenerator

from visualizer.errors import InputError
from visualizer.export.figure_settings import MM_PER_INCH, PIXELS_PER_INCH
from visualizer.export.figures.document_attachment import (
    attach_to_pdf,
    attach_to_svg,
    document_to_attach,
)
from visualizer.export.figures.figure_page import lay_out_exact_page, paint_page
from visualizer.export.figures.rasterization import render_page
from visualizer.progress import Progress, ignore_progress, scale_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import QImage, QPaintDevice

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.figures.figure_page import FigurePage
    from visualizer.session.export_snapshot import ExportSnapshot

CREATOR = "Attention Visualizer"
PDF_UNITS_PER_INCH = 1200
MAX_PDF_SIDE_POINTS = 14_400
"""Maximum side length of a page, in points; PDF readers do not open larger pages."""
POINTS_PER_INCH = 72
_INVALID_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEXT = re.compile(
    r'<text [^>]*?font-family="(?P<family>[^"]*)" font-size="(?P<size>[^"]*)" '
    r'font-weight="(?P<weight>[^"]*)"[^>]*>(?P<content>[^<]*)</text>'
)
_STYLE = (
    b'<style>g[stroke="none"] rect{shape-rendering:crispEdges}'
    b"image{image-rendering:pixelated}</style>"
)


def write_svg(
    page: FigurePage,
    snapshot: ExportSnapshot,
    figure_settings: FigureSettings,
    file: BinaryIO,
    progress: Progress,
) -> None:
    """Write a figure as SVG with searchable text; cells are shapes, except in large panels."""
    svg = draw_svg(page, scale_progress(progress, 20, 95))
    progress(9, 10)
    file.write(attach_to_svg(svg, document_to_attach(snapshot, figure_settings)))


def write_pdf(
    page: FigurePage,
    snapshot: ExportSnapshot,
    figure_settings: FigureSettings,
    file: BinaryIO,
    progress: Progress,
) -> None:
    """Write a figure as a PDF with one page that has the size of the figure."""
    document = document_to_attach(snapshot, figure_settings)
    pdf = draw_pdf(page, document, scale_progress(progress, 20, 95))
    progress(9, 10)
    file.write(pdf)


def draw_svg(page: FigurePage, progress: Progress = ignore_progress) -> bytes:
    """Draw a page as SVG."""
    figure = page.figure
    paint = partial(paint_page, page=page, progress=progress)
    size = page.size.width(), page.size.height()
    return draw_svg_picture(*size, paint, figure.name, figure.caption)


def draw_svg_picture(
    width: float,
    height: float,
    paint: Callable[[QPainter], object],
    title: str = "",
    description: str = "",
) -> bytes:
    """Draw an SVG image; its width and height are in pixels of 1/96 inch."""
    size = QSizeF(width, height)
    buffer, generator = _open_buffer(), QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setResolution(PIXELS_PER_INCH)
    generator.setSize(size.toSize())
    generator.setViewBox(QRectF(0, 0, size.width(), size.height()))
    generator.setTitle(_INVALID_XML.sub("\ufffd", title))
    generator.setDescription(_INVALID_XML.sub("\ufffd", description))
    _paint_on_device(generator, paint)
    return _fix_qt_svg(bytes(buffer.data().data()), size)


def _fix_qt_svg(drawn: bytes, size: QSizeF) -> bytes:
    """Correct Qt's SVG output: exact size, valid XML, and pixels that stay sharp when enlarged."""
    text = drawn.decode("utf-8", "replace")
    width, height = (side / PIXELS_PER_INCH * MM_PER_INCH for side in (size.width(), size.height()))
    sizes = f'<svg width="{width:.4f}mm" height="{height:.4f}mm"'
    text = re.sub(r'<svg width="[^"]*" height="[^"]*"', sizes, text, count=1)
    text = _INVALID_XML.sub("\ufffd", text)
    text = _TEXT.sub(_name_font_and_width, text)
    text = re.sub(r'(?m)^font-family="[^"]*".*$', "", text)  # each text has its own
    return text.encode("utf-8").replace(b"<defs>", _STYLE + b"\n<defs>", 1)


def _name_font_and_width(text: re.Match[str]) -> str:
    """Name the real font of a text, not Qt's alias, and the width at which it ends.

    If a viewer has no such font, the text of another one still ends at the same position.
    """
    font = QFont(unescape(text["family"]))
    font.setPixelSize(round(float(text["size"])))
    font.setWeight(QFont.Weight(int(text["weight"])))
    width = QFontMetricsF(font).horizontalAdvance(unescape(text["content"]))
    family = escape(QFontInfo(font).family(), {'"': "&quot;"})
    named = text[0].replace(f'"{text["family"]}"', f'"{family}, sans-serif"', 1)
    length = f'textLength="{width:.2f}" lengthAdjust="spacingAndGlyphs"'
    return named.replace("<text ", f"<text {length} ", 1) if width else named


def draw_pdf(page: FigurePage, data: bytes, progress: Progress = ignore_progress) -> bytes:
    """Draw a page as PDF and attach a document.

    Raises
    ------
    InputError
        If the page is larger than PDF readers allow.
    """
    points = page.size * (POINTS_PER_INCH / PIXELS_PER_INCH)
    if max(points.width(), points.height()) > MAX_PDF_SIDE_POINTS:
        sentence = (
            f"A page of {points.width() / POINTS_PER_INCH:,.0f} × "
            f"{points.height() / POINTS_PER_INCH:,.0f} inches is too large for a PDF. "
            "Show fewer heads, or export as SVG."
        )
        raise InputError("export", sentence)
    buffer = _open_buffer()
    writer = QPdfWriter(buffer)
    writer.setResolution(PDF_UNITS_PER_INCH)
    exact = QPageSize.SizeMatchPolicy.ExactMatch
    writer.setPageSize(QPageSize(points, QPageSize.Unit.Point, "", exact))
    writer.setPageMargins(QMarginsF(0, 0, 0, 0))
    writer.setTitle(page.figure.name)
    writer.setCreator(CREATOR)
    attach_to_pdf(writer, data)
    paint = partial(paint_page, page=page, progress=progress)
    _paint_on_device(writer, paint, PDF_UNITS_PER_INCH / PIXELS_PER_INCH)
    return bytes(buffer.data().data())


def _open_buffer() -> QBuffer:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    return buffer


def _paint_on_device(
    device: QPaintDevice, paint: Callable[[QPainter], object], units: float = 1
) -> None:
    painter = QPainter(device)
    painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering)
    painter.scale(units, units)
    try:
        paint(painter)
    finally:
        painter.end()


SVG_MIME = "image/svg+xml"


class ClipboardFigure(Struct, frozen=True, eq=False):
    """A figure as PNG and SVG for the clipboard."""

    image: QImage
    svg: bytes

    def to_mime_data(self) -> QMimeData:
        data = QMimeData()
        data.setImageData(self.image)
        data.setData(SVG_MIME, QByteArray(self.svg))
        return data


def create_clipboard_figure(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, progress: Progress
) -> ClipboardFigure:
    """Create a figure for the clipboard.

    Raises
    ------
    InputError
        If there is not enough memory for the figure.
    """
    progress(0, 10)
    page = lay_out_exact_page(snapshot, figure_settings, progress)
    image = render_page(page, figure_settings.dpi, scale_progress(progress, 20, 60))
    return ClipboardFigure(image, draw_svg(page, scale_progress(progress, 60, 100)))
