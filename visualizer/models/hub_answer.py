"""What a server answers, received on a thread of its own, so that nobody has to wait for it."""

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
"""Chunks that are received before they are asked for."""
POLL_S = 0.05
"""How often it is asked, while a server is silent, whether its answer is still wanted."""


class HubAnswer:
    """An answer as it arrives.

    A thread receives it, since neither the search for an address nor a connection can be broken
    off. When it is left, that thread ends with the next that comes, or when nothing does.

    Parameters
    ----------
    request : callable
        Sends the request, and returns the answer.
    go_on : callable
        Called while the server is silent; what it raises leaves the answer.
    """

    def __init__(self, request: Callable[[], HTTPResponse], go_on: Callable[[], object]) -> None:
        self._request, self._go_on = request, go_on
        self._is_left = threading.Event()
        self._parts: Queue[HTTPResponse | bytes | Exception] = Queue(MAX_QUEUED_CHUNKS)
        threading.Thread(target=self._receive, daemon=True).start()
        try:
            begun = self._next()
        except BaseException:
            self.leave()
            raise
        assert isinstance(begun, HTTPResponse)
        self.status: int = begun.status
        self.headers: Message = begun.headers

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the answer, in order."""
        while (part := self._next()) and isinstance(part, bytes):
            yield part

    def leave(self) -> None:
        """Receive no more of it."""
        self._is_left.set()

    def _next(self) -> HTTPResponse | bytes:
        while True:
            with suppress(Empty):
                part = self._parts.get(timeout=POLL_S)
                if isinstance(part, Exception):
                    raise part
                return part
            self._go_on()

    # ------------------------------------------------------------------ on the thread

    def _receive(self) -> None:
        try:
            with self._request() as response:
                is_wanted = self._put(response)
                while is_wanted and (chunk := response.read1(CHUNK)):
                    is_wanted = self._put(chunk)
                self._put(b"")
        except Exception as error:  # noqa: BLE001 - handed to who waits
            self._put(error)

    def _put(self, part: HTTPResponse | bytes | Exception) -> bool:
        """Hand on a part, and return whether the answer is still wanted."""
        while not self._is_left.is_set():
            with suppress(Full):
                self._parts.put(part, timeout=POLL_S)
                return True
        return False
