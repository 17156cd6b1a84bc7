"""A server response that is received on a separate thread, so that reading it can be cancelled."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.client import HTTPResponse
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import Message

CHUNK = 2**18
MAX_QUEUED_CHUNKS = 4
"""Maximum number of chunks that are received ahead."""
POLL_S = 0.05
"""Interval between checks whether the response is still wanted, while the server is silent."""


class HubAnswer:
    """A response while it arrives.

    A thread receives it, because neither a DNS lookup nor a connection attempt can be interrupted.
    After `leave`, that thread ends with the next chunk, or at the timeout.

    Parameters
    ----------
    request : callable
        Sends the request, and returns the response.
    go_on : callable
        Called while the server is silent; raising an exception abandons the response.
    """

    def __init__(self, request: Callable[[], HTTPResponse], go_on: Callable[[], object]) -> None:
        self._request, self._check_wanted = request, go_on
        self._has_left = threading.Event()
        self._chunks: Queue[HTTPResponse | bytes | Exception] = Queue(MAX_QUEUED_CHUNKS)
        threading.Thread(target=self._receive_response, daemon=True).start()
        try:
            begun = self._next_part()
        except BaseException:
            self.leave()
            raise
        assert isinstance(begun, HTTPResponse)
        self.status: int = begun.status
        self.headers: Message = begun.headers

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes of the response, in order."""
        while (part := self._next_part()) and isinstance(part, bytes):
            yield part

    def leave(self) -> None:
        """Stop receiving."""
        self._has_left.set()

    def _next_part(self) -> HTTPResponse | bytes:
        while True:
            with suppress(Empty):
                part = self._chunks.get(timeout=POLL_S)
                if isinstance(part, Exception):
                    raise part
                return part
            self._check_wanted()

    # ------------------------------------------------------------------ on the thread

    def _receive_response(self) -> None:
        try:
            with self._request() as response:
                is_wanted = self._queue_part(response)
                while is_wanted and (chunk := response.read1(CHUNK)):
                    is_wanted = self._queue_part(chunk)
                self._queue_part(b"")
        except Exception as error:  # noqa: BLE001 - passed to the reader
            self._queue_part(error)

    def _queue_part(self, part: HTTPResponse | bytes | Exception) -> bool:
        """Queue a part; return False once the reader has left."""
        while not self._has_left.is_set():
            with suppress(Full):
                self._chunks.put(part, timeout=POLL_S)
                return True
        return False
