"""Writes a training film to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.errors import InputError
from visualizer.export.films.film_writer import write_frames
from visualizer.export.formats import FORMATS, FormatKind, format_of, suffixes, why_not_writable
from visualizer.lab.training_film.film_layout import lay_out_training_film
from visualizer.optional_packages import FIELD as MISSING_PACKAGE
from visualizer.progress_callback import Progress, no_progress
from visualizer.storage import atomic_file

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.export.formats import ExportFormat
    from visualizer.lab.training_film.film_frames import TrainingFilm


def write_training_film(path: Path, film: TrainingFilm, progress: Progress = no_progress) -> Path:
    """Write a film in the format of the file's suffix.

    Parameters
    ----------
    progress : callable
        Called with the number of frames written; an exception from it cancels writing.

    Raises
    ------
    InputError
        If the format is not a film format, or the file cannot be written.
    """
    suffix, frames = film_format(path).suffix, lay_out_training_film(film)
    atomic_file.write(
        path, lambda file: write_frames(suffix, frames, film.settings.loops, file, progress)
    )
    return path


def film_format(path: Path) -> ExportFormat:
    """Return the film format of a file's suffix.

    Raises
    ------
    InputError
        If it is not a film format, or cannot be written here.
    """
    known, films = (
        format_of(path.name),
        tuple(one for one in FORMATS if one.kind is FormatKind.FILM),
    )
    if known not in films:
        raise InputError(
            "export", f"“{path.suffix}” is not a supported animation format. Use {suffixes(films)}."
        )
    if missing := why_not_writable(known.suffix):
        raise InputError(MISSING_PACKAGE, missing)
    return known
