"""The change that a file makes to the current document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.session.document import Document


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """The current document with an opened text, captured attention or weights put into it.

    Parameters
    ----------
    notice : str
        What the user has to be told about the file; may be empty.
    """

    document: Document
    notice: str = ""
