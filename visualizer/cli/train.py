"""Trains a language model from the command line: ``attention-visualizer train``. No torch here."""

from __future__ import annotations

import argparse
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visualizer.attention.spec import Device
from visualizer.cli import listed_names, option_types
from visualizer.console_messages_and_progress import ConsoleProgress, say, write_out
from visualizer.errors import InputError
from visualizer.interruption_of_windowless_work import STOPPED, InterruptedRunError, stoppable
from visualizer.lab.settings.lab_setting_definitions import LAB_SETTINGS
from visualizer.language.tokenizers import Tokenizer
from visualizer.language.training_presets import PRESETS
from visualizer.language.training_settings import (
    LAYERED,
    LIMITS,
    CorpusKind,
    CorpusSource,
    LearningRateDecay,
    ModelKind,
    TrainingSettings,
    problems,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from enum import StrEnum
    from types import FrameType

    from visualizer.language.opened_training_run import OpenRun
    from visualizer.language.training_run import TrainingRun
    from visualizer.language.training_speed_and_time_left import TrainingSpeed

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
_CHOICES: dict[str, type[StrEnum]] = {
    "model": ModelKind,
    "decay": LearningRateDecay,
    "device": Device,
}


_MADE = [kind for kind in CorpusKind if kind is not CorpusKind.FILE]
_PRESETS = {preset.name: preset.settings for preset in PRESETS}


def train_parser() -> argparse.ArgumentParser:
    """Make the parser of the arguments after ``train``."""
    made = option_types.OptionParser(
        prog=f"attention-visualizer {TRAIN}",
        usage="%(prog)s SOURCE --out FOLDER [settings]\n       %(prog)s --resume FOLDER",
        description="Train a small language model without a window.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument(
        "--list", **listed_names.list_option({"presets": listed_names.training_presets})
    )
    made.add_argument("source", metavar="SOURCE", nargs="?", help="what to learn")
    made.add_argument("--out", type=Path, metavar="FOLDER", help="of the new run")
    made.add_argument(
        "--resume", type=option_types.run_folder, metavar="FOLDER", help="of a run that is to go on"
    )
    presets = ", ".join(_PRESETS)
    made.add_argument(
        "--preset",
        **option_types.name_option(
            [*_PRESETS],
            f"settings of the lab to begin with, for any SOURCE: one of {presets}",
        ),
    )
    made.add_argument("--tokenizer", **_named(Tokenizer, "words for world, else characters"))
    made.add_argument(
        "--size",
        type=option_types.whole_number(*LIMITS["size"]),
        help="tokens of what is made, about",
    )
    usual = TrainingSettings()
    for name, words in _WHOLE.items():
        said = f"{words} ({getattr(usual, name):,})"
        made.add_argument(
            f"--{name}", type=option_types.whole_number(*LIMITS[name]), metavar="N", help=said
        )
    for name, kind in _CHOICES.items():
        made.add_argument(f"--{name}", **_named(kind, getattr(usual, name)))
    said = f"share of weights and sums dropped while it learns ({usual.dropout:g})"
    made.add_argument("--dropout", type=option_types.rate, metavar="RATE", help=said)
    said = f"learning rate of AdamW ({usual.rate:g})"
    made.add_argument("--rate", type=option_types.number, metavar="RATE", help=said)
    made.add_argument("--quiet", action="store_true", help="do not say how far it is")
    return made


def _named(kind: type[StrEnum], usual: str) -> dict[str, Any]:
    return option_types.name_option([*kind], f"one of {', '.join(kind)} ({usual})")


def complaint(options: argparse.Namespace) -> str:
    """Return what is wrong with the combination of options; empty where they are valid."""
    given = [name for name in _given(options) if name != "steps"]
    if options.resume:
        if options.source or options.out:
            return "argument --resume: goes on with a run as it is. Leave SOURCE and --out out."
        is_for_new = f"argument --{next(iter(given), '')}: is for a new run. Leave --resume out."
        return is_for_new if given else ""
    if not options.source:
        made = ", ".join(_MADE)
        return f"argument SOURCE: is missing. Name a text file, or one of {made}."
    if not options.out:
        return "argument --out: is missing. Name the folder of the new run."
    settings = settings_of(options)
    for problem in problems(settings):
        return f"argument --{problem.field}: {problem.sentence}"
    return _idle(given, settings)


def _idle(given: list[str], settings: TrainingSettings) -> str:
    """Return which option has no effect on a training."""
    for setting in LAB_SETTINGS:
        if setting.name in given and not setting.counts(settings):
            if setting.name in {"size", "tokenizer"}:
                whose = "a text file" if setting.name == "size" else f"'{settings.source.kind}'"
                return f"argument --{setting.name}: acts on other texts than {whose}. Leave it out."
            layered = " or ".join(LAYERED)
            return f"argument --{setting.name}: acts only with --model {layered}."
    return ""


def settings_of(options: argparse.Namespace) -> TrainingSettings:
    """Make the settings that the options describe, with defaults for the rest."""
    given = _given(options)
    usual = _PRESETS[given.pop("preset")] if "preset" in given else TrainingSettings()
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


def _source(said: str) -> CorpusSource:
    if said not in _MADE:
        return CorpusSource(CorpusKind.FILE, str(Path(said).absolute()))
    kind = CorpusKind(said)
    return CorpusSource(
        kind, tokenizer=Tokenizer.WORDS if kind is CorpusKind.WORLD else Tokenizer.CHARACTERS
    )


TOLD_EVERY_S = 0.25


class TrainingConsoleProgress(ConsoleProgress):
    """Shows the progress of a training; a signal takes effect at the end of a step."""

    asked: InterruptedRunError | None = None

    def stop(self, number: int, frame: FrameType | None) -> None:
        self.asked = InterruptedRunError(STOPPED[signal.Signals(number).name])


def train(arguments: Sequence[str]) -> int:
    """Run the training that the arguments describe; return the exit status."""
    options = train_parser().parse_args(arguments)
    if wrong := complaint(options):
        say(wrong)
        return 2
    progress = TrainingConsoleProgress(is_quiet=options.quiet)
    try:
        with stoppable(progress.stop):
            opened = _opened(options)
            try:
                return _train(opened, options, progress)
            finally:
                opened.close()
    except InputError as refused:
        progress.clear()
        option = {"path": "SOURCE", "size": "--size", "block": "--block"}.get(refused.field)
        is_named = option and not options.resume
        say(f"argument {option}: {refused.sentence}" if is_named else refused.sentence)
        return 1 if refused.field in {"folder", "held", "export"} else 2


def _opened(options: argparse.Namespace) -> OpenRun:
    from visualizer.language.opened_training_run import OpenRun
    from visualizer.language.run_folder import RunFolder

    if not options.resume:
        return OpenRun(RunFolder(options.out), settings_of(options))
    opened = OpenRun(RunFolder(options.resume))
    if opened.running is None:
        opened.close()
        raise InputError("path", opened.obstacle)
    return opened


def _train(opened: OpenRun, options: argparse.Namespace, progress: TrainingConsoleProgress) -> int:
    from visualizer.language.training_run import DivergedError

    running = opened.running
    assert running, "a run without its text is not opened"
    if running.state.is_ended:
        say(f"{opened.folder.path} diverged: begin again with a smaller learning rate")
        return 1
    if options.resume and options.steps:
        running.lengthen(options.steps)
    for notice in opened.about.notices:
        say(notice)
    try:
        _advance(running, progress)
    except DivergedError as diverged:
        progress.clear()
        say(diverged.sentence)
        return 1
    except InputError as refused:  # out of memory
        running.save()
        progress.clear()
        say(refused.sentence)
        return 1
    progress.clear()
    if running.notice and not progress.asked:
        running.save()  # there may be room by now
    if running.notice:
        say(running.notice)
    if progress.asked and not running.is_done:
        say(f"stopped at step {running.step:,}; --resume {opened.folder.path} goes on")
        return progress.asked.status
    _summarize(opened, running)
    return 1 if running.notice else 0


def _advance(running: TrainingRun, progress: TrainingConsoleProgress) -> None:
    """Train until complete, or until a signal or a window requests a stop."""
    from visualizer.language.training_speed_and_time_left import TrainingSpeed

    pace, told_at, quarters = TrainingSpeed(), 0.0, set(range(5))
    while not running.is_done and not progress.asked:
        running.advance()
        now = time.monotonic()
        pace.add(running.settings.batch * running.settings.block, now)
        if now - told_at > TOLD_EVERY_S:
            told_at = now
            done, of = running.step, running.settings.steps
            progress.count(_said(running, pace), done, of, quarters)
            if running.folder.stop.exists():
                progress.stop(signal.SIGTERM, None)
    if progress.asked and not running.is_done:
        running.save()


def _said(running: TrainingRun, pace: TrainingSpeed) -> str:
    from visualizer.language.training_speed_and_time_left import TrainingProgress

    last, settings = running.take_rows()[-1], running.settings
    tokens = (settings.steps - running.step) * settings.batch * settings.block
    speed = (pace.a_second, pace.seconds_for(tokens))
    step, *others = TrainingProgress(running.step, settings.steps, last.rate, *speed).facts
    return ", ".join((step, f"loss {last.training:.3f}", *others))


def _summarize(opened: OpenRun, running: TrainingRun) -> None:
    """Write the results to standard output, one figure a line."""
    about, final = opened.about, running.final
    rows = [("by bigram counts", about.bigram), ("by frequency", about.frequency)]
    if final:
        losses = [("training loss", final.training), ("validation loss", final.validation)]
        rows = losses + rows
    write_out("".join(f"{name:<16} {loss:.4f}\n" for name, loss in rows))
