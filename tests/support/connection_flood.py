"""Floods a server with connections without a token: ``python -m … PORT SECONDS``."""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress

HELD, AT_ONCE = 400, 90
"""Number of connections that the flood keeps open, and number that it opens at the same time."""
PATIENCE_S = 0.2
GREETING = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


def flood(port: int, seconds: float) -> int:
    """Open connections as fast as possible, half of them with a request; return the number."""
    held: deque[socket.socket] = deque()
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        made = [socket.socket() for _ in range(AT_ONCE)]
        for each in made:
            each.setblocking(False)
            with suppress(OSError):
                each.connect_ex(("127.0.0.1", port))
        _, ready, _ = select.select([], made, [], PATIENCE_S)
        for each in ready[::2]:
            with suppress(OSError):  # the server has already closed the connection
                each.send(GREETING)
        held += made
        count += len(ready)
        while len(held) > HELD:
            held.popleft().close()
    for each in held:
        each.close()
    return count


if __name__ == "__main__":
    sys.stdout.write(f"{flood(int(sys.argv[1]), float(sys.argv[2]))}\n")
