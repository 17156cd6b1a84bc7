"""Main module of a rank: opens the model, or its part of the model, and runs requests."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import traceback
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from visualizer.attention.spec import Device, ModelDtype
from visualizer.errors import InputError, convert_memory_error
from visualizer.language.wire_format import BYTES_PER_READ, Message, MessageUnpacker
from visualizer.models.model_protocol.requests import IMMEDIATE_REQUESTS, JOB_REQUESTS
from visualizer.models.model_protocol.responses import encode_response_body
from visualizer.models.model_ranks import Parallelism
from visualizer.models.model_server.rank_processes import ADDRESS_VARIABLE, SECRET_VARIABLE
from visualizer.progress import CancelledError, cancel_when, check_cancelled, report_progress_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from visualizer.models.model_server.served_model import Response, ServedModel

INTERNAL_ERROR = (
    "A model process encountered an internal error. See the server’s console for details."
)


class _ServerConnection:
    def __init__(self) -> None:
        host, _, port = os.environ[ADDRESS_VARIABLE].rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        # Otherwise, consecutive small messages would wait for a delayed acknowledgement.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lock = Lock()

    def send(self, message: Message) -> None:
        with self._lock:
            self._socket.sendall(message.pack())

    def receive_messages(self) -> Iterator[Message]:
        unpacker = MessageUnpacker()
        while piece := self._socket.recv(BYTES_PER_READ):
            yield from unpacker.unpack_piece(piece)


class RankProcess:
    """Process that receives messages from the server and runs the model's jobs in order.

    Parameters
    ----------
    rank : int
        Rank of the process; rank 0 reports the progress and sends the results of jobs.
    """

    def __init__(self, link: _ServerConnection, rank: int, *, is_spread: bool) -> None:
        self._link, self._rank, self._is_spread = link, rank, is_spread
        self._jobs: SimpleQueue[Message] = SimpleQueue()
        self._reads: SimpleQueue[Message] = SimpleQueue()
        self._cancelled: set[int] = set()

    def queue_messages(self) -> None:
        """Queue incoming messages until the server disconnects; then exit the process."""
        try:
            for message in self._link.receive_messages():
                if message.kind == "cancel":
                    self._cancelled.add(message.values["id"])
                else:
                    (self._reads if message.kind in IMMEDIATE_REQUESTS else self._jobs).put(message)
        finally:
            os._exit(0)

    def run_jobs(self, model: ServedModel) -> None:
        """Run jobs and respond to immediate requests until the process exits."""
        Thread(target=self._answer_immediate_requests, args=(model,), daemon=True).start()
        while True:
            message = self._jobs.get()
            number = message.values["id"]
            self._run_and_reply(message, partial(self._run_job, model, message), self._rank == 0)
            self._cancelled.discard(number)

    def _answer_immediate_requests(self, model: ServedModel) -> None:
        while True:
            message = self._reads.get()
            request: Any = msgspec.convert(
                message.values["asked"], IMMEDIATE_REQUESTS[message.kind]
            )
            answer = getattr(model, message.kind)  # a key of `IMMEDIATE_REQUESTS`
            self._run_and_reply(message, partial(answer, request))

    def _run_job(self, model: ServedModel, message: Message) -> Response:
        number = message.values["id"]
        request: Any = msgspec.convert(message.values["asked"], JOB_REQUESTS[message.kind])

        def report_progress(done: int, of: int) -> None:
            if self._rank == 0:
                self._link.send(Message("progress", {"id": number, "done": done, "of": of}))

        def report_between_runs(done: int, of: int) -> None:
            check_cancelled()  # only between forward passes: within one, other processes would wait
            report_progress(done, of)

        def report_part(part: Response) -> None:
            if self._rank == 0:
                self._send_result("part", number, part)

        stopping = cancel_when(lambda: number in self._cancelled)
        with report_progress_to(report_progress), stopping, model.job_context():
            check_cancelled()  # the job may have been cancelled while it was queued
            if message.kind == "read":
                return model.read(number, request)
            if message.kind == "answer":
                return model.answer(request, report_between_runs, report_part)
            if message.kind == "measures":
                return model.measures(request, report_between_runs)
            if message.kind == "names":
                return model.names(request.numbers)
            return model.next_token(request)

    def _run_and_reply(
        self, message: Message, work: Callable[[], Response], has_answer: bool = True
    ) -> None:
        """Run the work of a message, and send the result, an error or a cancellation."""
        number = message.values["id"]
        try:
            answer = work()
            self._send_result("done", number, answer if has_answer else None)
        except CancelledError:
            self._link.send(Message("cancelled", {"id": number}))
        except Exception as error:  # noqa: BLE001 - reported to the client
            reported = convert_memory_error(error)
            if not isinstance(reported, InputError):
                traceback.print_exception(error, file=sys.stderr)
                if self._is_spread and message.kind in JOB_REQUESTS:
                    os._exit(1)  # other processes may be waiting for this one in a forward pass
                reported = InputError("model", INTERNAL_ERROR)
            refused = {"id": number, "field": reported.field, "sentence": reported.sentence}
            self._link.send(Message("refused", refused))

    def _send_result(self, kind: str, number: int, answer: Response | None) -> None:
        values, arrays = answer or ({}, {})
        envelope = {"id": number, "owners": values.get("owners")}
        body = encode_response_body(values, arrays) if answer else b""
        self._link.send(Message(kind, envelope, {"body": np.frombuffer(body, np.uint8)}))


def main() -> None:
    """Run one model process; the arguments are those of `RankProcesses`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", type=Device, default=Device.AUTO)
    parser.add_argument("--dtype", type=ModelDtype, default=ModelDtype.AUTO)
    parser.add_argument("--parallelism", type=Parallelism, default=Parallelism.NONE)
    options = parser.parse_args()
    rank, link = int(os.environ.get("RANK", "0")), _ServerConnection()
    link.send(Message("hello", {"rank": rank, "secret": os.environ.pop(SECRET_VARIABLE)}))
    is_spread = options.parallelism is not Parallelism.NONE
    process = RankProcess(link, rank, is_spread=is_spread)
    Thread(target=process.queue_messages, daemon=True).start()

    def report_progress(done: int, of: int) -> None:
        if rank == 0:
            link.send(Message("loading", {"done": done, "of": of}))

    try:
        from visualizer.attention.device import check_device_available
        from visualizer.models.model_server.served_model import ServedModel
        from visualizer.models.model_text_runs import open_model_folder

        check_device_available(options.device, options.dtype)
        source, model = open_model_folder(
            options.folder,
            options.device,
            options.dtype,
            progress=report_progress,
            parallelism=options.parallelism,
        )
        if model.is_image_model:
            sentence = (
                f"Cannot serve {model.folder.name}: models that take images are not supported."
            )
            raise InputError("model", sentence)
    except InputError as refused:
        link.send(Message("unable", {"sentence": refused.sentence}))
        sys.exit(1)
    served = ServedModel(source, model, options.device)
    served.warm_up_model()
    link.send(Message("ready", served.metadata))
    process.run_jobs(served)


if __name__ == "__main__":
    main()
