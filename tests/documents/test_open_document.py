"""Documents are recognized by their content, even in pictures; other files are rejected."""

from __future__ import annotations

import os
import tracemalloc
import zipfile
import zlib
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QGuiApplication, QImage, QPainter, QPdfWriter

from tests.support.golden_documents import OWN, OWN_VIEW, PLAIN
from visualizer.documents.document_file import document_bytes
from visualizer.documents.embedded_document import (
    PDF_ATTACHMENT_NAME,
    PNG_KEYWORD,
    encode_pdf_attachment,
    encode_png_text,
    encode_svg_metadata,
    find_embedded_document,
)
from visualizer.documents.open_document import open_document
from visualizer.errors import InputError
from visualizer.session.view import View

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DOCUMENT = document_bytes(OWN, OWN_VIEW)
PNG = b"\x89PNG\r\n\x1a\n"
TEXT = encode_png_text(DOCUMENT)
PACKED = zlib.compress(TEXT.encode())
HEAD = PNG_KEYWORD.encode() + b"\0"


def picture(text: str | None = None) -> bytes:
    """Return a PNG file written by Qt."""
    image = QImage(3, 3, QImage.Format.Format_RGB32)
    image.fill(0)
    if text is not None:
        image.setText(PNG_KEYWORD, text)
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    assert image.save(buffer, "PNG")  # type: ignore[call-overload]
    return bytes(buffer.data().data())


def page(attached: bytes | None = None) -> bytes:
    """Return a PDF file written by Qt."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.addFileAttachment("other.txt", QByteArray(b"something else"), "text/plain")
    if attached is not None:
        writer.addFileAttachment(
            PDF_ATTACHMENT_NAME, QByteArray(attached), "application/octet-stream"
        )
    painter = QPainter(writer)
    painter.drawLine(0, 0, 100, 100)
    painter.end()
    del writer
    return bytes(buffer.data().data())


def drawing(inside: str = "") -> bytes:
    svg = f'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg">{inside}<g/></svg>\n'
    return svg.encode()


def chunk(kind: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + kind + content + bytes(4)


@pytest.fixture(autouse=True)
def application(qapp: QGuiApplication) -> QGuiApplication:
    return qapp  # QPdfWriter requires an application


KINDS = {
    "qt.png": lambda: picture(TEXT),
    "plain.png": lambda: PNG + chunk(b"tEXt", HEAD + TEXT.encode()),
    "packed.png": lambda: PNG + chunk(b"zTXt", HEAD + b"\0" + PACKED),
    "utf-8.png": lambda: PNG + chunk(b"iTXt", HEAD + b"\0\0en\0\0" + TEXT.encode()),
    "packed utf-8.png": lambda: PNG + chunk(b"iTXt", HEAD + b"\1\0\0\0" + PACKED),
    "a.svg": lambda: drawing(encode_svg_metadata(DOCUMENT)),
    "qt.pdf": lambda: page(encode_pdf_attachment(DOCUMENT)),
    "plain.pdf": lambda: b"%PDF-1.4\nstream\r\n" + encode_pdf_attachment(DOCUMENT) + b"endstream",
    "attached.attention": lambda: encode_pdf_attachment(DOCUMENT),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_document_is_found_in_a_picture(name: str, tmp_path: Path) -> None:
    content = KINDS[name]()
    assert find_embedded_document(content) == DOCUMENT
    (tmp_path / name).write_bytes(content)
    saved = open_document(tmp_path / name)
    assert (saved.document, saved.view) == (OWN, OWN_VIEW)


def test_a_small_text_is_found_as_qt_writes_it() -> None:
    assert find_embedded_document(picture("QUJD")) == b"ABC"  # too short to be compressed
    assert b"tEXt" in picture("QUJD")


@pytest.mark.parametrize("make", [picture, page, drawing])
def test_a_picture_without_a_document_says_so(make: Callable[[], bytes], tmp_path: Path) -> None:
    assert find_embedded_document(make()) is None
    (tmp_path / "a").write_bytes(make())
    with pytest.raises(InputError, match="“a” contains no document"):
        open_document(tmp_path / "a")


def bomb(before: bytes = b"", pieces: int = 256) -> bytes:
    """Return a small zlib stream that decompresses to megabytes of zeros.

    All pieces are compressed to the same bytes.
    """
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    start = packer.compress(before) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    check = zlib.adler32(bytes(pieces * 2**20), zlib.adler32(before)).to_bytes(4, "big")
    return b"\x78\x9c" + start + pieces * piece + packer.flush() + check


def test_a_bomb_can_be_unpacked() -> None:
    assert zlib.decompress(bomb(b"before", 2)) == b"before" + bytes(2 * 2**20)


STRANGE: dict[str, Callable[[], bytes]] = {
    "a bomb": lambda: PNG + chunk(b"zTXt", HEAD + b"\0" + bomb()),
    "a bomb in a PDF": lambda: b"%PDF-1.4\nstream\n" + bomb(encode_pdf_attachment(b"")),
    "no base64": lambda: PNG + chunk(b"tEXt", HEAD + b"*"),
    "letters of elsewhere": lambda: PNG + chunk(b"tEXt", HEAD + "é".encode()),
    "nothing": lambda: PNG + chunk(b"tEXt", HEAD),
    "cut off": lambda: PNG + chunk(b"zTXt", HEAD + b"\0" + bomb())[:40],
    "no parts": lambda: PNG + chunk(b"iTXt", HEAD + b"\0\0"),
    "a long chunk": lambda: PNG + b"\xff\xff\xff\xfftEXt" + HEAD + b"QUJD",
    "entities": lambda: drawing(
        '<!DOCTYPE x [<!ENTITY a "b">]>' + encode_svg_metadata(b"x").replace("=", "&a;")
    ),
    "not closed": lambda: drawing(encode_svg_metadata(DOCUMENT).replace("</document>", "")),
    "many streams": lambda: b"%PDF-1.4\n" + 100_000 * b"stream\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STRANGE)
def test_what_is_strange_is_refused_in_little_memory(name: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(STRANGE[name]())
    tracemalloc.start()
    with pytest.raises(InputError, match="“a” ") as refused:
        open_document(tmp_path / "a")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused.value.field == "open"
    assert peak < 2**29


# ------------------------------------------------------------------------- other kinds of files


@pytest.mark.parametrize("content", [b"", b"P", b"hello", b"GIF89a", b"\0" * 100])
def test_other_files_are_said_to_be_others(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError, match=r"“a\.txt” is not an Attention Visualizer document"):
        open_document(tmp_path / "a.txt")


def test_a_zip_of_something_else_is_said_to_be(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(InputError, match=r"“a\.npz” is not an Attention Visualizer document"):
        open_document(tmp_path / "a.npz")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="could not be opened: No such file or directory"):
        open_document(tmp_path / "a")
    with pytest.raises(InputError, match="is not a file"):
        open_document(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="no such files on Windows")
def test_a_pipe_does_not_hold_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    with pytest.raises(InputError, match="is not a file"):
        open_document(tmp_path / "a")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.png").open("wb") as file:
        file.write(PNG)
        file.truncate(2**28 + 1)
    with pytest.raises(InputError, match="too large to open"):
        open_document(tmp_path / "a.png")


def test_a_document_is_opened_by_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(document_bytes(PLAIN, View()))
    assert open_document(tmp_path / "a.png").document == PLAIN
