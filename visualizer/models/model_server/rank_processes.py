"""Starts and stops the model processes of a server, and sends them requests.

This module does not import torch, so the server always stays responsive. It does not use
``torchrun``, because the rendezvous store of ``torchrun`` listens on all networks and accepts
pickles from any client; the store used here is a file in a private folder of the user.
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

from visualizer.attention.spec import Device, ModelDtype
from visualizer.errors import system_error_reason
from visualizer.language.wire_format import BYTES_PER_READ, Message, MessageUnpacker
from visualizer.progress import ignore_progress
from visualizer.resources import python_path_with_package

if TYPE_CHECKING:
    from collections.abc import Callable

ADDRESS_VARIABLE = "ATTENTION_VISUALIZER_FRONT"
"""Environment variable for the address at which the server listens for its processes."""
SECRET_VARIABLE = "ATTENTION_VISUALIZER_FRONT_SECRET"
"""Environment variable for the secret with which a process authenticates itself to the server."""
STORE_VARIABLE = "ATTENTION_VISUALIZER_RANK_STORE"
"""Environment variable for the path of the rendezvous store of torch.distributed."""
RANK_MODULE = "visualizer.models.model_server.rank_main"
LOOPBACK_INTERFACES = ("lo", "lo0")
"""Names of the loopback interface on Linux and macOS."""
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Environment variables for the network interface that torch.distributed uses."""
GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable for the GPUs across which transformers splits a model if possible."""
MAX_HELLO_BYTES = 1_000
"""Maximum size, in bytes, of the message with which a process authenticates itself."""
STOP_TIMEOUT_S = 10.0
"""Time, in seconds, that processes have to exit before they are terminated, and again before they
are killed.
"""
PROCESS_LOST_ERROR = (
    "A model process exited unexpectedly ({why}). The server is shutting down; start it again."
)
START_ERROR = "Cannot start a model process: {why}."


class ServerStartError(Exception):
    """The model cannot be served; the error text is the message for the user."""


class JobFailedError(Exception):
    """A job failed; the error has a field and a message, like `InputError`."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field, self.sentence = field, sentence


class JobCancelledError(Exception):
    """A job was cancelled."""


class JobResult(Struct, frozen=True, eq=False):
    """Result of a job: the response body, and the layers and heads that each process holds."""

    body: bytes
    owners: list[dict[str, Any]] | None = None


class _PendingRequest(Struct, eq=False):
    """A message sent to some processes, and the processes that have not responded yet."""

    future: asyncio.Future[JobResult]
    waiting: set[int]
    on_progress: Callable[[int, int], object]
    on_part: Callable[[bytes], object]
    answer: JobResult | None = None
    failure: Exception | None = None


