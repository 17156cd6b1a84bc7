"""Panes of a model say why there is no reading: it is being read, was saved, or was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.support.golden_documents import READ, SEEN
from visualizer.errors import InputError
from visualizer.models.model_source import ImageFile
from visualizer.session.model_panes import (
    IMAGE_REQUIRED,
    READING,
    READING_IMAGE,
    SAVED,
    why_unread,
)

if TYPE_CHECKING:
    from visualizer.session.document import Document

REFUSED = InputError("text", "The text is too long.")
UNREAD = replace(READ, captured=None)
WITHOUT_IMAGE = SEEN.set("model", replace(SEEN.model, image=ImageFile())) if SEEN.model else SEEN


@pytest.mark.parametrize(
    ("document", "message"),
    [(UNREAD, READING), (READ, SAVED), (SEEN, READING_IMAGE), (WITHOUT_IMAGE, IMAGE_REQUIRED)],
)
def test_a_refusal_is_the_reason_unless_an_image_is_missing(
    document: Document, message: str
) -> None:
    assert why_unread(document) == message
    said = why_unread(document, REFUSED)
    assert (said == message) == (message == IMAGE_REQUIRED)
    assert said == message or REFUSED.sentence in said
