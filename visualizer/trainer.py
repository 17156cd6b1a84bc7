"""A training without a window, from the command line to a run in a folder."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING

from visualizer.attention.errors import InputError
from visualizer.exporting import STOPPED, StoppedError, Teller, stoppable
from visualizer.headless import say
from visualizer.train_command import complaint, settings_of, train_parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import FrameType

    from visualizer.language.opened import OpenedRun
    from visualizer.language.pace import Pace
    from visualizer.language.running import Running

TOLD_EVERY_S = 0.25


class _StepTeller(Teller):
    """Says how far a training is; a signal waits for the end of a step."""

    asked: StoppedError | None = None

    def stop(self, number: int, frame: FrameType | None) -> None:
        self.asked = StoppedError(STOPPED[signal.Signals(number).name])


def train(arguments: Sequence[str]) -> int:
    """Train as the arguments say; give the exit status."""
    options = train_parser().parse_args(arguments)
    if wrong := complaint(options):
        say(wrong)
        return 2
    teller = _StepTeller(is_quiet=options.quiet)
    try:
        with stoppable(teller):
            opened = _opened(options)
            try:
                return _train(opened, options, teller)
            finally:
                opened.close()
    except InputError as refused:
        teller.clear()
        say(refused.sentence)
        return 1 if refused.field in {"folder", "held", "export"} else 2


def _opened(options: argparse.Namespace) -> OpenedRun:
    from visualizer.language.folder import RunFolder
    from visualizer.language.opened import OpenedRun

    if not options.resume:
        return OpenedRun(RunFolder(options.out), settings_of(options))
    opened = OpenedRun(RunFolder(options.resume))
    if opened.running is None:
        opened.close()
        raise InputError("path", opened.obstacle)
    return opened


def _train(opened: OpenedRun, options: argparse.Namespace, teller: _StepTeller) -> int:
    from visualizer.language.running import DivergedError

    running = opened.running
    assert running, "a run without its text is not opened"
    if running.stand.is_ended:
        say(f"{opened.folder.path} diverged: begin again with a smaller learning rate")
        return 1
    if options.resume and options.steps:
        running.lengthen(options.steps)
    for notice in opened.about.notices:
        say(notice)
    try:
        _advance(running, teller)
    except DivergedError as diverged:
        teller.clear()
        say(diverged.sentence)
        return 1
    except InputError as refused:  # the memory ran out
        running.save()
        teller.clear()
        say(refused.sentence)
        return 1
    teller.clear()
    if running.notice:
        say(running.notice)
    if teller.asked and not running.is_done:
        say(f"stopped at step {running.step:,}; --resume {opened.folder.path} goes on")
        return teller.asked.status
    _summarize(opened, running)
    return 1 if running.notice else 0


def _advance(running: Running, teller: _StepTeller) -> None:
    """Train until all is done, or a signal or a window asks to stop."""
    from visualizer.language.pace import Pace

    pace, told_at, quarters = Pace(), 0.0, set(range(5))
    while not running.is_done and not teller.asked:
        running.advance()
        now = time.monotonic()
        pace.add(running.settings.batch * running.settings.block, now)
        if now - told_at > TOLD_EVERY_S:
            told_at = now
            done, of = running.step, running.settings.steps
            teller.count(_said(running, pace), done, of, quarters)
            if running.folder.stop.exists():
                teller.stop(signal.SIGTERM, None)
    if teller.asked and not running.is_done:
        running.save()


def _said(running: Running, pace: Pace) -> str:
    from visualizer.state.lab.standing import Standing

    last, settings = running.take_rows()[-1], running.settings
    tokens = (settings.steps - running.step) * settings.batch * settings.block
    speed = (pace.a_second, pace.seconds_for(tokens))
    step, *others = Standing(running.step, settings.steps, last.rate, *speed).facts
    return ", ".join((step, f"loss {last.training:.3f}", *others))


def _summarize(opened: OpenedRun, running: Running) -> None:
    """Write what has come of it to standard output, a line a figure."""
    about, final = opened.about, running.final
    if final:
        sys.stdout.write(f"training loss    {final.training:.4f}\n")
        sys.stdout.write(f"validation loss  {final.validation:.4f}\n")
    sys.stdout.write(f"by bigram counts {about.bigram:.4f}\n")
    sys.stdout.write(f"by frequency     {about.frequency:.4f}\n")
