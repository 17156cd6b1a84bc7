"""Preview of a data export: its first lines and its estimated file size."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from visualizer.export.data.data_writers import (
    MASK_CELL_BYTES,
    array_names,
    format_exact_row,
    format_json_row,
    is_single_table,
    mask_names,
    weight_names,
)
from visualizer.export.data.exported_matrices import shown_matrices
from visualizer.export.figure_settings import resolve_figure_view
from visualizer.export.writers import WRITERS
from visualizer.format import format_number, format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    import numpy as np

    from visualizer.attention.run import Run
    from visualizer.export.data.exported_matrices import ExportMatrix
    from visualizer.export.export_settings import ExportSettings
    from visualizer.progress import Progress
    from visualizer.session.export_snapshot import ExportSnapshot

SAMPLED_ROWS = 7
"""Maximum number of rows of a matrix that are sampled for the estimate."""
ARRAY_HEADER_BYTES = 256
"""Estimated size, in bytes, of an array's header."""


def estimate_array_bytes(run: Run, names: Sequence[str]) -> int:
    """Estimate the size of stages and parameters in a binary file, in bytes."""
    return sum(
        math.prod(run.trace.shape(name)) * _read_sampled_rows(run, name)[0].itemsize
        + ARRAY_HEADER_BYTES
        for name in names
    )


def estimate_json_bytes(run: Run) -> int:
    """Estimate the size, in bytes, of a run written as JSON."""
    return round(
        sum(
            math.prod(run.trace.shape(name))
            * _mean_bytes_per_number(_read_sampled_rows(run, name), format_json_row)
            for name in array_names(run)
        )
    )


def estimate_csv_bytes(run: Run, sheets: Sequence[ExportMatrix]) -> int:
    """Estimate the size, in bytes, of matrices written as CSV."""
    if is_single_table(sheets):
        return round(_estimate_matrix_bytes(run, sheets[0], _format_csv_row))
    return round(
        sum(
            _estimate_matrix_bytes(run, sheet, _format_csv_row, _mean_prefix_length(run, sheet))
            for sheet in sheets
        )
    )


def estimate_markdown_bytes(run: Run, sheets: Sequence[ExportMatrix]) -> int:
    """Estimate the size, in bytes, of matrices written as Markdown tables."""
    return round(
        sum(_estimate_matrix_bytes(run, sheet, _format_markdown_cells) for sheet in sheets)
    )


def _estimate_matrix_bytes(
    run: Run, sheet: ExportMatrix, format_row: Callable[[np.ndarray], str], prefix: float = 0
) -> float:
    """Estimate the size, in bytes, of a matrix with `prefix` bytes before each number."""
    indices = _sample_indices(sheet.row_and_column_indices(run)[0])
    rows = [sheet.read_rows(run, slice(index, index + 1))[0] for index in indices]
    return sheet.number_count(run) * (prefix + _mean_bytes_per_number(rows, format_row))


def _mean_prefix_length(run: Run, sheet: ExportMatrix) -> float:
    """Return the mean length, in bytes, of the fields before the number in a line of CSV."""
    rows, columns = sheet.row_and_column_labels(run)
    leading = ",".join(map(str, sheet.layer_and_text_numbers(run)))
    names = len(f"{sheet.qualified_name(run)},{sheet.fold or sheet.head},{leading},,,,,\r")
    counts = len(str(len(rows))) + len(str(len(columns)))
    tokens = (*rows, *(columns if sheet.has_key_columns(run) else ()))
    label_bytes = len("".join(tokens).encode("utf-8", "replace")) / len(tokens)
    return names + counts + label_bytes * (2 if sheet.has_key_columns(run) else 1)


def _format_csv_row(numbers: np.ndarray) -> str:
    return ",".join(format_exact_row(numbers)) + "\r"


def _format_markdown_cells(numbers: np.ndarray) -> str:
    return " | ".join(map(format_number, numbers.tolist())) + " | "


def _mean_bytes_per_number(
    rows: Sequence[np.ndarray], format_row: Callable[[np.ndarray], str]
) -> float:
    """Return the mean number of bytes per value in the given rows of a matrix."""
    size = sum(len(format_row(row).encode()) + 1 for row in rows)
    return size / max(1, sum(int(row.size) for row in rows))


