"""Attaches the document to an exported PNG, SVG or PDF, so that the file can be opened again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.documents.document_file import document_bytes
from visualizer.documents.embedded_document import (
    ATTACHMENT,
    KEYWORD,
    as_attachment,
    as_metadata,
    as_text,
)

if TYPE_CHECKING:
    from PySide6.QtGui import QImage, QPdfWriter

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.exportable_snapshot import Snapshot


MOST_CARRIED = 2**22
"""Largest size of a document's numbers in bytes: many programs read at most 8 MB of PNG text."""


def attached_document(snapshot: Snapshot, figure_settings: FigureSettings) -> bytes:
    """Return the document to attach to a figure, without computed results.

    Empty if the settings say so, or if the document's own numbers are large: captured attention can
    be of any size.
    """
    if not figure_settings.carries_document:
        return b""
    whole = snapshot.whole_document
    compared = snapshot.view.comparison and snapshot.view.comparison.document
    documents = (whole, compared) if compared else (whole,)
    size = sum(len(part) for document in documents for part in document.held())
    return b"" if size > MOST_CARRIED else document_bytes(whole, snapshot.view)


def put_into_png(image: QImage, data: bytes) -> None:
    """Attach a document to a PNG as a text chunk."""
    if data:
        image.setText(KEYWORD, as_text(data))


def put_into_svg(svg: bytes, data: bytes) -> bytes:
    """Attach a document to an SVG as metadata, before its definitions: Qt always writes those."""
    if not data:
        return svg
    return svg.replace(b"<defs>", as_metadata(data).encode() + b"\n<defs>", 1)


def put_into_pdf(writer: QPdfWriter, data: bytes) -> None:
    """Attach a document to a PDF as an embedded file."""
    if data:
        writer.addFileAttachment(ATTACHMENT, as_attachment(data), "text/plain")
