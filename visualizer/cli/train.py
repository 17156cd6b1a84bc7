"""Trains a language model from the command line: ``attention-visualizer train``.

If torchrun starts several processes for one run, the first process parses the arguments, writes
files and prints messages; the other processes follow it and exit when it does.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec.structs import replace

from visualizer.attention.settings import SETTINGS_BY_NAME
from visualizer.attention.spec import Device
from visualizer.cli import option_parser
from visualizer.console import ConsoleProgress, print_message, write_output
from visualizer.errors import InputError, is_out_of_memory
from visualizer.lab.settings.definitions import LAB_SETTINGS
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_presets import PRESETS
from visualizer.language.training_settings import (
    SETTING_LIMITS,
    CorpusKind,
    CorpusSource,
    LearningRateDecay,
    ModelKind,
    TrainingSettings,
    find_settings_problems,
)
from visualizer.process_settings import (
    SIGNAL_EXIT_STATUS,
    InterruptSignalError,
    handle_stop_signals,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from enum import StrEnum
    from types import FrameType

    from visualizer.language.distributed_process_group import DistributedProcessGroup
    from visualizer.language.opened_run import OpenedRun
    from visualizer.language.training_progress import TrainingSpeed
    from visualizer.language.training_run import TrainingRun

TRAIN_COMMAND = "train"
EXAMPLES = """examples:
  attention-visualizer train repeat --out runs/repeat
  attention-visualizer train brackets --preset brackets --out runs/brackets
  attention-visualizer train poems.txt --model transformer --block 64 --steps 5000 --out runs/poems
  attention-visualizer train --resume runs/poems --steps 20000
  torchrun --standalone --nproc-per-node 2 -m visualizer train repeat --out runs/shared