def _sample_indices(rows: Sequence[int]) -> list[int]:
    """Return the indices of a few evenly spaced rows."""
    count = min(SAMPLED_ROWS, len(rows))
    return [rows[len(rows) * (2 * part + 1) // (2 * count)] for part in range(count)]


def _read_sampled_rows(run: Run, name: str) -> list[np.ndarray]:
    """Read a few rows of an array, for its first text and head."""
    *leading, rows, _ = (1, *run.trace.shape(name))
    first = (0,) * (len(leading) - 1)
    if not leading:  # one vector
        return [run.trace.read(name)]
    return [run.trace.read(name, (*first, row)) for row in _sample_indices(range(rows))]


STAGE_FORMATS = frozenset({".npz", ".json"})
"""Formats that contain only complete stages, and therefore no matrices of a long text."""
OMITTED_MATRICES_NOTICE = (
    "The text is too long to export complete query–key matrices. To export part of a matrix, "
    "use CSV or Markdown."
)
LARGE_FILE_BYTES = 50 * 2**20
"""File size, in bytes, from which a more compact format is recommended."""
TEXT_SIZE_ESTIMATES: dict[str, Callable[[Run, Sequence[ExportMatrix]], int]] = {
    ".csv": estimate_csv_bytes,
    ".md": estimate_markdown_bytes,
    ".json": lambda run, sheets: estimate_json_bytes(run),
}
"""Functions that estimate the size of a file, in bytes, keyed by the suffix of its text format."""


def _binary_array_names(run: Run, suffix: str) -> tuple[str, ...]:
    """Return the names of the arrays in a binary export."""
    return weight_names(run) if suffix == ".safetensors" else array_names(run)


def describe_file_size(snapshot: ExportSnapshot, settings: ExportSettings) -> str:
    """Describe the estimated file size, and add the note of the format."""
    size = _describe_estimated_size(snapshot, settings)
    notes = [settings.format.note]
    if snapshot.run.trace.is_blockwise and settings.suffix in STAGE_FORMATS:
        notes.insert(0, OMITTED_MATRICES_NOTICE)
    note = " ".join(filter(None, notes))
    return f"{size.rstrip('.')}. {note}" if note else size


def _describe_estimated_size(snapshot: ExportSnapshot, settings: ExportSettings) -> str:
    run, suffix = snapshot.run, settings.suffix
    arrays = estimate_array_bytes(run, _binary_array_names(run, suffix))
    if suffix == ".safetensors":
        arrays += len(mask_names(run)) * (
            MASK_CELL_BYTES * run.trace.query_count**2 + ARRAY_HEADER_BYTES
        )
    if not settings.format.is_text:
        return f"About {format_size(arrays)}"
    sheets = shown_matrices(resolve_figure_view(snapshot, settings.figure_settings))
    size = TEXT_SIZE_ESTIMATES[suffix](run, sheets)
    if size < LARGE_FILE_BYTES:
        return f"About {format_size(size)}"
    return (
        f"About {format_size(size)}. A file of this size is slow to write and read. In NPZ format, "
        f"all stages take {format_size(arrays)}."
    )


MAX_PREVIEW_LINES = 40
MAX_LINE_CHARACTERS = 1000
MAX_PREVIEW_BYTES = 2**18


class PreviewFullError(Exception):
    """Raised by `PreviewStream` when it is full."""


class PreviewStream:
    """Writable stream that stores only the first lines."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> int:
        """Store bytes; raise `PreviewFullError` when the preview is full."""
        self.written += data
        if self.written.count(b"\n") >= MAX_PREVIEW_LINES or len(self.written) >= MAX_PREVIEW_BYTES:
            raise PreviewFullError
        return len(data)


def create_preview_text(
    snapshot: ExportSnapshot, settings: ExportSettings, progress: Progress
) -> str:
    """Return the first lines of a text export, or the list of arrays of a binary export.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    if not settings.format.is_text:
        run, suffix = snapshot.run, settings.suffix
        lines = [_describe_array(run, name) for name in _binary_array_names(run, suffix)]
        if suffix == ".safetensors":
            sizes = f"{run.trace.query_count:,} × {run.trace.query_count:,}"
            lines += [f"{name}  {sizes}  float32" for name in mask_names(run)]
        return "\n".join(lines)
    file = PreviewStream()
    with suppress(PreviewFullError):
        WRITERS[settings.suffix](
            snapshot, settings.figure_settings, cast("BinaryIO", file), progress
        )
    lines = file.written.decode("utf-8-sig", "replace").splitlines()
    is_cut = len(lines) >= MAX_PREVIEW_LINES or len(file.written) >= MAX_PREVIEW_BYTES
    return "\n".join([*map(_truncate_line, lines[:MAX_PREVIEW_LINES]), *(["…"] if is_cut else [])])


def _truncate_line(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARACTERS else f"{line[:MAX_LINE_CHARACTERS]}…"


def _describe_array(run: Run, name: str) -> str:
    """Return the name of an array, its named dimensions with their sizes, and its data type."""
    trace = run.trace
    shape = trace.shape(name)
    dims: tuple[str, ...] = ("",) * len(shape)
    if name in trace.names:
        dims = (*trace.axes, *trace.stage(name).dims)
    sizes = (f"{size:,} {dim}".strip() for size, dim in zip(shape, dims, strict=True))
    return f"{name}  {' × '.join(sizes)}  {trace.read(name, (slice(0, 1),)).dtype}"
