"""Builds a document from texts and settings given by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.errors import InputError
from visualizer.session.document import Document, LineSplit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Qt displays these characters differently: normalized, a text equals what the editor holds.
_AS_SHOWN = str.maketrans({"\r": "\n", "\u2028": "\n", "\u2029": "\n", "\u00a0": " "})


def text_of(text: str) -> str:
    """Normalize a text as the text editor does.

    Raises
    ------
    InputError
        When it is blank.
    """
    if not text or text.isspace():
        raise InputError("text", f"got {text[:20]!r}, takes a text that is not blank")
    return text.replace("\r\n", "\n").translate(_AS_SHOWN)


def document_of(
    texts: Sequence[str], settings: Mapping[str, object], base: Document | None = None
) -> Document:
    """Make the document of texts and settings.

    Parameters
    ----------
    texts : sequence of str
        Several form a batch, or the labels of queries and of keys where attention was captured;
        none keeps those of the base.
    settings : mapping
        By the names of `Document.set`; the mechanism is set before the others.
    base : Document, optional
        Supplies whatever is not given.
    """
    document = base or Document()
    if texts:
        apart = [" ".join(text.splitlines()) for text in texts]  # each line is a text from here on
        document = document.set("text", "\n".join(apart if len(texts) > 1 else texts))
    if texts and document.has_module:
        lines = LineSplit.APART if len(texts) > 1 else LineSplit.TOGETHER
        document = document.set("lines", lines)
    for name in sorted(settings, key=lambda name: name != "mechanism"):
        document = document.set(name, settings[name])
    return document
