"""Exports files from the command line, with progress and interruption."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.cli.options import option_of, value_of
from visualizer.console import close_standard_output, say
from visualizer.errors import InputError, reason_of
from visualizer.export.formats import FormatKind, decides_by_view, format_of
from visualizer.export.missing_characters import missing_fonts
from visualizer.export.offscreen_qt_application import qt_for_drawing
from visualizer.format import format_count

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from visualizer.console import ConsoleProgress
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.formats import ExportFormat
    from visualizer.progress import Progress
    from visualizer.session.exportable_snapshot import Snapshot

ALL = "all"
"""Option value that exports every layer or text, each to a separate file."""
STANDARD_OUTPUT = Path("-")
SEVERAL = "all writes several files, but standard output accepts only one."
"""Error message for `ALL` with standard output."""
SHORT_FILM = 24
"""Films up to this number of frames get no time estimate, which would take as long."""
SHORT_TIME = "less than a minute"


class ExportJob(Struct, frozen=True, eq=False):
    """A file to write, or standard output if the path is `STANDARD_OUTPUT`."""

    path: Path
    format: ExportFormat
    snapshot: Snapshot

    @property
    def name(self) -> str:
        """Name in messages."""
        return "standard output" if self.path == STANDARD_OUTPUT else self.path.name


def format_of_export(path: Path, options: argparse.Namespace) -> ExportFormat | None:
    """Return the format of a file: that of its suffix, or of --format for standard output."""
    return format_of(f".{options.format}" if path == STANDARD_OUTPUT else path.name)


def jobs_of(options: argparse.Namespace, snapshot: Snapshot) -> tuple[ExportJob, ...]:
    """Return the files to write; there are several if all layers or texts are requested.

    Raises
    ------
    InputError
        If the run lacks the layer or the text.
    """
    shown = [*_shown_snapshots(options, snapshot)]
    jobs = []
    for path in options.export:
        found = format_of_export(path, options)
        assert found, "names without a format are rejected"
        each = shown if decides_by_view(found) else [("", snapshot)]
        jobs += [ExportJob(named_path(path, words), found, one) for words, one in each]
    return tuple(jobs)


def _shown_snapshots(
    options: argparse.Namespace, snapshot: Snapshot
) -> Iterator[tuple[str, Snapshot]]:
    """Yield the suffix of each file name and the snapshot that the file shows."""
    for in_layer, layer in _requested_positions(options, "layer", snapshot):
        for in_text, text in _requested_positions(options, "text_shown", snapshot):
            view = snapshot.view
            if layer is not None:
                view = replace(view, layer=layer, spread=False)
            if text is not None:
                view = replace(view, text=text, spread=False)
            yield in_layer + in_text, replace(snapshot, view=view)


def _requested_positions(
    options: argparse.Namespace, field: str, snapshot: Snapshot
) -> list[tuple[str, int | None]]:
    """Return the requested positions on a leading axis, from 0; None if none is requested."""
    requested, axis = value_of(options, field), field.removesuffix("_shown")
    count = snapshot.run.trace.count(axis)
    if requested is None:
        return [("", None)]
    if requested == ALL:
        return [(f"-{axis}{position + 1}", position) for position in range(count)]
    if requested > count:
        have = f"There is 1 {axis}" if count == 1 else f"There are {count:,} {axis}s"
        raise InputError(field, f"There is no {axis} {requested:,}. {have}.")
    return [("", requested - 1)]


def named_path(path: Path, words: str) -> Path:
    """Insert words into a file name, before its suffix."""
    return path.with_name(f"{path.stem}{words}{path.suffix}") if words else path


def write_all(
    jobs: Sequence[ExportJob],
    figure_settings: FigureSettings,
    progress: ConsoleProgress,
    options: argparse.Namespace,
) -> int:
    """Write the files of one run; a failure does not stop the others.

    Returns
    -------
    int
        The worst exit status: 1 if a file could not be written, 2 if its content was invalid.
    """
    status = 0
    with qt_for_drawing():
        drawn = [job for job in jobs if job.format.kind.is_drawn]
        notice = missing_fonts(drawn[0].snapshot, figure_settings) if drawn else ""
        if notice:
            say(notice)
        for job in jobs:
            try:
                _write_job(job, figure_settings, progress)
                progress.written(job.name)
            except InputError as refused:
                progress.clear()
                say(named_refusal(refused, options))
                status = max(status, 1 if refused.field == "export" else 2)
    return status


def named_refusal(refused: InputError, options: argparse.Namespace) -> str:
    """Return the message of an error, prefixed with its option if that was given."""
    is_given = refused.field != "export" and value_of(options, refused.field) is not None
    return (
        f"argument {option_of(refused.field)}: {refused.sentence}" if is_given else refused.sentence
    )


def _write_job(job: ExportJob, figure_settings: FigureSettings, progress: ConsoleProgress) -> None:
    from visualizer.export.writers import export

    tell = progress.progress(job.name)
    if job.format.kind is FormatKind.FILM and not progress.is_quiet:
        _announce_film(job, figure_settings, progress, tell)

    def notice(sentence: str) -> None:
        progress.clear()
        say(f"{job.name}: {sentence}")

    if job.path == STANDARD_OUTPUT:
        _write_to_standard_output(job, figure_settings, tell, notice)
    else:
        export(job.path, job.snapshot, figure_settings, tell, notice)


def _write_to_standard_output(
    job: ExportJob,
    figure_settings: FigureSettings,
    progress: Progress,
    notice: Callable[[str], object],
) -> None:
    """Write a complete file to standard output, or nothing if it cannot be created."""
    from visualizer.export.writers import export_into

    with tempfile.TemporaryFile() as whole:
        export_into(whole, job.format.suffix, job.snapshot, figure_settings, progress, notice)
        whole.seek(0)
        try:
            shutil.copyfileobj(whole, sys.stdout.buffer)
            sys.stdout.flush()
        except OSError as error:
            close_standard_output()
            sentence = f"Cannot write to standard output: {reason_of(error)}."
            raise InputError("export", sentence) from error


def _announce_film(
    job: ExportJob, figure_settings: FigureSettings, progress: ConsoleProgress, tell: Progress
) -> None:
    """Print the length of a film and the estimated time before writing it."""
    from visualizer.export.film_plan import film_plan_of, rounding_in_words
    from visualizer.export.films.film_layout import check_pixels
    from visualizer.export.films.film_writer import estimate

    check_pixels(figure_settings)
    frames = len(film_plan_of(job.snapshot.run.trace, figure_settings.film))
    takes = SHORT_TIME
    if frames > SHORT_FILM:
        film_estimate = estimate(job.snapshot, figure_settings, job.format.suffix, tell)
        takes = film_estimate.minutes_in_words
    progress.clear()
    say(f"{job.name}: animation of {format_count(frames, 'frame')}; this takes {takes}.")
    if rounded := rounding_in_words(figure_settings):
        say(f"{job.name}: {rounded}")
