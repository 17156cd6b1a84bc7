"""About how large a file of numbers will be, told from a few rows before it is written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from visualizer.state.words import number
from visualizer.state.written.commas import exact
from visualizer.state.written.whole import row_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from visualizer.attention.run import Run
    from visualizer.state.written.sheets import Sheet

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


def size_of_csv(run: Run, sheets: Sequence[Sheet]) -> int:
    """Tell about how many bytes matrices have as CSV."""
    if len(sheets) == 1:
        return round(_size(run, sheets[0], _as_row))
    return round(sum(_size(run, sheet, _as_row, _before(run, sheet)) for sheet in sheets))


def size_of_markdown(run: Run, sheets: Sequence[Sheet]) -> int:
    """Tell about how many bytes matrices have as tables of Markdown."""
    return round(sum(_size(run, sheet, _as_cells) for sheet in sheets))


def _size(run: Run, sheet: Sheet, write: Callable[[np.ndarray], str], beside: float = 0) -> float:
    numbers = sheet.read(run)
    return numbers.size * (beside + _mean(numbers, write))


def _before(run: Run, sheet: Sheet) -> float:
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
    return " | ".join(map(number, numbers.tolist())) + " | "


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
