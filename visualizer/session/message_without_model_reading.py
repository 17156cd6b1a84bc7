"""Message in model panes while the model has not run on the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.errors import InputError
    from visualizer.session.document import Document

SAVED = "These are the saved numbers. Change the text to run the model again."
UNREAD = "The model could not run on this: {reason}"
READING = "The model is running on the text."
IMAGE_REQUIRED = "Choose an image in Setup, or drop an image file, to run the model."
READING_IMAGE = "The model is running on the image."


def why_unread(document: Document, refused: InputError | None = None) -> str:
    """Return why a document with a model has no forward pass.

    Parameters
    ----------
    refused : InputError, optional
        Why the model could not run on the current document.
    """
    if refused and not document.lacks_image:
        return UNREAD.format(reason=refused.sentence)
    if document.reads_image:
        return IMAGE_REQUIRED if document.lacks_image else READING_IMAGE
    return SAVED if document.captured else READING
