"""About how large a file of numbers will be, told from a few rows before it is written.

How a file of numbers begins, written by what writes the file, and how large it will be.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import numpy as np

from visualizer.export.data import matrices
from visualizer.export.data.csv_writer import exact
from visualizer.export.data.json_writer import row_text
from visualizer.export.data.parameters_safetensors_writer import weights_in
from visualizer.export.figure_framing import framed
from visualizer.export.writers import WRITERS
from visualizer.number_format import format_number, format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from visualizer.attention.run import Run
    from visualizer.export.data.matrices import ExportMatrix
    from visualizer.export.export_settings import ExportSettings
    from visualizer.progress_callback import Progress
    from visualizer.session.screen import Snapshot

ROWS = 7
"""Of how many rows of a matrix the length is measured."""
HEADER = 256
"""Bytes beside the numbers of an array."""


def size_of_arrays(run: Run, names: Sequence[str]) -> int:
    """Tell how many bytes stages and parameters have as they lie in memory."""
    return sum(_count(run, name) * _first(run, name).itemsize + HEADER for name in names)


def size_of_json(run: Run) -> int:
    """Tell about how many bytes a run has as JSON."""
    names = (*run.trace.names, *run.trace.parameters)
    return round(sum(_count(run, name) * _mean(_first(run, name), row_text) for name in names))


def size_of_csv(run: Run, sheets: Sequence[ExportMatrix]) -> int:
    """Tell about how many bytes matrices have as CSV."""
    if len(sheets) == 1:
        return round(_size(run, sheets[0], _as_row))
    return round(sum(_size(run, sheet, _as_row, _before(run, sheet)) for sheet in sheets))


def size_of_markdown(run: Run, sheets: Sequence[ExportMatrix]) -> int:
    """Tell about how many bytes matrices have as tables of Markdown."""
    return round(sum(_size(run, sheet, _as_cells) for sheet in sheets))


def _size(
    run: Run, sheet: ExportMatrix, write: Callable[[np.ndarray], str], beside: float = 0
) -> float:
    numbers = sheet.read(run)
    return numbers.size * (beside + _mean(numbers, write))


def _before(run: Run, sheet: ExportMatrix) -> float:
    """Give the mean length of what stands in the line of a number beside it."""
    rows, columns = sheet.labels(run)
    names = len(f"{sheet.name(run)},{sheet.fold or sheet.head},{sheet.text},,,,,\r")
    counts = len(str(len(rows))) + len(str(len(columns)))
    tokens = (*rows, *(columns if sheet.has_keys(run) else ()))
    words = len("".join(tokens).encode("utf-8", "replace")) / len(tokens)
    return names + counts + words * (2 if sheet.has_keys(run) else 1)


def _as_row(numbers: np.ndarray) -> str:
    return ",".join(exact(numbers)) + "\r"


def _as_cells(numbers: np.ndarray) -> str:
    return " | ".join(map(format_number, numbers.tolist())) + " | "


def _mean(numbers: np.ndarray, write: Callable[[np.ndarray], str]) -> float:
    """Give the mean bytes of a number, from rows all over a matrix."""
    rows = np.atleast_2d(numbers)
    count = min(ROWS, len(rows))
    some = [rows[len(rows) * (2 * part + 1) // (2 * count)] for part in range(count)]
    written = sum(len(write(row).encode()) + 1 for row in some)
    return written / max(1, sum(int(row.size) for row in some))


def _first(run: Run, name: str) -> np.ndarray:
    """Read one matrix of an array; of heads and texts, the first."""
    more = len(run.trace.tensor(name).shape) - 2
    return run.trace.read(name, (0,) * max(0, more))


def _count(run: Run, name: str) -> int:
    return math.prod(run.trace.tensor(name).shape)


LINES = 40
LONGEST_LINE = 1000
MOST_BYTES = 2**18
LARGE = 50 * 2**20
"""Bytes of text from which on it is said that another format is smaller."""
TEXT_SIZES: dict[str, Callable[[Run, Sequence[ExportMatrix]], int]] = {
    ".csv": size_of_csv,
    ".md": size_of_markdown,
    ".json": lambda run, seen: size_of_json(run),
}
"""About how many bytes each of the formats has that are text."""


class PreviewFullError(Exception):
    """Enough is written."""


class PreviewStream:
    """A file that takes no more than its first lines."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> int:
        """Take bytes, until there are enough."""
        self.written += data
        if self.written.count(b"\n") >= LINES or len(self.written) >= MOST_BYTES:
            raise PreviewFullError
        return len(data)


def beginning(shot: Snapshot, wish: ExportSettings, progress: Progress) -> str:
    """Write the first lines of a file of numbers; of one that is no text, list what is in it.

    Raises
    ------
    InputError
        When there can be no such file.
    """
    if not wish.format.is_text:
        return "\n".join(_listed(shot.run, name) for name in _names(shot.run, wish.suffix))
    file = PreviewStream()
    with suppress(PreviewFullError):
        WRITERS[wish.suffix](shot, wish.asked, cast("BinaryIO", file), progress)
    lines = file.written.decode("utf-8-sig", "replace").splitlines()
    is_cut = len(lines) >= LINES or len(file.written) >= MOST_BYTES
    return "\n".join([*map(_cut, lines[:LINES]), *(["…"] if is_cut else [])])


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def _names(run: Run, suffix: str) -> tuple[str, ...]:
    weights = weights_in(run) if suffix == ".safetensors" else tuple(run.trace.parameters)
    return weights if suffix == ".safetensors" else (*run.trace.names, *weights)


def _listed(run: Run, name: str) -> str:
    """Give an array's name, sizes and type; the weights of a run stand in a folder of their own."""
    trace = run.trace
    shape = trace.tensor(name).shape
    dims: tuple[str, ...] = ("",) * len(shape)
    if name in trace.names:
        dims = (*("text" for _ in trace.batch), *trace.stage(name).dims)
    sizes = (f"{size:,} {dim}".strip() for size, dim in zip(shape, dims, strict=True))
    return f"{name}  {' × '.join(sizes)}  {trace.read(name, (slice(0, 1),)).dtype}"


def told(shot: Snapshot, wish: ExportSettings) -> str:
    """Say how large the file will be, and where the same numbers take less."""
    run, suffix = shot.run, wish.suffix
    arrays = size_of_arrays(run, _names(run, suffix))
    if not wish.format.is_text:
        return f"About {format_size(arrays)}"
    seen = matrices.shown(framed(shot, wish.asked))
    count = TEXT_SIZES[suffix](run, seen)
    if count < LARGE:
        return f"About {format_size(count)}"
    return (
        f"About {format_size(count)}, which takes its time to be written and to be read. "
        f"As NPZ, all stages have {format_size(arrays)}."
    )