The folder of a run contains losses.csv, which has one line per step, and a checkpoint. --resume
continues from the checkpoint, with the same result as without an interruption. The final losses are
written to standard output. The exit status is 0 if all steps were completed; 1 if the training
diverged or the run could not be written; 2 if an option or the text is invalid; 130 after Ctrl+C;
143 after SIGTERM; and 129 if the terminal was closed. In the last three cases, a checkpoint is
saved. Processes started by torchrun divide each batch among themselves; the result is the same as
with one process.
"""
TORCHRUN_VARIABLES = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
"""Environment variables that torchrun sets in its processes."""
_DROPOUT = SETTINGS_BY_NAME["dropout"]
"""Dropout setting of attention modules, which has the same range in training."""
_GROUPS = {
    "Model": {
        "model": "kind of model",
        "block": "block size: maximum number of tokens in the input",
        "width": "embedding size",
        "heads": "number of heads per layer",
        "layers": "number of attention layers",
        "dropout": "dropout rate for the attention weights and the residual connections",
    },
    "Training": {
        "steps": "total number of training steps",
        "batch": "batch size: number of blocks per step",
        "rate": "learning rate of the AdamW optimizer",
        "warmup": "number of steps over which the learning rate increases from 0",
        "decay": "learning rate decay after the warm-up",
        "seed": "random seed for the initial weights and the batches",
        "device": "device to train on; auto uses a GPU if one is available",
        "threads": "number of CPU threads; 0 uses all cores except one, up to a maximum of 8",
    },
}
"""Help texts of the options for training settings, keyed by option group and setting."""
_CHOICES: dict[str, type[StrEnum]] = {
    "model": ModelKind,
    "decay": LearningRateDecay,
    "device": Device,
}


_GENERATED = [kind for kind in CorpusKind if kind is not CorpusKind.FILE]
_PRESETS = {preset.name: preset.settings for preset in PRESETS}
PROGRESS_INTERVAL_S = 0.25


def list_training_presets() -> option_parser.NamedDescriptions:
    """List the training presets."""
    return [(preset.name, f"{preset.title}. {preset.description}") for preset in PRESETS]


def create_train_parser() -> option_parser.CommandLineParser:
    """Create the argument parser of ``train``."""
    parser = option_parser.CommandLineParser(
        prog=f"attention-visualizer {TRAIN_COMMAND}",
        usage="%(prog)s SOURCE --out FOLDER [options]\n       %(prog)s --resume FOLDER [--steps N]",
        description="Train a small language model without opening a window.",
        epilog=EXAMPLES,
    )
    lists = {"presets": list_training_presets}
    parser.general.add_argument("--list", **option_parser.list_option_settings(lists))
    parser.general.add_argument("--quiet", action="store_true", help="do not report progress")
    _add_run_options(parser)
    for title, names in _GROUPS.items():
        group = parser.add_argument_group(title)
        for name, help_text in names.items():
            group.add_argument(f"--{name}", **_setting_option(name, help_text))
    return parser


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("Run")
    run.add_argument(
        "source",
        metavar="SOURCE",
        nargs="?",
        help=(
            "UTF-8 text file to train on, or the name of a generated text: world (simple "
            "sentences), "
            f"{', '.join(kind for kind in _GENERATED if kind is not CorpusKind.WORLD)}"
        ),
    )
    run.add_argument(
        "--out", type=option_parser.convert_path, metavar="FOLDER", help="folder of the new run"
    )
    run.add_argument(
        "--resume",
        type=option_parser.convert_run_folder,
        metavar="FOLDER",
        help="resume the run in this folder; a larger number of --steps extends the run",
    )
    run.add_argument(
        "--preset",
        **option_parser.choice_option_settings(
            _PRESETS,
            (
                "preset to start from and to modify with the other options: "
                f"{', '.join(_PRESETS)}; see --list presets"
            ),
        ),
    )
    run.add_argument(
        "--tokenizer",
        **option_parser.listed_choice_option(
            TokenizerKind,
            "units into which the text is split",
            "words for world, otherwise characters",
        ),
    )
    run.add_argument(
        "--size",
        type=option_parser.integer_converter(*SETTING_LIMITS["size"]),
        metavar="N",
        help=f"approximate number of tokens in a generated text (default: {CorpusSource().size})",
    )


def _setting_option(name: str, help_text: str) -> dict[str, Any]:
    """Return the argparse settings of the option for a training setting."""
    default = getattr(TrainingSettings(), name)
    if name in _CHOICES:
        return option_parser.listed_choice_option(_CHOICES[name], help_text, default)
    if name in SETTING_LIMITS:
        read = option_parser.integer_converter(*SETTING_LIMITS[name])
        return {"type": read, "metavar": "N", "help": f"{help_text} (default: {default})"}
    convert: Callable[[str], float] = option_parser.convert_number
    if name == "dropout":
        convert = option_parser.setting_converter(_DROPOUT)
        help_text = f"{help_text}; {_DROPOUT.requirement}"
    return {"type": convert, "metavar": "RATE", "help": f"{help_text} (default: {default:g})"}


def first_option_error(options: argparse.Namespace) -> str:
    """Return the first error in the options, or "" if there is none."""
    given = [name for name in _given_options(options) if name != "steps"]
    if options.resume:
        if options.source or options.out:
            return "--resume cannot be combined with SOURCE or --out. Remove one of them."
        if given:
            return f"--{given[0]} cannot be combined with --resume. Remove one of them."
        return ""
    if not options.source:
        generated = ", ".join(_GENERATED)
        return f"the following argument is required: SOURCE, a text file or one of: {generated}"
    if not options.out:
        return "the following argument is required: --out, the folder of the new run"
    settings = build_settings(options)
    for problem in find_settings_problems(settings):
        return f"argument --{problem.field}: {problem.sentence}"
    return _find_unused_option(given, settings)


def _find_unused_option(given: list[str], settings: TrainingSettings) -> str:
    """Return an error if an option has no effect on the training, or "" otherwise."""
    for setting in LAB_SETTINGS:
        unmet = setting.first_unmet_condition(settings) if setting.name in given else None
        if unmet:
            condition = unmet.describe_violation(lambda name, value: f"--{name} {value}")
            return f"--{setting.name} has no effect {condition}. Remove --{setting.name}."
    return ""


def build_settings(options: argparse.Namespace) -> TrainingSettings:
    """Build the settings that the options describe; the other settings have their defaults."""
    given = _given_options(options)
    base = _PRESETS[given.pop("preset")] if "preset" in given else TrainingSettings()
    source = _parse_source(options.source)
    if size := given.pop("size", None):
        source = replace(source, size=size)
    if tokenizer := given.pop("tokenizer", None):
        source = replace(source, tokenizer=TokenizerKind(tokenizer))
    kinds = {name: _CHOICES[name](given[name]) for name in _CHOICES if name in given}
    return replace(base, source=source, **(given | kinds))


def _given_options(options: argparse.Namespace) -> dict[str, Any]:
    settings = (name for names in _GROUPS.values() for name in names)
    names = ("preset", *settings, "size", "tokenizer")
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _parse_source(source: str) -> CorpusSource:
    if source not in _GENERATED:
        return CorpusSource(CorpusKind.FILE, str(Path(source).absolute()))
    kind = CorpusKind(source)
    return CorpusSource(
        kind,
        tokenizer=TokenizerKind.WORDS if kind is CorpusKind.WORLD else TokenizerKind.CHARACTERS,
    )


class TrainingConsoleProgress(ConsoleProgress):
    """Prints the progress of a training run; a signal stops it at the end of a step."""

    asked: InterruptSignalError | None = None

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        self.asked = InterruptSignalError(SIGNAL_EXIT_STATUS[signal.Signals(number).name])


def train(arguments: Sequence[str]) -> int:
    """Run the training that the arguments describe; return the exit status."""
    if is_started_by_torchrun():
        return train_in_process_group(lambda group: _parse_and_train(arguments, group))
    return _parse_and_train(arguments, None)


def _parse_and_train(arguments: Sequence[str], group: DistributedProcessGroup | None) -> int:
    options = create_train_parser().parse_args(arguments)
    if wrong := first_option_error(options):
        print_message(wrong)
        return 2
    progress = TrainingConsoleProgress(is_quiet=options.quiet)
    try:
        with handle_stop_signals(progress.handle_signal):
            opened = _open_run(options, group)
            try:
                return _train_run(opened, options, progress, group)
            finally:
                opened.close()
    except InputError as refused:
        progress.clear_line()
        named = {"path": "SOURCE", "size": "--size", "block": "--block", "device": "--device"}
        option = named.get(refused.field)
        is_named = option and not options.resume
        print_message(f"argument {option}: {refused.sentence}" if is_named else refused.sentence)
        return 1 if refused.field in {"folder", "held", "export"} else 2


def _open_run(options: argparse.Namespace, group: DistributedProcessGroup | None) -> OpenedRun:
    """Open the run that the options describe.

    Raises
    ------
    InputError
        If the run cannot be opened, or the processes of the group cannot share it.
    """
    from visualizer.language.memory_estimate import SINGLE_PROCESS
    from visualizer.language.opened_run import OpenedRun
    from visualizer.language.run_folder import RunFolder

    folder, sharing = RunFolder(options.resume or options.out), SINGLE_PROCESS
    if group:
        group.check_batch_and_device(
            folder.read_metadata().settings if options.resume else build_settings(options)
        )
        sharing = group.process_counts
    if not options.resume:
        return OpenedRun(folder, build_settings(options), sharing=sharing)
    opened = OpenedRun(folder, sharing=sharing)
    if opened.running is None:
        opened.close()
        raise InputError("path", opened.lock_error)
    return opened


def _train_run(
    opened: OpenedRun,
    options: argparse.Namespace,
    progress: TrainingConsoleProgress,
    group: DistributedProcessGroup | None,
) -> int:
    from visualizer.language.distributed_process_group import LostProcessError
    from visualizer.language.training_run import DivergedError

    running = opened.running
    assert running, "a run cannot be opened without its text"
    if running.state.is_ended:
        print_message(
            f"The training in {opened.folder.path} has diverged. Start a new run with a smaller "
            "learning rate."
        )
        return 1
    if options.resume and options.steps:
        _set_total_steps(running, options.steps)
    notices = (
        *opened.metadata.notices,
        running.trainer.device_notice,
        *_start_other_processes(running, group),
    )
    for notice in filter(None, notices):
        print_message(notice)
    try:
        _train_until_stopped(running, progress, group)
    except DivergedError as diverged:
        progress.clear_line()
        print_message(diverged.sentence)
        return 1
    except InputError as refused:  # out of memory
        running.save_checkpoint()
        progress.clear_line()
        print_message(refused.sentence)
        return 1
    except LostProcessError:
        return _stop_after_lost_process(running, progress)
    progress.clear_line()
    if running.notice and not progress.asked:
        running.save_checkpoint()  # there may now be enough space
    if running.notice:
        print_message(running.notice)
    if progress.asked and not running.is_done:
        print_message(_resume_hint(running))
        return progress.asked.status
    _write_summary(opened, running)
    return 1 if running.notice else 0


def _set_total_steps(running: TrainingRun, steps: int) -> None:
    if steps < running.step:
        sentence = (
            f"argument --steps: must be at least {running.step:,}, the number of completed steps."
        )
        raise InputError("steps", sentence)
    running.set_total_steps(steps)


def _start_other_processes(
    running: TrainingRun, group: DistributedProcessGroup | None
) -> tuple[str, ...]:
    """Start training in the other processes; return notices for the user."""
    if not group or running.is_done:
        return ()
    from visualizer.language.distributed_process_group import LostProcessError
    from visualizer.language.distributed_training import add_processes_to_run

    try:
        return add_processes_to_run(running, group)
    except LostProcessError as error:
        sentence = "Another process of this training run exited before training started."
        raise InputError("folder", f"{sentence} {_resume_hint(running)}") from error


def _resume_hint(running: TrainingRun) -> str:
    step = running.folder.checkpoint_step() or 0
    return f"Stopped at step {step:,}. To continue, use --resume {running.folder.path}."


def _stop_after_lost_process(running: TrainingRun, progress: TrainingConsoleProgress) -> int:
    """Stop after the loss of another process; the run has the state before the current step."""
    # If all steps are done, the final losses are missing; the resumed run repeats the last steps.
    if not running.is_done:
        running.save_checkpoint()
    progress.clear_line()
    if running.notice:
        print_message(running.notice)
    print_message(f"Another process of this training run exited. {_resume_hint(running)}")
    return progress.asked.status if progress.asked else 1


def _train_until_stopped(
    running: TrainingRun,
    progress: TrainingConsoleProgress,
    group: DistributedProcessGroup | None,
) -> None:
    """Train until the run is complete, or until a signal or a window requests a stop."""
    from visualizer.language.training_progress import TrainingSpeed

    speed, reported_at, quarters = TrainingSpeed(), 0.0, set(range(5))
    while not running.is_done and not progress.asked:
        running.train_one_step()
        now = time.monotonic()
        speed.add_tokens(running.settings.batch * running.settings.block, now)
        if now - reported_at > PROGRESS_INTERVAL_S:
            reported_at = now
            done, of = running.step, running.settings.steps
            progress.report_progress(_describe_progress(running, speed), done, of, quarters)
            if running.folder.stop_file.exists():
                progress.handle_signal(signal.SIGTERM, None)
        if group and group.signal_status and not progress.asked:
            progress.asked = InterruptSignalError(group.signal_status)
    if progress.asked and not running.is_done:
        running.save_checkpoint()


def _describe_progress(running: TrainingRun, training_speed: TrainingSpeed) -> str:
    from visualizer.language.training_progress import TrainingProgress

    last, settings = running.take_new_rows()[-1], running.settings
    tokens = (settings.steps - running.step) * settings.batch * settings.block
    speed = (training_speed.tokens_per_second, training_speed.estimate_seconds(tokens))
    step, *others = TrainingProgress(running.step, settings.steps, last.rate, *speed).status_texts
    return ", ".join((step, f"loss {last.training:.3f}", *others))


def _write_summary(opened: OpenedRun, running: TrainingRun) -> None:
    """Write the final losses to standard output, one per line."""
    metadata, final = opened.metadata, running.state.final
    rows = [("bigram baseline", metadata.bigram), ("unigram baseline", metadata.frequency)]
    if final:
        losses = [*zip(("training loss", "validation loss"), final, strict=True)]
        rows = losses + rows
    write_output("".join(f"{name:<16} {loss:.4f}\n" for name, loss in rows))


def is_started_by_torchrun() -> bool:
    """Return whether torchrun started this process."""
    return os.environ.keys() >= TORCHRUN_VARIABLES


def train_in_process_group(train: Callable[[DistributedProcessGroup], int]) -> int:
    """Join the other processes, train, and exit; return only if joining fails.

    Parameters
    ----------
    train : callable
        Called in the first process of the group; trains and returns the exit status.

    Returns
    -------
    int
        The exit status if the other processes cannot be joined.
    """
    try:
        group = _join_process_group()
    except InputError as refused:
        print_message(refused.sentence)
        return 2
    status = 1
    try:
        status = train(group) if group.is_leader else _train_as_follower(group)
    except SystemExit as ended:  # after --help, --list or an invalid option
        status = ended.code if isinstance(ended.code, int) else 0
    except KeyboardInterrupt:  # after joining and before training
        status = SIGNAL_EXIT_STATUS["SIGINT"]
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        group.end_all_processes(status)
        _exit_process(status)


def _join_process_group() -> DistributedProcessGroup:
    """Wait for the other processes; Ctrl+C exits immediately, without Python's handler."""
    previous_handler = signal.getsignal(signal.SIGINT)
    if previous_handler is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from visualizer.language.distributed_process_group import DistributedProcessGroup

        return DistributedProcessGroup()
    finally:
        signal.signal(signal.SIGINT, previous_handler)


def _train_as_follower(group: DistributedProcessGroup) -> int:
    """Follow the first process, and forward signals to it."""
    from visualizer.language.distributed_process_group import LostProcessError
    from visualizer.language.distributed_training import execute_commands

    def stop(number: int, frame: FrameType | None) -> None:
        group.request_training_end(SIGNAL_EXIT_STATUS[signal.Signals(number).name])

    name = f"process {group.rank + 1} of {group.count}"
    try:
        with handle_stop_signals(stop):
            return execute_commands(group)
    except LostProcessError:
        # The first process prints a more detailed message, unless it is the lost process.
        if group.rank == 1:
            print_message(f"{name} stopped because another process of this training run exited.")
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        print_message(
            f"{name} ran out of memory. Use a smaller batch size, block size or embedding size."
        )
    return 1


def _exit_process(status: int) -> NoReturn:
    """Exit without Python's cleanup, during which torch's connection threads can crash."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # the stream is missing or closed
            stream.flush()
    os._exit(status)
