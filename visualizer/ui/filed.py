"""What comes of reading and writing documents off the GUI thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from visualizer.state import files
from visualizer.state.saved.document_file import write_document

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.state.document import Document
    from visualizer.state.saved.change import Change
    from visualizer.state.saved.document_file import Saved
    from visualizer.state.view import View


@dataclass(frozen=True, slots=True, eq=False)
class WasRead:
    """What was read of a file: a document of its own, or a change of the one that is there."""

    what: Saved | Change
    path: Path


@dataclass(frozen=True, slots=True, eq=False)
class WasWritten:
    """What was written into a file."""

    document: Document
    path: Path


def written(path: Path, document: Document, view: View, run: Run | None) -> WasWritten:
    """Write a document, with the numbers of a run where there is one."""
    files.write(path, lambda file: write_document(file, document, view, run))
    return WasWritten(document, path)
