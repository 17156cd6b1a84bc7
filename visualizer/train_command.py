"""The command line of a training without a window: ``attention-visualizer train``. No torch."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visualizer import values
from visualizer.attention.choices import Device
from visualizer.language.presets import PRESETS
from visualizer.language.settings import LIMITS, Decay, Kind, Model, Settings, Source, problems
from visualizer.language.tokenizers import Tokenizer

if TYPE_CHECKING:
    from enum import StrEnum

TRAIN = "train"
EXAMPLES = """examples:
  attention-visualizer train repeat --out runs/repeat
  attention-visualizer train brackets --preset brackets --out runs/brackets
  attention-visualizer train poems.txt --model transformer --block 64 --steps 5000 --out runs/poems
  attention-visualizer train --resume runs/poems --steps 20000

SOURCE is a text file in UTF-8, or one of the texts that are made here: world (simple sentences),
repeat, copy, brackets, sorting, addition. In the folder of the run are losses.csv, a line a step,
and the checkpoint, from which --resume goes on as if nothing had happened. The exit status is 0
where all steps are done; 1 where the training came to no good or nothing could be written; 2 where
an option or the text is at fault; 130 after Ctrl+C, 143 after SIGTERM and 129 when the terminal is
closed, each with a checkpoint.
"""
_WHOLE = {
    "block": "tokens seen at once, at most",
    "width": "numbers in a token's vector",
    "heads": "heads of each layer",
    "layers": "layers of attention",
    "batch": "blocks a step",
    "warmup": "steps in which the learning rate grows",
    "steps": "steps in all",
    "seed": "decides weights and batches",
    "threads": "of the CPU; 0 leaves one core free",
}
_CHOICES: dict[str, type[StrEnum]] = {"model": Model, "decay": Decay, "device": Device}


_PRESETS = {preset.name: preset.settings for preset in PRESETS}


def train_parser() -> argparse.ArgumentParser:
    """Make the reader of what follows the word."""
    made = argparse.ArgumentParser(
        prog=f"attention-visualizer {TRAIN}",
        usage="%(prog)s SOURCE --out FOLDER [settings]\n       %(prog)s --resume FOLDER",
        description="Train a small language model without a window.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("source", metavar="SOURCE", nargs="?", help="what to learn")
    made.add_argument("--out", type=Path, metavar="FOLDER", help="of the new run")
    made.add_argument("--resume", type=Path, metavar="FOLDER", help="of a run that is to go on")
    presets = ", ".join(_PRESETS)
    made.add_argument(
        "--preset", type=values.one_of([*_PRESETS]), metavar="NAME",
        help=f"settings of the lab to begin with, for any SOURCE: one of {presets}",
    )  # fmt: skip
    made.add_argument("--tokenizer", **_named(Tokenizer, "words for world, else characters"))
    made.add_argument(
        "--size", type=values.whole(*LIMITS["size"]), help="tokens of what is made, about"
    )
    usual = Settings()
    for name, words in _WHOLE.items():
        said = f"{words} ({getattr(usual, name):,})"
        made.add_argument(f"--{name}", type=values.whole(*LIMITS[name]), metavar="N", help=said)
    for name, kind in _CHOICES.items():
        made.add_argument(f"--{name}", **_named(kind, getattr(usual, name)))
    said = f"share of weights and sums dropped while it learns ({usual.dropout:g})"
    made.add_argument("--dropout", type=values.rate, metavar="RATE", help=said)
    said = f"learning rate of AdamW ({usual.rate:g})"
    made.add_argument("--rate", type=float, metavar="RATE", help=said)
    made.add_argument("--quiet", action="store_true", help="do not say how far it is")
    return made


def _named(kind: type[StrEnum], usual: str) -> dict[str, Any]:
    said = f"one of {', '.join(kind)} ({usual})"
    return {"type": values.one_of([*kind]), "metavar": "NAME", "help": said}


def complaint(options: argparse.Namespace) -> str:
    """Say what is wrong with the options together; nothing when they can be used."""
    given = [name for name in _given(options) if name != "steps"]
    if options.resume:
        if options.source or options.out:
            return "--resume goes on with a run as it is: leave SOURCE and --out out"
        return f"--{given[0]} belongs to a new run, and --resume goes on with one" if given else ""
    if not options.source:
        return "SOURCE is missing: a text file, or one of the texts that are made here"
    if not options.out:
        return "--out is missing: the folder of the new run"
    for problem in problems(settings_of(options)):
        return f"argument --{problem.field}: {problem.sentence}"
    return ""


def settings_of(options: argparse.Namespace) -> Settings:
    """Make the settings that the options describe; what they leave out is as usual."""
    given = _given(options)
    usual = _PRESETS[given.pop("preset")] if "preset" in given else Settings()
    source = _source(options.source)
    if size := given.pop("size", None):
        source = replace(source, size=size)
    if tokenizer := given.pop("tokenizer", None):
        source = replace(source, tokenizer=Tokenizer(tokenizer))
    kinds = {name: _CHOICES[name](given[name]) for name in _CHOICES if name in given}
    return replace(usual, source=source, **(given | kinds))


def _given(options: argparse.Namespace) -> dict[str, Any]:
    names = ("preset", *_WHOLE, *_CHOICES, "dropout", "rate", "size", "tokenizer")
    found = {name: getattr(options, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _source(said: str) -> Source:
    made = [kind for kind in Kind if kind is not Kind.FILE]
    if said not in made:
        return Source(Kind.FILE, str(Path(said).absolute()))
    kind = Kind(said)
    return Source(kind, tokenizer=Tokenizer.WORDS if kind is Kind.WORLD else Tokenizer.CHARACTERS)
