"""Encodes documents for exported images, PDF files and web pages, and extracts them."""

from __future__ import annotations

import base64
import re
import zlib
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


PNG_KEYWORD = "attention-visualizer"
"""Keyword of the PNG text chunk that contains the document."""
SVG_NAMESPACE = "https://attention-visualizer.invalid/document"
"""Namespace of the SVG element that contains the document."""
PDF_ATTACHMENT_NAME = "document.attention"
"""Name of the file attached to a PDF."""
PDF_MARKER = b"attention-visualizer document\n"
"""First bytes of the file attached to a PDF."""
_MAX_DOCUMENT_BYTES = 2**27
_MAX_STREAMS = 20_000
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_SVG_START = f'<document xmlns="{SVG_NAMESPACE}" encoding="base64">'.encode()
_SVG_END = b"</document>"
_SCRIPT_START = b'<script type="application/octet-stream" id="document">'
_SCRIPT_END = b"</script>"


# ------------------------------------------------------------------------------ for writers


def encode_png_text(document: bytes) -> str:
    """Encode a document file as the content of a PNG text chunk."""
    return base64.b64encode(document).decode()


def encode_svg_metadata(document: bytes) -> str:
    """Encode a document file as an SVG ``metadata`` element."""
    return (
        f"<metadata>{_SVG_START.decode()}{encode_png_text(document)}{_SVG_END.decode()}</metadata>"
    )


def encode_html_script(document: bytes) -> str:
    """Encode a document file as a ``script`` element of a web page."""
    return f"{_SCRIPT_START.decode()}{encode_png_text(document)}{_SCRIPT_END.decode()}"


def encode_pdf_attachment(document: bytes) -> bytes:
    """Encode a document file as the file attached to a PDF."""
    return PDF_MARKER + base64.b64encode(document) + b"\n"


# ------------------------------------------------------------------------------ finding


def find_embedded_document(data: bytes) -> bytes | None:
    """Return the document file that is embedded in an image, web page or PDF, if any."""
    if data.startswith(PNG_SIGNATURE):
        encoded = _find_in_png(data)
    elif data.startswith(b"%PDF"):
        encoded = _find_in_pdf(data)
    elif data.startswith(PDF_MARKER):
        encoded = data[len(PDF_MARKER) :]
    elif is_web_page(data):
        encoded = _find_between_tags(data, _SCRIPT_START, _SCRIPT_END)
    elif b"<svg" in data[:4096]:
        encoded = _find_between_tags(data, _SVG_START, _SVG_END)
    else:
        encoded = None
    return None if encoded is None else decode_document(encoded)


def decode_document(encoded: bytes) -> bytes | None:
    """Decode a document file from base64, or return None if the text is invalid."""
    try:
        return base64.b64decode(b"".join(encoded.split()), validate=True)
    except ValueError:
        return None


def _find_in_png(data: bytes) -> bytes | None:
    keyword = PNG_KEYWORD.encode() + b"\0"
    for kind, content in _png_chunks(data):
        if content.startswith(keyword) and kind in _PNG_TEXTS:
            return _PNG_TEXTS[kind](content[len(keyword) :])
    return None


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(PNG_SIGNATURE)
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def _read_itxt(content: bytes) -> bytes | None:
    """Return the text of an iTXt chunk, given the data after its keyword.

    The data consists of two flags, the language, the translated keyword and the text.
    """
    is_compressed, parts = content[:1] == b"\1", content[2:].split(b"\0", 2)
    if len(parts) < 3:
        return None
    return _inflate_stream(parts[2]) if is_compressed else parts[2]


_PNG_TEXTS: dict[bytes, Callable[[bytes], bytes | None]] = {
    b"tEXt": lambda content: content,
    b"zTXt": lambda content: _inflate_stream(content[1:]),
    b"iTXt": _read_itxt,
}


def _inflate_stream(packed: bytes, most: int = _MAX_DOCUMENT_BYTES) -> bytes | None:
    try:
        return zlib.decompressobj().decompress(packed, most)
    except zlib.error:
        return None


def is_web_page(data: bytes) -> bool:
    """Return whether a file with the given bytes is a web page."""
    return data[:64].lstrip().lower().startswith(b"<!doctype html")


def _find_between_tags(data: bytes, start_tag: bytes, end_tag: bytes) -> bytes | None:
    start = data.find(start_tag)
    end = data.find(end_tag, start)
    return None if start < 0 or end < 0 else data[start + len(start_tag) : end]


def _find_in_pdf(data: bytes) -> bytes | None:
    for stream in islice(re.finditer(rb"stream\r?\n", data), _MAX_STREAMS):
        start = stream.end()
        content: bytes | None = data[start : start + len(PDF_MARKER)]
        if content == PDF_MARKER:
            content = data[start : data.find(b"\n", start + len(PDF_MARKER))]
        # The first bytes identify the stream; other streams are not decompressed.
        elif _inflate_stream(data[start : start + 256], len(PDF_MARKER)) == PDF_MARKER:
            content = _inflate_stream(data[start : start + _MAX_DOCUMENT_BYTES])
        else:
            continue
        return content[len(PDF_MARKER) :] if content else None
    return None
