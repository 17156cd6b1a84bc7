"""What writes each of the formats."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from visualizer.attention.spec import InputError
from visualizer.disk import files
from visualizer.state.figure import framed
from visualizer.state.formats import format_of, taken, why_not
from visualizer.state.progress import Progress, quietly, within
from visualizer.state.saved.document_file import write_document
from visualizer.state.written import commas, markdown, numbers, sheets, whole
from visualizer.ui import tensors
from visualizer.ui.figures.drawings import write_pdf, write_svg
from visualizer.ui.figures.films import write_film
from visualizer.ui.figures.inside import carried
from visualizer.ui.figures.page import THEMES, figure_within
from visualizer.ui.figures.png import write_png
from visualizer.ui.figures.webpage import room_for, write_webpage
from visualizer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.state.figure import FigureLook, Shot

    Write = Callable[[Shot, FigureLook, BinaryIO, Progress], object]


def _webpage(shot: Shot, look: FigureLook, file: BinaryIO, progress: Progress) -> None:
    progress(0, 10)
    figure = figure_within(shot, look, room_for)
    theme, document = THEMES[look.paper], carried(shot, look)
    tell = within(progress, 20, 100)
    write_webpage(figure.board, figure.name, figure.caption, theme, file, document, tell)


def _npz(shot: Shot, look: FigureLook, file: BinaryIO, progress: Progress) -> None:
    numbers.npz(shot.run, file, progress)


def _csv(shot: Shot, look: FigureLook, file: BinaryIO, progress: Progress) -> None:
    seen = sheets.shown(framed(shot, look))
    commas.write_csv(shot.run, seen, file, progress)


def _markdown(shot: Shot, look: FigureLook, file: BinaryIO, progress: Progress) -> None:
    seen = sheets.shown(framed(shot, look))
    markdown.write_markdown(shot.run, seen, file, progress)


def _json(shot: Shot, look: FigureLook, file: BinaryIO, progress: Progress) -> None:
    whole.write_json(shot.run, __version__, file, progress)


def _safetensors(shot: Shot, look: FigureLook, file: BinaryIO, progress: Progress) -> None:
    tensors.write_safetensors(shot.run, file)


def _document(shot: Shot, look: FigureLook, file: BinaryIO, progress: Progress) -> None:
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


def export(path: Path, shot: Shot, look: FigureLook, progress: Progress = quietly) -> Path:
    """Write what is shown in the format that the file's name asks for.

    Parameters
    ----------
    progress : callable
        Told how far it is; what it raises calls the writing off, and what was there stays.

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
    files.write(path, lambda file: write(shot, look, file, progress))
    return path
