"""Runs a model from the command line: ``attention-visualizer model``."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.attention.saved_numbers import captured_header
from visualizer.attention.settings import SettingGroup
from visualizer.attention.spec import Device, ModelDtype
from visualizer.cli import option_parser
from visualizer.cli.document_options import apply_colour_options, build_figure_settings
from visualizer.cli.export_files import (
    ALL_OPTION,
    STANDARD_OUTPUT_PATH,
    create_export_jobs,
    with_name_suffix,
    write_exports,
)
from visualizer.cli.option_checks import first_export_option_error
from visualizer.cli.options import DOWNLOAD_OPTION, MODEL_DTYPE_OPTION, OPTION_GROUPS, option_name
from visualizer.console import ConsoleProgress, print_message, write_output
from visualizer.errors import InputError, not_found_error
from visualizer.export.figures.document_attachment import max_embedded_layer_bytes
from visualizer.export.offscreen_qt_application import offscreen_qt
from visualizer.file_opening import EXPORT_VIEW
from visualizer.format import format_size
from visualizer.process_settings import InterruptSignalError, handle_stop_signals
from visualizer.progress import ignore_progress, report_progress_to
from visualizer.session.document import Document
from visualizer.session.document_builder import normalize_text, with_stages_and_heads
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.head_order import HeadOrder
from visualizer.storage import atomic_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.cli.export_files import ExportJob
    from visualizer.models.opened_model import OpenedModel
    from visualizer.models.recorded_runs import LayerGroupRun

MODEL_COMMAND = "model"
EXAMPLES = """examples:
  attention-visualizer model models/SmolLM2-135M --text "The red fox met a red"
  attention-visualizer model models/SmolLM2-135M --text "one two one two" --heads heads.csv
  attention-visualizer model models/SmolLM2-135M --text "one two one two" --overview heads.png
  attention-visualizer model models/SmolLM2-135M --text "a b a b" --layer 18 --export layer.pdf
  attention-visualizer model models/SmolLM2-135M --texts lines.txt --heads heads.csv
  attention-visualizer model runs/poems --text "The night"
  attention-visualizer model MiniLM --text "a cat" --second "a dog" --layer all --export m.png
  attention-visualizer model Llama-3.1-8B --text "The night" --from-disk --overview heads.png
  attention-visualizer model dinov2-small --image cat.jpg --overview heads.png

