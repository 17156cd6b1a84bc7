"""Entry point of the process that splits texts into tokens, as `TokenizerProcess` starts it.

Messages have the format of `visualizer.language.wire_format`; they are read from standard input and
answered on standard output, one by one. The process exits when the input ends, when it is asked
nothing for a time in which it keeps no tokenizer, and when an answer takes longer than its message
allows. A thread that needs no lock of Python's watches the times, so that it ends whatever a
tokenizer or a template does, and whether anyone still waits for it.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from contextlib import suppress

from visualizer.language.wire_format import message_sender, received_messages

IDLE_S = 60.0
SKIPPED_IMPORTS = ("torch", "torchvision", "PIL")
"""What transformers would import at length, though its tokenizers do without."""


def main() -> int:
    """Answer messages until they end, and return the exit status."""
    send = message_sender()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all of its processes
    sys.modules.update(dict.fromkeys(SKIPPED_IMPORTS))  # type: ignore[arg-type]  # as of what is missing
    with suppress(Exception):  # it fails again where it is used, which says why
        from transformers import AutoTokenizer  # noqa: F401 - imported before it is asked for
    from visualizer.models.tokenizer_server import TokenizerServer

    server = TokenizerServer()
    faulthandler.dump_traceback_later(IDLE_S, exit=True)
    for message in received_messages(sys.stdin.fileno()):
        faulthandler.dump_traceback_later(message.values["seconds"], exit=True)
        answer = server.answer(message)
        faulthandler.cancel_dump_traceback_later()
        send(answer)
        if server.is_empty:
            faulthandler.dump_traceback_later(IDLE_S, exit=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
