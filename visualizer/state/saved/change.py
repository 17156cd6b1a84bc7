"""What a file brings to the document that is there, where it is no document of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.state.document import Document


@dataclass(frozen=True, slots=True)
class Change:
    """A text, attention or weights that were opened, in the document that was there.

    Parameters
    ----------
    notice : str
        What must be said of it; empty where nothing must.
    """

    document: Document
    notice: str = ""
