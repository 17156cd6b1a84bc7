"""Writes the files that --export names, reports the progress and prints notices."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.cli.options import option_name, option_value
from visualizer.console import discard_standard_output, print_message
from visualizer.errors import InputError, system_error_reason
from visualizer.export.formats import FormatKind, depends_on_view, format_of_file
from visualizer.export.offscreen_qt_application import describe_missing_characters, offscreen_qt
from visualizer.format import format_count
from visualizer.session.document_builder import missing_number_error

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from visualizer.console import ConsoleProgress
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.formats import ExportFormat
    from visualizer.progress import Progress
    from visualizer.session.export_snapshot import ExportSnapshot

ALL_OPTION = "all"
"""Value of --layer and --text-shown that writes one file per layer or text."""
STANDARD_OUTPUT_PATH = Path("-")
SEVERAL_FILES_ERROR = (
    "'all' writes several files, but standard output accepts only one. Specify a file name."
)
"""Error message for `ALL_OPTION` with standard output."""
MAX_UNESTIMATED_FRAMES = 24
"""Number of frames up to which estimating the time would take as long as writing the frames."""
SHORT_TIME_MESSAGE = "less than a minute"


class ExportJob(Struct, frozen=True, eq=False):
    """A file to write; `STANDARD_OUTPUT_PATH` as the path selects standard output."""

    path: Path
    format: ExportFormat
    snapshot: ExportSnapshot

    @property
    def name(self) -> str:
        """The name that is used in messages."""
        return "standard output" if self.path == STANDARD_OUTPUT_PATH else self.path.name


def export_format(path: Path, options: argparse.Namespace) -> ExportFormat | None:
    """Return the format that the suffix of a path or, for standard output, --format selects."""
    return format_of_file(f".{options.format}" if path == STANDARD_OUTPUT_PATH else path.name)


def create_export_jobs(
    options: argparse.Namespace, snapshot: ExportSnapshot
) -> tuple[ExportJob, ...]:
    """Return the files to write: one per layer or text if all layers or texts are requested.

    Raises
    ------
    InputError
        If the run does not have the layer or the text.
    """
    snapshots = [*_iterate_snapshots(options, snapshot)]
    jobs = []
    for path in options.export:
        format_ = export_format(path, options)
        assert format_, "names without a format are rejected"
        each = snapshots if depends_on_view(format_) else [("", snapshot)]
        jobs += [
            ExportJob(with_name_suffix(path, suffix), format_, shown) for suffix, shown in each
        ]
    return tuple(jobs)


def _iterate_snapshots(
    options: argparse.Namespace, snapshot: ExportSnapshot
) -> Iterator[tuple[str, ExportSnapshot]]:
    """Yield the suffix of each file name, and the snapshot that the file shows."""
    for layer_suffix, layer in _requested_positions(options, "layer", snapshot):
        for text_suffix, text in _requested_positions(options, "text_shown", snapshot):
            view = snapshot.view
            if layer is not None:
                view = replace(view, layer=layer, spread=False)
            if text is not None:
                view = replace(view, text=text, spread=False)
            yield layer_suffix + text_suffix, replace(snapshot, view=view)


def _requested_positions(
    options: argparse.Namespace, field: str, snapshot: ExportSnapshot
) -> list[tuple[str, int | None]]:
    """Return the file name suffix and the index of each requested layer or text."""
    requested, axis = option_value(options, field), field.removesuffix("_shown")
    count = snapshot.run.trace.axis_size(axis)
    if requested is None:
        return [("", None)]
    if requested == ALL_OPTION:
        return [(f"-{axis}{position + 1}", position) for position in range(count)]
    if requested > count:
        raise missing_number_error(field, axis, requested, count)
    return [("", requested - 1)]


def with_name_suffix(path: Path, suffix: str) -> Path:
    """Append a suffix to the stem of a file name."""
    return path.with_name(f"{path.stem}{suffix}{path.suffix}") if suffix else path


def write_exports(
    jobs: Sequence[ExportJob],
    figure_settings: FigureSettings,
    progress: ConsoleProgress,
    options: argparse.Namespace,
) -> int:
    """Write files; if one file cannot be written, continue with the next.

    Returns
    -------
    int
        The exit status: 2 if the settings of a file were invalid, 1 if a file could not be written,
        otherwise 0.
    """
    status = 0
    with offscreen_qt():
        drawn = next((job for job in jobs if job.format.kind.contains_pictures), None)
        if drawn and (notice := describe_missing_characters(drawn.snapshot, figure_settings)):
            print_message(notice)
        for job in jobs:
            try:
                _write_job(job, figure_settings, progress)
                progress.report_written(job.name)
            except InputError as refused:
                progress.clear_line()
                print_message(option_error_message(refused, options))
                status = max(status, 1 if refused.field == "export" else 2)
    return status


def option_error_message(refused: InputError, options: argparse.Namespace) -> str:
    """Return the message of an error, preceded by the given option that caused it, if any."""
    is_given = refused.field != "export" and option_value(options, refused.field) is not None
    return (
        f"argument {option_name(refused.field)}: {refused.sentence}"
        if is_given
        else refused.sentence
    )


def _write_job(job: ExportJob, figure_settings: FigureSettings, progress: ConsoleProgress) -> None:
    from visualizer.export.writers import export_file

    report = progress.create_file_callback(job.name)
    if job.format.kind is FormatKind.FILM and not progress.is_silent:
        _announce_animation(job, figure_settings, progress, report)

    def notice(sentence: str) -> None:
        progress.clear_line()
        print_message(f"{job.name}: {sentence}")

    if job.path == STANDARD_OUTPUT_PATH:
        _write_to_standard_output(job, figure_settings, report, notice)
    else:
        export_file(job.path, job.snapshot, figure_settings, report, notice)


def _write_to_standard_output(
    job: ExportJob,
    figure_settings: FigureSettings,
    progress: Progress,
    notice: Callable[[str], object],
) -> None:
    """Write a complete file to standard output, or nothing if it cannot be created."""
    from visualizer.export.writers import export_to_stream

    with tempfile.TemporaryFile() as buffer:
        export_to_stream(buffer, job.format.suffix, job.snapshot, figure_settings, progress, notice)
        buffer.seek(0)
        try:
            shutil.copyfileobj(buffer, sys.stdout.buffer)
            sys.stdout.flush()
        except OSError as error:
            discard_standard_output()
            sentence = f"Cannot write to standard output: {system_error_reason(error)}."
            raise InputError("export", sentence) from error


def _announce_animation(
    job: ExportJob, figure_settings: FigureSettings, progress: ConsoleProgress, report: Progress
) -> None:
    """Print the number of frames of an animation and the estimated time for writing them."""
    from visualizer.export.film_plan import plan_animation, rounding_note
    from visualizer.export.films.film_layout import check_animation_size
    from visualizer.export.films.film_writer import estimate_animation

    check_animation_size(figure_settings)
    frames = len(plan_animation(job.snapshot.run.trace, figure_settings.film))
    duration_text = SHORT_TIME_MESSAGE
    if frames > MAX_UNESTIMATED_FRAMES:
        film_estimate = estimate_animation(job.snapshot, figure_settings, job.format.suffix, report)
        duration_text = film_estimate.duration_text
    progress.clear_line()
    print_message(f"{job.name}: writing {format_count(frames, 'frame')} takes {duration_text}.")
    if rounded := rounding_note(figure_settings):
        print_message(f"{job.name}: {rounded}")
