"""The document file: a document, its view and, optionally, its computed numbers.

A zip of ``document.json``, one array for each of the document's own matrices and for captured
attention, and the recorded numbers below ``trace/``; those of side A of a comparison are below
``kept/``. Captured attention is not recorded: its numbers are part of the document.
"""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from msgspec import Struct

from visualizer.documents.recorded_run_archive import (
    is_computed_from,
    take_recorded_run,
    trace_members,
)
from visualizer.documents.schema import CODING, SCHEMA, migrated, without_passing_fields
from visualizer.documents.validation import check_saved
from visualizer.errors import InputError, reason_of
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.storage.archive import read_archive, write_archive
from visualizer.storage.json_coding import DamagedError, Members
from visualizer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from visualizer.attention.run import Run
    from visualizer.attention.saved_numbers import RecordedNumbers
    from visualizer.documents.exported_numbers import ExportedNumbers
    from visualizer.storage.regular_file import FileVersion

__all__ = ["SCHEMA", "SUFFIX", "SavedDocument", "document_bytes", "read_document", "write_document"]

SUFFIX = ".attention"
UNTITLED = "Untitled"
"""Title of a document that has no file."""
_TREE = "document.json"
_NUMBERS = "numbers"
"""Name of the field with bytes that are stored as floating-point numbers."""
_DTYPES = {"float32": "<f4", "float64": "<f8"}
"""Array types by the ``dtype`` field next to the numbers; float64 without that field."""
_MAX_JSON_MARKS = 1_000_000
"""Maximum number of commas and opening brackets in the JSON; each may become a value."""
_UNSAVED_SUFFIX = ", so it was not saved."
_SAVE_WITHOUT_NUMBERS_HINT = " Turn off “Include numbers when saving”."
_FEWER_MARKS_HINT = " Cut fewer edges, end the comparison, or use a shorter text."


class SavedDocument(Struct, frozen=True, eq=False):
    """Contents of a document file.

    Parameters
    ----------
    view : View
        The view as returned by `lasting`. A comparison with a kept side A includes its document but
        not its run, which `visualizer.file_opening.restore_document` adds.
    recorded : RecordedNumbers or None
        The document's numbers as computed when it was saved.
    kept : RecordedNumbers or None
        The numbers of side A of the view's comparison.
    title : str
        Title of a document that has no file yet; not written.
    version : FileVersion or None
        Version of the file that was read; None if unknown.
    exported : ExportedNumbers or None
        The numbers of a data export, to be compared with the computed numbers.
    opened_model : object
        Keeps the model open that was opened to run the document; None if no model was opened.
    """

    document: Document
    view: View
    recorded: RecordedNumbers | None = None
    kept: RecordedNumbers | None = None
    title: str = ""
    version: FileVersion | None = None
    exported: ExportedNumbers | None = None
    opened_model: object = None

    @property
    def notice(self) -> str:
        """Message to show to the user about the file; usually empty."""
        missing = {
            f"“{name}”": None for one in (self.recorded, self.kept) if one for name in one.missing
        }
        if self.exported and not self.exported.is_read:
            return (
                "The file’s numbers are too large to compare with those computed from its settings."
            )
        if not missing:
            return ""
        return f"The file lacks the numbers of {', '.join(missing)}, so they were recomputed."


# ------------------------------------------------------------------------------ writing


def document_bytes(document: Document, view: View, run: Run | None = None) -> bytes:
    """Return the content of a document file; see `write_document`."""
    file = io.BytesIO()
    write_document(file, document, view, run)
    return file.getvalue()


def write_document(file: BinaryIO, document: Document, view: View, run: Run | None = None) -> None:
    """Write a document and its view.

    Parameters
    ----------
    file : BinaryIO
        Open for writing, and at its start.
    run : Run, optional
        Its numbers are also written if they are this document's, with those of side A of a
        comparison.

    Raises
    ------
    InputError
        For ``save``, if the content is larger than `read_document` accepts.
    """
    members: Members = {}
    with _named_errors("save", "The document", _UNSAVED_SUFFIX):
        tree = {
            "schema": SCHEMA,
            "program": __version__,
            "document": CODING.encode(document, Document, "document", members),
            "view": CODING.encode(without_passing_fields(view), View, "view", members),
        }
        texts = {_TREE: _encode_json(tree)}
        arrays = {
            path: np.frombuffer(content, _array_dtype(path, tree))
            for path, content in members.items()
        }
    if _has_too_many_marks(texts[_TREE]):
        raise InputError("save", f"The document is too large{_UNSAVED_SUFFIX}{_FEWER_MARKS_HINT}")
    runs = [*_recorded_runs(document, view, run)]
    with _named_errors(
        "save", "The document", _UNSAVED_SUFFIX + _SAVE_WITHOUT_NUMBERS_HINT * bool(runs)
    ):
        for place, one in runs:
            more_texts, more_arrays = trace_members(place, one)
            texts |= more_texts
            arrays |= more_arrays
        write_archive(file, texts, arrays)


