"""An object that waits for remote numbers is notified of them as long as it exists."""

from __future__ import annotations

from visualizer.attention import remote_numbers
from visualizer.attention.remote_numbers import (
    forbid_waiting_for_numbers,
    may_wait,
    notify_arrival_listeners,
    register_arrival_listener,
)


class Waiting:
    """Counts the notifications that it receives."""

    def __init__(self) -> None:
        self.description = 0

    def tell(self) -> None:
        self.description += 1


def test_who_is_there_is_told_and_who_is_gone_leaves_nothing() -> None:
    before = len(remote_numbers.listeners)
    waiting, gone = Waiting(), Waiting()
    register_arrival_listener(waiting.tell)
    register_arrival_listener(gone.tell)
    del gone
    assert len(remote_numbers.listeners) == before + 1
    notify_arrival_listeners()
    assert waiting.description == 1
    del waiting
    assert len(remote_numbers.listeners) == before


def test_only_within_the_context_nothing_is_waited_for() -> None:
    assert may_wait()
    with forbid_waiting_for_numbers():
        assert not may_wait()
    assert may_wait()
