"""The document file: a document, its view and, optionally, its computed numbers.

A document file is a zip archive of ``document.json``, one array for each of the document's own
matrices and for captured attention, and the recorded numbers below ``trace/``; the numbers of side
A of a comparison are below ``kept/``. Captured attention is not recorded, because its numbers are
part of the document.

Either all stages and weights of a specification are recorded, or none of them; for texts that are
too long to keep the matrices in memory, only the stages before the scores are recorded. A file may
lack stages, for example if it was written before the program had them; the run is then computed. A
file with a stage that the program does not know is rejected: it was written by a newer program, and
the numbers that depend on the unknown stage would not follow from the stages that are shown.
"""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.saved_numbers import RecordedNumbers
from visualizer.attention.spec import PROJECTION_LAYERS, Projection
from visualizer.attention.spec_validation import spec_problems
from visualizer.attention.stages import Operation, parameter_names, shape, stages
from visualizer.documents.schema import (
    DOCUMENT_CODING,
    SCHEMA_VERSION,
    migrate,
    without_unsaved_fields,
)
from visualizer.documents.validation import check_document
from visualizer.errors import InputError, system_error_reason
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.storage.archive import read_archive, write_archive
from visualizer.storage.json_codec import ArchiveMembers, DamagedFileError
from visualizer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec, Texts
    from visualizer.documents.exported_numbers import ExportedNumbers
    from visualizer.storage.regular_file import FileVersion

DOCUMENT_SUFFIX = ".attention"
UNTITLED_NAME = "Untitled"
"""Title of a document that has no file."""
_DESCRIPTION_FILE = "document.json"
_NUMBERS = "numbers"
"""Name of the field with bytes that are stored as floating-point numbers."""
_DTYPES = {"float32": "<f4", "float64": "<f8"}
"""Array types, keyed by the ``dtype`` field next to the numbers; float64 if it is missing."""
_MAX_JSON_MARKS = 1_000_000
"""Maximum number of commas and opening brackets in the JSON; each may become a value."""
_MAX_COUNTS = 1_000_000
"""Maximum number of saved token counts, one per text, and character counts, one per token."""
_MAX_NOTICES = 100
_MAX_NOTICE_LENGTH = 1_000
_UNSAVED_SUFFIX = ", so it was not saved."
_SAVE_WITHOUT_NUMBERS_HINT = " Turn off “Include numbers when saving”."
_FEWER_MARKS_HINT = " Cut fewer edges, end the comparison, or use a shorter text."


class SavedDocument(Struct, frozen=True, eq=False):
    """Contents of a document file.

    Parameters
    ----------
    view : View
        The view as returned by `without_unsaved_fields`. A comparison with a kept side A includes
        the document of side A but not its run; `visualizer.file_opening.restore_document` adds it.
    recorded : RecordedNumbers or None
        The document's numbers that were saved with it.
    kept : RecordedNumbers or None
        The numbers of side A of the view's comparison.
    title : str
        Title of a document that has no file yet; it is not written.
    version : FileVersion or None
        Version of the file that was read; None if unknown.
    exported : ExportedNumbers or None
        The numbers in a data export, which are compared with the computed numbers.
    opened_model : object
        The model that was opened to run the document, which this reference keeps alive; None if
        no model was opened.
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
        """Message about the file that is shown to the user; usually empty."""
        missing = {
            f"“{name}”": None for one in (self.recorded, self.kept) if one for name in one.missing
        }
        if self.exported and not self.exported.is_read:
            return "The file contains too many numbers to compare them with the recomputed numbers."
        if not missing:
            return ""
        return f"The file does not contain {', '.join(missing)}, so these numbers were recomputed."


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
        A file that is open for writing and positioned at its start.
    run : Run, optional
        A run; if it was computed from this document, its numbers and those of side A of a
        comparison are also written.

    Raises
    ------
    InputError
        With field ``save`` if the content is larger than `read_document` accepts.
    """
    members: ArchiveMembers = {}
    with _convert_errors("save", "The document", _UNSAVED_SUFFIX):
        tree = {
            "schema": SCHEMA_VERSION,
            "program": __version__,
            "document": DOCUMENT_CODING.encode(document, Document, "document", members),
            "view": DOCUMENT_CODING.encode(without_unsaved_fields(view), View, "view", members),
        }
        texts = {_DESCRIPTION_FILE: _encode_json(tree)}
        arrays = {
            path: np.frombuffer(content, _array_dtype(path, tree))
            for path, content in members.items()
        }
    if _has_too_many_json_marks(texts[_DESCRIPTION_FILE]):
        raise InputError("save", f"The document is too large{_UNSAVED_SUFFIX}{_FEWER_MARKS_HINT}")
    runs = [*_runs_to_record(document, view, run)]
    with _convert_errors(
        "save", "The document", _UNSAVED_SUFFIX + _SAVE_WITHOUT_NUMBERS_HINT * bool(runs)
    ):
        for place, one in runs:
            more_texts, more_arrays = _archive_members_of_run(place, one)
            texts |= more_texts
            arrays |= more_arrays
        write_archive(file, texts, arrays)