def _recorded_runs(document: Document, view: View, run: Run | None) -> Iterator[tuple[str, Run]]:
    if run is None or not is_computed_from(run, document):
        return
    yield "trace", run
    compared = view.comparison
    if (
        compared
        and compared.kept
        and compared.document
        and is_computed_from(compared.kept, compared.document)
    ):
        yield "kept", compared.kept


def _encode_json(tree: Mapping[str, Any]) -> bytes:
    # "surrogatepass" preserves lone surrogates; unescaped, a pair is not merged into a character.
    text = json.dumps(tree, ensure_ascii=False, indent=1, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def _array_dtype(path: str, tree: Any) -> str:
    """Return the type of the array at a path, from its field and the ``dtype`` next to it."""
    *way, name = path.split("/")
    if name != _NUMBERS:
        return "|u1"
    for step in way:
        tree = tree.get(step) if isinstance(tree, dict) else None
    dtype = tree.get("dtype") if isinstance(tree, dict) else None
    return _DTYPES.get(str(dtype), "<f8")


# ------------------------------------------------------------------------------ reading


def read_document(file: BinaryIO) -> SavedDocument:
    """Read a document file.

    Parameters
    ----------
    file : BinaryIO
        Open for reading and seekable; contains only the document.

    Raises
    ------
    InputError
        For ``open``, if the file is not a document as written by `write_document`.
    """
    name = getattr(file, "name", None)
    subject = f"“{Path(name).name}”" if isinstance(name, str) else "The file"
    with _named_errors("open", subject):
        texts, arrays = read_archive(file)
        tree = migrated(_parse_tree(texts.pop(_TREE, b"")))
        if tree.keys() != {"schema", "program", "document", "view"}:
            raise DamagedError("contains an unknown field in its description.")
        paths = [path for path in arrays if path.startswith(("document/", "view/"))]
        given = {path: _as_bytes(path, arrays.pop(path), tree) for path in paths}
        document = CODING.decode(tree["document"], Document, "document", given)
        view = CODING.decode(tree["view"], View, "view", given)
        check_saved(document, view)
        recorded = take_recorded_run("trace", document, texts, arrays)
        of_a = view.comparison.document if view.comparison else None
        kept = take_recorded_run("kept", of_a, texts, arrays) if of_a else None
        if left := [*given, *texts, *arrays]:
            raise DamagedError(f"contains an unexpected entry: “{left[0]}”.")
    return SavedDocument(document, view, recorded, kept)


def _as_bytes(path: str, array: np.ndarray, tree: Any) -> bytes:
    if array.ndim != 1 or array.dtype != _array_dtype(path, tree):
        raise DamagedError(f"has numbers of the wrong type at {path}.")
    return array.tobytes()


def _parse_tree(content: bytes) -> Any:
    if not content:
        raise DamagedError("is not an Attention Visualizer document.")
    if _has_too_many_marks(content):
        raise DamagedError("is too large to open.")
    try:
        text = content.decode("utf-8", "surrogatepass")
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_reject_constant)
    except DamagedError:
        raise
    except (ValueError, RecursionError) as error:
        raise DamagedError("is damaged: its description cannot be read.") from error


def _has_too_many_marks(content: bytes) -> bool:
    return sum(map(content.count, (b",", b"[", b"{"))) > _MAX_JSON_MARKS


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise DamagedError("is damaged: its description contains a duplicate key.")
    return table


def _reject_constant(constant: str) -> None:
    raise DamagedError(f"is damaged: its description contains {constant}.")


@contextmanager
def _named_errors(field: str, subject: str, remedy: str = "") -> Iterator[None]:
    """Convert errors to an `InputError` with a message that names the file."""
    try:
        yield
    except DamagedError as error:
        end = f"{str(error).rstrip('.')}{remedy}" if remedy else str(error)
        raise InputError(field, f"{subject} {end}") from error
    except OSError as error:
        if field == "save":  # the caller that writes the file knows its path
            raise
        raise InputError(field, f"{subject} could not be read: {reason_of(error)}.") from error
    except MemoryError as error:
        raise InputError(field, f"{subject} needs more memory than is available.") from error
