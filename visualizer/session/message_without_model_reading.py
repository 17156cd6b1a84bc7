"""What the panes of a model say as long as it has not read the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.session.document import Document

SAVED = "The numbers are those that were saved. Change the text, and the model reads it again."
READING = "The model reads the text."
NO_IMAGE = "The model reads when an image is chosen: in Setup, or by dropping its file."
READING_IMAGE = "The model reads the image."


def why_unread(document: Document) -> str:
    """Return why there is no reading of a document with a model."""
    if document.reads_image:
        return NO_IMAGE if document.lacks_image else READING_IMAGE
    return SAVED if document.captured else READING
