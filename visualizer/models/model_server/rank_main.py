"""One process of a served model: it opens the model, or its part, and answers what it is sent."""

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

from visualizer.attention.spec import Device
from visualizer.errors import InputError, memory_error_in_words
from visualizer.language.wire_format import PIECE, Message, MessageUnpacker
from visualizer.models.model_protocol.answer_body import answer_body
from visualizer.models.model_protocol.requests import AT_ONCE, JOBS
from visualizer.models.model_ranks import Parallelism
from visualizer.models.model_server.rank_settings import ADDRESS, SECRET
from visualizer.progress_callback import (
    CancelledError,
    check_stopped,
    progress_told_to,
    stopped_when,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from visualizer.models.model_server.served_model import Answer, ServedModel

FAILED = "The model's process has failed at this. Its console says where."


class _Front:
    """The connection to the server."""

    def __init__(self) -> None:
        host, _, port = os.environ[ADDRESS].rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        # Several small answers after one another would wait for a delayed acknowledgement.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lock = Lock()

    def send(self, message: Message) -> None:
        with self._lock:
            self._socket.sendall(message.pack())

    def received(self) -> Iterator[Message]:
        unpacker = MessageUnpacker()
        while piece := self._socket.recv(PIECE):
            yield from unpacker.feed(piece)


class RankProcess:
    """Receives messages, and has those that run the model done in their order.

    Parameters
    ----------
    rank : int
        The number of the process; the first tells of progress and gives the answers of all.
    is_spread : bool
        Whether there are others.
    """

    def __init__(self, front: _Front, rank: int, *, is_spread: bool) -> None:
        self._front, self._rank, self._is_spread = front, rank, is_spread
        self._jobs: SimpleQueue[Message] = SimpleQueue()
        self._reads: SimpleQueue[Message] = SimpleQueue()
        self._cancelled: set[int] = set()

    def receive(self) -> None:
        """Put what comes into the queues, until the server has gone; then end the process."""
        try:
            for message in self._front.received():
                if message.says == "cancel":
                    self._cancelled.add(message.values["id"])
                else:
                    (self._reads if message.says in AT_ONCE else self._jobs).put(message)
        finally:
            os._exit(0)

    def serve(self, model: ServedModel) -> None:
        """Answer for ever."""
        Thread(target=self._read, args=(model,), daemon=True).start()
        while True:
            message = self._jobs.get()
            number = message.values["id"]
            self._do(message, partial(self._job, model, message), self._rank == 0)
            self._cancelled.discard(number)

    def _read(self, model: ServedModel) -> None:
        while True:
            message = self._reads.get()
            asked: Any = msgspec.convert(message.values["asked"], AT_ONCE[message.says])
            answer = getattr(model, message.says)  # one of `AT_ONCE`
            self._do(message, partial(answer, asked))

    def _job(self, model: ServedModel, message: Message) -> Answer:
        number = message.values["id"]
        asked: Any = msgspec.convert(message.values["asked"], JOBS[message.says])

        def tell(done: int, of: int) -> None:
            if self._rank == 0:
                self._front.send(Message("progress", {"id": number, "done": done, "of": of}))

        def tell_between_runs(done: int, of: int) -> None:
            check_stopped()  # on this process alone: within a run others would wait for it
            tell(done, of)

        def report(part: Answer) -> None:
            if self._rank == 0:
                self._send("part", number, part)

        stopping = stopped_when(lambda: number in self._cancelled)
        with progress_told_to(tell), stopping, model.job():
            check_stopped()  # it may have waited
            if message.says == "read":
                return model.read(number, asked)
            if message.says == "answer":
                return model.answer(asked, tell_between_runs, report)
            if message.says == "measures":
                return model.measures(asked, tell_between_runs)
            if message.says == "names":
                return model.names(asked.numbers)
            return model.next_token(asked)

    def _do(self, message: Message, work: Callable[[], Answer], has_answer: bool = True) -> None:
        """Do what a message asks for, and send what comes of it, or that it is done."""
        number = message.values["id"]
        try:
            answer = work()
            self._send("done", number, answer if has_answer else None)
        except CancelledError:
            self._front.send(Message("cancelled", {"id": number}))
        except Exception as error:  # noqa: BLE001 - said where it was asked
            said = memory_error_in_words(error)
            if not isinstance(said, InputError):
                traceback.print_exception(error, file=sys.stderr)
                if self._is_spread and message.says in JOBS:
                    os._exit(1)  # others may wait for this one in the model
                said = InputError("model", FAILED)
            refused = {"id": number, "field": said.field, "sentence": said.sentence}
            self._front.send(Message("refused", refused))

    def _send(self, says: str, number: int, answer: Answer | None) -> None:
        values, arrays = answer or ({}, {})
        envelope = {"id": number, "owners": values.get("owners")}
        body = answer_body(values, arrays) if answer else b""
        self._front.send(Message(says, envelope, {"body": np.frombuffer(body, np.uint8)}))


def main() -> None:
    """Run one process; its arguments are the model's folder, the device and the parallelism."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", type=Device, default=Device.AUTO)
    parser.add_argument("--parallelism", type=Parallelism, default=Parallelism.NONE)
    options = parser.parse_args()
    rank, front = int(os.environ.get("RANK", "0")), _Front()
    front.send(Message("hello", {"rank": rank, "secret": os.environ.pop(SECRET)}))
    is_spread = options.parallelism is not Parallelism.NONE
    process = RankProcess(front, rank, is_spread=is_spread)
    Thread(target=process.receive, daemon=True).start()

    def tell(done: int, of: int) -> None:
        if rank == 0:
            front.send(Message("loading", {"done": done, "of": of}))

    try:
        from visualizer.attention.device import check_available
        from visualizer.models.model_server.served_model import ServedModel
        from visualizer.models.text_reading import open_source

        check_available(options.device)
        source, model = open_source(
            options.folder, options.device, progress=tell, parallelism=options.parallelism
        )
        if model.reads_images:
            sentence = f"{model.folder.name} reads images, which are not sent to a server yet."
            raise InputError("model", sentence)
    except InputError as refused:
        front.send(Message("unable", {"sentence": refused.sentence}))
        sys.exit(1)
    served = ServedModel(source, model, options.device)
    served.warm_up()
    front.send(Message("ready", served.facts))
    process.serve(served)


if __name__ == "__main__":
    main()
