"""Command-line options and their parser. This module does not import Qt or torch."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from visualizer.attention.layer_stages import DESCRIPTIONS, STAGE_ORDER
from visualizer.attention.settings import SETTINGS_BY_NAME, Setting, SettingGroup, SettingKind
from visualizer.attention.spec import OWN_LAYERS, ModelDtype
from visualizer.cli import option_parser
from visualizer.cli.option_parser import CommandLineParser, NamedDescriptions, convert_lab_folder
from visualizer.export.export_settings import PAPER_LABELS
from visualizer.export.figure_settings import (
    MAX_DPI,
    MIN_DPI,
    FigureExtent,
    FigureSettings,
    FigureTheme,
)
from visualizer.export.formats import FORMATS, list_suffixes, unavailable_reason
from visualizer.export.option_parsing import SIZE_PRESETS, parse_speed, parse_stage_range
from visualizer.language.tokenizers import TokenizerKind
from visualizer.session import document_builder
from visualizer.session.document import Document, LineGrouping
from visualizer.session.document_builder import parse_head_indices, parse_stage_names
from visualizer.session.timeline import StepSize
from visualizer.session.view_options import AUTOMATIC_MAP, COLOUR_MAPS, DEFAULT_MAP, ColourMapKind
from visualizer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.export.formats import ExportFormat

OPTION_NAMES = {
    "d_in": "--embedding-size",
    "d_out": "--output-size",
    "d_ff": "--feed-forward-size",
    "own_input": "--vectors",
    "own_weights": "--weights",
}
"""Options whose names differ from those of their fields, keyed by field."""

USAGE = """%(prog)s [FILE] [options]
       %(prog)s lab [RUN]
       %(prog)s train SOURCE --out FOLDER [options]
       %(prog)s generate FOLDER [options]
       %(prog)s model FOLDER --text TEXT [options]
       %(prog)s serve FOLDER [options]"""
EXAMPLES = """examples:
  attention-visualizer
  attention-visualizer --text "The cat sat on the mat" --embedding-size 8 --output-size 8
  attention-visualizer --mechanism causal --seed 789 --export stages.npz
  attention-visualizer --stages weights --size paper-column --export figure.png
  attention-visualizer --text-file poem.txt --export poem.png --export poem.npz
  attention-visualizer --stages weights --export - --format csv
  attention-visualizer lab
  attention-visualizer train repeat --out runs/repeat
  attention-visualizer generate runs/repeat
  attention-visualizer model models/SmolLM2-135M --text "The cat sat" --heads heads.csv
  date | attention-visualizer --text-file - --theme dark --size 1920x1080px --export date.png

