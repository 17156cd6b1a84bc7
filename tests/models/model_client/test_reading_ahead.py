"""A text that is read ahead is answered as one that is asked for, and given up as well."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

import numpy as np
import pytest

from visualizer.errors import InputError
from visualizer.models.model_client.connection import ModelConnection
from visualizer.models.model_client.reading_ahead import ReadingAhead
from visualizer.progress_callback import CancelledError, check_stopped, stopped_when

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.models.model_client.connection import Answer
    from visualizer.progress_callback import Progress

PATIENCE_S = 10.0
ASKED = {"text": "a"}
ANSWER: Answer = ({"number": 1}, {"attention": np.zeros(3, np.float32)})


class HeldConnection(ModelConnection):
    """A server that reads until it is let, or until the reading is given up."""

    def __init__(self, outcome: Answer | Exception = ANSWER) -> None:
        super().__init__("127.0.0.1", 1, "token")
        self.outcome, self.let, self.is_given_up = outcome, Event(), Event()

    def job(
        self,
        path: str,
        asked: object,
        progress: Progress = lambda done, of: None,
        report: Callable[[Answer], object] = lambda part: None,
    ) -> Answer:
        assert (path, asked) == ("/read", ASKED)
        while not self.let.wait(0.01):
            try:
                check_stopped()
            except CancelledError:
                self.is_given_up.set()
                raise
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def test_it_has_begun_and_its_answer_is_waited_for() -> None:
    connection = HeldConnection()
    ahead = ReadingAhead(connection, ASKED)
    connection.let.set()
    assert ahead.answer() is ANSWER
    assert ahead.asked == ASKED


def test_what_fails_is_raised_where_it_is_waited_for() -> None:
    connection = HeldConnection(InputError("text", "There is nothing to read."))
    connection.let.set()
    with pytest.raises(InputError, match="nothing to read"):
        ReadingAhead(connection, ASKED).answer()


def test_it_is_given_up_when_nothing_refers_to_it() -> None:
    connection = HeldConnection()
    ahead = ReadingAhead(connection, ASKED)
    assert not connection.is_given_up.wait(0.05)
    del ahead
    assert connection.is_given_up.wait(PATIENCE_S)


def test_who_is_to_stop_waits_no_longer() -> None:
    connection = HeldConnection()
    ahead = ReadingAhead(connection, ASKED)
    with stopped_when(lambda: True), pytest.raises(CancelledError):
        ahead.answer()
    connection.let.set()
    assert ahead.answer() is ANSWER, "the reading itself has gone on"
