"""Arrays are fetched once, however many callers request them; failures are remembered."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pytest

from visualizer.attention.remote_numbers import (
    NumbersPendingError,
    forbid_waiting_for_numbers,
    register_arrival_listener,
)
from visualizer.errors import InputError
from visualizer.models.model_client import remote_stages
from visualizer.models.model_client.remote_stages import FetchedArrayCache
from visualizer.progress import CancelledError

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS = 10


class Server:
    """Source of the fetched arrays; it responds when the test releases it."""

    def __init__(self) -> None:
        self.asked = 0
        self.has_begun, self.may_continue, self.has_arrived = (threading.Event() for _ in range(3))
        self.refused: InputError | None = None
        register_arrival_listener(self.set_arrived)

    def set_arrived(self) -> None:
        self.has_arrived.set()

    def fetch(self) -> Mapping[str, np.ndarray]:
        self.asked += 1
        self.has_begun.set()
        assert self.may_continue.wait(SECONDS)
        if self.refused:
            raise self.refused
        return {"x": np.ones(3)}


def test_a_pending_array_is_not_requested_again_by_a_caller_that_may_not_wait() -> None:
    server, fetched = Server(), FetchedArrayCache()
    waiting = threading.Thread(target=fetched.get, args=("key", server.fetch))
    waiting.start()
    assert server.has_begun.wait(SECONDS)
    with forbid_waiting_for_numbers(), pytest.raises(NumbersPendingError):
        fetched.get("key", server.fetch)
    server.may_continue.set()
    waiting.join()
    assert server.has_arrived.wait(SECONDS)
    with forbid_waiting_for_numbers():
        assert fetched.get("key", server.fetch)["x"].sum() == 3
    assert server.asked == 1


def test_a_cancelled_fetch_is_repeated_for_the_next_caller() -> None:
    server, fetched = Server(), FetchedArrayCache()
    server.may_continue.set()

    def give_up() -> NoReturn:
        raise CancelledError

    with pytest.raises(CancelledError):
        fetched.get("key", give_up)
    with forbid_waiting_for_numbers(), pytest.raises(NumbersPendingError):
        fetched.get("key", server.fetch)
    assert server.has_arrived.wait(SECONDS)
    with forbid_waiting_for_numbers():
        assert fetched.get("key", server.fetch)["x"].sum() == 3


@pytest.mark.parametrize("is_waiting", [True, False])
def test_the_last_refusal_is_kept_until_a_fetch_succeeds(
    is_waiting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_stages, "RETRY_DELAY_S", 0.0)
    server, fetched = Server(), FetchedArrayCache()
    server.may_continue.set()
    server.refused = InputError("server", "The line is cut.")
    if is_waiting:
        with pytest.raises(InputError, match="The line is cut"):
            fetched.get("key", server.fetch)
    else:
        with forbid_waiting_for_numbers(), pytest.raises(NumbersPendingError):
            fetched.get("key", server.fetch)
        assert server.has_arrived.wait(SECONDS)
    refusal = fetched.last_error()
    assert refusal is not None
    assert refusal.sentence == "The line is cut."
    server.refused = None
    fetched.get("key", server.fetch)
    assert fetched.last_error() is None
