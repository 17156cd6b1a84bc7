"""The panes of a model state why there is no forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.support.golden_documents import READ, SEEN
from visualizer.errors import InputError
from visualizer.models.model_source import ImageFile
from visualizer.session.model_pane_options import (
    IMAGE_REQUIRED,
    RUNNING_MESSAGE,
    RUNNING_ON_IMAGE_MESSAGE,
    SAVED_NUMBERS_MESSAGE,
    no_forward_pass_reason,
)

if TYPE_CHECKING:
    from visualizer.session.document import Document

REFUSED = InputError("text", "The text is too long.")
UNREAD = replace(READ, captured=None)
WITHOUT_IMAGE = (
    SEEN.with_setting("model", replace(SEEN.model, image=ImageFile())) if SEEN.model else SEEN
)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (UNREAD, RUNNING_MESSAGE),
        (READ, SAVED_NUMBERS_MESSAGE),
        (SEEN, RUNNING_ON_IMAGE_MESSAGE),
        (WITHOUT_IMAGE, IMAGE_REQUIRED),
    ],
)
def test_a_refusal_is_the_reason_unless_an_image_is_missing(
    document: Document, message: str
) -> None:
    assert no_forward_pass_reason(document) == message
    said = no_forward_pass_reason(document, REFUSED)
    assert (said == message) == (message == IMAGE_REQUIRED)
    assert said == message or REFUSED.sentence in said
