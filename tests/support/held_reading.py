"""Delays the processing of a long text before one of the model's attention calls."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from visualizer.models import chunked_prefill, long_text_recorder, long_text_runner
from visualizer.progress import check_cancelled
from visualizer.session import newest_request_worker

if TYPE_CHECKING:
    import pytest

SECONDS = 10


class HeldReading:
    """Replaces the function that checks before each call whether to stop.

    Parameters
    ----------
    at : int
        Number of the delayed call, starting at 1. It is delayed until processing is stopped or
        `SECONDS` have passed.
    """

    def __init__(self, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.calls = at, 0
        monkeypatch.setattr(long_text_recorder, "check_cancelled", self)

    def __call__(self) -> None:
        self.calls += 1
        tick = threading.Event()
        for _ in range(SECONDS * 1000 if self.calls == self.at else 1):
            check_cancelled()
            tick.wait(0.001)


def read_few_tokens_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process every text as a long text, with 4 tokens per chunk, and report all progress."""
    monkeypatch.setattr(long_text_runner, "MAX_FULL_MATRIX_BYTES", 0)
    monkeypatch.setattr(chunked_prefill, "TOKENS_PER_CHUNK", 4)
    monkeypatch.setattr(newest_request_worker, "PROGRESS_INTERVAL_S", 0)
