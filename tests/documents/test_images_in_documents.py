"""Documents of vision models: invalid images are rejected, and texts and images can be changed."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.golden_documents import SEEN
from visualizer.attention.captured_attention import CapturedAttention, ImagePatches
from visualizer.documents.document_file import document_bytes, read_document
from visualizer.documents.open_document import open_document, switch_to_model
from visualizer.errors import InputError
from visualizer.file_opening import read_file
from visualizer.models.model_source import ImageFile
from visualizer.session.document import Document
from visualizer.session.model_opening import OpenedModelSource
from visualizer.session.view import View

if TYPE_CHECKING:
    from pathlib import Path

assert SEEN.captured
assert SEEN.captured.patches
assert SEEN.model
assert SEEN.model.image
PATCHES, SOURCE, IMAGE = SEEN.captured.patches, SEEN.model, SEEN.model.image


def read_again(document: Document) -> Document:
    return read_document(io.BytesIO(document_bytes(document, View()))).document


@pytest.mark.parametrize(
    "image",
    [
        replace(IMAGE, path="cat.png"),
        replace(IMAGE, path="//server/share/cat.png"),
        replace(IMAGE, path="\\\\server\\share\\cat.png"),
        replace(IMAGE, path="/images/\0.png"),
        replace(IMAGE, path="/" + "a" * 5_000),
        replace(IMAGE, sha256=""),
        replace(IMAGE, sha256="z" * 64),
        replace(IMAGE, path=""),
    ],
)
def test_an_image_elsewhere_or_of_no_known_content_is_refused(image: ImageFile) -> None:
    with pytest.raises(InputError, match="image"):
        read_again(replace(SEEN, model=replace(SOURCE, image=image)))


@pytest.mark.skipif(os.sep == "\\", reason="there, it would be on another machine")
def test_a_backslash_is_part_of_a_name() -> None:
    image = replace(IMAGE, path="/\\images\\cat.png")
    document = replace(SEEN, model=replace(SOURCE, image=image))
    assert read_again(document) == document


@pytest.mark.parametrize(
    "patches",
    [
        replace(PATCHES, first=2),
        replace(PATCHES, rows=2),
        replace(PATCHES, rows=0),
        replace(PATCHES, first=-1, columns=4),
        replace(PATCHES, pixels=PATCHES.pixels[:-1]),
        replace(PATCHES, height=1_000_000, width=0),
    ],
)
def test_an_image_that_does_not_fit_its_tokens_is_refused(patches: ImagePatches) -> None:
    assert SEEN.captured
    with pytest.raises(InputError, match="image of the patches"):
        read_again(replace(SEEN, captured=replace(SEEN.captured, patches=patches)))


def test_an_image_that_is_not_chosen_yet_is_kept() -> None:
    document = Document(model=replace(SOURCE, image=ImageFile()))
    assert read_again(document) == document
    assert document.needs_image


def test_of_undo_the_pixels_count() -> None:
    captured = CapturedAttention.from_array("a", np.zeros((1, 1, 3, 3), np.float32))
    with_image = replace(captured, patches=PATCHES)
    sizes = [sum(map(len, each.buffers())) for each in (captured, with_image)]
    assert sizes[1] - sizes[0] == len(PATCHES.pixels)


def test_another_vision_model_reads_the_same_image() -> None:
    other = replace(SOURCE, folder="/models/other", image=ImageFile())
    assert (
        switch_to_model(SEEN, OpenedModelSource(other, "", None)).document.get_setting("image")
        == IMAGE
    )
    text_model = replace(other, image=None)
    assert (
        switch_to_model(SEEN, OpenedModelSource(text_model, "", None)).document.get_setting("image")
        is None
    )


def test_a_text_is_not_opened_for_a_vision_model(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a cat", encoding="utf-8")
    with pytest.raises(InputError, match="a model requires an image"):
        read_file(tmp_path / "a.txt", SEEN)
    assert read_file(tmp_path / "a.txt", Document()).document.text == "a cat"


@pytest.mark.parametrize("name", ["a.jpg", "a.PNG", "a.webp"])
def test_of_an_image_it_is_said_what_reads_it(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"an image")
    with pytest.raises(InputError, match="To use another image, open a vision model first"):
        open_document(tmp_path / name)
