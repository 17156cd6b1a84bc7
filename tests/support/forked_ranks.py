"""Starts several ranks, of training or of other programs, without importing torch in each."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from torch import distributed

from tests.support.forked_program import ForkedProgram
from tests.support.torchrun_processes import LONGEST_S
from visualizer.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.forked_program import Program

HOST = "127.0.0.1"


class Ended(NamedTuple):
    """Exit statuses and joint output of all ranks."""

    statuses: list[int]
    out: str
    errors: str


class ForkedRanks:
    """Running ranks.

    Parameters
    ----------
    folder : Path
        Folder of the files to which they write their output.
    """

    def __init__(self, processes: list[ForkedProgram], folder: Path) -> None:
        self.processes, self._folder = processes, folder

    def ended(self) -> Ended:
        """Wait until all ranks have ended."""
        statuses = [each.wait(LONGEST_S) for each in self.processes]
        out, errors = ((self._folder / name).read_text() for name in ("out", "errors"))
        return Ended(statuses, out, errors)


@contextmanager
def forked_ranks(
    count: int, folder: Path, program: Program, *arguments: str, **environment: str
) -> Iterator[ForkedRanks]:
    """Start ranks, and kill those that are still running when the context ends.

    Parameters
    ----------
    folder : Path
        Folder of the files to which they write their output.
    environment : str
        Environment variables of all ranks, in addition to the rank.
    """
    shared = {"WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1", **environment}
    processes: list[ForkedProgram] = []
    try:
        with (folder / "out").open("a") as out, (folder / "errors").open("a") as errors:
            streams = {1: out.fileno(), 2: errors.fileno()}
            for rank in range(count):
                own = shared | {"RANK": str(rank)}
                processes.append(ForkedProgram(program, arguments, streams, own))
        yield ForkedRanks(processes, folder)
    finally:
        for each in processes:
            each.kill()
            each.wait()


@contextmanager
def training_ranks(
    count: int, folder: Path, *arguments: str, program: Program = main
) -> Iterator[ForkedRanks]:
    """Start ranks of ``train``, which find each other like those started by torchrun.

    Parameters
    ----------
    program : callable
        The program, or a function that changes something and then runs the program.
    """
    store = distributed.TCPStore(  # type: ignore[attr-defined]
        HOST, 0, is_master=True, wait_for_workers=False
    )
    environment = {
        "MASTER_ADDR": HOST, "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"
    }  # fmt: skip
    with forked_ranks(count, folder, program, "train", *arguments, **environment) as ranks:
        yield ranks


def train_forked(count: int, folder: Path, *arguments: str, program: Program = main) -> Ended:
    """Train with several ranks until the end; see `ForkedRanks.ended`."""
    with training_ranks(count, folder, *arguments, program=program) as ranks:
        return ranks.ended()
