"""The jobs of a server: what was asked, how far it is, and what came of it, until it is fetched."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from visualizer.models.model_protocol.answer_body import answer_body
from visualizer.models.model_protocol.answer_values import JobProgress
from visualizer.models.model_server.rank_processes import JobCancelledError, JobFailedError

if TYPE_CHECKING:
    from visualizer.models.model_server.rank_processes import JobAnswer, RankProcesses

MAX_JOBS = 16
"""So many jobs may wait or run."""
MAX_CACHED_BYTES = 2**28
"""Bytes of answers that were not fetched yet; those that came first go first."""
MAX_READS = 32
"""So many readings of numbers may wait or run; others wait for their text, one a connection."""
UNASKED_S = 60.0
"""A job whose result nobody has asked for so long is given up, where another one is asked for."""
MAX_ID = 2**53
"""Numbers of jobs and runs are drawn from so many: who was not told one does not find it."""
MAX_FINISHED_JOBS = 64
HELD_S = 15.0
"""So long a request for numbers waits for the text to be read."""
SOON_S = 0.5
"""So long the request for a job waits for its answer, which saves the way of another one."""
TOO_MANY = "The server has too much to do already. Try again in a moment."
TEXT_PENDING = "The text is not read yet."
UNKNOWN_JOB = "There is no such job any more. Ask again."


class _Job:
    """One job.

    Parameters
    ----------
    number : int
        Also that of the run, where a text is read.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.progress = (0, 0)
        self.part: bytes = b""
        """What is known of the answer so far."""
        self.is_new_part = False
        self.answer: JobAnswer | None = None
        self.failure: Exception | None = None
        self.task: asyncio.Task[bool] | None = None
        self.changed = asyncio.Event()
        self.asked_s = asyncio.get_running_loop().time()
        """When its result was asked for last."""

    @property
    def is_open(self) -> bool:
        """Whether it waits or runs."""
        return self.task is not None and not self.task.done()


class ServedJobs:
    """Has jobs done by the processes of a model, one after another, and keeps their answers."""

    def __init__(self, processes: RankProcesses) -> None:
        self._processes = processes
        self._jobs: OrderedDict[int, _Job] = OrderedDict()
        self._at_once = 0
        self._called: OrderedDict[int, tuple[int, asyncio.Task[bool]]] = OrderedDict()
        """Runs of texts that are read, by the numbers that were drawn by who asked."""
        self._owners: OrderedDict[int, list[dict[str, Any]]] = OrderedDict()

    async def begun(self, says: str, asked: Any) -> bytes:
        """Begin a job, and return the body of its answer, or its number where that takes longer.

        Raises
        ------
        JobFailedError
            When there are too many.
        """
        if self._wanted(asyncio.get_running_loop().time()) >= MAX_JOBS:
            raise JobFailedError("server", TOO_MANY)
        job = _Job(secrets.randbelow(MAX_ID))
        self._jobs[job.number] = job
        job.task = asyncio.create_task(self._do(job, says, asked))
        if called := asked.get("called"):
            self._called[called] = job.number, job.task
            while len(self._called) > MAX_JOBS:
                self._called.popitem(last=False)
        self._forget()
        await asyncio.wait([job.task], timeout=SOON_S)
        if job.task.done():
            try:
                return await self.result(job.number, 0)
            finally:
                self._jobs.pop(job.number, None)  # nobody knows its number
        return answer_body({"job": job.number})

    def _wanted(self, now: float) -> int:
        """Give up the jobs that nobody asks for any more; return how many others wait or run."""
        wanted = 0
        for each in self._jobs.values():
            if each.is_open and now - each.asked_s > UNASKED_S:
                self._processes.cancel(each.number)
            else:
                wanted += each.is_open
        return wanted

    async def _do(self, job: _Job, says: str, asked: Any) -> bool:
        """Do a job; return whether it has an answer."""

        def tell(done: int, of: int) -> None:
            job.progress = (done, of)

        def report(body: bytes) -> None:
            job.part, job.is_new_part = body, True
            job.changed.set()

        try:
            answer = await self._processes.ask(job.number, says, asked, None, tell, report)
            job.answer, job.part = answer, b""
            if answer.owners:
                self._owners[job.number] = answer.owners
                while len(self._owners) > MAX_FINISHED_JOBS:
                    self._owners.popitem(last=False)
        except (JobFailedError, JobCancelledError) as failure:
            job.failure = failure
        finally:
            job.changed.set()
        return job.failure is None

    async def result(self, number: int, wait: float) -> bytes:
        """Return the body of an answer, or how far it is after some seconds.

        Raises
        ------
        JobFailedError, JobCancelledError
            As `RankProcesses.ask`; where there is no such job.
        """
        job = self._jobs.get(number)
        if job is None:
            raise JobFailedError("server", UNKNOWN_JOB)
        job.asked_s = asyncio.get_running_loop().time()
        self._wanted(job.asked_s)  # others, which nobody waits for, may be before it
        with suppress(TimeoutError):
            await asyncio.wait_for(job.changed.wait(), wait)
        if job.failure:
            raise job.failure
        if job.answer:
            return job.answer.body
        if job.is_new_part:
            job.is_new_part = False
            job.changed.clear()
            return job.part
        return answer_body(msgspec.to_builtins(JobProgress(*job.progress)))

    def cancel(self, number: int) -> None:
        """Give up a job, if it is not done."""
        job = self._jobs.get(number)
        if job and job.is_open:
            self._processes.cancel(number)

    async def at_once(self, says: str, asked: Any) -> bytes:
        """Have one process answer beside the jobs: numbers of a run where they are.

        Raises
        ------
        JobFailedError
            As the process says; when there are too many; where the text is not read soon.
        """
        if called := self._called.get(asked.get("run")):
            asked = {**asked, "run": await _read_soon(*called)}
        if self._at_once >= MAX_READS:
            raise JobFailedError("server", TOO_MANY)
        owners = self._owners.get(asked.get("run"))
        rank = _owner_of(owners, asked["place"]) if owners and asked.get("place") else 0
        self._at_once += 1
        try:
            number = secrets.randbelow(MAX_ID)
            answer = await self._processes.ask(number, says, asked, (rank,))
        finally:
            self._at_once -= 1
        return answer.body

    def _forget(self) -> None:
        """Forget answers that were kept longest, beyond what is kept."""
        done = [job for job in self._jobs.values() if not job.is_open]
        held = sum(len(job.answer.body) for job in done if job.answer)
        for at, job in enumerate(done):
            if len(done) - at <= MAX_FINISHED_JOBS and held <= MAX_CACHED_BYTES:
                return
            held -= len(job.answer.body) if job.answer else 0
            del self._jobs[job.number]


async def _read_soon(run: int, reading: asyncio.Task[bool]) -> int:
    """Wait until a text is read, and return the number of its run."""
    await asyncio.wait([reading], timeout=HELD_S)
    if not (reading.done() and reading.result()):
        raise JobFailedError("text", TEXT_PENDING)
    return run


def _owner_of(owners: list[dict[str, Any]], place: list[int]) -> int:
    """Return the process that has a head of a layer."""
    *layer, head = place
    at = layer[0] if layer else 0
    for owner in owners:
        if at in owner["layers"] and owner["first"] <= head < owner["first"] + owner["heads"]:
            return int(owner["rank"])
    raise JobFailedError("place", "There is no such layer or head.")
