"""Write matrices as CSV (RFC 4180) and as Markdown tables (GitHub Flavored Markdown, §4.10).

Numbers have the fewest digits that restore exactly the same value in the spec's type, at most 9
for float32 and 17 for float64. −∞ is ``-inf``, ∞ is ``inf`` and NaN is ``NaN``, which Python,
NumPy, pandas and R can all read. The encoding is UTF-8. The file starts with a byte order mark,
without which Excel assumes another encoding; pandas skips it, and Python's name for such a file is
``utf-8-sig``.
"""

from __future__ import annotations

import codecs
import csv
import re
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from visualizer.format import format_number
from visualizer.progress import REPORT_INTERVAL, Progress, ProgressCounter, no_progress
from visualizer.session.computation_caption import caption

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from visualizer.attention.run import Run
    from visualizer.export.data.exported_matrices import ExportMatrix

CSV_COLUMNS = ("stage", "head", "row", "column", "row token", "column token", "value")
FORMULA_PREFIXES = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r")


def write_csv(
    run: Run, sheets: Sequence[ExportMatrix], file: BinaryIO, progress: Progress = no_progress
) -> None:
    """Write matrices of a run as CSV.

    A single whole matrix is a table with a header row of column labels and a first column of row
    labels. Several matrices, or a part of one, are in tidy form: one line per number, with the
    columns of `CSV_COLUMNS` and, after the head, one for each of the run's leading axes (``layer``,
    ``text``). Heads, texts, layers, rows and columns are numbered from 1, as in the window. Fields
    that a stage does not have are empty.
    """
    tell = ProgressCounter(progress, sum(sheet.rows(run) for sheet in sheets), REPORT_INTERVAL)
    writer = csv.writer(codecs.getwriter("utf-8-sig")(file))
    rows = _table_lines if is_single_table(sheets) else _tidy_lines
    if not is_single_table(sheets):
        writer.writerow((*CSV_COLUMNS[:2], *run.trace.counted_axes, *CSV_COLUMNS[2:]))
    for sheet in sheets:
        writer.writerows(rows(run, sheet, tell))


def is_single_table(sheets: Sequence[ExportMatrix]) -> bool:
    """Whether the matrices are written as one table instead of one line per number."""
    return len(sheets) == 1 and not sheets[0].is_partial


def _table_lines(run: Run, sheet: ExportMatrix, tell: ProgressCounter) -> Iterator[list[str]]:
    row_labels, column_labels = sheet.labels(run)
    yield [sheet.axes(run)[0], *map(escape_formula, column_labels)]
    for label, numbers in zip(row_labels, sheet.iterate_rows(run), strict=True):
        yield [escape_formula(label), *format_exact_row(numbers)]
        tell()


def _tidy_lines(run: Run, sheet: ExportMatrix, tell: ProgressCounter) -> Iterator[tuple[str, ...]]:
    row_labels, column_labels = (list(map(escape_formula, labels)) for labels in sheet.labels(run))
    tokens = column_labels if sheet.has_keys(run) else [""] * len(column_labels)
    head = sheet.fold or ("" if sheet.head is None else str(sheet.head + 1))
    whose = (sheet.name(run), head, *map(str, sheet.leading_numbers(run)))
    rows, across = sheet.numbers(run)
    columns = [str(column + 1) for column in across]
    for row, label, numbers in zip(rows, row_labels, sheet.iterate_rows(run), strict=True):
        for column, token, value in zip(columns, tokens, format_exact_row(numbers), strict=True):
            yield (*whose, str(row + 1), column, label, token, value)
        tell()


def format_exact_row(numbers: np.ndarray) -> list[str]:
    """Format a row with enough digits to restore the values exactly."""
    written: list[str] = numbers.astype(np.str_).tolist()
    return ["NaN" if one == "nan" else one for one in written]


def escape_formula(label: str) -> str:
    """Put an apostrophe before a token that a spreadsheet would interpret as a formula.

    A single minus or equals sign is not a formula and stays unchanged.
    """
    return f"'{label}" if len(label) > 1 and label.startswith(FORMULA_PREFIXES) else label


_MEANS_SOMETHING = re.compile(r"[\\`*_\[\]<>&|~$#]")


def write_markdown(
    run: Run, sheets: Sequence[ExportMatrix], file: BinaryIO, progress: Progress = no_progress
) -> None:
    """Write each matrix of a run as a table, with four decimals and −∞ as in the window.

    Each table has a title with stage, head and text, and a caption that describes the computation.
    """
    tell = ProgressCounter(progress, sum(sheet.rows(run) for sheet in sheets), REPORT_INTERVAL)
    for position, sheet in enumerate(sheets):
        if position:
            file.write(b"\n")
        for line in _markdown_lines(run, sheet, tell):
            file.write(f"{line}\n".encode())


def _markdown_lines(run: Run, sheet: ExportMatrix, tell: ProgressCounter) -> Iterator[str]:
    row_labels, column_labels = sheet.labels(run)
    rows, columns = sheet.axes(run)
    yield f"**{escape_markdown(sheet.title(run))}** · {escape_markdown(caption(run))}"
    yield ""
    yield _format_row(
        (
            f"{escape_markdown(rows)} ↓ {escape_markdown(columns)} →",
            *map(escape_markdown, column_labels),
        )
    )
    yield _format_row(("---", *("---:" for _ in column_labels)))
    for label, numbers in zip(row_labels, sheet.iterate_rows(run), strict=True):
        yield _format_row((escape_markdown(label), *map(format_number, numbers.tolist())))
        tell()


def _format_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape_markdown(text: str) -> str:
    """Escape Markdown's special characters."""
    return _MEANS_SOMETHING.sub(r"\\\g<0>", text)
