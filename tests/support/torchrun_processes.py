"""Starts the program's training as several processes with torchrun, and finds them by rank."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

from tests.architecture.project_graph import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_S = 180
"""Time in seconds after which a training run counts as hanging."""


@contextmanager
def torchrun(count: int, *arguments: str, module: str = "visualizer") -> Iterator[Started]:
    """Start processes of ``train``, and kill those that are still running when the context ends."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={count}", "-m", module, "train", *arguments]
    # Otherwise, torchrun warns that it sets this variable.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        started = Started(process)
        try:
            yield started
        finally:
            if process.poll() is None:
                started.find_ranks()
                process.kill()
            for each in started.left().values():
                each.kill()


class Started:
    """A running torchrun.

    Parameters
    ----------
    process : Popen
        The process of torchrun itself.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.ranks: dict[int, psutil.Process] = {}

    def find_ranks(self) -> None:
        """Return the processes that torchrun has started, by rank."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            rank = child.environ().get("RANK")
            if rank is not None:
                self.ranks[int(rank)] = child

    def left(self) -> dict[int, psutil.Process]:
        """Return the found processes that have not ended, by rank."""
        gone = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return {
            rank: each for rank, each in self.ranks.items()
            if each.is_running() and each.status() not in gone
        }  # fmt: skip

    def ended(self) -> tuple[int, str, str]:
        """Wait until torchrun ends, and return its status, the output and the messages."""
        out, errors = self.process.communicate(timeout=LONGEST_S)
        return self.process.returncode, out, errors


def train(count: int, *arguments: str, module: str = "visualizer") -> tuple[int, str, str]:
    """Train with several processes until the end; see `Started.ended`."""
    with torchrun(count, *arguments, module=module) as started:
        return started.ended()


def messages(errors: str) -> list[str]:
    """Return the messages of the program, without those of torchrun."""
    name = "attention-visualizer: "
    return [line.removeprefix(name) for line in errors.splitlines() if line.startswith(name)]