def _runs_to_record(document: Document, view: View, run: Run | None) -> Iterator[tuple[str, Run]]:
    if run is None or not _is_computed_from(run, document):
        return
    yield "trace", run
    compared = view.comparison
    if (
        compared
        and compared.kept
        and compared.document
        and _is_computed_from(compared.kept, compared.document)
    ):
        yield "kept", compared.kept


def _encode_json(tree: Mapping[str, Any]) -> bytes:
    # "surrogatepass" preserves lone surrogates. Without escapes, a pair of lone surrogates is not
    # merged into one character.
    text = json.dumps(tree, ensure_ascii=False, indent=1, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def _array_dtype(path: str, tree: Any) -> str:
    """Return the dtype of the array at a path, given by its field and the ``dtype`` next to it."""
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
        A seekable file that is open for reading and contains only the document.

    Raises
    ------
    InputError
        With field ``open`` if the file is not a document as written by `write_document`.
    """
    name = getattr(file, "name", None)
    subject = f"“{Path(name).name}”" if isinstance(name, str) else "The file"
    with _convert_errors("open", subject):
        texts, arrays = read_archive(file)
        tree = migrate(_parse_tree(texts.pop(_DESCRIPTION_FILE, b"")))
        if tree.keys() != {"schema", "program", "document", "view"}:
            raise DamagedFileError("contains an unknown field in its description.")
        paths = [path for path in arrays if path.startswith(("document/", "view/"))]
        members = {path: _array_bytes(path, arrays.pop(path), tree) for path in paths}
        document = DOCUMENT_CODING.decode(tree["document"], Document, "document", members)
        view = DOCUMENT_CODING.decode(tree["view"], View, "view", members)
        check_document(document, view)
        recorded = _pop_recorded_run("trace", document, texts, arrays)
        side_a = view.comparison.document if view.comparison else None
        kept = _pop_recorded_run("kept", side_a, texts, arrays) if side_a else None
        if unexpected := [*members, *texts, *arrays]:
            raise DamagedFileError(f"contains an unexpected entry: “{unexpected[0]}”.")
    return SavedDocument(document, view, recorded, kept)


def _array_bytes(path: str, array: np.ndarray, tree: Any) -> bytes:
    if array.ndim != 1 or array.dtype != _array_dtype(path, tree):
        raise DamagedFileError(f"has numbers of the wrong type at {path}.")
    return array.tobytes()


def _parse_tree(content: bytes) -> Any:
    if not content:
        raise DamagedFileError("is not an Attention Visualizer document.")
    if _has_too_many_json_marks(content):
        raise DamagedFileError("is too large to open.")
    try:
        text = content.decode("utf-8", "surrogatepass")
        return json.loads(
            text, object_pairs_hook=_reject_duplicate_keys, parse_constant=_reject_constant
        )
    except DamagedFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise DamagedFileError("is damaged: its description cannot be read.") from error


def _has_too_many_json_marks(content: bytes) -> bool:
    return sum(map(content.count, (b",", b"[", b"{"))) > _MAX_JSON_MARKS


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise DamagedFileError("is damaged: its description contains a duplicate key.")
    return table


def _reject_constant(constant: str) -> None:
    raise DamagedFileError(f"is damaged: its description contains {constant}.")


@contextmanager
def _convert_errors(field: str, subject: str, remedy: str = "") -> Iterator[None]:
    """Convert errors to an `InputError` with a message that names the file."""
    try:
        yield
    except DamagedFileError as error:
        end = f"{str(error).rstrip('.')}{remedy}" if remedy else str(error)
        raise InputError(field, f"{subject} {end}") from error
    except OSError as error:
        if field == "save":  # the caller that writes the file knows its path and converts the error
            raise
        raise InputError(
            field, f"{subject} could not be read: {system_error_reason(error)}."
        ) from error
    except MemoryError as error:
        raise InputError(field, f"{subject} requires more memory than is available.") from error


# ------------------------------------------------------------------------------ recorded runs


def _is_computed_from(run: Run, document: Document) -> bool:
    """Return whether a run was computed from a document; False for captured attention."""
    if not (run.trace.has_module and document.has_module):
        return False
    is_spec = replace(run.trace.spec, lengths=()) == replace(document.spec, lengths=())
    return is_spec and unpadded_tokens(run) == document.tokens()


def unpadded_tokens(run: Run) -> Texts:
    """Return the tokens of each text in a run, without padding."""
    lengths = run.trace.spec.lengths or [len(text) for text in run.texts]
    return tuple(text[:length] for text, length in zip(run.texts, lengths, strict=True))


def _archive_members_of_run(place: str, run: Run) -> tuple[dict[str, bytes], dict[str, np.ndarray]]:
    """Return the texts and arrays of a run, keyed by member names that start with ``place``."""
    texts = unpadded_tokens(run)
    tokens = [token for text in texts for token in text]
    about = {"device": run.device, "notices": list(run.notices)}
    arrays = {
        f"{place}/{stage.name}": run.trace.read(stage.name) for stage in run.trace.stored_stages
    }
    for name in run.trace.parameters:
        arrays[f"{place}/parameters/{name}"] = run.trace.read(name)
    arrays[f"{place}/texts/tokens"] = np.array([*map(len, texts)], "<i4")
    arrays[f"{place}/texts/characters"] = np.array([*map(len, tokens)], "<i4")
    members = {
        f"{place}/about.json": json.dumps(about).encode(),
        f"{place}/texts.txt": "".join(tokens).encode("utf-8", "surrogatepass"),
    }
    return members, arrays


def _pop_recorded_run(
    place: str, document: Document, texts: dict[str, bytes], arrays: dict[str, np.ndarray]
) -> RecordedNumbers | None:
    """Remove a document's recorded numbers from the archive members and return them, or None.

    Captured attention has no recorded numbers; such members are not removed, and the caller rejects
    them.

    Raises
    ------
    DamagedFileError
        If an array has the wrong size or type, or if weights are missing although no missing stage
        uses them.
    """
    if not document.has_module or f"{place}/about.json" not in texts:
        return None
    device, notices = _parse_device_and_notices(texts.pop(f"{place}/about.json"))
    read = _parse_texts(
        texts.pop(f"{place}/texts.txt", b""),
        _parse_counts(arrays.pop(f"{place}/texts/tokens", None)),
        _parse_counts(arrays.pop(f"{place}/texts/characters", None)),
    )
    if not _is_tokenization_of(document.text, read):
        raise DamagedFileError("contains numbers for a different text.")
    if spec_problems(document.spec):
        raise DamagedFileError("contains numbers for invalid settings.")
    sizes = {len(text) for text in read}
    spec = replace(document.spec, lengths=tuple(map(len, read)) if len(sizes) > 1 else ())
    missing = [stage for stage in stages(spec) if f"{place}/{stage.name}" not in arrays]
    numbers = _pop_stages(place, spec, (len(read),) if len(read) > 1 else (), max(sizes), arrays)
    unread = {
        name for one in missing for layer in one.parameters for name in parameter_names(spec, layer)
    }
    parameters = {
        name: _validate_array(arrays.pop(f"{place}/parameters/{name}", None), name, wanted, spec)
        for name, wanted in parameter_shapes(spec, max(sizes)).items()
        if name not in unread or f"{place}/parameters/{name}" in arrays
    }
    for name, array in parameters.items():
        _check_finite(array, name)
    names = tuple(stage.name for stage in missing)
    return RecordedNumbers(read, numbers, parameters, device, notices, names)


def _pop_stages(
    place: str,
    spec: AttentionSpec,
    batch: tuple[int, ...],
    tokens: int,
    arrays: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    numbers = {}
    for stage in stages(spec):
        if (found := arrays.pop(f"{place}/{stage.name}", None)) is not None:
            sizes = batch + shape(spec, stage.dims, tokens)
            numbers[stage.name] = _validate_array(found, stage.name, sizes, spec)
            if stage.operation is Operation.INPUT_VECTORS:
                _check_finite(found, stage.name)
    return numbers


def parameter_shapes(spec: AttentionSpec, tokens: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights of a specification, keyed by ``state_dict`` name."""
    found: dict[str, tuple[int, ...]] = {}
    for layer in PROJECTION_LAYERS if spec.has_projection else ():
        names = parameter_names(spec, layer)
        rows, columns = spec.weight_sizes[layer]
        columns //= sum(not name.endswith(".bias") for name in names)
        wide = (columns, rows) if spec.projection is Projection.LINEAR else (rows, columns)
        for name in names:
            found[name] = (columns,) if name.endswith(".bias") else wide
    if spec.output_projection:
        width = spec.concatenated_head_width
        found |= {"out_proj.weight": (width, width), "out_proj.bias": (width,)}
    found |= spec.block_parameter_shapes
    for name in parameter_names(spec, "position"):
        found[name] = (tokens, spec.d_in)
    return found


def _validate_array(
    array: np.ndarray | None, name: str, sizes: tuple[int, ...], spec: AttentionSpec
) -> np.ndarray:
    if array is None:
        raise DamagedFileError(f"does not contain the numbers for {name}.")
    if array.shape != sizes or array.dtype != spec.dtype.value:
        raise DamagedFileError(f"contains an array for {name} with the wrong shape or type.")
    return array


def _check_finite(array: np.ndarray, name: str) -> None:
    if not np.isfinite(array).all():
        raise DamagedFileError(f"contains invalid numbers for {name}.")


def _parse_device_and_notices(content: bytes) -> tuple[str, tuple[str, ...]]:
    try:
        about: Any = json.loads(content) if content.count(b",") <= _MAX_NOTICES else None
    except (ValueError, RecursionError):
        about = None
    if isinstance(about, dict) and about.keys() == {"device", "notices"}:
        device, notices = about["device"], about["notices"]
        texts = [device, *notices] if isinstance(notices, list) else [None]
        if all(isinstance(one, str) and len(one) <= _MAX_NOTICE_LENGTH for one in texts):
            return device, tuple(notices)
    raise DamagedFileError("does not contain the name of the device that computed its numbers.")


def _parse_counts(array: np.ndarray | None) -> list[int]:
    is_plain = array is not None and array.ndim == 1 and array.dtype == np.int32
    if array is None or not is_plain or not 0 < len(array) <= _MAX_COUNTS or array.min() < 1:
        raise DamagedFileError("does not contain the tokens for its numbers.")
    counts: list[int] = array.tolist()
    return counts


def _parse_texts(content: bytes, tokens: list[int], characters: list[int]) -> Texts:
    try:
        text = content.decode("utf-8", "surrogatepass")
    except ValueError:
        text = ""
    if sum(tokens) != len(characters) or sum(characters) != len(text):
        raise DamagedFileError("does not contain the tokens for its numbers.")
    words = [text[start:end] for start, end in pairwise(accumulate(characters, initial=0))]
    spans = pairwise(accumulate(tokens, initial=0))
    return tuple(tuple(words[start:end]) for start, end in spans)


def _is_tokenization_of(text: str, texts: Texts) -> bool:
    """Return whether the tokens occur in a text in this order, for any tokenizer version."""
    at = 0
    for token in (token for tokens in texts for token in tokens):
        at = text.find(token, at)
        if at < 0:
            return False
        at += len(token)
    return True
