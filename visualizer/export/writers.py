"""Table of the functions that write files, and `export_file`, which selects one by suffix."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from visualizer.documents.document_file import document_bytes, write_document
from visualizer.errors import InputError, is_out_of_memory
from visualizer.export.data import data_writers
from visualizer.export.data.exported_matrices import shown_matrices
from visualizer.export.export_settings import CELL_FORMAT, TALL_NOTE, describe_figure_size
from visualizer.export.figure_settings import FigureExtent, resolve_figure_view
from visualizer.export.figures.document_attachment import document_to_attach
from visualizer.export.figures.figure_page import (
    PAPER_THEMES,
    create_pooled_figure_content,
    lay_out_exact_page,
)
from visualizer.export.figures.png_writer import write_cell_image, write_png
from visualizer.export.figures.printed_text_size import check_text_size
from visualizer.export.figures.svg_pdf_writer import write_pdf, write_svg
from visualizer.export.figures.webpage_writer import max_cells_per_side, write_webpage
from visualizer.export.films.film_writer import write_animation
from visualizer.export.formats import format_of_file, list_suffixes, unavailable_reason
from visualizer.optional_packages import PACKAGE_FIELD as MISSING_PACKAGE
from visualizer.progress import Progress, ignore_progress, scale_progress
from visualizer.storage import atomic_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.export.data.exported_matrices import ExportMatrix
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.figures.figure_page import FigurePage
    from visualizer.session.export_snapshot import ExportSnapshot

    FigureWriter = Callable[
        [FigurePage, ExportSnapshot, FigureSettings, BinaryIO, Progress], object
    ]
    TableWriter = Callable[[Run, Sequence[ExportMatrix], BinaryIO, Progress], object]
    Writer = Callable[[ExportSnapshot, FigureSettings, BinaryIO, Progress], object]


def _write_figure(
    suffix: str,
    snapshot: ExportSnapshot,
    figure_settings: FigureSettings,
    file: BinaryIO,
    progress: Progress,
    notice: Callable[[str], object] | None = None,
) -> None:
    """Lay out and write a figure; if `notice` is given, check its text and height first."""
    if (suffix, figure_settings.extent) == (CELL_FORMAT, FigureExtent.CELLS):
        write_cell_image(snapshot, figure_settings, file, progress)
        return
    progress(0, 10)
    page = lay_out_exact_page(snapshot, figure_settings, progress)
    if notice and (warning := check_text_size(page, snapshot, figure_settings)):
        notice(warning)
    if notice and figure_settings.is_taller_than_page(page.size.height()):
        size = describe_figure_size(page.size.width(), page.size.height(), None)
        notice(f"The figure is {size}{TALL_NOTE}. Show fewer stages or heads, or choose a height.")
    FIGURE_WRITERS[suffix](page, snapshot, figure_settings, file, progress)


def _write_webpage(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, file: BinaryIO, progress: Progress
) -> None:
    progress(0, 10)
    figure = create_pooled_figure_content(snapshot, figure_settings, max_cells_per_side, progress)
    theme = PAPER_THEMES[figure_settings.paper]
    document = document_to_attach(snapshot, figure_settings)
    rest = scale_progress(progress, 20, 100)
    write_webpage([figure.board], figure.name, figure.caption, theme, file, document, rest)


def _write_npz(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, file: BinaryIO, progress: Progress
) -> None:
    is_opened_by_it = snapshot.document.has_module
    document = document_bytes(snapshot.document, snapshot.view) if is_opened_by_it else b""
    data_writers.write_npz(snapshot.run, file, progress, document)


def _write_table(
    write: TableWriter,
    snapshot: ExportSnapshot,
    figure_settings: FigureSettings,
    file: BinaryIO,
    progress: Progress,
) -> None:
    matrices = shown_matrices(resolve_figure_view(snapshot, figure_settings))
    write(snapshot.run, matrices, file, progress)


def _write_json(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, file: BinaryIO, progress: Progress
) -> None:
    document = document_bytes(snapshot.document_with_data, snapshot.view)
    data_writers.write_json(snapshot.run, file, progress, document)


def _write_safetensors(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, file: BinaryIO, progress: Progress
) -> None:
    data_writers.write_safetensors(snapshot.run, file)


def _write_document_file(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, file: BinaryIO, progress: Progress
) -> None:
    write_document(file, snapshot.document_with_data, snapshot.view)


FIGURE_WRITERS: dict[str, FigureWriter] = {
    ".png": write_png,
    ".svg": write_svg,
    ".pdf": write_pdf,
}
"""Writers of the formats with a printed size; the figure is laid out on a page first."""
WRITERS: dict[str, Writer] = {
    **{suffix: partial(_write_figure, suffix) for suffix in FIGURE_WRITERS},
    ".html": _write_webpage,
    **{suffix: partial(write_animation, suffix) for suffix in (".gif", ".apng", ".webp", ".mp4")},
    ".npz": _write_npz,
    ".csv": partial(_write_table, data_writers.write_csv),
    ".md": partial(_write_table, data_writers.write_markdown),
    ".json": _write_json,
    ".safetensors": _write_safetensors,
    ".attention": _write_document_file,
}


def _ignore_notice(sentence: str) -> None:
    pass


def export_file(
    path: Path,
    snapshot: ExportSnapshot,
    figure_settings: FigureSettings,
    progress: Progress = ignore_progress,
    notice: Callable[[str], object] = _ignore_notice,
) -> Path:
    """Write a snapshot in the format of the file's suffix.

    Parameters
    ----------
    progress : callable
        Progress callback. An exception that it raises cancels the export; an existing file is then
        unchanged.
    notice : callable, optional
        Called with a warning if text in the figure would be small in print.

    Raises
    ------
    InputError
        If the format is unknown or not available, the text would be too small to print, the file
        cannot be written, or there is not enough memory.
    """
    known = format_of_file(path.name)
    if known is None:
        raise InputError(
            "export", f"Unsupported export format “{path.suffix}”. Supported: {list_suffixes()}."
        )
    write = _find_writer(known.suffix, notice)
    atomic_file.write_atomically(
        path, lambda file: write(snapshot, figure_settings, file, progress)
    )
    return path


def export_to_stream(
    file: BinaryIO,
    suffix: str,
    snapshot: ExportSnapshot,
    figure_settings: FigureSettings,
    progress: Progress = ignore_progress,
    notice: Callable[[str], object] = _ignore_notice,
) -> None:
    """Write a snapshot to an open, seekable file; see `export_file`."""
    write = _find_writer(suffix, notice)
    try:
        write(snapshot, figure_settings, file, progress)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        sentence = "There is not enough memory to write this file. Use a shorter text."
        raise InputError("memory", sentence) from error


def _find_writer(suffix: str, notice: Callable[[str], object]) -> Writer:
    if reason := unavailable_reason(suffix):
        raise InputError(MISSING_PACKAGE, reason)
    if suffix in FIGURE_WRITERS:
        return partial(_write_figure, suffix, notice=notice)
    return WRITERS[suffix]
