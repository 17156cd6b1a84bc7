"""The document inside of a figure, so that a picture opens as what it is a picture of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.state.saved.document_file import document_bytes
from visualizer.state.saved.inside import ATTACHMENT, KEYWORD, as_attachment, as_metadata, as_text

if TYPE_CHECKING:
    from PySide6.QtGui import QImage, QPdfWriter

    from visualizer.state.figure import FigureLook, Shot


def carried(shot: Shot, look: FigureLook) -> bytes:
    """Give what a figure carries of its document, without its numbers; nothing, if so wished."""
    return document_bytes(shot.document, shot.view) if look.carries_document else b""


def put_into_png(image: QImage, data: bytes) -> None:
    """Have a picture carry a document as a text."""
    if data:
        image.setText(KEYWORD, as_text(data))


def put_into_svg(svg: bytes, data: bytes) -> bytes:
    """Have a drawing carry a document as its metadata, after what describes it."""
    if not data:
        return svg
    before, end, after = svg.partition(b"</desc>")
    return before + end + b"\n" + as_metadata(data).encode() + after


def put_into_pdf(writer: QPdfWriter, data: bytes) -> None:
    """Have a document of pages carry a document as a file that belongs to it."""
    if data:
        writer.addFileAttachment(ATTACHMENT, as_attachment(data), "text/plain")
