"""The change that a file makes to the current document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from visualizer.session.document import Document
    from visualizer.session.model_opening import OpenedSource


TRUNCATED_TEXT_NOTICE = "The model {name} replaces the text with its sample text."


class DocumentChange(Struct, frozen=True):
    """The current document after inserting an opened text, captured attention or weights.

    Parameters
    ----------
    notice : str
        Message to show to the user about the file; may be empty.
    stages : frozenset of str or None
        The stages to show; None keeps the current ones.
    opened_model : object
        Keeps the model open that was opened to run the document; None if no model was opened.
    """

    document: Document
    notice: str = ""
    stages: frozenset[str] | None = None
    opened_model: object = None

    def rebased(self, before: Document, now: Document) -> DocumentChange:
        """Apply the change to a document that was edited while the file was read.

        Parameters
        ----------
        before : Document
            The document to which the change was applied.
        now : Document
            The current document; everything that the change did not affect is preserved.
        """
        changed = {
            name: value
            for name in before.__struct_fields__
            if (value := getattr(self.document, name)) is not getattr(before, name)
        }
        return replace(self, document=replace(now, **changed))


def change_to_model(document: Document, opened: OpenedSource) -> DocumentChange:
    """Run a model on a document's text, or on another text if it cannot process that one.

    A vision model uses the image of the previous model.
    """
    source = opened.source
    before = document.model.image if document.model else None
    if source.image is not None and before is not None:
        source = replace(source, image=before)
    changed, notice = document.set("model", source), ""
    if opened.other_text:
        changed = changed.set("text", opened.other_text)
        notice = TRUNCATED_TEXT_NOTICE.format(name=source.name)
    return DocumentChange(changed, notice, frozenset({"weights"}), opened.model)
