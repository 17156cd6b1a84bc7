"""Reads the documents and numbers in exported ``.npz`` and ``.json`` files.

An opened document is recomputed; `ExportedNumbers.describe_difference` compares the results with
the numbers in the file.
"""

from __future__ import annotations

import json
import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from visualizer.attention.importers import numpy_files
from visualizer.attention.importers.tensor_file_listing import (
    ArrayEntry,
    missing_document_message,
    unreadable_file_error,
)
from visualizer.documents.embedded_document import decode_document
from visualizer.storage.json_codec import DamagedFileError

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run


TOLERANCE = 1e-6
"""Maximum difference between numbers that are considered equal: relative for absolute values above
1, and absolute for all others.
"""
MAX_COMPARED_BYTES = 2**26
"""Maximum size, in bytes, of a JSON file from which numbers are read; from a larger file, only
the document is read.
"""
MAX_JSON_MARKS = 2**23
"""Maximum number of commas and opening brackets in a JSON file; each may become a value."""
_IN_JSON = re.compile(rb'"document"\s*:\s*"([A-Za-z0-9+/=]*)"')
_PROGRAM = b'"Attention Visualizer"'
_HEAD = 4096
_ARCHIVE = b"PK\3\4"
_NAME_OFFSET = 30
"""Offset of a member's name in its zip header."""


class ExportedNumbers(Struct, frozen=True, eq=False):
    """Numbers in an exported file.

    Parameters
    ----------
    arrays : tuple of ArrayEntry
        Stages, and weights whose names start with ``parameters/``.
    is_read : bool
        Whether the numbers were read; False if there were too many.
    """

    arrays: tuple[ArrayEntry, ...]
    is_read: bool = True

    def describe_difference(self, run: Run) -> str:
        """Describe how the numbers of a run differ from those in the file; return "" if equal.

        Matrices that the run does not keep in memory are not compared.
        """
        found = {entry.name: _largest_difference(entry, run) for entry in self.arrays}
        different = {name: amount for name, amount in found.items() if amount > 0}
        if not different:
            return ""
        worst = max(different, key=lambda name: different[name])
        amount = different[worst]
        by = f" by up to {amount:.1g}" if math.isfinite(amount) else ""
        names = ", ".join(f"“{name}”" for name in list(different)[:3])
        more = f" and {len(different) - 3} more" if len(different) > 3 else ""
        return f"The recomputed numbers differ from those in the file{by}: {names}{more}."


def _largest_difference(entry: ArrayEntry, run: Run) -> float:
    """Return the largest difference from the array of a run, or 0 if it is within the tolerance."""
    name = entry.name.removeprefix("parameters/")
    if name not in (*run.trace.names, *run.trace.parameters):
        return math.inf
    if name in run.trace and run.trace.cached_stage_tensor(name).is_blockwise:
        return 0.0
    exported, computed = entry.read(), run.trace.read(name)
    if exported.shape != computed.shape:
        return math.inf
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(exported.astype(np.float64) - computed)
        is_far = ~(apart <= TOLERANCE * np.maximum(1, np.abs(computed)))
    # Equal infinities and NaN do not count as different.
    is_far &= ~((exported == computed) | (np.isnan(exported) & np.isnan(computed)))
    if not is_far.any():
        return 0.0
    return float(np.nan_to_num(apart[is_far], nan=math.inf, posinf=math.inf).max())


# ------------------------------------------------------------------------------ recognizing


def is_exported_npz(start: bytes) -> bool:
    """Return whether a file is an exported NPZ with its document, given its first bytes."""
    name = f"{numpy_files.DOCUMENT_MEMBER}.npy".encode()
    return start.startswith(_ARCHIVE) and start[_NAME_OFFSET : _NAME_OFFSET + len(name)] == name


def is_exported_json(start: bytes) -> bool:
    """Return whether a file is an exported JSON file, given its first bytes."""
    return start.lstrip().startswith(b"{") and _PROGRAM in start[:_HEAD]


# ------------------------------------------------------------------------------ reading


def read_exported_npz(path: Path) -> tuple[bytes, ExportedNumbers]:
    """Return the document file that an exported NPZ contains, and the numbers.

    Raises
    ------
    DamagedFileError
        If the document cannot be extracted.
    InputError
        With field ``open`` if any other part of the file is damaged.
    """
    entries = numpy_files.list_npz_arrays(path).entries
    found = [entry for entry in entries if entry.name == numpy_files.DOCUMENT_MEMBER]
    numbers = found[0].read() if found else np.empty(0)
    if not ((numbers >= 0) & (numbers < 256)).all() or not numbers.size:
        raise DamagedFileError("is damaged: its document cannot be extracted.")
    others = tuple(entry for entry in entries if entry not in found)
    return numbers.astype(np.uint8).tobytes(), ExportedNumbers(others)


def read_exported_json(path: Path, data: bytes, size: int) -> tuple[bytes, ExportedNumbers]:
    """Return the document file that an exported JSON file contains, and the numbers.

    Parameters
    ----------
    data : bytes
        The beginning of the file.
    size : int
        Size of the whole file, in bytes.

    Raises
    ------
    DamagedFileError
        If the file is damaged.
    InputError
        With field ``open`` if the file contains no document.
    """
    is_read = (
        size <= MAX_COMPARED_BYTES and sum(map(data.count, (b",", b"[", b"{"))) <= MAX_JSON_MARKS
    )
    tree = _parse_json(data) if is_read else {}
    written = _IN_JSON.search(data)
    document = decode_document(written[1]) if written else None
    if document is None:
        raise unreadable_file_error(missing_document_message(path))
    return document, ExportedNumbers(tuple(_read_arrays(tree)) if is_read else (), is_read)


def _parse_json(data: bytes) -> dict[str, Any]:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError("is damaged: its JSON is incomplete.") from error
    return tree if isinstance(tree, dict) else {}


def _read_arrays(tree: dict[str, Any]) -> list[ArrayEntry]:
    try:
        stages = [(stage["name"], stage["values"]) for stage in tree["stages"]]
        weights = [
            (f"parameters/{name}", one["values"]) for name, one in tree["parameters"].items()
        ]
        return [_create_array_entry(str(name), values) for name, values in (*stages, *weights)]
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise DamagedFileError("is damaged: its numbers are inconsistent.") from error


def _create_array_entry(name: str, values: Any) -> ArrayEntry:
    array = np.array(values, dtype=np.float64)  # also converts the strings "NaN" and "Infinity"
    return ArrayEntry(name, array.shape, True, partial(np.asarray, array))
