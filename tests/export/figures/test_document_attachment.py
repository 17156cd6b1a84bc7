"""A figure carries its document, which opens again, and stays a valid file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.support.snapshots import shot
from visualizer.documents.embedded_document import KEYWORD, find_embedded_document
from visualizer.documents.open_document import open_document
from visualizer.documents.saved_types_and_transient_fields import without_passing_fields
from visualizer.export.figure_settings import FigureSettings
from visualizer.export.figures.document_attachment import put_into_svg
from visualizer.export.writers import WRITERS
from visualizer.progress_callback import no_progress

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("application")
CARRYING = (".png", ".svg", ".pdf", ".html")


def made(suffix: str, *, carries_document: bool = True) -> bytes:
    file = io.BytesIO()
    WRITERS[suffix](shot(), FigureSettings(carries_document=carries_document), file, no_progress)
    return file.getvalue()


@pytest.mark.parametrize("suffix", CARRYING)
def test_what_a_figure_carries_opens_again(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"figure{suffix}"
    path.write_bytes(made(suffix))
    saved = open_document(path)
    assert saved.document == shot().document
    assert saved.view == without_passing_fields(shot().view)
    assert saved.recorded is None


@pytest.mark.parametrize("suffix", CARRYING)
def test_a_figure_carries_nothing_unless_it_is_wished(suffix: str) -> None:
    assert find_embedded_document(made(suffix)) is not None
    assert find_embedded_document(made(suffix, carries_document=False)) is None


def test_a_picture_with_a_document_is_a_picture() -> None:
    with Image.open(io.BytesIO(made(".png"))) as image:
        assert image.info["Title"] == "Weights"
        assert KEYWORD in image.info
        image.load()


def test_nothing_carried_changes_nothing() -> None:
    assert put_into_svg(b"<svg><desc/></svg>", b"") == b"<svg><desc/></svg>"
