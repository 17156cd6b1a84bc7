"""Command-line options, and the document and settings made from them. No Qt, no torch."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from visualizer.attention.mechanisms import Mechanism
from visualizer.attention.spec import Device, Dtype, Mask, Projection
from visualizer.cli import option_types
from visualizer.console_progress import printable
from visualizer.export.figure_settings import FigureExtent, FigurePaper
from visualizer.export.film_settings import FilmSettings
from visualizer.export.formats import FORMATS, FormatKind, format_of, taken
from visualizer.export.option_parsing import SIZES, figure_look, span_of, speed_of
from visualizer.session import document_options
from visualizer.session.stage_and_head_parsing import heads_of, stages_of
from visualizer.session.timeline import Grain
from visualizer.version import __version__

if TYPE_CHECKING:
    from enum import StrEnum

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.document import Document

OPTIONS = {"d_in": "--embedding-size", "d_out": "--output-size"}
"""Options of fields with a different name."""
SIZED = ("d_in", "d_out", "heads", "mechanism")
"""Fields that determine the sizes of own matrices."""
FOR_FILES = (
    *("stages", "heads_shown", "layout", "theme", "size", "dpi", "title", "no_caption"),
    "quiet",
)
"""Options that affect how files are written, and so need one to write."""
FOR_FILMS = ("span", "grain", "speed")
_LEFT_OUT = (None, False, "")

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
    for title, options in _GROUPS.items():
        group = made.add_argument_group(title)
        for option, settings in options.items():
            group.add_argument(option, **settings)
    return made


def _named(values_: type[StrEnum], help_: str = "") -> dict[str, Any]:
    said = f"{help_ and help_ + ': '}one of {', '.join(values_)}"
    return {"type": option_types.one_of([*values_]), "metavar": "NAME", "help": said}


# fmt: off
_GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    "Document": {
        "file": {"type": Path, "metavar": "FILE", "nargs": "?",
                 "help": "what to open: a document or a picture that holds one, attention or "
                         "weights in .npy, .npz, .safetensors or .pt, or a text in .txt"},
        "--text": {"type": option_types.said(document_options.text_of), "action": "append",
                   "help": "the text; given several times, a batch of texts"},
        "--text-file": {"type": option_types.text_in_file, "action": "append", "dest": "text",
                        "metavar": "FILE",
                        "help": "a text in a file of UTF-8, up to 16 MiB; - is standard input"},
    },
    "Module": {
        "--mechanism": _named(Mechanism),
        "--projection": _named(Projection),
        "--embedding-size": {"type": option_types.whole(1), "metavar": "N",
                             "help": "numbers in a token's vector"},
        "--output-size": {"type": option_types.whole(1), "metavar": "N",
                          "help": "width of all heads together, or of each stacked head"},
        "--heads": {"type": option_types.whole(1), "metavar": "N", "help": "heads side by side"},
        "--causal": {"action": argparse.BooleanOptionalAction,
                     "help": "whether no token reads a later one; else as the mechanism has it"},
        "--dropout": {"type": option_types.rate, "metavar": "RATE",
                      "help": "share of the weights dropped"},
        "--seed": {"type": option_types.whole(0), "metavar": "N",
                   "help": "decides vectors and weights"},
        "--device": _named(Device),
        "--dtype": _named(Dtype),
    },
    "Figure": {
        "--stages": {"type": option_types.said(stages_of), "metavar": "NAMES",
                     "help": "what is in it, such as scores,weights"},
        "--heads-shown": {"type": option_types.said(heads_of), "metavar": "HEADS",
                          "help": "numbers from 1, such as 1,3-5, or all"},
        "--layout": _named(FigureExtent, "how much of that"),
        "--theme": _named(FigurePaper),
        "--size": {"type": option_types.said(option_types.size), "metavar": "SIZE",
                   "help": "such as 180mm, 180x120mm, 1920x1080px or 7in, or one of "
                           f"{', '.join(SIZES)}"},
        "--dpi": {"type": option_types.dots, "metavar": "N", "help": "pixels an inch"},
        "--title": {"metavar": "TEXT", "default": "", "help": "what stands over it"},
        "--no-caption": {"action": "store_true", "help": "without what was computed under it"},
    },
    "Film": {
        "--span": {"type": option_types.said(span_of), "metavar": "FROM..TO",
                   "help": "stages such as scores..context, or from a row on: scores:2..weights"},
        "--grain": _named(Grain, "what is computed in a step"),
        "--speed": {"type": option_types.said(speed_of), "metavar": "X",
                    "help": "times faster than usual"},
    },
    "Files": {
        "--export": {"type": option_types.file, "action": "append", "metavar": "FILE",
                     "help": "write a file without a window, once for each time it is given; its "
                             f"name ends in {taken()}"},
        "--quiet": {"action": "store_true", "help": "do not say how far it is"},
        "--reset-settings": {"action": "store_true",
                             "help": "forget the window's place, panes and colours, and end"},
    },
}
# fmt: on


def document_of(options: argparse.Namespace, base: Document | None = None) -> Document:
    """Make the document that the options describe; the base supplies the rest."""
    given = {
        "mechanism": options.mechanism,
        "projection": options.projection and Projection(options.projection),
        "d_in": options.embedding_size,
        "d_out": options.output_size,
        "heads": options.heads,
        "dropout": options.dropout,
        "seed": options.seed,
        "device": options.device and Device(options.device),
        "dtype": options.dtype and Dtype(options.dtype),
        "mask": _mask(options.causal),
    }
    settings = {name: value for name, value in given.items() if value is not None}
    return document_options.document_of(options.text or (), settings, base)


def _mask(causal: bool | None) -> Mask | None:
    return None if causal is None else (Mask.CAUSAL if causal else Mask.NONE)


def look_of(options: argparse.Namespace) -> FigureSettings:
    """Return the settings of figures and films that the options describe.

    Raises
    ------
    InputError
        When such a figure is impossible.
    """
    return figure_look(
        options.size,
        layout=options.layout and FigureExtent(options.layout),
        theme=options.theme and FigurePaper(options.theme),
        dpi=options.dpi,
        title=options.title,
        has_caption=not options.no_caption,
        film=_film(options),
    )


def _film(options: argparse.Namespace) -> FilmSettings:
    usual = FilmSettings()
    grain = Grain(options.grain) if options.grain else usual.grain
    return replace(usual, span=options.span, grain=grain, speed=options.speed or usual.speed)


def complaint(options: argparse.Namespace, document: Document) -> str | None:
    """Return what is wrong with the options: an invalid spec, or an option without effect.

    Names the option given that takes part in the problem, or else what the file holds.
    """
    for problem in document.problems():
        remedied = problem.remedy[0] if problem.remedy else problem.field
        sizes = SIZED if problem.field.startswith("own_") else ()
        parts = (problem.field, remedied, "projection", *sizes)
        field = next((field for field in parts if _given(options, field)), problem.field)
        if field.startswith("own_"):
            return f"argument FILE: {problem.sentence}"
        return f"argument {option_of(field)}: got '{document.get(field)}'. {problem.sentence}"
    return _idle_on_captured(options, document) or _idle(options)


def _idle_on_captured(options: argparse.Namespace, document: Document) -> str | None:
    """Return which option needs a module where attention is captured."""
    names = [option for option in _GROUPS["Module"] if _is_given(options, option)]
    if document.captured is None or not names:
        return None
    return f"argument {names[0]}: is for a module, and {document.captured.called} is attention."


def _idle(options: argparse.Namespace) -> str | None:
    """Return which option has no effect, if any has none."""
    given = [name for name in (*FOR_FILES, *FOR_FILMS) if getattr(options, name) not in _LEFT_OUT]
    if given and not options.export:
        return f"argument {option_of(given[0])}: is for files. Add --export with a file's name."
    films = tuple(each for each in FORMATS if each.kind is FormatKind.FILM)
    alone = [name for name in given if name in FOR_FILMS]
    if alone and not {format_of(path.name) for path in options.export}.intersection(films):
        return f"argument {option_of(alone[0])}: is for films, such as {taken(films)}. Export one."
    return None


def option_of(field: str) -> str:
    """Return the name of a field's option."""
    return OPTIONS.get(field, f"--{field.replace('_', '-')}")


def _given(options: argparse.Namespace, field: str) -> bool:
    return _is_given(options, option_of(field))


def _is_given(options: argparse.Namespace, option: str) -> bool:
    return getattr(options, option.strip("-").replace("-", "_"), None) is not None
