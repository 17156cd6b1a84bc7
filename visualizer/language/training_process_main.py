"""The program that trains beside a window: it takes messages, trains between them, and answers.

Its messages are those of `visualizer.language.wire_format`, read from standard input and written to
standard output. When the input ends it makes a checkpoint and ends too, unless it was told to go
on. So it does when it is told to terminate, or when its terminal is closed.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from visualizer.language.training_server import TrainingServer
from visualizer.language.wire_format import Message, MessageUnpacker

if TYPE_CHECKING:
    from collections.abc import Callable

NICE = 5
"""By how much it stands back behind the window."""
PIECE = 1 << 16

Inbox = queue.SimpleQueue[Message | None]
"""Messages, and nothing when there will be no more."""


def main() -> int:
    """Serve until there is nothing more to do; give the exit status."""
    inbox: Inbox = queue.SimpleQueue()
    source, send = sys.stdin.buffer, _sender()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):  # the last: the terminal was closed
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: inbox.put(Message("stop")))
    with suppress(AttributeError, OSError):  # where there is no such thing
        os.nice(NICE)
    threading.Thread(target=_listen, args=(source, inbox), daemon=True).start()
    try:
        serve(TrainingServer(send), inbox)
    except Exception as error:  # noqa: BLE001 - the window shows it
        said = {"sentence": "The training stopped by a fault.", "details": traceback.format_exc()}
        send(Message("failed", said | {"kind": type(error).__name__}))
        return 1
    return 0


def serve(server: TrainingServer, inbox: Inbox) -> None:
    """Take messages while there are some, train while there are none, until the end."""
    is_alone = False
    while not server.is_ended:
        if is_alone and not server.is_training:
            server.end()
            break
        try:
            message = inbox.get(block=not server.is_training)
        except queue.Empty:
            server.advance()
            continue
        if message:
            server.take(message)
        elif server.stays and server.is_training:
            is_alone = True
        else:
            server.end()


def _listen(source: BinaryIO, inbox: Inbox) -> None:
    unpacker = MessageUnpacker()
    try:
        while piece := os.read(source.fileno(), PIECE):
            for message in unpacker.feed(piece):
                inbox.put(message)
    finally:
        inbox.put(None)  # else nobody could end it any more


def _sender() -> Callable[[Message], None]:
    """Give what writes to standard output, and have all else that prints there print beside it."""
    target = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(message: Message) -> None:
        left = memoryview(message.pack())
        with suppress(OSError):  # the window has gone, which each system says in its own way
            while left:
                left = left[os.write(target, left) :]

    return send


if __name__ == "__main__":
    sys.exit(main())
