"""Reads own vectors, weights and masks from the files given as options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.importers.state_dict import MAX_ELEMENTS, is_module, spec_in
from visualizer.attention.masks import parse_mask
from visualizer.attention.spec import OWN_BIASES, OWN_LAYERS, BooleanMatrix, NumberMatrix
from visualizer.documents.open_document import text_in
from visualizer.errors import InputError

if TYPE_CHECKING:
    from visualizer.attention.importers.file_contents import ArrayEntry, FileContents
    from visualizer.session.document import Document

TEXTS = (".txt", ".csv", ".tsv")
"""Suffixes of files in which a mask is written as rows of 0 and 1."""
_OWN = (*OWN_LAYERS, *OWN_BIASES)


def vectors_in_file(name: str) -> NumberMatrix:
    """Read the token vectors [token, d_in].

    Raises
    ------
    InputError
        If the file does not contain exactly one matrix of numbers.
    """
    return _read_matrix(_single_matrix_entry(name))


FROM_FILE = "weights from a file"
"""Source of weights read from a file given as an option."""


def mask_in_file(name: str) -> BooleanMatrix:
    """Read a matrix [query, key] of 0 and 1 from a text file or an array file.

    Raises
    ------
    InputError
        If the file does not contain such a matrix.
    """
    path = Path(name)
    if path.suffix.lower() in TEXTS:
        return parse_mask(text_in(path))
    array = _single_matrix_entry(name).read()
    if not np.isin(array, (0, 1)).all():
        raise _open_error(f"“{path.name}” contains numbers other than 0 and 1.")
    return BooleanMatrix.of(array != 0)


def weights_in_file(name: str) -> FileContents:
    """List the arrays of a weights file; their numbers are read later, with the document.

    Raises
    ------
    InputError
        If it contains neither own weights nor the weights of a module.
    """
    contents = _list_arrays(name)
    if not (_has_only_own_weights(contents) or is_module(contents)):
        takes = f"Name the arrays {', '.join(OWN_LAYERS)}, or save a module's state_dict."
        raise _open_error(f"“{Path(name).name}” does not contain weights. {contents.said} {takes}")
    return contents


def own_weights_in(contents: FileContents) -> tuple[tuple[str, NumberMatrix], ...]:
    """Read own weights, in their order; return none if the file contains a module's state."""
    if not _has_only_own_weights(contents):
        return ()
    entries = {entry.name: entry for entry in contents.entries}
    found = [(name, entries[name]) for name in _OWN if name in entries]
    return tuple((name, _read_matrix(_as_matrix(name, entry))) for name, entry in found)


def with_module_in(contents: FileContents, document: Document) -> tuple[Document, str]:
    """Return a document with the module from a ``state_dict`` file, and a notice.

    Raises
    ------
    InputError
        If the shapes do not match, or a number is not finite.
    """
    spec, notice = spec_in(contents, document.spec, document.most_tokens)
    return replace(document, spec=spec, weights_source=FROM_FILE), notice


def _has_only_own_weights(contents: FileContents) -> bool:
    return bool(contents.entries) and all(entry.name in _OWN for entry in contents.entries)


def _list_arrays(name: str) -> FileContents:
    from visualizer.attention.importers.readers import list_arrays  # loads torch

    return list_arrays(Path(name))


def _single_matrix_entry(name: str) -> ArrayEntry:
    contents = _list_arrays(name)
    if len(contents.entries) != 1:
        raise _open_error(f"“{Path(name).name}” must contain exactly one matrix. {contents.said}")
    return _as_matrix(Path(name).name, contents.entries[0])


def _as_matrix(name: str, entry: ArrayEntry) -> ArrayEntry:
    if len(entry.shape) != 2 or not 0 < np.prod(entry.shape, dtype=float) <= MAX_ELEMENTS:
        shape = " × ".join(f"{size:,}" for size in entry.shape) or "a single number"
        takes = f"must be a matrix with at most {MAX_ELEMENTS:,} numbers"
        raise _open_error(f"“{name}” {takes}. It is {shape}.")
    return entry


def _read_matrix(entry: ArrayEntry) -> NumberMatrix:
    array = entry.read()
    if not np.isfinite(array).all():
        raise _open_error(f"{entry.said} contains infinite or NaN values.")
    return NumberMatrix.of(array)


def _open_error(sentence: str) -> InputError:
    return InputError("open", sentence)
