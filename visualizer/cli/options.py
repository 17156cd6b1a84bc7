"""Command-line options and their parser. No Qt, no torch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visualizer.attention.spec import LARGEST_SEED, OWN_LAYERS
from visualizer.cli import listed_names, matrices_in_files, option_types
from visualizer.export.figure_settings import FigureExtent, FigurePaper
from visualizer.export.formats import FORMATS, suffixes
from visualizer.export.option_parsing import SIZES, span_of, speed_of
from visualizer.language.tokenizers import Tokenizer
from visualizer.session import document_from_texts_and_settings
from visualizer.session.colour_maps import COLOUR_MAPS
from visualizer.session.document import Document, LineSplit
from visualizer.session.setting_definitions import SETTINGS, SettingKind
from visualizer.session.stage_and_head_parsing import heads_of, stages_of
from visualizer.session.timeline import Grain
from visualizer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

OPTIONS = {
    "d_in": "--embedding-size",
    "d_out": "--output-size",
    "own_input": "--vectors",
    "own_weights": "--weights",
    "own_kept": "--kept",
}
"""Options of fields with a different name."""

USAGE = """%(prog)s [FILE] [options]
       %(prog)s lab [RUN]
       %(prog)s train SOURCE --out FOLDER [options]
       %(prog)s generate RUN [options]"""
EXAMPLES = """examples:
  attention-visualizer
  attention-visualizer --text "The cat sat on the mat" --embedding-size 8 --output-size 8
  attention-visualizer --mechanism causal --seed 789 --export stages.npz
  attention-visualizer --stages weights --size paper-column --export figure.png
  attention-visualizer --text-file poem.txt --export poem.png --export poem.npz
  attention-visualizer lab
  attention-visualizer train repeat --out runs/repeat
  date | attention-visualizer --text-file - --theme dark --size 1920x1080px --export date.png

A file that is there already is replaced. The exit status is 0 where all was written; 1 where a
file could not be; 2 where an option, the text or the memory is at fault; 130 after Ctrl+C and 143
after SIGTERM, which leave no half of a file. Of several files the others are still written.
"""


LISTS = {
    "stages": listed_names.stages,
    "formats": listed_names.formats,
    "presets": listed_names.presets,
    "colour-maps": listed_names.colour_maps,
}
"""What can be listed."""

SHELLS = ("bash", "zsh")


def option_of(field: str) -> str:
    """Return the name of a field's option."""
    return OPTIONS.get(field, f"--{field.replace('_', '-')}")


def value_of(options: argparse.Namespace, field: str) -> Any:
    """Return what a field's option was given; None where it was not."""
    return getattr(options, option_of(field)[2:].replace("-", "_"), None)


