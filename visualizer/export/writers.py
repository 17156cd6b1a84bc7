"""The writer of each export format, and `export`, which chooses one by a file's suffix."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from visualizer.documents.document_file import write_document
from visualizer.errors import InputError
from visualizer.export.data import (
    csv_writer,
    json_writer,
    markdown_writer,
    matrices,
    npz_writer,
    parameters_safetensors_writer,
)
from visualizer.export.figure_framing import framed
from visualizer.export.figures.document_attachment import carried
from visualizer.export.figures.figure_page import THEMES, figure_within
from visualizer.export.figures.png_writer import write_png
from visualizer.export.figures.svg_pdf_writer import write_pdf, write_svg
from visualizer.export.figures.webpage_writer import room_for, write_webpage
from visualizer.export.films.film_writer import write_film
from visualizer.export.formats import format_of, taken, why_not
from visualizer.progress_callback import Progress, no_progress, part_of_progress
from visualizer.storage import atomic_file
from visualizer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.screen import Snapshot

    Write = Callable[[Snapshot, FigureSettings, BinaryIO, Progress], object]


def _webpage(shot: Snapshot, look: FigureSettings, file: BinaryIO, progress: Progress) -> None:
    progress(0, 10)
    figure = figure_within(shot, look, room_for)
    theme, document = THEMES[look.paper], carried(shot, look)
    tell = part_of_progress(progress, 20, 100)
    write_webpage(figure.board, figure.name, figure.caption, theme, file, document, tell)


def _npz(shot: Snapshot, look: FigureSettings, file: BinaryIO, progress: Progress) -> None:
    npz_writer.npz(shot.run, file, progress)


def _csv(shot: Snapshot, look: FigureSettings, file: BinaryIO, progress: Progress) -> None:
    seen = matrices.shown(framed(shot, look))
    csv_writer.write_csv(shot.run, seen, file, progress)


def _markdown(shot: Snapshot, look: FigureSettings, file: BinaryIO, progress: Progress) -> None:
    seen = matrices.shown(framed(shot, look))
    markdown_writer.write_markdown(shot.run, seen, file, progress)


def _json(shot: Snapshot, look: FigureSettings, file: BinaryIO, progress: Progress) -> None:
    json_writer.write_json(shot.run, __version__, file, progress)


def _safetensors(shot: Snapshot, look: FigureSettings, file: BinaryIO, progress: Progress) -> None:
    parameters_safetensors_writer.write_safetensors(shot.run, file)


def _document(shot: Snapshot, look: FigureSettings, file: BinaryIO, progress: Progress) -> None:
    write_document(file, shot.document, shot.view)


WRITERS: dict[str, Write] = {
    ".png": write_png,
    ".svg": write_svg,
    ".pdf": write_pdf,
    ".html": _webpage,
    **{suffix: partial(write_film, suffix) for suffix in (".gif", ".apng", ".webp", ".mp4")},
    ".npz": _npz,
    ".csv": _csv,
    ".md": _markdown,
    ".json": _json,
    ".safetensors": _safetensors,
    ".attention": _document,
}


def export(
    path: Path, shot: Snapshot, look: FigureSettings, progress: Progress = no_progress
) -> Path:
    """Write a snapshot in the format of the file's suffix.

    Parameters
    ----------
    progress : callable
        Called with the progress; an exception from it cancels, and an existing file stays.

    Raises
    ------
    InputError
        When the format is unknown or cannot be written here, the file cannot be written or memory
        runs out.
    """
    known = format_of(path.name)
    if known is None:
        raise InputError("export", f"“{path.suffix}” is no format to export. Use {taken()}.")
    if lacking := why_not(known.suffix):
        raise InputError("export", lacking)
    write = WRITERS[known.suffix]
    atomic_file.write(path, lambda file: write(shot, look, file, progress))
    return path
