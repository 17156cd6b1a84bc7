"""Processes started by torchrun for one training run, without a window.

The first process parses the arguments, writes files and prints messages; the others follow it and
exit when it does. Torch is imported only if there are several processes.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from visualizer.console import say
from visualizer.errors import InputError, is_out_of_memory
from visualizer.runtime import STOPPED, stoppable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from visualizer.language.process_group import DistributedProcessGroup

VARIABLES = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
"""Environment variables that torchrun sets in its processes."""


def is_started_by_torchrun() -> bool:
    """Whether this process is one of several that train together."""
    return os.environ.keys() >= VARIABLES


def train_together(train: Callable[[DistributedProcessGroup], int]) -> int:
    """Join the other processes and train; exits this process unless joining fails.

    Parameters
    ----------
    train : callable
        Trains with the group as its first process and returns the exit status.

    Returns
    -------
    int
        The exit status if the other processes cannot be joined.
    """
    try:
        group = _join_group()
    except InputError as refused:
        say(refused.sentence)
        return 2
    status = 1
    try:
        status = train(group) if group.is_first else _follow_first_process(group)
    except SystemExit as ended:  # after --help, --list or an invalid option
        status = ended.code if isinstance(ended.code, int) else 0
    except KeyboardInterrupt:  # between joining and training
        status = STOPPED["SIGINT"]
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        group.end(status)
        _end_process(status)


def _join_group() -> DistributedProcessGroup:
    """Wait for the other processes; Ctrl+C exits at once, which Python's handler does not."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from visualizer.language.process_group import DistributedProcessGroup

        return DistributedProcessGroup()
    finally:
        signal.signal(signal.SIGINT, before)


def _follow_first_process(group: DistributedProcessGroup) -> int:
    """Follow the first process; signals are passed on to it."""
    from visualizer.language.distributed_training import follow
    from visualizer.language.process_group import LostProcessError

    def stop(number: int, frame: FrameType | None) -> None:
        group.ask_to_end(STOPPED[signal.Signals(number).name])

    name = f"process {group.rank + 1} of {group.count}"
    try:
        with stoppable(stop):
            return follow(group)
    except LostProcessError:
        if group.rank == 1:  # the first process prints more, unless it is the one that was lost
            say(f"{name}: stopped because another process of this training run ended.")
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        say(f"{name}: out of memory. Use a smaller batch size, block size or embedding size.")
    return 1


def _end_process(status: int) -> NoReturn:
    """Exit without Python's clean-up, in which torch's connection threads can crash."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # the stream is missing or closed
            stream.flush()
    os._exit(status)
