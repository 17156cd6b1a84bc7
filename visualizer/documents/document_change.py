"""The change that a file makes to the current document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from visualizer.models.model_source import ModelSource
    from visualizer.session.document import Document


OTHER_TEXT = "{name} knows only what it has learned, so it reads the beginning of that."


class DocumentChange(Struct, frozen=True):
    """The current document with an opened text, captured attention or weights put into it.

    Parameters
    ----------
    notice : str
        What the user has to be told about the file; may be empty.
    stages : frozenset of str or None
        The stages to be shown; None leaves those that are.
    """

    document: Document
    notice: str = ""
    stages: frozenset[str] | None = None


def change_to_model(document: Document, source: ModelSource, other_text: str) -> DocumentChange:
    """Have a model read a document's text, or another one where it cannot read that.

    A vision model reads the image that the one before read.

    Parameters
    ----------
    other_text : str
        The other text; empty where the model can read the document's.
    """
    before = document.model.image if document.model else None
    if source.image is not None and before is not None:
        source = replace(source, image=before)
    changed, notice = document.set("model", source), ""
    if other_text:
        changed, notice = changed.set("text", other_text), OTHER_TEXT.format(name=source.name)
    return DocumentChange(changed, notice, stages=frozenset({"weights"}))
