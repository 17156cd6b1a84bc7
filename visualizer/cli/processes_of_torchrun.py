"""Processes that torchrun starts for one training, without a window. No torch until there are some.

The first one reads the arguments, writes and speaks; the others follow it and end as it ends.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from visualizer.console_messages_and_progress import say
from visualizer.errors import InputError, is_out_of_memory
from visualizer.interruption_of_windowless_work import STOPPED, stoppable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from visualizer.language.distributed_process_group import DistributedProcessGroup

VARIABLES = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
"""Variables by which torchrun tells a process that it is one of several."""


def is_started_by_torchrun() -> bool:
    """Whether this process is one of several that train together."""
    return os.environ.keys() >= VARIABLES


def train_together(train: Callable[[DistributedProcessGroup], int]) -> int:
    """Join the other processes and train; ends this process, unless the others are not found.

    Parameters
    ----------
    train : callable
        Trains with the group as its first process and returns the exit status.

    Returns
    -------
    int
        The exit status where the others are not found.
    """
    try:
        group = _joined()
    except InputError as refused:
        say(refused.sentence)
        return 2
    status = 1
    try:
        status = train(group) if group.is_first else _follow(group)
    except SystemExit as ended:  # after --help, --list, or an option that is at fault
        status = ended.code if isinstance(ended.code, int) else 0
    except KeyboardInterrupt:  # between joining and training
        status = STOPPED["SIGINT"]
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        group.end(status)
        _end_process(status)


def _joined() -> DistributedProcessGroup:
    """Wait for the others; Ctrl+C ends the wait at once, which Python's own handler cannot."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from visualizer.language.distributed_process_group import DistributedProcessGroup

        return DistributedProcessGroup()
    finally:
        signal.signal(signal.SIGINT, before)


def _follow(group: DistributedProcessGroup) -> int:
    """Do as the first process says; signals are passed on to it."""
    from visualizer.language.distributed_process_group import LostProcessError
    from visualizer.language.distributed_training import follow

    def stop(number: int, frame: FrameType | None) -> None:
        group.ask_to_end(STOPPED[signal.Signals(number).name])

    name = f"process {group.rank + 1} of {group.count}"
    try:
        with stoppable(stop):
            return follow(group)
    except LostProcessError:
        if group.rank == 1:  # the first process says more, unless it is the one that is lost
            say(f"{name}: another process of this training ended, so this one ends, too.")
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        say(f"{name}: the memory ran out. Use a smaller batch, block or embedding size.")
    return 1


def _end_process(status: int) -> NoReturn:
    """End without Python's own clean-up, in which torch's threads of connections can crash."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
            stream.flush()
    os._exit(status)