The commands lab, train, generate, model and serve have their own --help. Existing files are
replaced. Messages are written to standard error. If one of several files cannot be written, the
others are still written. The exit status is 0 if all files were written; 1 if a file could not be
written; 2 if an option or the text is invalid, there is not enough memory or a package is missing;
130 after Ctrl+C; and 143 after SIGTERM. Ctrl+C and SIGTERM leave no incomplete files.
"""


def list_stages() -> NamedDescriptions:
    """List the stages in order of computation; no module or model has all of them."""
    return [(name, DESCRIPTIONS[name]) for name in STAGE_ORDER]


def list_formats() -> NamedDescriptions:
    """List the formats; those that are not available are listed with the missing package."""
    return [(each.suffix[1:], _describe_format(each)) for each in FORMATS]


def _describe_format(each: ExportFormat) -> str:
    parts = filter(None, (each.words, unavailable_reason(each.suffix), each.note.rstrip(".")))
    return ". ".join(parts)


def list_size_presets() -> NamedDescriptions:
    """List the size presets."""
    return [
        (name, (f"{_describe_size(preset.width_mm, preset.height_mm)}, {preset.dpi} dpi, "
f"{PAPER_LABELS[preset.paper].lower()}"))
        for name, preset in SIZE_PRESETS.items()
    ]  # fmt: skip


def _describe_size(width: float, height: float | None) -> str:
    return f"{width:.0f} mm wide" if height is None else f"{width:.0f} × {height:.0f} mm"


MAP_USES = {ColourMapKind.SEQUENTIAL: "for weights", ColourMapKind.DIVERGING: "for signed numbers"}


def list_colour_maps() -> NamedDescriptions:
    """List the colour maps, each with the values for which it is intended."""
    return [(each.id, f"{each.title}, {MAP_USES[each.kind]}") for each in COLOUR_MAPS]


NAME_LISTS = {
    "stages": list_stages,
    "formats": list_formats,
    "presets": list_size_presets,
    "colour-maps": list_colour_maps,
}
"""Functions that return the lists that --list prints, keyed by the name of the list."""

SHELLS = ("bash", "zsh")


def option_name(field: str) -> str:
    """Return the name of the option for a field."""
    return OPTION_NAMES.get(field, f"--{field.replace('_', '-')}")


def option_value(options: argparse.Namespace, field: str) -> Any:
    """Return the value of the option for a field, or None if the option was not given."""
    return getattr(options, option_name(field)[2:].replace("-", "_"), None)


def create_parser(*, has_file: bool = True) -> argparse.ArgumentParser:
    """Create the main parser, optionally without the FILE argument."""
    main_parser = option_parser.CommandLineParser(
        prog="attention-visualizer",
        usage=USAGE,
        description=(
            "Run an attention module and show every intermediate value. Without --export, the "
            "results are shown in the window."
        ),
        epilog=EXAMPLES,
    )
    main_parser.general.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    main_parser.general.add_argument("--list", **option_parser.list_option_settings(NAME_LISTS))
    main_parser.general.add_argument(
        "--print-completion",
        **option_parser.choice_option_settings(
            SHELLS, "print the completion script for a shell, and exit: bash, zsh"
        ),
    )
    main_parser.general.add_argument(
        "--reset-settings",
        action="store_true",
        help="reset all window settings, and exit",
    )
    for title, options in OPTION_GROUPS.items():
        group = main_parser.add_argument_group(title)
        for option, settings in options.items():
            if has_file or option != "file":
                group.add_argument(option, **settings)
    return main_parser


_DEFAULTS, _FIGURE = Document(), FigureSettings()
_MATRIX_FILES = ".npy, .npz, .safetensors or .pt"
_FILES: dict[str, tuple[Callable[[str], object], str]] = {
    "own_input": (
        option_parser.read_vectors,
        (
            "file with token vectors to use instead of random ones: a matrix with one row "
            f"per token, in {_MATRIX_FILES} format"
        ),
    ),
    "own_weights": (
        option_parser.list_weight_arrays,
        (
            "file with weights to use instead of random ones, in "
            f"{_MATRIX_FILES} format: the state_dict of a module, or any of the arrays "
            f"{', '.join(OWN_LAYERS)}; matrices are applied as x @ W"
        ),
    ),
    "own_mask": (
        option_parser.read_mask,
        (
            "file with the mask, in text format "
            f"({', '.join(option_parser.TEXT_SUFFIXES)}) or in {_MATRIX_FILES} format; the mask "
            "has one row per query and one column per key; 1 allows attention and 0 forbids it"
        ),
    ),
    "own_kept": (
        option_parser.read_mask,
        (
            "file that marks the weights that dropout keeps, in the same format as --own-mask "
            "(default: dropout keeps random weights)"
        ),
    ),
}
"""Converters and help texts of the options that read a matrix from a file, keyed by field."""


def format_option(field: str, value: object) -> str:
    """Return the name of a field's option, followed by the value unless it is None."""
    return option_name(field) if value is None else f"{option_name(field)} {value}"


def _setting_option(name: str) -> dict[str, Any]:
    """Return the argparse settings of the option for a document setting."""
    if name in _FILES:
        read, help_text = _FILES[name]
        return {
            "type": option_parser.with_argparse_errors(read),
            "metavar": "FILE",
            "help": help_text,
        }
    setting = SETTINGS_BY_NAME[name]
    help_text = f"{setting.help[0].lower()}{setting.help[1:]}".replace("’", "'")
    if setting.kind is SettingKind.SWITCH:
        on = f"--{'' if setting.default else 'no-'}{option_name(name)[2:]}"
        help_text = f"{help_text} (default: {on}{_required_options_note(setting)})"
        return {"action": argparse.BooleanOptionalAction, "help": help_text}
    if setting.kind is SettingKind.CHOICE:
        values = [value for value, _ in setting.choices]
        default = f"{setting.default}{_required_options_note(setting)}"
        return option_parser.listed_choice_option(values, help_text, default)
    default = f"(default: {setting.default:g}{_required_options_note(setting)})"
    metavar = {SettingKind.RATE: "RATE", SettingKind.NUMBER: "X"}.get(setting.kind, "N")
    is_rate = setting.kind in {SettingKind.RATE, SettingKind.NUMBER}
    range_ = f"; {setting.requirement}" if is_rate else ""
    read = option_parser.setting_converter(setting)
    return {"type": read, "metavar": metavar, "help": f"{help_text}{range_} {default}"}


