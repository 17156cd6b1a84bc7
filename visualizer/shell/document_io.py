"""Types for reading and writing documents, and the function that writes a document."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from visualizer.documents.document_file import DOCUMENT_SUFFIX, write_document
from visualizer.storage import atomic_file
from visualizer.storage.regular_file import read_file_version

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.documents.document_file import SavedDocument
    from visualizer.documents.open_document import DocumentChange
    from visualizer.session.document import Document
    from visualizer.session.view import View
    from visualizer.storage.regular_file import FileVersion


_OWN, _PICTURES, _NUMBERS = f"*{DOCUMENT_SUFFIX}", "*.png *.svg *.pdf *.html", "*.npz *.json"
_TENSORS, _TEXTS = "*.npy *.npz *.safetensors *.pt *.pth *.bin", "*.txt"
OPEN_FILE_FILTER = (
    f"All supported files ({_OWN} {_PICTURES} *.json {_TENSORS} {_TEXTS});;"
    f"Documents ({_OWN});;Images with an embedded document ({_PICTURES});;"
    f"Exported numbers with an embedded document ({_NUMBERS});;"
    f"Attention and weights from other programs ({_TENSORS});;Texts ({_TEXTS});;All files (*)"
)
"""File filter of the Open dialog."""


NUMBERS_GONE_NOTICE = "The numbers were not saved: the model’s server no longer provides them."
NUMBERS_LATE_NOTICE = "The numbers were not saved: a lesson was opened before they were available."
LessonPage: TypeAlias = "tuple[Document, View]"


class FileReadResult(Struct, frozen=True, eq=False):
    """The result of reading a file: a document, or a change to the current one.

    Parameters
    ----------
    path : Path or None
        None for a built-in example.
    before : Document
        The window's document when reading began.
    is_reverting : bool
        Whether the window's own file was reloaded to discard the changes.
    """

    what: SavedDocument | DocumentChange
    path: Path | None
    before: Document
    is_reverting: bool


class FileWriteResult(Struct, frozen=True, eq=False):
    """The result of writing the window's own file or a copy.

    Parameters
    ----------
    missing_numbers_notice : str
        A sentence that explains why requested numbers are missing from the file; may be empty.
    """

    document: Document
    path: Path
    is_copy: bool
    version: FileVersion | None
    missing_numbers_notice: str


class _FileChangedError(Exception):
    """Raised if another program has changed the file that is to be replaced."""


class WriteConflict(Struct, frozen=True, eq=False):
    """A file that was not written because another program has changed it.

    Parameters
    ----------
    page : tuple of Document and View, or None
        The lesson page to write; None for the user's own document.
    """

    path: Path
    page: LessonPage | None


class InputImageFile(Struct, frozen=True):
    """An image file without a document, on which the current vision model is run."""

    path: Path


def write_saved_document(
    path: Path,
    document: Document,
    view: View,
    run: Run | None,
    *,
    page: LessonPage | None,
    replaced: FileVersion | None,
    may_replace: bool,
    are_numbers_late: bool = False,
) -> FileWriteResult | WriteConflict:
    """Write a document; include the numbers of a run if one is given.

    Parameters
    ----------
    page : tuple of Document and View, or None
        The lesson page to write as a copy; None for the user's own document.
    are_numbers_late : bool
        Whether requested numbers are missing because a lesson was opened before they were
        available.
    replaced : FileVersion or None
        The version of the file that may be replaced; None if no file may be replaced.
    may_replace : bool
        Whether a file of any version may be replaced.
    """

    def check() -> None:
        if not may_replace and read_file_version(path) not in (None, replaced):
            raise _FileChangedError

    try:
        with suppress(OSError):  # the write reports the error
            check()
        whole = document.with_results(run) if run else document
        # Writing a large document takes long; another program may change the file during that time.
        atomic_file.write_atomically(
            path, lambda file: write_document(file, whole, view, run), check=check
        )
    except _FileChangedError:
        return WriteConflict(path, page)
    is_of_model = whole is not document
    is_elsewhere = bool(run and run.reading and run.reading.fetch_captured)
    lacks_numbers = NUMBERS_LATE_NOTICE if are_numbers_late else ""
    if is_of_model and is_elsewhere and whole.captured is None:
        lacks_numbers = NUMBERS_GONE_NOTICE
    return FileWriteResult(document, path, page is not None, read_file_version(path), lacks_numbers)
