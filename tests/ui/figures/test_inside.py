"""A figure carries a document that comes out as it went in, and is none the worse for it."""

from __future__ import annotations

import base64
import io
import re
import zlib
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PySide6.QtGui import QImage

from tests.ui.figures.shooting import shot
from visualizer.state.figure import FigureLook
from visualizer.state.progress import quietly
from visualizer.ui.exports import WRITERS
from visualizer.ui.figures import drawings, png
from visualizer.ui.figures.inside import KEY, NAME, NAMESPACE, put_into_png, put_into_svg
from visualizer.ui.figures.png import save

if TYPE_CHECKING:
    from visualizer.state.figure import Shot

pytestmark = pytest.mark.usefixtures("application")
DATA = b"PK\x03\x04" + bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def carrying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have figures carry something, unless their look says that they do not."""

    def carried(shot: Shot, look: FigureLook) -> bytes:
        return DATA if look.carries_document else b""

    for module in (drawings, png):
        monkeypatch.setattr(module, "carried", carried)


def made(suffix: str, carries_document: bool = True) -> bytes:
    file = io.BytesIO()
    WRITERS[suffix](shot(), FigureLook(carries_document=carries_document), file, quietly)
    return file.getvalue()


def test_a_picture_carries_it_as_a_text() -> None:
    with Image.open(io.BytesIO(made(".png"))) as image:
        assert base64.b64decode(image.info[KEY]) == DATA
        assert image.info["Title"] == "Weights"
    with Image.open(io.BytesIO(made(".png", carries_document=False))) as image:
        assert KEY not in image.info


def test_a_drawing_carries_it_as_metadata() -> None:
    root = ElementTree.fromstring(made(".svg"))
    found = root.find(f"{{http://www.w3.org/2000/svg}}metadata/{{{NAMESPACE}}}document")
    assert found is not None
    assert found.get("encoding") == "base64"
    assert base64.b64decode(found.text or "") == DATA
    assert NAMESPACE.encode() not in made(".svg", carries_document=False)


def test_a_page_carries_it_as_a_file() -> None:
    drawn = made(".pdf")
    assert b"/EmbeddedFile" in drawn
    assert NAME.encode() in drawn or NAME.encode("utf-16-be") in drawn
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", drawn, re.DOTALL)
    assert DATA in {*streams, *filter(None, map(unpacked, streams))}
    assert b"/EmbeddedFile" not in made(".pdf", carries_document=False)


def unpacked(stream: bytes) -> bytes:
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


@given(st.binary(min_size=1))
def test_any_bytes_come_back(data: bytes) -> None:
    image = QImage(2, 2, QImage.Format.Format_RGB32)
    image.fill(0)
    put_into_png(image, data)
    file = io.BytesIO()
    save(image, file)
    with Image.open(io.BytesIO(file.getvalue())) as read:
        assert base64.b64decode(read.info[KEY]) == data
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><desc>a</desc></svg>'
    (_, metadata) = ElementTree.fromstring(put_into_svg(svg, data))
    assert base64.b64decode(metadata[0].text or "") == data


def test_nothing_carried_changes_nothing() -> None:
    assert put_into_svg(b"<svg><desc/></svg>", b"") == b"<svg><desc/></svg>"