def _required_options_note(setting: Setting) -> str:
    """Return the part of a help text that names the options that a setting requires."""
    violations = [each.describe_violation(format_option) for each in setting.where]
    required = [
        words.removeprefix("without ") for words in violations if words.startswith("without ")
    ]
    return f"; requires {' and '.join(required)}" if required else ""


SETTING_GROUPS = {
    group.value: tuple(name for name, each in SETTINGS_BY_NAME.items() if each.group is group)
    for group in SettingGroup
}
"""Names of the settings that have an option, keyed by the title of the option group."""

DOWNLOAD_OPTION: dict[str, Any] = {
    "action": "store_true",
    "help": (
        "download the model from the Hugging Face Hub if FOLDER is the name of a model, such as "
        "org/name or org/name@revision, that the local cache does not contain"
    ),
}
"""Option of the commands that open a Transformers model."""
MODEL_DTYPE_OPTION: dict[str, Any] = {
    "choices": [each.value for each in ModelDtype],
    "default": ModelDtype.AUTO.value,
    "metavar": "TYPE",
    "help": (
        "floating-point type in which the model computes: float32, float64, bfloat16 or float16; "
        "auto selects float32 or, if the weights are stored in 16 bits and do not fit in the "
        "memory as float32, their own type (default: auto)"
    ),
}
"""Option of the commands that open a Transformers model."""
OPTION_GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    "Input": {
        "file": {
            "type": option_parser.convert_path,
            "metavar": "FILE",
            "nargs": "?",
            "help": (
                "file to open: a document; an exported image, web page, .npz or .json file "
                "that contains a document; attention or weights in .npy, .npz, .safetensors or "
                ".pt format; a .txt file; the folder of a training run, one layer of which is "
                "opened, or of a recorded run; or the folder of a model"
            ),
        },
        "--text": {
            "type": option_parser.with_argparse_errors(document_builder.normalize_text),
            "action": "append",
            "help": "input text; repeat the option for a batch of texts",
        },
        "--text-file": {
            "type": option_parser.read_text_option,
            "action": "append",
            "dest": "text",
            "metavar": "FILE",
            "help": "read the text from a UTF-8 file of up to 16 MiB; '-' reads standard input",
        },
        "--tokenizer": option_parser.listed_choice_option(
            TokenizerKind, "units into which the text is split", _DEFAULTS.tokenizer
        ),
        "--lines": option_parser.listed_choice_option(
            LineGrouping, "whether the lines are one text or a batch of texts", _DEFAULTS.lines
        ),
    },
    **{
        title: {option_name(name): _setting_option(name) for name in names}
        for title, names in SETTING_GROUPS.items()
    },
    "Files to write": {
        "--export": {
            "type": option_parser.convert_export_path,
            "action": "append",
            "metavar": "FILE",
            "help": (
                "file to write; repeat the option for several files; the suffix selects the "
                f"format: {list_suffixes()}; '-' writes to standard output"
            ),
        },
        "--format": option_parser.choice_option_settings(
            [each.suffix[1:] for each in FORMATS],
            "format of the file that --export - writes, such as csv; see --list formats",
        ),
        "--quiet": {"action": "store_true", "help": "do not report progress"},
    },
    "File contents": {
        "--stages": {
            "type": option_parser.with_argparse_errors(parse_stage_names),
            "metavar": "NAMES",
            "help": "stages to show, such as scores,weights; see --list stages (default: "
            "scores, weights, dropped, context)",
        },
        "--heads-shown": {
            "type": option_parser.with_argparse_errors(parse_head_indices),
            "metavar": "HEADS",
            "help": "heads to show, counted from 1, such as 1,3-5 (default: all)",
        },
        "--layer": {
            "type": option_parser.convert_number_or_all,
            "metavar": "N",
            "help": (
                "number of the layer to show, counted from 1; 'all' writes one file per layer "
                "(default: 1)"
            ),
        },
        "--text-shown": {
            "type": option_parser.convert_number_or_all,
            "metavar": "N",
            "help": (
                "number of the text to show in a batch, counted from 1; 'all' writes one file per "
                "text (default: 1)"
            ),
        },
        "--layout": option_parser.choice_option_settings(
            FigureExtent,
            (
                "content of the figure: the selected stages and heads (shown), the flow of one "
                "head (flow), one panel (panel), one head (head), all heads (heads), all stages "
                "(stages), all stages and heads (all), or one panel with one pixel per cell "
                f"(cells) (default: {_FIGURE.extent})"
            ),
        ),
        "--colour-map": {
            "action": "append",
            **option_parser.choice_option_settings(
                [each.id for each in COLOUR_MAPS],
                (
                    "colour map for weights or for signed numbers; repeat the option to set both; "
                    f"see --list colour-maps (default: {DEFAULT_MAP} for weights, {AUTOMATIC_MAP} "
                    "for signed numbers)"
                ),
            ),
        },
        "--theme": option_parser.listed_choice_option(
            FigureTheme,
            "colours for print, or the light or dark theme of the window",
            _FIGURE.paper,
        ),
        "--size": {
            "type": option_parser.with_argparse_errors(option_parser.convert_figure_size),
            "metavar": "SIZE",
            "help": (
                "size of the figure: a width, or a width and a height, such as 180mm, 180x120mm, "
                f"1920x1080px or 7in; or the name of a preset: {', '.join(SIZE_PRESETS)}; see "
                "--list presets (default: as wide as the panels, or 1280 pixels for animations)"
            ),
        },
        "--dpi": {
            "type": option_parser.integer_converter(MIN_DPI, MAX_DPI),
            "metavar": "N",
            "help": f"pixels per inch (default: {_FIGURE.dpi}, or the resolution of the preset)",
        },
        "--title": {"metavar": "TEXT", "help": "title above the panels"},
        "--no-caption": {
            "action": "store_true",
            "help": "omit the caption, which describes the computation",
        },
        "--letters": {
            "action": argparse.BooleanOptionalAction,
            "help": "add letters to the stages: a, b, … (default: only in the presets for papers)",
        },
        "--all-layers": {
            "action": "store_true",
            "help": (
                "embed the values of all layers, instead of only the layer that is shown, in "
                "images and web pages"
            ),
        },
    },
    "Animations": {
        "--span": {
            "type": option_parser.with_argparse_errors(parse_stage_range),
            "metavar": "FROM..TO",
            "help": (
                "range of stages to play, such as scores..context; scores:2..weights starts at "
                "row 2 of the scores (default: all stages)"
            ),
        },
        "--grain": option_parser.listed_choice_option(
            StepSize,
            "amount of computation per step; a tour shows one row of each stage in full and the "
            "other rows quickly",
            _FIGURE.film.grain,
        ),
        "--speed": {
            "type": option_parser.with_argparse_errors(parse_speed),
            "metavar": "X",
            "help": "playback speed, as a multiple of the normal speed (default: 1)",
        },
        "--no-motion": {
            "action": "store_true",
            "help": "omit the frames in which inputs move to the cells that are computed from them",
        },
    },
}


LAB_COMMAND = "lab"


def create_lab_parser() -> CommandLineParser:
    """Create the argument parser of ``lab``."""
    parser = CommandLineParser(
        prog=f"attention-visualizer {LAB_COMMAND}",
        usage="%(prog)s [RUN]",
        description="Open the language lab: train small language models and watch attention form.",
    )
    parser.add_argument_group("Input").add_argument(
        "folder",
        type=convert_lab_folder,
        metavar="RUN",
        nargs="?",
        help="folder of the run to open: trained in the lab, or recorded with visualizer.record",
    )
    return parser