def parser(*, has_file: bool = True) -> argparse.ArgumentParser:
    """Make the parser of the command line, with or without the FILE to be opened."""
    made = option_types.OptionParser(
        prog="attention-visualizer",
        usage=USAGE,
        description="See a real attention module compute. Without --export, opens the window.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    made.add_argument("--list", **listed_names.list_option(LISTS))
    made.add_argument(
        "--print-completion",
        **option_types.name_option(
            SHELLS, "print what completes this command in a shell, bash or zsh, and end"
        ),
    )
    for title, options in OPTION_GROUPS.items():
        group = made.add_argument_group(title)
        for option, settings in options.items():
            if has_file or option != "file":
                group.add_argument(option, **settings)
    return made


def _named(values_: type[StrEnum], help_: str = "") -> dict[str, Any]:
    said = f"{help_ and help_ + ': '}one of {', '.join(values_)}"
    return option_types.name_option([*values_], said)


_USUAL = Document()
_MATRIX_FILES = ".npy, .npz, .safetensors or .pt"
_FILES: dict[str, tuple[Callable[[str], object], str]] = {
    "own_input": (
        matrices_in_files.vectors_in_file,
        f"the tokens' vectors, a row each, instead of drawn ones; in {_MATRIX_FILES}",
    ),
    "own_weights": (
        matrices_in_files.weights_in_file,
        f"a module's state_dict, or some of {', '.join(OWN_LAYERS)} by these names, each "
        f"as x @ W, instead of drawn weights; in {_MATRIX_FILES}",
    ),
    "own_mask": (
        matrices_in_files.mask_in_file,
        "the mask itself: a row a query, a column a key, 1 allowed and 0 forbidden; written "
        f"in {', '.join(matrices_in_files.TEXTS)}, or held in {_MATRIX_FILES}",
    ),
    "own_kept": (
        matrices_in_files.mask_in_file,
        "the weights that dropout keeps, instead of drawn ones, as for --own-mask",
    ),
}
"""How the settings that are matrices are read, and what their options say of themselves."""
_SAID = {
    "mechanism": "the module to start from; other options change it",
    "causal": "no token reads a later one; the other way round, any reads any",
}
"""What is said in place of the words of the table of settings."""


def _of_setting(name: str) -> dict[str, Any]:
    """Return the settings of the option that sets a setting of the document."""
    if name in _FILES:
        read, said = _FILES[name]
        return {"type": option_types.as_argument_error(read), "metavar": "FILE", "help": said}
    setting = next(setting for setting in SETTINGS if setting.name == name)
    usual, said = _USUAL.get(name), _SAID.get(name, setting.help[0].lower() + setting.help[1:])
    if setting.kind is SettingKind.SWITCH:
        on = f"--{'' if usual else 'no-'}{option_of(name)[2:]}"
        return {"action": argparse.BooleanOptionalAction, "help": f"{said} ({on})"}
    if setting.kind is SettingKind.CHOICE:
        values = [value for value, _ in setting.choices]
        return option_types.name_option(values, f"{said}: one of {', '.join(values)} ({usual})")
    read, metavar = {
        SettingKind.COUNT: (option_types.whole_number(1), "N"),
        SettingKind.SEED: (option_types.whole_number(0, LARGEST_SEED), "N"),
        SettingKind.RATE: (option_types.rate, "RATE"),
        SettingKind.NUMBER: (option_types.positive_number, "X"),
    }[setting.kind]
    return {"type": read, "metavar": metavar, "help": f"{said} ({usual:g})"}


SETTING_GROUPS: dict[str, tuple[str, ...]] = {
    "Module": ("mechanism", "d_in", "d_out", "heads", "arrangement", "projection", "bias",
               "output_projection", "position"),
    "Scores and weights": ("scale", "temperature", "normalisation"),
    "Mask": ("causal", "mask", "window", "own_mask", "route"),
    "Dropout": ("dropout", "mode", "dropout_seed", "own_kept"),
    "Numbers": ("seed", "own_input", "own_weights", "dtype", "device"),
}  # fmt: skip
"""The settings of the module that have an option, by the group of their options."""

# fmt: off
OPTION_GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    "Document": {
        "file": {"type": Path, "metavar": "FILE", "nargs": "?",
                 "help": "what to open: a document or a picture that holds one, attention or "
                         "weights in .npy, .npz, .safetensors or .pt, or a text in .txt"},
        "--text": {"type": option_types.as_argument_error(document_from_texts_and_settings.text_of),
                   "action": "append", "help": "the text; given several times, a batch of texts"},
        "--text-file": {"type": option_types.text_in_file, "action": "append", "dest": "text",
                        "metavar": "FILE",
                        "help": "a text in a file of UTF-8, up to 16 MiB; - is standard input"},
        "--tokenizer": _named(Tokenizer, "what the text is split into"),
        "--lines": _named(LineSplit, "whether the lines of a text are one text or a batch"),
    },
    **{title: {option_of(name): _of_setting(name) for name in names}
       for title, names in SETTING_GROUPS.items()},
    "Figure": {
        "--stages": {"type": option_types.as_argument_error(stages_of), "metavar": "NAMES",
                     "help": "what is in it, such as scores,weights"},
        "--heads-shown": {"type": option_types.as_argument_error(heads_of), "metavar": "HEADS",
                          "help": "numbers from 1, such as 1,3-5, or all"},
        "--layer": {"type": option_types.position_or_all, "metavar": "N",
                    "help": "the layer shown, from 1, where attention of several was opened; "
                            "all writes a file for each (1)"},
        "--text-shown": {"type": option_types.position_or_all, "metavar": "N",
                         "help": "the text shown, from 1, of a batch; all writes a file for each "
                                 "(1)"},
        "--colour-map": {"action": "append", **option_types.name_option(
                             [each.id for each in COLOUR_MAPS],
                             "colours of weights or of signed numbers, once for each; see --list "
                             "colour-maps")},
        "--layout": _named(FigureExtent, "how much of that"),
        "--theme": _named(FigurePaper),
        "--size": {"type": option_types.as_argument_error(option_types.size), "metavar": "SIZE",
                   "help": "such as 180mm, 180x120mm, 1920x1080px or 7in, or one of "
                           f"{', '.join(SIZES)}"},
        "--dpi": {"type": option_types.dots, "metavar": "N", "help": "pixels an inch"},
        "--title": {"metavar": "TEXT", "default": "", "help": "what stands over it"},
        "--no-caption": {"action": "store_true", "help": "without what was computed under it"},
    },
    "Film": {
        "--span": {"type": option_types.as_argument_error(span_of), "metavar": "FROM..TO",
                   "help": "stages such as scores..context, or from a row on: scores:2..weights"},
        "--grain": _named(Grain, "what is computed in a step"),
        "--speed": {"type": option_types.as_argument_error(speed_of), "metavar": "X",
                    "help": "times faster than usual"},
    },
    "Files": {
        "--export": {"type": option_types.file, "action": "append", "metavar": "FILE",
                     "help": "write a file without a window, once for each time it is given; its "
                             f"name ends in {suffixes()}"},
        "--format": option_types.name_option(
                        [each.suffix[1:] for each in FORMATS],
                        "what --export - writes to standard output, such as csv; see --list "
                        "formats"),
        "--quiet": {"action": "store_true", "help": "do not say how far it is"},
        "--reset-settings": {"action": "store_true",
                             "help": "forget the window's place, panes and colours, and end"},
    },
}