class RankProcesses:
    """The processes of a model, which respond to the requests of the server.

    Parameters
    ----------
    parallelism : str
        How the model is split across the processes.
    dtype : str
        The type in which the model computes.
    """

    def __init__(
        self,
        folder: Path,
        device: str,
        count: int,
        parallelism: str,
        dtype: str = ModelDtype.AUTO,
    ) -> None:
        self._folder, self._device, self._dtype = folder, device, dtype
        self.count, self._parallelism = count, parallelism
        self._secret = secrets.token_hex(32)
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._pending: dict[int, _PendingRequest] = {}
        self._started_processes: list[asyncio.subprocess.Process] = []
        self._store = TemporaryDirectory(prefix="attention-visualizer-")
        self._started: asyncio.Future[dict[str, Any]] | None = None
        self._ready = 0
        self._metadata: dict[str, Any] = {}
        self.ended = asyncio.Event()
        """Set when a process has exited."""
        self.lost = ""
        """Message that explains why the processes no longer respond; empty while they do."""

    async def start(self, on_loading: Callable[[int, int], object]) -> dict[str, Any]:
        """Start the processes, wait until all have opened the model, and return its metadata.

        Parameters
        ----------
        on_loading : callable
            Called with the number of bytes of weights that have been read, and the total.

        Raises
        ------
        ServerStartError
            If a process cannot be started or the model cannot be opened.
        """
        self._on_loading = on_loading
        self._started = asyncio.get_running_loop().create_future()
        try:
            self._listener = await asyncio.start_server(self._receive_messages, "127.0.0.1", 0)
            await self._start_processes()
        except OSError as error:
            raise ServerStartError(START_ERROR.format(why=system_error_reason(error))) from error
        self._watch_task = asyncio.create_task(self._watch_processes(self._listener))
        return await self._started

    async def _start_processes(self) -> None:
        host, port = self._listener.sockets[0].getsockname()[:2]
        address = f"{host}:{port}"
        try:
            for rank in range(self.count):
                started = await asyncio.create_subprocess_exec(
                    *self._rank_command(), env=self._rank_environment(rank, address),
                    stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
                self._started_processes.append(started)
        except OSError:
            self._listener.close()
            raise

    def _rank_command(self) -> list[str]:
        return [
            sys.executable, "-P", "-m", RANK_MODULE, str(self._folder), "--device", self._device,
            "--parallelism", self._parallelism, "--dtype", self._dtype,
        ]  # fmt: skip

    def _rank_environment(self, rank: int, address: str) -> dict[str, str]:
        threads = max(1, (os.cpu_count() or 1) // self.count)
        shared = {"OMP_NUM_THREADS": str(threads)} if self.count > 1 else {}
        loopback = [name for _, name in socket.if_nameindex() if name in LOOPBACK_INTERFACES]
        hidden = {GPUS_VARIABLE: ""} if self._device == Device.CPU else {}
        return {
            **shared,
            **{name: loopback[0] for name in INTERFACE_VARIABLES if loopback},
            **os.environ,
            **hidden,
            ADDRESS_VARIABLE: address,
            SECRET_VARIABLE: self._secret,
            STORE_VARIABLE: str(Path(self._store.name) / "store"),
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(self.count),
            "PYTHONPATH": python_path_with_package(os.environ.get("PYTHONPATH", "")),
        }

    async def _watch_processes(self, listener: asyncio.Server) -> None:
        waits = [asyncio.create_task(each.wait()) for each in self._started_processes]
        ended, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        status = next(iter(ended)).result()
        listener.close()
        why = f"signal {-status}" if status < 0 else f"status {status}"
        self._fail_pending_requests(PROCESS_LOST_ERROR.format(why=why))
        await asyncio.wait(waits)

    def _fail_pending_requests(self, sentence: str) -> None:
        self.lost = self.lost or sentence
        assert self._started
        if not self._started.done():
            self._started.set_exception(ServerStartError(self.lost))
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(JobFailedError("model", self.lost))
        self._pending.clear()
        self.ended.set()

    # ------------------------------------------------------------------ requests

    async def ask(
        self,
        number: int,
        kind: str,
        request: Any,
        ranks: tuple[int, ...] | None = None,
        on_progress: Callable[[int, int], object] = ignore_progress,
        on_part: Callable[[bytes], object] = lambda body: None,
    ) -> JobResult:
        """Send a request to processes, and return their joint result.

        Parameters
        ----------
        ranks : tuple of int, optional
            The processes; all by default. Every process receives its messages in the order in which
            they were sent.
        on_progress, on_part : callable
            Called with the progress, and with the bodies of partial results.

        Raises
        ------
        JobFailedError, JobCancelledError
            As reported by the processes.
        """
        if self.lost:
            raise JobFailedError("model", self.lost)
        receivers = tuple(range(self.count)) if ranks is None else ranks
        future: asyncio.Future[JobResult] = asyncio.get_running_loop().create_future()
        self._pending[number] = _PendingRequest(future, {*receivers}, on_progress, on_part)
        message = Message(kind, {"id": number, "asked": request}).pack()
        # Nothing is awaited here, so that all processes receive messages in the same order.
        for rank in receivers:
            self._writers[rank].write(message)
        return await future

    def cancel(self, number: int) -> None:
        """Cancel a job in all processes."""
        message = Message("cancel", {"id": number}).pack()
        for writer in self._writers.values():
            writer.write(message)

    async def _receive_messages(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Authenticate one process, and handle its messages."""
        unpacker, rank = MessageUnpacker(), -1
        try:
            while piece := await reader.read(MAX_HELLO_BYTES if rank < 0 else BYTES_PER_READ * 16):
                for message in unpacker.unpack_piece(piece):
                    if rank < 0:
                        rank = self._register_process(message, writer)
                    else:
                        self._handle_message(rank, message)
                if rank < 0:
                    return
        except (OSError, ValueError, TypeError):
            pass
        finally:
            writer.close()
            if rank >= 0 and not self.lost:
                self._signal_all_processes(kill=False)

    def _register_process(self, message: Message, writer: asyncio.StreamWriter) -> int:
        values = message.values if isinstance(message.values, dict) else {}
        secret, rank = str(values.get("secret")).encode(), values.get("rank")
        is_authentic = secrets.compare_digest(secret, self._secret.encode())
        if message.kind != "hello" or not is_authentic or not isinstance(rank, int) or self.lost:
            return -1
        self._writers[rank] = writer
        if len(self._writers) == self.count:
            self._listener.close()
        return rank

    def _handle_message(self, rank: int, message: Message) -> None:
        assert self._started
        if message.kind == "loading":
            self._on_loading(message.values["done"], message.values["of"])
        elif message.kind == "unable":
            self._fail_pending_requests(message.values["sentence"])
        elif message.kind == "ready":
            self._ready += 1
            self._metadata = dict(message.values) if rank == 0 else self._metadata
            if self._ready == self.count and not self._started.done():
                self._started.set_result(self._metadata)
        elif (pending := self._pending.get(message.values["id"])) is not None:
            self._handle_result(pending, rank, message)

    def _handle_result(self, pending: _PendingRequest, rank: int, message: Message) -> None:
        values = message.values
        if message.kind == "progress":
            pending.on_progress(values["done"], values["of"])
            return
        if message.kind == "part":
            pending.on_part(message.arrays["body"].tobytes())
            return
        pending.waiting.discard(rank)
        if message.kind == "refused":
            pending.failure = JobFailedError(values["field"], values["sentence"])
        elif message.kind == "cancelled":
            pending.failure = pending.failure or JobCancelledError()
        elif body := message.arrays["body"].tobytes():  # only one process sends a body
            pending.answer = JobResult(body, values["owners"])
        if pending.waiting:
            return
        del self._pending[values["id"]]
        if pending.future.done():
            return
        if pending.failure:
            pending.future.set_exception(pending.failure)
        else:
            assert pending.answer
            pending.future.set_result(pending.answer)

    async def close(self) -> None:
        """Stop the processes: disconnect them, then terminate them, then kill them."""
        self.lost = self.lost or "The server has shut down."
        for writer in self._writers.values():  # processes exit when the server disconnects
            writer.close()
        for kill in (None, False, True):
            if kill is not None:
                self._signal_all_processes(kill=kill)
            with suppress(TimeoutError):
                for each in self._started_processes:
                    await asyncio.wait_for(each.wait(), STOP_TIMEOUT_S)
                break
        self._store.cleanup()

    def _signal_all_processes(self, *, kill: bool) -> None:
        """Terminate or kill the processes and their child processes."""
        for each in self._started_processes:
            if each.returncode is None:
                with suppress(ProcessLookupError):
                    if sys.platform == "win32":  # which has neither process groups nor SIGTERM
                        each.kill()
                    else:
                        os.killpg(each.pid, signal.SIGKILL if kill else signal.SIGTERM)