FOLDER is the folder of a Hugging Face Transformers model (config.json, weights in .safetensors
files, and a tokenizer), the name of a model in the local Hugging Face cache, the folder of a
training run, or a weights file of the lab. Nothing is downloaded without --download, and no code in
the folder is run. Without --heads, --export and --overview, the table of all heads is written to
standard output. Messages are written to standard error. The exit status is
0 if everything was written; 1 if the model cannot be opened or a file cannot be written; 2 if an
option or the text is invalid, there is not enough memory or a package is missing; 130 after Ctrl+C;
and 143 after SIGTERM.
"""
_EXPORT_GROUPS = ("Files to write", "File contents", "Animations")
READING_LABEL = "Tokens"
LAYERS_LABEL = "Layers read from disk"
_ARGUMENT_FIELDS = frozenset(
    ("text", "second", "image", "chat", "part", "layer", "stages", "heads_shown", "size", "device")
)
"""Error fields that are also the name of an option."""


def create_model_parser() -> option_parser.CommandLineParser:
    """Create the argument parser of ``model``."""
    parser = option_parser.CommandLineParser(
        prog=f"attention-visualizer {MODEL_COMMAND}",
        usage="%(prog)s FOLDER (--text TEXT | --texts FILE | --image FILE) [options]",
        description="Compute the attention weights of all heads of a language or vision model.",
        epilog=EXAMPLES,
    )
    opened = parser.add_argument_group("Input")
    opened.add_argument(
        "folder",
        type=option_parser.convert_path,
        metavar="FOLDER",
        nargs="?",
        help=(
            "folder of a model or of a training run, a weights file of the lab, or the name of a "
            "model in the local Hugging Face cache"
        ),
    )
    opened.add_argument(
        "--text",
        type=option_parser.with_argparse_errors(normalize_text),
        action="append",
        help="input text; repeat the option to write one table of heads for several texts",
    )
    opened.add_argument(
        "--texts",
        type=option_parser.read_texts_option,
        metavar="FILE",
        help="read the texts from a UTF-8 file, one per line; '-' reads standard input",
    )
    opened.add_argument(
        "--image",
        type=Path,
        metavar="FILE",
        help="image to use instead of a text; a vision model divides the image into patches",
    )
    opened.add_argument(
        "--second",
        type=option_parser.with_argparse_errors(normalize_text),
        metavar="TEXT",
        help=(
            "second text of a pair or, for an encoder-decoder model, the text that the decoder "
            "should start from"
        ),
    )
    opened.add_argument(
        "--chat",
        action="store_true",
        help="format the text as a user message with the model's chat template",
    )
    opened.add_argument(
        "--part",
        metavar="NAME",
        help=(
            "kind of attention to use if the model has several, such as encoder; any unique part "
            "of the name is accepted"
        ),
    )
    opened.add_argument("--device", **OPTION_GROUPS[SettingGroup.NUMBERS]["--device"])
    opened.add_argument("--dtype", **MODEL_DTYPE_OPTION)
    opened.add_argument("--download", **DOWNLOAD_OPTION)
    opened.add_argument(
        "--from-disk",
        action="store_true",
        help=(
            "load the layers from disk one at a time, for models larger than the memory; an "
            "estimate of the required memory and time is printed first"
        ),
    )
    for title in _EXPORT_GROUPS:
        group = parser.add_argument_group(title)
        for option, settings in OPTION_GROUPS[title].items():
            if option != "--text-shown":  # each text is processed separately
                group.add_argument(option, **settings)
        if title == "Files to write":
            group.add_argument(
                "--heads",
                type=Path,
                metavar="FILE",
                help="CSV file for the measures of all heads, or '-' for standard output",
            )
            group.add_argument(
                "--overview",
                type=Path,
                metavar="FILE",
                help="write a PNG image that shows the weights of each head as a small heatmap",
            )
    return parser


def model(arguments: Sequence[str]) -> int:
    """Run the model that the arguments describe; return the exit status."""
    options = create_model_parser().parse_args(arguments)
    if wrong := _find_option_error(options):
        print_message(wrong)
        return 2
    progress = ConsoleProgress(is_quiet=options.quiet)
    try:
        with handle_stop_signals(progress.handle_signal):
            return _run_model_and_write(options, progress)
    except InputError as refused:
        progress.clear_line()
        is_argument = refused.field in _ARGUMENT_FIELDS
        prefix = f"argument {option_name(refused.field)}: " if is_argument else ""
        print_message(f"{prefix}{refused.sentence}")
        return 1 if refused.field in {"model", "repository", "export"} else 2
    except InterruptSignalError as stopped:
        progress.clear_line()
        return stopped.status


def _requested_texts(options: argparse.Namespace) -> list[str]:
    return [*(options.text or ()), *(options.texts or ())]


def _find_option_error(options: argparse.Namespace) -> str:
    if options.folder is None:
        return "the following argument is required: FOLDER, the folder of a model"
    texts = _requested_texts(options)
    if options.image and (texts or options.second is not None):
        return "--image cannot be combined with --text, --texts or --second. Remove one of them."
    if options.image and options.chat:
        return "--chat has no effect with --image. Remove --chat."
    if not (texts or options.image):
        return "one of the arguments --text --texts --image is required"
    for name in ("second", "export", "overview"):
        if len(texts) > 1 and getattr(options, name):
            return (
                f"argument --{name}: only available for a single text, but {len(texts):,} texts "
                f"are given. Remove --{name}, or specify one text."
            )
    if options.heads == STANDARD_OUTPUT_PATH and STANDARD_OUTPUT_PATH in (options.export or ()):
        return (
            "argument --heads: only one file can be written to standard output. Use '-' only once."
        )
    if options.overview and options.overview.suffix.lower() != ".png":
        return f"argument --overview: invalid value '{options.overview}': must end in .png"
    # Running the model also reports progress, so --quiet has an effect even without files.
    others = argparse.Namespace(**vars(options) | {"quiet": False})
    return first_export_option_error(others) or ""


def _run_model_and_write(options: argparse.Namespace, progress: ConsoleProgress) -> int:
    from visualizer.attention.device import check_device_available
    from visualizer.models.hub_download import download_model_by_name
    from visualizer.models.layer_run_lookup import layer_numbers
    from visualizer.models.opened_model import open_model

    texts = _requested_texts(options)
    device, dtype = Device(options.device or Device.AUTO), ModelDtype(options.dtype)
    check_device_available(device, dtype)
    if options.download:
        options.folder = download_model_by_name(options.folder, progress)
    if options.from_disk:
        print_message(_describe_disk_reading_estimate(options.folder, dtype))
    opened = open_model(options.folder, device, dtype, is_from_disk=options.from_disk)
    if len(texts) > 1:
        _process_texts(options, opened, texts, progress)
        return 0
    label = LAYERS_LABEL if options.from_disk else READING_LABEL
    is_reported = options.from_disk or not options.image
    with report_progress_to(
        progress.create_file_callback(label) if is_reported else ignore_progress
    ):
        runs = (
            opened.attend_image(options.image)
            if options.image
            else opened.attend(texts[0], options.second, is_chat=options.chat)
        )
    progress.clear_line()
    runs = _select_runs_of_part(runs, options.part)
    for notice in _unique_notices(runs):
        print_message(notice)
    if options.overview:
        _write_overview(runs, options.overview)
    if options.heads or not (options.export or options.overview):
        _write_head_table(
            ("layer", "head"), _list_head_rows(runs), options.heads or STANDARD_OUTPUT_PATH
        )
    if not options.export:
        return 0
    figure_settings = build_figure_settings(options)
    numbers = layer_numbers(runs)
    layers = numbers if options.layer == ALL_OPTION else [(options.layer or 1) - 1]
    jobs = [job for number in layers for job in _create_layer_export_jobs(options, runs, number)]
    if figure_settings.has_all_layers and jobs:
        size = max(max_embedded_layer_bytes(job.snapshot.run) for job in jobs)
        print_message(
            f"The embedded layers enlarge each image and web page by up to {format_size(size)}."
        )
    return write_exports(jobs, figure_settings, progress, options)


def _describe_disk_reading_estimate(folder: Path, dtype: ModelDtype) -> str:
    """Describe the memory and the time that are required to stream a model from disk."""
    from visualizer.models.disk_streaming_estimate import (
        LAB_MODEL_REASON,
        disk_streaming_error,
        estimate_disk_streaming,
    )
    from visualizer.models.lab_model_files import is_lab_model
    from visualizer.models.model_folder import read_model_folder

    if is_lab_model(folder):
        raise disk_streaming_error(folder.name, LAB_MODEL_REASON)
    found = read_model_folder(folder, has_fingerprint=False)
    return estimate_disk_streaming(found, dtype).description


def _process_texts(
    options: argparse.Namespace,
    opened: OpenedModel,
    texts: Sequence[str],
    progress: ConsoleProgress,
) -> None:
    """Process several texts, and write one table with the heads for each text."""
    from visualizer.models.model_text_runs import run_model_on_texts

    rows: list[tuple[int | str, ...]] = []
    notices: dict[str, None] = {}
    report = progress.create_file_callback("Texts")
    for number, text_runs in enumerate(run_model_on_texts(opened, texts, is_chat=options.chat), 1):
        report(number, len(texts))
        runs = _select_runs_of_part(text_runs, options.part)
        rows += [(number, *row) for row in _list_head_rows(runs)]
        notices |= _unique_notices(runs)
    progress.clear_line()
    for notice in notices:
        print_message(notice)
    _write_head_table(("text", "layer", "head"), rows, options.heads or STANDARD_OUTPUT_PATH)


def _select_runs_of_part(
    runs: tuple[LayerGroupRun, ...], name: str | None
) -> tuple[LayerGroupRun, ...]:
    from visualizer.models.layer_run_lookup import find_runs_of_part, require_single_part

    return find_runs_of_part(runs, name) if name else require_single_part(runs)


def _unique_notices(runs: Sequence[LayerGroupRun]) -> dict[str, None]:
    """Return the notices of runs in order, without duplicates."""
    return dict.fromkeys(notice for each in runs for notice in each.notices)


def _create_layer_export_jobs(
    options: argparse.Namespace, runs: Sequence[LayerGroupRun], layer: int
) -> tuple[ExportJob, ...]:
    """Return the files to write for a layer, given by its index."""
    from visualizer.models.layer_run_lookup import find_layer_run, layer_numbers

    found = find_layer_run(runs, layer)
    if found is None:
        numbers = [number + 1 for number in layer_numbers(runs)]
        existing = f"The layers are {numbers[0]} to {numbers[-1]}."
        raise not_found_error("layer", f"layer {layer + 1}", existing)
    layer_run, index = found
    view = replace(EXPORT_VIEW, layer=index)
    view = with_stages_and_heads(layer_run.run, view, options.stages, options.heads_shown)
    view = replace(view, colouring=apply_colour_options(options, view.colouring))
    document = Document().with_setting("captured", captured_header(layer_run.run))
    snapshot = ExportSnapshot(document, view, layer_run.run)
    suffix = f"-layer{layer + 1}" if options.layer == ALL_OPTION else ""
    files = {"layer": None, "export": [with_name_suffix(path, suffix) for path in options.export]}
    return create_export_jobs(argparse.Namespace(**vars(options) | files), snapshot)


def _write_overview(runs: Sequence[LayerGroupRun], path: Path) -> None:
    with offscreen_qt():
        from visualizer.export.figures.png_writer import render_overview_png

        content = render_overview_png(
            [(each.run, each.group.layers) for each in runs], HeadOrder.LAYER
        )
    atomic_file.write_atomically(path, lambda file: file.write(content))


def _list_head_rows(runs: Sequence[LayerGroupRun]) -> list[tuple[int | str, ...]]:
    """Return the table of all heads; layers and heads are numbered from 1."""
    from visualizer.models.layer_run_lookup import HEAD_MEASURES, list_head_measure_rows

    return [
        (
            int(row["layer"]) + 1,
            int(row["head"]) + 1,
            *(f"{row[name]:.6g}" for name in HEAD_MEASURES),
        )
        for row in list_head_measure_rows(runs)
    ]


def _write_head_table(
    names: Sequence[str], rows: Sequence[tuple[int | str, ...]], path: Path
) -> None:
    """Write the measures of all heads; `names` are the headings of the columns before them."""
    from visualizer.models.layer_run_lookup import HEAD_MEASURES

    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow((*names, *HEAD_MEASURES))
    table.writerows(rows)
    if path == STANDARD_OUTPUT_PATH:
        write_output(text.getvalue())
        return
    atomic_file.write_atomically(path, lambda file: file.write(text.getvalue().encode()))
