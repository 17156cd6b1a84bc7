"""Address of a model server: host and port, or the path of a Unix socket. Does not import torch."""

from __future__ import annotations

import socket

HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX")
"""Whether Python supports Unix sockets on this system."""
MAX_SOCKET_PATH_BYTES = 103
"""Maximum length of the path of a Unix socket; macOS allows 103 bytes, Linux 107."""


def join_address(host: str, port: int) -> str:
    """Return an address that consists of a host and a port."""
    return f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """Return the host and the port of an address that is not a socket."""
    host, _, port = address.rpartition(":")
    return host, int(port)


def is_socket_path(address: str) -> bool:
    """Return whether an address is the absolute path of a Unix socket."""
    return address.startswith("/")
