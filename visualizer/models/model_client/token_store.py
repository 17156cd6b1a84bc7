"""Tokens of servers in the system's own store of secrets, where there is one; no torch here.

A store that is locked waits until someone unlocks it: who asks may leave that wait.
"""

from __future__ import annotations

import importlib
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any

from visualizer.optional_packages import is_installed
from visualizer.python_thread_for_qt_thread import on_python_thread

LIBRARY = "keyring"
SERVICE = "attention-visualizer"
_lock = Lock()
_looking: dict[str, Future[str]] = {}
"""What is being looked up, by its server."""


def has_store() -> bool:
    """Whether the library is installed that finds the system's store."""
    return is_installed(LIBRARY)


def stored_token(server: str) -> str:
    """Return the token that is kept for a server, by its host and port; empty where none is.

    Raises
    ------
    CancelledError
        When it was left.
    """
    if not has_store():
        return ""
    return on_python_thread(partial(_looked_up, server), may_be_left=True)


def _looked_up(server: str) -> str:
    """Look a token up, or wait for who does so already: a locked store asks its user each time."""
    with _lock:
        is_first = server not in _looking
        found = _looking.setdefault(server, Future())
    if is_first:
        found.set_result(_stored(server))
        with _lock:
            del _looking[server]
    return found.result()


def _stored(server: str) -> str:
    with suppress(Exception):  # a store fails in its own way, and without it the token is asked for
        return str(_keyring().get_password(SERVICE, server) or "")
    return ""


def store_token(server: str, token: str) -> bool:
    """Keep a token for a server; return whether the system did."""
    if not has_store():
        return False
    with suppress(Exception):
        _keyring().set_password(SERVICE, server, token)
        return True
    return False


def forget_token(server: str) -> None:
    """Keep no token for a server."""
    if has_store():
        with suppress(Exception):
            _keyring().delete_password(SERVICE, server)


def _keyring() -> Any:
    return importlib.import_module(LIBRARY)
