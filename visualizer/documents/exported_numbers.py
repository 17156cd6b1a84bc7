"""Reading of exported ``.npz`` and ``.json`` files: their document, and the numbers beside it.

A document is computed anew when it is opened; `difference` compares the numbers with the file's.
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
from visualizer.attention.importers.file_contents import ArrayEntry
from visualizer.attention.importers.reader_checks_and_errors import (
    lacks_document,
    unreadable_file_error,
)
from visualizer.documents.embedded_document import decoded
from visualizer.storage.json_coding import DamagedError

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run


TOLERANCE = 1e-6
"""Largest difference of equal numbers, relative to those above 1."""
MAX_COMPARED_BYTES = 2**26
"""Bytes of JSON up to which its numbers are read; of a larger file only the document is."""
MAX_JSON_MARKS = 2**23
"""Limit of commas and brackets in such a file: each may become a value."""
_IN_JSON = re.compile(rb'"document"\s*:\s*"([A-Za-z0-9+/=]*)"')
_PROGRAM = b'"Attention Visualizer"'
_HEAD = 4096
_ARCHIVE = b"PK\3\4"
_NAME_AT = 30
"""Place of a member's name in its header."""


class ExportedNumbers(Struct, frozen=True, eq=False):
    """The numbers of an exported file.

    Parameters
    ----------
    arrays : tuple of ArrayEntry
        Stages by name, and weights below ``parameters/``.
    is_read : bool
        Whether there are few enough numbers to be read.
    """

    arrays: tuple[ArrayEntry, ...]
    is_read: bool = True

    def difference(self, run: Run) -> str:
        """Say by how much the numbers of a run differ from these; empty where they are equal.

        Matrices that the run does not hold are not compared.
        """
        found = {entry.name: _difference(entry, run) for entry in self.arrays}
        different = {name: amount for name, amount in found.items() if amount > 0}
        if not different:
            return ""
        worst = max(different, key=lambda name: different[name])
        amount = different[worst]
        by = f" by up to {amount:.1g}" if math.isfinite(amount) else ""
        names = ", ".join(f"“{name}”" for name in list(different)[:3])
        more = f" and {len(different) - 3} more" if len(different) > 3 else ""
        return f"The numbers computed here differ from the file’s{by}: {names}{more}."


def _difference(entry: ArrayEntry, run: Run) -> float:
    """Return the largest difference of an array from a run's; 0 within the tolerance."""
    name = entry.name.removeprefix("parameters/")
    if name not in (*run.trace.names, *run.trace.parameters):
        return math.inf
    if name in run.trace and run.trace.holding(name).is_blockwise:
        return 0.0
    given, computed = entry.read(), run.trace.read(name)
    if given.shape != computed.shape:
        return math.inf
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(given.astype(np.float64) - computed)
        is_far = ~(apart <= TOLERANCE * np.maximum(1, np.abs(computed)))
    is_far &= ~((given == computed) | (np.isnan(given) & np.isnan(computed)))  # of −∞ and NaN
    if not is_far.any():
        return 0.0
    return float(np.nan_to_num(apart[is_far], nan=math.inf, posinf=math.inf).max())


# ------------------------------------------------------------------------------ recognising


def is_npz(start: bytes) -> bool:
    """Whether the first bytes of a file are those of an exported NPZ with its document."""
    name = f"{numpy_files.DOCUMENT}.npy".encode()
    return start.startswith(_ARCHIVE) and start[_NAME_AT : _NAME_AT + len(name)] == name


def is_json(start: bytes) -> bool:
    """Whether the first bytes of a file are those of an exported JSON."""
    return start.lstrip().startswith(b"{") and _PROGRAM in start[:_HEAD]


# ------------------------------------------------------------------------------ reading


def read_npz(path: Path) -> tuple[bytes, ExportedNumbers]:
    """Return the document file in an exported NPZ, and the file's numbers.

    Raises
    ------
    DamagedError
        When the document cannot be taken out.
    InputError
        Of ``open``, when anything else in it is damaged.
    """
    entries = numpy_files.npz(path).entries
    found = [entry for entry in entries if entry.name == numpy_files.DOCUMENT]
    numbers = found[0].read() if found else np.empty(0)
    if not ((numbers >= 0) & (numbers < 256)).all() or not numbers.size:
        raise DamagedError("is damaged: its document cannot be taken out.")
    others = tuple(entry for entry in entries if entry not in found)
    return numbers.astype(np.uint8).tobytes(), ExportedNumbers(others)


def read_json(path: Path, data: bytes, size: int) -> tuple[bytes, ExportedNumbers]:
    """Return the document file in an exported JSON, and the file's numbers.

    Parameters
    ----------
    data : bytes
        The beginning of the file.
    size : int
        Bytes of the whole file.

    Raises
    ------
    DamagedError
        When it is damaged.
    InputError
        Of ``open``, when it has no document.
    """
    is_read = (
        size <= MAX_COMPARED_BYTES and sum(map(data.count, (b",", b"[", b"{"))) <= MAX_JSON_MARKS
    )
    tree = _tree(data) if is_read else {}
    written = _IN_JSON.search(data)
    document = decoded(written[1]) if written else None
    if document is None:
        raise unreadable_file_error(lacks_document(path))
    return document, ExportedNumbers(tuple(_arrays(tree)) if is_read else (), is_read)


def _tree(data: bytes) -> dict[str, Any]:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedError("is damaged: its text is no whole JSON.") from error
    return tree if isinstance(tree, dict) else {}


def _arrays(tree: dict[str, Any]) -> list[ArrayEntry]:
    try:
        stages = [(stage["name"], stage["values"]) for stage in tree["stages"]]
        weights = [
            (f"parameters/{name}", one["values"]) for name, one in tree["parameters"].items()
        ]
        return [_array(str(name), values) for name, values in (*stages, *weights)]
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise DamagedError("is damaged: its numbers do not fit together.") from error


def _array(name: str, values: Any) -> ArrayEntry:
    array = np.array(values, dtype=np.float64)  # also of "NaN" and "Infinity"
    return ArrayEntry(name, array.shape, True, partial(np.asarray, array))
