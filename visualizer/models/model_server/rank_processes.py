"""The processes of a served model, as the server sees them: it starts, asks and ends them.

There is no torch here: the server answers whatever its processes do. They are started from here and
not by ``torchrun``, whose store listens on all networks and takes pickles from anybody: the store
by which they find each other is a file in a folder of this user.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from visualizer.attention.spec import Device
from visualizer.errors import reason_of
from visualizer.language.wire_format import PIECE, Message, MessageUnpacker
from visualizer.models.model_server.rank_settings import ADDRESS, SECRET, STORE
from visualizer.resources import import_path_with_package

if TYPE_CHECKING:
    from collections.abc import Callable

RANK_MODULE = "visualizer.models.model_server.rank_main"
LOOPBACK = ("lo", "lo0")
"""What the network interface is called, on Linux and on macOS, that nothing outside reaches."""
MESSAGES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Variables that say by which interface torch's processes send each other numbers."""
GPUS = "CUDA_VISIBLE_DEVICES"
"""Variable that says which GPUs there are; transformers spreads a model over them if it can."""
MAX_HELLO_BYTES = 1_000
"""Bytes of the message by which a process proves to be one."""
ENDED_S = 10.0
"""So long processes have to end by themselves."""
LOST = "A process of the model has ended ({why}), so the server ends, too. Start it again."

START_ERROR = "No process can be started for the model: {why}."


class StartError(Exception):
    """The model cannot be served; its text is the reason, as a sentence."""


