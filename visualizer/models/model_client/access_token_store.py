"""Stores the access tokens of servers in the system's keyring. Does not import torch.

A locked keyring blocks until the user unlocks it; the caller can stop waiting.
"""

from __future__ import annotations

import importlib
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any

from visualizer.optional_packages import is_installed
from visualizer.process_settings import run_in_thread

KEYRING_PACKAGE = "keyring"
SERVICE_NAME = "attention-visualizer"
_lookups_lock = Lock()
_pending_lookups: dict[str, Future[str]] = {}
"""Lookups in progress, by the address of the server."""


def has_store() -> bool:
    """Return whether the library that accesses the system's keyring is installed."""
    return is_installed(KEYRING_PACKAGE)


def load_access_token(server: str) -> str:
    """Return the stored token for the address of a server, or an empty string.

    Raise `CancelledError` if the caller stopped waiting.
    """
    if not has_store():
        return ""
    return run_in_thread(partial(_look_up_token_once, server), can_abandon=True)


def _look_up_token_once(server: str) -> str:
    """Look up a token, or join a lookup in progress, because a locked keyring prompts each time."""
    with _lookups_lock:
        is_first = server not in _pending_lookups
        token = _pending_lookups.setdefault(server, Future())
    if is_first:
        token.set_result(_read_access_token(server))
        with _lookups_lock:
            del _pending_lookups[server]
    return token.result()


def _read_access_token(server: str) -> str:
    # Backends raise various errors. Without a stored token, the program asks the user for one.
    with suppress(Exception):
        return str(_import_keyring().get_password(SERVICE_NAME, server) or "")
    return ""


def store_access_token(server: str, token: str) -> bool:
    """Store the token of a server, and return whether the system stored it."""
    if not has_store():
        return False
    with suppress(Exception):
        _import_keyring().set_password(SERVICE_NAME, server, token)
        return True
    return False


def delete_access_token(server: str) -> None:
    """Delete the stored token of a server."""
    if has_store():
        with suppress(Exception):
            _import_keyring().delete_password(SERVICE_NAME, server)


def _import_keyring() -> Any:
    return importlib.import_module(KEYRING_PACKAGE)
