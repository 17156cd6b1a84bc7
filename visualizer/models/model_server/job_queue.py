"""Queue of jobs that run the model; stores their results until they are fetched."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from visualizer.models.model_protocol.requests import MAX_ID, UNKNOWN_HEAD_ERROR
from visualizer.models.model_protocol.responses import JobProgress, encode_response_body
from visualizer.models.model_server.rank_processes import JobCancelledError, JobFailedError

if TYPE_CHECKING:
    from visualizer.models.model_server.rank_processes import JobResult, RankProcesses

MAX_JOBS = 16
"""Maximum number of queued and running jobs."""
MAX_CACHED_BYTES = 2**28
"""Maximum total size of stored results, in bytes; the oldest are dropped first."""
MAX_READS = 32
"""Maximum number of active immediate requests. Requests that wait for a text are limited only by
the number of connections.
"""
ABANDON_TIMEOUT_S = 60.0
"""Time in seconds after which a job is abandoned if its result is not requested; abandoned jobs are
cancelled when a client starts another job or requests its result.
"""
MAX_FINISHED_JOBS = 64
"""Maximum number of stored results, and of runs for which the queue knows the owner of each part.
"""
READ_TIMEOUT_S = 15.0
"""Maximum time, in seconds, that a request for values waits until the text has been processed."""
START_TIMEOUT_S = 0.5
"""Time, in seconds, for which the request that starts a job waits for the result; this can save a
round trip.
"""
SERVER_BUSY_ERROR = "The server is busy. Try again in a moment."
TEXT_PENDING_ERROR = "The server is still processing the text. Try again in a moment."
UNKNOWN_JOB_ERROR = "The job no longer exists. Repeat the request."


class _ModelJob:
    """One job; its number is also the id of the run if the job processes a text."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.progress = (0, 0)
        self.part: bytes = b""
        """Body of the latest partial result."""
        self.is_new_part = False
        self.answer: JobResult | None = None
        self.failure: Exception | None = None
        self.task: asyncio.Task[bool] | None = None
        self.changed = asyncio.Event()
        self.requested_at = asyncio.get_running_loop().time()
        """Time of the last request for the job's result, in seconds of the event loop's clock."""

    @property
    def is_open(self) -> bool:
        """Whether the job is queued or running."""
        return self.task is not None and not self.task.done()


class JobQueue:
    """Queue of jobs for the processes of a model; stores results until they are fetched."""

    def __init__(self, processes: RankProcesses) -> None:
        self._processes = processes
        self._jobs: OrderedDict[int, _ModelJob] = OrderedDict()
        self._active_reads = 0
        self._runs_by_request: OrderedDict[int, tuple[int, asyncio.Task[bool]]] = OrderedDict()
        """Run id and task of each text being processed, by the id that the client chose."""
        self._owners: OrderedDict[int, list[dict[str, Any]]] = OrderedDict()

    async def start(self, kind: str, request: Any) -> bytes:
        """Start a job, and return the body with its result, or with its id if the job takes longer.

        Raises
        ------
        JobFailedError
            If too many jobs are open, or the job fails immediately.
        """
        if self._cancel_abandoned_jobs(asyncio.get_running_loop().time()) >= MAX_JOBS:
            raise JobFailedError("server", SERVER_BUSY_ERROR)
        job = _ModelJob(secrets.randbelow(MAX_ID))
        self._jobs[job.number] = job
        job.task = asyncio.create_task(self._run_job(job, kind, request))
        if called := request.get("called"):
            self._runs_by_request[called] = job.number, job.task
            while len(self._runs_by_request) > MAX_JOBS:
                self._runs_by_request.popitem(last=False)
        self._drop_old_results()
        await asyncio.wait([job.task], timeout=START_TIMEOUT_S)
        if job.task.done():
            try:
                return await self.result(job.number, 0)
            finally:
                self._jobs.pop(job.number, None)  # its id was not sent to the client
        return encode_response_body({"job": job.number})

    def _cancel_abandoned_jobs(self, now: float) -> int:
        """Cancel abandoned jobs, and return the number of other open jobs."""
        active = 0
        for each in self._jobs.values():
            if each.is_open and now - each.requested_at > ABANDON_TIMEOUT_S:
                self._processes.cancel(each.number)
            else:
                active += each.is_open
        return active

    async def _run_job(self, job: _ModelJob, kind: str, request: Any) -> bool:
        """Run a job, and return whether it succeeded."""

        def report_progress(done: int, of: int) -> None:
            job.progress = (done, of)

        def report_part(body: bytes) -> None:
            job.part, job.is_new_part = body, True
            job.changed.set()

        try:
            answer = await self._processes.ask(
                job.number, kind, request, None, report_progress, report_part
            )
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
        """Return the body with the result or, after ``wait`` seconds, a partial result or progress.

        Raises
        ------
        JobFailedError, JobCancelledError
            As in `RankProcesses.ask`; also if the job does not exist.
        """
        job = self._jobs.get(number)
        if job is None:
            raise JobFailedError("server", UNKNOWN_JOB_ERROR)
        job.requested_at = asyncio.get_running_loop().time()
        # Abandoned jobs may be queued before this one.
        self._cancel_abandoned_jobs(job.requested_at)
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
        return encode_response_body(msgspec.to_builtins(JobProgress(*job.progress)))

    def cancel(self, number: int) -> None:
        """Cancel a job that is queued or running."""
        job = self._jobs.get(number)
        if job and job.is_open:
            self._processes.cancel(number)

    async def fetch_now(self, kind: str, request: Any) -> bytes:
        """Return the values from the process that holds them, outside the job queue.

        Raises
        ------
        JobFailedError
            As reported by the process; also if too many requests are active, or the text is not
            processed in time.
        """
        if called := self._runs_by_request.get(request.get("run")):
            request = {**request, "run": await _wait_for_run(*called)}
        if self._active_reads >= MAX_READS:
            raise JobFailedError("server", SERVER_BUSY_ERROR)
        owners = self._owners.get(request.get("run"))
        rank = (
            _find_rank_of_head(owners, request["place"]) if owners and request.get("place") else 0
        )
        self._active_reads += 1
        try:
            number = secrets.randbelow(MAX_ID)
            answer = await self._processes.ask(number, kind, request, (rank,))
        finally:
            self._active_reads -= 1
        return answer.body

    def _drop_old_results(self) -> None:
        finished = [job for job in self._jobs.values() if not job.is_open]
        stored_bytes = sum(len(job.answer.body) for job in finished if job.answer)
        for at, job in enumerate(finished):
            if len(finished) - at <= MAX_FINISHED_JOBS and stored_bytes <= MAX_CACHED_BYTES:
                return
            stored_bytes -= len(job.answer.body) if job.answer else 0
            del self._jobs[job.number]


async def _wait_for_run(run: int, reading: asyncio.Task[bool]) -> int:
    """Wait until a text has been processed, and return the id of its run."""
    await asyncio.wait([reading], timeout=READ_TIMEOUT_S)
    if not (reading.done() and reading.result()):
        raise JobFailedError("text", TEXT_PENDING_ERROR)
    return run


def _find_rank_of_head(owners: list[dict[str, Any]], place: list[int]) -> int:
    """Return the rank of the process that holds the given head."""
    *leading, head = place
    layer = leading[0] if leading else 0
    for owner in owners:
        if layer in owner["layers"] and owner["first"] <= head < owner["first"] + owner["heads"]:
            return int(owner["rank"])
    raise JobFailedError("place", UNKNOWN_HEAD_ERROR)
