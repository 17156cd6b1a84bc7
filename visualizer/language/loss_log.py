"""The loss log of a run, a CSV file with one line per step. This module does not import torch.

Losses and learning rates are written with enough digits to be read back exactly.
"""

from __future__ import annotations

import math
import os
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from visualizer.errors import InputError, system_error_reason
from visualizer.language.training_settings import SETTING_LIMITS
from visualizer.storage.atomic_file import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

CSV_HEADER = "step,training,validation,rate,seconds"
MAX_FILE_BYTES = 2**30
"""Maximum size of the file, in bytes; a log of ten million steps is smaller."""
MAX_STEPS = SETTING_LIMITS["steps"][1]
ROWS_PER_PARSE = 1_024
"""Number of rows that are parsed together."""
MISSING_VALUE = -math.inf
"""Placeholder for a missing value; losses and rates can be NaN or negative, but not this value.

In the file, such a field is empty.
"""


class LossRow(NamedTuple):
    """The measurements for a training step, taken before the step updates the weights.

    Parameters
    ----------
    step : int
        Number of steps that were completed before this one.
    training : float
        Mean loss of the step's batch, in nats per token; `MISSING_VALUE` without a batch, NaN or
        infinite if training diverged.
    validation : float
        Mean loss of several batches of the validation part; `MISSING_VALUE` if it was not measured.
    rate : float
        Learning rate of the step.
    seconds : float
        Total time spent training before this step.
    """

    step: int
    training: float
    validation: float
    rate: float
    seconds: float

    def to_csv_line(self) -> str:
        numbers = (self.training, self.validation, self.rate)
        fields = ",".join("" if number == MISSING_VALUE else repr(number) for number in numbers)
        return f"{self.step},{fields},{self.seconds:.3f}\n"

    def merge(self, later: LossRow) -> LossRow:
        """Return the measurements of two rows; those of the later row take precedence."""
        pairs = zip(self, later, strict=True)
        return LossRow._make(old if new == MISSING_VALUE else new for old, new in pairs)


def create_empty_rows() -> np.ndarray:
    """Return an array without rows [row, field of `LossRow`].

    It is not a constant, because the window loads this module before NumPy.
    """
    return np.empty((0, len(LossRow._fields)))


def parse_row_blocks(lines: Iterable[str]) -> Iterator[np.ndarray]:
    """Yield the rows of a file in blocks, as arrays [row, field of `LossRow`].

    Parsing stops at the first line that is invalid or truncated, or whose step exceeds the maximum
    or does not increase.
    """
    last_step, rows = -1.0, islice(lines, 1, None)
    while block := list(islice(rows, ROWS_PER_PARSE)):
        table = _parse_leading_valid_lines(block)
        is_valid = (np.diff(table[:, 0], prepend=last_step) > 0) & (table[:, 0] <= MAX_STEPS)
        count = len(table) if is_valid.all() else int(is_valid.argmin())
        yield table[:count]
        if count < len(block):
            return
        last_step = table[-1, 0]


def _parse_leading_valid_lines(lines: Sequence[str]) -> np.ndarray:
    """Parse lines up to the first invalid one."""
    try:
        return _parse_valid_lines(lines)
    except ValueError:
        if len(lines) == 1:
            return create_empty_rows()
    half = len(lines) // 2
    first = _parse_leading_valid_lines(lines[:half])
    return (
        first
        if len(first) < half
        else np.concatenate([first, _parse_leading_valid_lines(lines[half:])])
    )


def _parse_valid_lines(lines: Sequence[str]) -> np.ndarray:
    commas = len(LossRow._fields) - 1
    if not lines[-1].endswith("\n") or any(line.count(",") != commas for line in lines):
        raise ValueError
    fields = "".join(lines).replace("\n", ",").split(",")[:-1]
    numbers = [float(field) if field else MISSING_VALUE for field in fields]
    table = np.array(numbers).reshape(-1, len(LossRow._fields))
    if not all(map(float.is_integer, numbers[:: len(LossRow._fields)])):
        raise ValueError
    return table


def parse_loss_rows(lines: Iterable[str]) -> list[LossRow]:
    """Parse the lines of a file into rows; see `parse_row_blocks` for arrays."""
    table_rows = (row for table in parse_row_blocks(lines) for row in table.tolist())
    return [LossRow(int(step), *measured) for step, *measured in table_rows]


def rows_to_loss_curves(rows: ArrayLike) -> dict[str, np.ndarray]:
    """Convert rows to arrays; the validation losses have their own steps."""
    table = np.array(rows, np.float64).reshape(-1, len(LossRow._fields))
    trained, measured = (table[table[:, column] != MISSING_VALUE] for column in (1, 2))
    return {
        "steps": trained[:, 0].astype(np.int64),
        "training": trained[:, 1],
        "rates": np.where(trained[:, 3] == MISSING_VALUE, np.nan, trained[:, 3]),
        "validation_steps": measured[:, 0].astype(np.int64),
        "validation": measured[:, 2],
    }


class LossLog:
    """Buffered writer for the loss file; rows that cannot be written stay in the buffer."""

    def __init__(self, place: SymlinkSafeFile) -> None:
        self.place = place
        self._pending: list[LossRow] = []
        self._new_content: bytes | None = None
        """Content that `begin` has to write; None if the file already has this content."""

    def read_rows_before(self, end_step: int) -> list[LossRow]:
        """Return the rows before a step; the file is not changed until `begin` is called.

        Raises
        ------
        InputError
            With field ``folder`` if the file cannot be read.
        """
        content, is_shared = self._read_content()
        lines = content.decode("utf-8", "replace").splitlines(keepends=True)
        rows = [row for row in parse_loss_rows(lines) if row.step < end_step]
        whole = "".join([f"{CSV_HEADER}\n", *lines[1 : len(rows) + 1]]).encode()
        self._new_content = whole if is_shared or content != whole else None
        return rows

    def _read_content(self) -> tuple[bytes, bool]:
        """Return the file's content, and whether other hard links require replacing the file."""
        try:
            with self.place.open(MAX_FILE_BYTES) as file:
                return file.read(MAX_FILE_BYTES), os.fstat(file.fileno()).st_nlink > 1
        except FileNotFoundError:
            return b"", False
        except OSError as error:
            sentence = f"Cannot read “{self.place.path.name}”: {system_error_reason(error)}."
            raise InputError("folder", sentence) from error

    def remove_unread_rows(self) -> None:
        """Remove from the file the rows that `read` did not return.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        if self._new_content is not None:
            content = self._new_content
            write_atomically(self.place, lambda file: file.write(content))
            # The content is cleared after the write, so that the write is retried if the disk was
            # full.
            self._new_content = None

    def remove_rows_from(self, end_step: int) -> None:
        """Remove the rows of a step and all later steps.

        Raises
        ------
        InputError
            If the file cannot be read or written.
        """
        self._pending = [row for row in self._pending if row.step < end_step]
        self.read_rows_before(end_step)
        self.remove_unread_rows()

    def add_row(self, row: LossRow) -> None:
        """Buffer a row until `flush` is called."""
        self._pending.append(row)

    def flush(self) -> None:
        """Append the buffered rows to the file; if this fails, they stay in the buffer.

        Raises
        ------
        OSError
            With the reason given by the operating system.
        """
        if self._pending:
            self.place.append("".join(row.to_csv_line() for row in self._pending).encode())
            self._pending = []
