"""The change that a file makes to the current document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from visualizer.session.document import Document


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
