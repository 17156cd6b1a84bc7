"""A port of this machine that no program uses."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port of this machine on which no program listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
