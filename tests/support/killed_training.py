"""Kills and resumes training runs at any moment until they are complete.

Each process is forked after all imports, and writes a checkpoint after every second step. Every
second kill happens at a random moment; the others wait until the next file is being written.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from tests.support.small_trainings import finish, quick, rows_of
from visualizer.language.opened_run import OpenedRun
from visualizer.language.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.language.training_settings import TrainingSettings

STEPS = 120
PROCESSES = Path("/proc")
UNFINISHED = (".part", " (deleted)")
"""Suffixes of the names of files that are being written; Linux adds "(deleted)" to unnamed files.
"""


def kill_many(kills: int, seed: int = 1) -> dict[str, int]:
    """Kill training runs this many times; the results must equal those of undisturbed runs.

    Returns
    -------
    dict
        Numbers of kills, of kills while a file was written, and of completed training runs.
    """
    torch.set_num_threads(1)
    chance, count = random.Random(seed), {"kills": 0, "within a write": 0, "trainings ended": 0}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        while count["kills"] < kills:
            settings = quick(steps=STEPS, seed=chance.randrange(2**31))
            whole, cut = (
                RunFolder(place / f"{count['trainings ended']}{kind}") for kind in ("a", "b")
            )
            start = time.monotonic()
            _undisturbed(whole, settings)
            longest = time.monotonic() - start
            _killed_until_done(cut, settings, partial(chance.uniform, 0, longest / 2), count)
            _assert_same(whole, cut)
            count["trainings ended"] += 1
    return count


def _undisturbed(folder: RunFolder, settings: TrainingSettings) -> None:
    opened = OpenedRun(folder, settings)
    finish(opened)
    opened.close()


def _killed_until_done(
    folder: RunFolder, settings: TrainingSettings, delay: Callable[[], float], count: dict[str, int]
) -> None:
    while True:
        child = os.fork()
        if not child:
            _train_and_save(folder, None if folder.metadata_file.exists() else settings)
        select.select([], [], [], delay())
        is_within = count["kills"] % 2 == 1 and _is_stopped_within_a_write(folder, child)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0, "a training ended with an error"
            return
        count["kills"] += 1
        count["within a write"] += is_within


def _is_stopped_within_a_write(folder: RunFolder, child: int) -> bool:
    """Suspend a training process while it writes a file; return False if the process ends first."""
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if not _is_writing(folder, child):
            continue
        os.kill(child, signal.SIGSTOP)
        os.waitid(os.P_PID, child, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if _is_writing(folder, child):
            return True
        os.kill(child, signal.SIGCONT)
    return False


def _is_writing(folder: RunFolder, child: int) -> bool:
    """Return whether a process has an incomplete file of the run open.

    Such a file has a temporary name or none.
    """
    if not (PROCESSES / "self").exists():
        return any(folder.path.rglob("*.part"))
    place = os.path.realpath(folder.path)
    try:
        opened = [str(entry.readlink()) for entry in (PROCESSES / str(child) / "fd").iterdir()]
    except OSError:  # a file was closed in the meantime
        return False
    return any(name.startswith(place) and name.endswith(UNFINISHED) for name in opened)


def _train_and_save(folder: RunFolder, settings: TrainingSettings | None) -> None:
    """Train until the end in a forked process; this function does not return."""
    status = 1
    try:
        opened = OpenedRun(folder, settings)
        assert opened.running
        while not opened.running.is_done:
            finish(opened, opened.running.step + 2)
            opened.running.save_checkpoint()
        opened.close()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(status)


def _assert_same(one: RunFolder, other: RunFolder) -> None:
    losses = [
        [(row.step, repr(row.training), repr(row.validation)) for row in rows_of(run.path)]
        for run in (one, other)
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == STEPS + 1
    assert one.snapshot_steps() == other.snapshot_steps()
    assert not list(other.path.rglob("*.part")), "what was cut off is left"
    for step in one.snapshot_steps():
        assert (
            one.snapshot_file(step).path.read_bytes() == other.snapshot_file(step).path.read_bytes()
        )
