"""Attaches the document to an exported PNG, SVG or PDF, so that the file can be opened again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.documents.document_file import document_bytes
from visualizer.documents.open_document import (
    ATTACHMENT,
    KEYWORD,
    as_attachment,
    as_metadata,
    as_text,
)

if TYPE_CHECKING:
    from PySide6.QtGui import QImage, QPdfWriter

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.screen import Snapshot


MOST_CARRIED = 2**22
"""Bytes of a document's own numbers: of texts in pictures, many programs read no more than 8 MB."""


def carried(shot: Snapshot, look: FigureSettings) -> bytes:
    """Give what a figure carries of its document, without what was computed of it.

    Nothing, if so wished, and where the document's own numbers are large: captured attention can
    be of any size.
    """
    compared = shot.view.comparison and shot.view.comparison.document
    documents = (shot.document, compared) if compared else (shot.document,)
    size = sum(len(part) for document in documents for part in document.held())
    if not look.carries_document or size > MOST_CARRIED:
        return b""
    return document_bytes(shot.document, shot.view)


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
