"""Entry point of the training process, which trains and responds to a window's messages.

Messages have the format of `visualizer.language.wire_format`. They are read from standard input,
and responses are written to standard output. The process writes a checkpoint and exits on SIGTERM,
SIGINT and SIGHUP, and when the input ends, unless it was asked to continue in the background.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import traceback
from contextlib import suppress

from visualizer.language.training_server import STOP_CHECK_INTERVAL_S, TrainingServer
from visualizer.language.wire_format import (
    Inbox,
    Message,
    open_message_sender,
    read_into_inbox,
)

PROCESS_NICENESS = 5
"""Niceness of the process, which gives the window priority."""


def main() -> int:
    """Handle messages until the server ends, and return the exit status."""
    inbox: Inbox = queue.SimpleQueue()
    source, send = sys.stdin.buffer, open_message_sender()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):  # SIGHUP means that the terminal was closed
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: inbox.put(Message("end")))
    with suppress(AttributeError, OSError):  # niceness may not be supported
        os.nice(PROCESS_NICENESS)
    threading.Thread(target=read_into_inbox, args=(source, inbox), daemon=True).start()
    try:
        run_server(TrainingServer(send), inbox)
    except Exception as error:  # noqa: BLE001 - the window shows it
        failure = {
            "sentence": "Training stopped because of an internal error.",
            "details": traceback.format_exc(),
        }
        send(Message("failed", failure | {"kind": type(error).__name__}))
        return 1
    return 0


def run_server(server: TrainingServer, inbox: Inbox) -> None:
    """Handle messages until the server ends; train while no message is waiting."""
    is_alone = False
    while not server.is_ended:
        if is_alone and not server.is_training:
            server.save_and_stop()
            break
        try:
            message = inbox.get(timeout=0 if server.is_training else STOP_CHECK_INTERVAL_S)
        except queue.Empty:
            if server.is_training:
                server.train_one_step()
            else:
                server.check_stop_request()
            continue
        if message:
            server.handle_message(message)
        elif server.keeps_running and server.is_training:
            is_alone = True
        else:
            server.save_and_stop()


if __name__ == "__main__":
    sys.exit(main())
