"""Two ranks of a served model, without a model; they run jobs in which they synchronize."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from tests.support.forked_ranks import forked_ranks
from visualizer.models.model_server.rank_processes import STORE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from visualizer.models.model_ranks import ModelProcessGroup

    Work = Callable[[ModelProcessGroup], object]

SHORT_S = 0.2
COUNT = 2
REFUSED = "The tokenizer was lost."


def two_ranks(folder: Path, which: str) -> tuple[list[int], list[list[str]]]:
    """Run the jobs with the given name in two processes; return the statuses and job outcomes.

    Parameters
    ----------
    folder : Path
        Folder of the file by which the processes find each other.
    """
    store = {STORE_VARIABLE: str(folder / "store")}
    with forked_ranks(COUNT, folder, _do_jobs, which, **store) as ranks:
        statuses, out, _ = ranks.ended()
    return statuses, [json.loads(line) for line in out.splitlines()]


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
    """Work longer than a rank waits after a failure, and then synchronize with the other rank."""
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
    """Wait for the other rank, as a layer of a model split across several processes does."""
    import torch
    from torch import distributed

    with ranks.propagate_errors():
        distributed.all_reduce(torch.ones(1))


def _nothing(ranks: ModelProcessGroup) -> None:
    """Do nothing, so that the ranks do not synchronize."""


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
        with ranks.job_context():
            work(ranks)
    except InputError as refused:
        return refused.sentence
    except CancelledError:
        return "cancelled"
    return "done"


def _do_jobs(arguments: Sequence[str]) -> NoReturn:
    from visualizer.attention.spec import Device
    from visualizer.models import model_ranks

    (which,) = arguments
    model_ranks.FAILURE_TIMEOUT = timedelta(seconds=SHORT_S)
    ranks = model_ranks.ModelRank(model_ranks.Parallelism.TENSOR, 8, Device.CPU)
    try:
        outcomes = [_outcome(ranks, works[ranks.rank]) for works in JOBS[which]]
    except RuntimeError:
        # As a server's process does: a normal exit would wait for the unfinished operation.
        os._exit(1)
    # One write call, because both ranks write to this file.
    os.write(1, f"{json.dumps(outcomes)}\n".encode())
    os._exit(0)  # as above: gloo may abort if the other process has ended first
