"""Write matrices as Markdown tables (GitHub Flavored Markdown, §4.10)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from visualizer.number_format import format_number
from visualizer.progress_callback import BLOCK, Progress, ProgressCounter, no_progress
from visualizer.session.computation_caption import caption

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from visualizer.attention.run import Run
    from visualizer.export.data.exported_matrices import ExportMatrix

_MEANS_SOMETHING = re.compile(r"[\\`*_\[\]<>&|~$#]")


def write_markdown(
    run: Run, sheets: Sequence[ExportMatrix], file: BinaryIO, progress: Progress = no_progress
) -> None:
    """Write each matrix of a run as a table, with four decimals and −∞ as in the window.

    Each table has a title with stage, head and text, and a caption that describes the computation.
    """
    tell = ProgressCounter(progress, sum(sheet.rows(run) for sheet in sheets), BLOCK)
    for position, sheet in enumerate(sheets):
        if position:
            file.write(b"\n")
        for line in _table_lines(run, sheet, tell):
            file.write(f"{line}\n".encode())


def _table_lines(run: Run, sheet: ExportMatrix, tell: ProgressCounter) -> Iterator[str]:
    row_labels, column_labels = sheet.labels(run)
    rows, columns = sheet.axes(run)
    yield f"**{plain(sheet.title(run))}** · {plain(caption(run))}"
    yield ""
    yield _format_row((f"{plain(rows)} ↓ {plain(columns)} →", *map(plain, column_labels)))
    yield _format_row(("---", *("---:" for _ in column_labels)))
    for label, numbers in zip(row_labels, sheet.each_row(run), strict=True):
        yield _format_row((plain(label), *map(format_number, numbers.tolist())))
        tell()


def _format_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """Escape Markdown's special characters."""
    return _MEANS_SOMETHING.sub(r"\\\g<0>", text)