class JobFailedError(Exception):
    """What was asked is refused, with a field and a sentence as `InputError` has them."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field, self.sentence = field, sentence


class JobCancelledError(Exception):
    """What was asked has been given up."""


class JobAnswer(Struct, frozen=True, eq=False):
    """What came of a job: the body of the answer, and which process has which part of a run."""

    body: bytes
    owners: list[dict[str, Any]] | None = None


class _Question(Struct, eq=False):
    """What was sent to some processes, and what they have not answered yet."""

    future: asyncio.Future[JobAnswer]
    waiting: set[int]
    told: Callable[[int, int], object]
    reported: Callable[[bytes], object]
    answer: JobAnswer | None = None
    failure: Exception | None = None


class RankProcesses:
    """Starts the processes of a model, and asks them.

    Parameters
    ----------
    folder : Path
        The model's.
    count : int
        How many processes.
    parallelism : str
        How the model is spread over them.
    """

    def __init__(self, folder: Path, device: str, count: int, parallelism: str) -> None:
        self._folder, self._device = folder, device
        self.count, self._parallelism = count, parallelism
        self._secret = secrets.token_hex(32)
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._asked: dict[int, _Question] = {}
        self._started_processes: list[asyncio.subprocess.Process] = []
        self._store = TemporaryDirectory(prefix="attention-visualizer-")
        self._started: asyncio.Future[dict[str, Any]] | None = None
        self._ready = 0
        self._facts: dict[str, Any] = {}
        self.ended = asyncio.Event()
        """Set once a process has ended."""
        self.lost = ""
        """Why nothing is answered any more, as a sentence."""

    async def start(self, told: Callable[[int, int], object]) -> dict[str, Any]:
        """Start the processes, and return what is known of the model once all have opened it.

        Parameters
        ----------
        told : callable
            Called with the bytes of weights read and their total.

        Raises
        ------
        StartError
            When the model cannot be opened.
        """
        self._told = told
        self._started = asyncio.get_running_loop().create_future()
        try:
            self._listener = await asyncio.start_server(self._take, "127.0.0.1", 0)
            await self._start_processes()
        except OSError as error:
            raise StartError(START_ERROR.format(why=reason_of(error))) from error
        self._watching = asyncio.create_task(self._watch(self._listener))
        return await self._started

    async def _start_processes(self) -> None:
        host, port = self._listener.sockets[0].getsockname()[:2]
        address = f"{host}:{port}"
        try:
            for rank in range(self.count):
                started = await asyncio.create_subprocess_exec(
                    *self._command(), env=self._environment(rank, address),
                    stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
                self._started_processes.append(started)
        except OSError:
            self._listener.close()
            raise

    def _command(self) -> list[str]:
        return [
            sys.executable, "-P", "-m", RANK_MODULE, str(self._folder), "--device", self._device,
            "--parallelism", self._parallelism,
        ]  # fmt: skip

    def _environment(self, rank: int, address: str) -> dict[str, str]:
        threads = max(1, (os.cpu_count() or 1) // self.count)
        shared = {"OMP_NUM_THREADS": str(threads)} if self.count > 1 else {}
        loopback = [name for _, name in socket.if_nameindex() if name in LOOPBACK]
        hidden = {GPUS: ""} if self._device == Device.CPU else {}
        return {
            **shared,
            **{name: loopback[0] for name in MESSAGES if loopback},
            **os.environ,
            **hidden,
            ADDRESS: address,
            SECRET: self._secret,
            STORE: str(Path(self._store.name) / "store"),
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(self.count),
            "PYTHONPATH": import_path_with_package(os.environ.get("PYTHONPATH", "")),
        }

    async def _watch(self, listener: asyncio.Server) -> None:
        waits = [asyncio.create_task(each.wait()) for each in self._started_processes]
        ended, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        status = next(iter(ended)).result()
        listener.close()
        why = f"signal {-status}" if status < 0 else f"status {status}"
        self._lose(LOST.format(why=why))
        await asyncio.wait(waits)

    def _lose(self, sentence: str) -> None:
        self.lost = self.lost or sentence
        assert self._started
        if not self._started.done():
            self._started.set_exception(StartError(self.lost))
        for asked in self._asked.values():
            if not asked.future.done():
                asked.future.set_exception(JobFailedError("model", self.lost))
        self._asked.clear()
        self.ended.set()

    # ------------------------------------------------------------------ asking

    async def ask(
        self,
        number: int,
        says: str,
        asked: Any,
        ranks: tuple[int, ...] | None = None,
        told: Callable[[int, int], object] = lambda done, of: None,
        reported: Callable[[bytes], object] = lambda body: None,
    ) -> JobAnswer:
        """Send a message to processes, and return the answer of the first of them.

        Parameters
        ----------
        ranks : tuple of int, optional
            The processes; all of them, in the same order of messages, without it.
        told, reported : callable
            Given the progress, and bodies of parts of the answer.

        Raises
        ------
        JobFailedError, JobCancelledError
            As the processes say.
        """
        if self.lost:
            raise JobFailedError("model", self.lost)
        wanted = tuple(range(self.count)) if ranks is None else ranks
        future: asyncio.Future[JobAnswer] = asyncio.get_running_loop().create_future()
        self._asked[number] = _Question(future, {*wanted}, told, reported)
        message = Message(says, {"id": number, "asked": asked}).pack()
        for rank in wanted:  # without waiting in between, so that the order is that of all
            self._writers[rank].write(message)
        return await future

    def cancel(self, number: int) -> None:
        """Have the processes give a job up."""
        message = Message("cancel", {"id": number}).pack()
        for writer in self._writers.values():
            writer.write(message)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the messages of one process, once it has proved to be one."""
        unpacker, rank = MessageUnpacker(), -1
        try:
            while piece := await reader.read(MAX_HELLO_BYTES if rank < 0 else PIECE * 16):
                for message in unpacker.feed(piece):
                    if rank < 0:
                        rank = self._greet(message, writer)
                    else:
                        self._answer(rank, message)
                if rank < 0:
                    return
        except (OSError, ValueError, TypeError):
            pass
        finally:
            writer.close()
            if rank >= 0 and not self.lost:
                self._end_all(at_once=False)

    def _greet(self, message: Message, writer: asyncio.StreamWriter) -> int:
        values = message.values if isinstance(message.values, dict) else {}
        secret, rank = str(values.get("secret")).encode(), values.get("rank")
        is_known = secrets.compare_digest(secret, self._secret.encode())
        if message.says != "hello" or not is_known or not isinstance(rank, int) or self.lost:
            return -1
        self._writers[rank] = writer
        if len(self._writers) == self.count:
            self._listener.close()
        return rank

    def _answer(self, rank: int, message: Message) -> None:
        assert self._started
        if message.says == "loading":
            self._told(message.values["done"], message.values["of"])
        elif message.says == "unable":
            self._lose(message.values["sentence"])
        elif message.says == "ready":
            self._ready += 1
            self._facts = dict(message.values) if rank == 0 else self._facts
            if self._ready == self.count and not self._started.done():
                self._started.set_result(self._facts)
        elif (asked := self._asked.get(message.values["id"])) is not None:
            self._take_answer(asked, rank, message)

    def _take_answer(self, asked: _Question, rank: int, message: Message) -> None:
        values = message.values
        if message.says == "progress":
            asked.told(values["done"], values["of"])
            return
        if message.says == "part":
            asked.reported(message.arrays["body"].tobytes())
            return
        asked.waiting.discard(rank)
        if message.says == "refused":
            asked.failure = JobFailedError(values["field"], values["sentence"])
        elif message.says == "cancelled":
            asked.failure = asked.failure or JobCancelledError()
        elif body := message.arrays["body"].tobytes():  # of one of them alone
            asked.answer = JobAnswer(body, values["owners"])
        if asked.waiting:
            return
        del self._asked[values["id"]]
        if asked.future.done():
            return
        if asked.failure:
            asked.future.set_exception(asked.failure)
        else:
            assert asked.answer
            asked.future.set_result(asked.answer)

    async def close(self) -> None:
        """End the processes."""
        self.lost = self.lost or "The server is closed."
        for writer in self._writers.values():  # without the server they end by themselves
            writer.close()
        for at_once in (None, False, True):
            if at_once is not None:
                self._end_all(at_once=at_once)
            with suppress(TimeoutError):
                for each in self._started_processes:
                    await asyncio.wait_for(each.wait(), ENDED_S)
                break
        self._store.cleanup()

    def _end_all(self, *, at_once: bool) -> None:
        """End the processes with those that they started."""
        for each in self._started_processes:
            if each.returncode is None:
                with suppress(ProcessLookupError):
                    if sys.platform == "win32":  # it has neither such groups nor a gentle end
                        each.kill()
                    else:
                        os.killpg(each.pid, signal.SIGKILL if at_once else signal.SIGTERM)
