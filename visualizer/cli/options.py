"""Command-line options and their parser. No Qt, no torch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from visualizer.attention.mechanisms import Mechanism
from visualizer.attention.spec import Device, Dtype, Projection
from visualizer.cli import option_types
from visualizer.console_messages_and_progress import printable
from visualizer.export.figure_settings import FigureExtent, FigurePaper
from visualizer.export.formats import suffixes
from visualizer.export.option_parsing import SIZES, span_of, speed_of
from visualizer.session import document_from_texts_and_settings
from visualizer.session.stage_and_head_parsing import heads_of, stages_of
from visualizer.session.timeline import Grain
from visualizer.version import __version__

if TYPE_CHECKING:
    from enum import StrEnum

OPTIONS = {"d_in": "--embedding-size", "d_out": "--output-size"}
"""Options of fields with a different name."""

USAGE = """%(prog)s [FILE] [options]
       %(prog)s lab [RUN]
       %(prog)s train SOURCE --out FOLDER"""
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


class OptionParser(argparse.ArgumentParser):
    """An argument parser whose errors say in one sentence what an option got and what it takes."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(message)}\n")


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    made = OptionParser(
        prog="attention-visualizer",
        usage=USAGE,
        description="See a real attention module compute. Without --export, opens the window.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    for title, options in OPTION_GROUPS.items():
        group = made.add_argument_group(title)
        for option, settings in options.items():
            group.add_argument(option, **settings)
    return made


def _named(values_: type[StrEnum], help_: str = "") -> dict[str, Any]:
    said = f"{help_ and help_ + ': '}one of {', '.join(values_)}"
    return {"type": option_types.one_of([*values_]), "metavar": "NAME", "help": said}


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
    },
    "Module": {
        "--mechanism": _named(Mechanism),
        "--projection": _named(Projection),
        "--embedding-size": {"type": option_types.whole_number(1), "metavar": "N",
                             "help": "numbers in a token's vector"},
        "--output-size": {"type": option_types.whole_number(1), "metavar": "N",
                          "help": "width of all heads together, or of each stacked head"},
        "--heads": {"type": option_types.whole_number(1), "metavar": "N",
                    "help": "heads side by side"},
        "--causal": {"action": argparse.BooleanOptionalAction,
                     "help": "whether no token reads a later one; else as the mechanism has it"},
        "--dropout": {"type": option_types.rate, "metavar": "RATE",
                      "help": "share of the weights dropped"},
        "--seed": {"type": option_types.whole_number(0), "metavar": "N",
                   "help": "decides vectors and weights"},
        "--device": _named(Device),
        "--dtype": _named(Dtype),
    },
    "Figure": {
        "--stages": {"type": option_types.as_argument_error(stages_of), "metavar": "NAMES",
                     "help": "what is in it, such as scores,weights"},
        "--heads-shown": {"type": option_types.as_argument_error(heads_of), "metavar": "HEADS",
                          "help": "numbers from 1, such as 1,3-5, or all"},
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
        "--quiet": {"action": "store_true", "help": "do not say how far it is"},
        "--reset-settings": {"action": "store_true",
                             "help": "forget the window's place, panes and colours, and end"},
    },
}


def option_of(field: str) -> str:
    """Return the name of a field's option."""
    return OPTIONS.get(field, f"--{field.replace('_', '-')}")
