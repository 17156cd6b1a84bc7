"""Entry point of the tokenizer process, which is started by `TokenizerProcess`.

Messages have the format of `visualizer.language.wire_format`. They are read from standard input and
answered on standard output, one by one. The process exits at the end of the input, after being idle
without tokenizers, and if an answer exceeds its time limit. A thread that does not need the GIL
watches the time, so the process exits whatever a tokenizer or template does, and even if the parent
process no longer waits for it.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from contextlib import suppress

from visualizer.language.wire_format import message_sender, received_messages

IDLE_S = 60.0
SKIPPED_IMPORTS = ("torch", "torchvision", "PIL")
"""Slow imports of transformers that its tokenizers do not need."""


def main() -> int:
    """Answer messages until they end, and return the exit status."""
    send = message_sender()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # terminals send it to the whole process group
    sys.modules.update(dict.fromkeys(SKIPPED_IMPORTS))  # type: ignore[arg-type]  # None blocks an import
    with suppress(Exception):  # the first use fails again, with the reason
        from transformers import AutoTokenizer  # noqa: F401 - preloaded
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
