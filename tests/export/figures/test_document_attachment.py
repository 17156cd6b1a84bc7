"""A figure embeds its document, which can be reopened, and remains a valid file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from tests.support.snapshots import shot
from visualizer.documents.embedded_document import (
    PNG_KEYWORD,
    SVG_NAMESPACE,
    find_embedded_document,
)
from visualizer.documents.open_document import open_document
from visualizer.documents.schema import without_unsaved_fields
from visualizer.export.figure_settings import FigureSettings
from visualizer.export.figures.document_attachment import attach_to_svg
from visualizer.export.writers import WRITERS
from visualizer.progress import ignore_progress

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("application")
CARRYING = (".png", ".svg", ".pdf", ".html")


def made(suffix: str, **settings: Any) -> bytes:
    file = io.BytesIO()
    WRITERS[suffix](shot(), FigureSettings(**settings), file, ignore_progress)
    return file.getvalue()


@pytest.mark.parametrize("has_caption", [True, False])
@pytest.mark.parametrize("suffix", CARRYING)
def test_the_document_in_a_figure_can_be_reopened(
    suffix: str, has_caption: bool, tmp_path: Path
) -> None:
    path = tmp_path / f"figure{suffix}"
    path.write_bytes(made(suffix, has_caption=has_caption))
    saved = open_document(path)
    assert saved.document == shot().document
    assert saved.view == without_unsaved_fields(shot().view)
    assert saved.recorded is None


@pytest.mark.parametrize("suffix", CARRYING)
def test_a_figure_embeds_nothing_unless_requested(suffix: str) -> None:
    assert find_embedded_document(made(suffix)) is not None
    assert find_embedded_document(made(suffix, carries_document=False)) is None


def test_an_image_with_a_document_is_an_image() -> None:
    with Image.open(io.BytesIO(made(".png"))) as image:
        assert image.info["Title"] == "Weights"
        assert PNG_KEYWORD in image.info
        image.load()


@pytest.mark.parametrize("has_caption", [True, False])
def test_an_svg_with_a_document_is_one_element(has_caption: bool) -> None:
    drawn = ElementTree.fromstring(made(".svg", has_caption=has_caption))
    assert drawn.find(f".//{{{SVG_NAMESPACE}}}document") is not None


def test_without_a_document_the_file_is_unchanged() -> None:
    assert attach_to_svg(b"<svg><desc/></svg>", b"") == b"<svg><desc/></svg>"
