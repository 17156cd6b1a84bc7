"""The document inside of a figure, so that a picture opens as what it is a picture of."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PySide6.QtGui import QImage, QPdfWriter

    from visualizer.state.figure import FigureLook, Shot

KEY = "attention-visualizer"
"""Of the text in a PNG."""
NAME = "document.attention"
"""Of the file in a PDF."""
NAMESPACE = "https://attention-visualizer.invalid/document"


def carried(shot: Shot, look: FigureLook) -> bytes:
    """Give what a figure carries of its document; nothing where it is not to."""
    return b""


def put_into_png(image: QImage, data: bytes) -> None:
    """Have a picture carry a document as a text."""
    if data:
        image.setText(KEY, base64.b64encode(data).decode("ascii"))


def put_into_svg(svg: bytes, data: bytes) -> bytes:
    """Have a drawing carry a document as its metadata, after what describes it."""
    if not data:
        return svg
    coded = base64.b64encode(data)
    document = b'<document xmlns="%s" encoding="base64">%s</document>' % (
        NAMESPACE.encode("ascii"),
        coded,
    )
    before, end, after = svg.partition(b"</desc>")
    return before + end + b"\n<metadata>" + document + b"</metadata>" + after


def put_into_pdf(writer: QPdfWriter, data: bytes) -> None:
    """Have a document of pages carry a document as a file that belongs to it."""
    if data:
        writer.addFileAttachment(NAME, data, "application/zip")
