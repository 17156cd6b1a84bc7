"""Two ranks of a served model, without a model: they do jobs in which they meet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

from visualizer.models.model_server.rank_processes import STORE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.models.model_ranks import ModelProcessGroup

    Work = Callable[[ModelProcessGroup], object]

LONGEST_S = 120
SHORT_S = 0.2
COUNT = 2
REFUSED = "The tokenizer was lost."


def two_ranks(folder: Path, which: str) -> tuple[list[int], list[list[str]]]:
    """Have two processes do the jobs of a name; return their statuses, and what came of each job.

    Parameters
    ----------
    folder : Path
        Where they find each other.
    """
    command = [sys.executable, "-m", "tests.support.two_ranks", which]
    shared = {
        STORE_VARIABLE: str(folder / "store"),
        "WORLD_SIZE": str(COUNT),
        "OMP_NUM_THREADS": "1",
    }
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    command, env={**os.environ, **shared, "RANK": str(rank)}, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )
            )
            for rank in range(COUNT)
        ]  # fmt: skip
        for each in started:
            stack.callback(each.kill)
        said = [each.communicate(timeout=LONGEST_S)[0] for each in started]
    return [each.returncode for each in started], [json.loads(one or "[]") for one in said]


def _refuse(ranks: ModelProcessGroup) -> None:
    from visualizer.errors import InputError

    raise InputError("text", REFUSED)


def _cancel(ranks: ModelProcessGroup) -> None:
    from visualizer.progress import CancelledError

    raise CancelledError


def _begin_a_run(ranks: ModelProcessGroup) -> None:
    ranks.check_cancelled()


def _gather(ranks: ModelProcessGroup) -> None:
    from visualizer.language.wire_format import Message

    found = ranks.gather_messages(Message("part", {"rank": ranks.rank}))
    assert [each.values["rank"] for each in found] == [*range(COUNT)]


def _work_alone(ranks: ModelProcessGroup) -> None:
    """Take longer than a rank waits after a failure, and meet the other one."""
    begun = monotonic()
    while monotonic() - begun < 2 * SHORT_S:
        pass
    _gather(ranks)


def _fail_in_run(ranks: ModelProcessGroup) -> None:
    with ranks.propagate_errors():
        _refuse(ranks)


def _run_out_of_memory(ranks: ModelProcessGroup) -> None:
    from visualizer.errors import InputError

    with ranks.propagate_errors():
        raise InputError("memory", REFUSED) from MemoryError()


def _wait_in_run(ranks: ModelProcessGroup) -> None:
    """Wait for the other rank, as a model that is spread does within a layer."""
    import torch
    from torch import distributed

    with ranks.propagate_errors():
        distributed.all_reduce(torch.ones(1))


def _nothing(ranks: ModelProcessGroup) -> None:
    """Do nothing in which ranks meet."""


JOBS: dict[str, tuple[tuple[Work, Work], ...]] = {
    "ends": (
        (_begin_a_run, _refuse),
        (_gather, _gather),
        (_nothing, _refuse),
        (_cancel, _gather),
        (_gather, _work_alone),
        (_cancel, _cancel),
        (_refuse, _refuse),
        (_gather, _gather),
    ),
    "failed run": ((_wait_in_run, _fail_in_run),),
    "no memory in run": ((_wait_in_run, _run_out_of_memory),),
}
"""What the first and the second rank do in each job."""


def _outcome(ranks: Any, work: Work) -> str:
    from visualizer.errors import InputError
    from visualizer.progress import CancelledError

    try:
        with ranks.job():
            work(ranks)
    except InputError as refused:
        return refused.sentence
    except CancelledError:
        return "cancelled"
    return "done"


def _main(which: str) -> None:
    from visualizer.attention.spec import Device
    from visualizer.models import model_ranks

    model_ranks.FAILURE_TIMEOUT = timedelta(seconds=SHORT_S)
    ranks = model_ranks.DistributedRanks(model_ranks.Parallelism.TENSOR, 8, Device.CPU)
    try:
        outcomes = [_outcome(ranks, works[ranks.rank]) for works in JOBS[which]]
    except RuntimeError:
        os._exit(1)  # as a process of a server does: its end would wait for what it has left
    sys.stdout.write(json.dumps(outcomes))
    sys.stdout.flush()
    os._exit(0)  # likewise: gloo may abort where the other has ended first


if __name__ == "__main__":
    _main(sys.argv[1])
