"""Work runs on a separate Python thread, and its result or error is passed to the caller."""

from __future__ import annotations

import threading

import pytest
from PySide6.QtCore import QThread

from visualizer.process_settings import run_in_thread


class Asking(QThread):
    """A Qt thread that runs work on a Python thread, and stores the result."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[threading.Thread] = []

    def run(self) -> None:
        self.found.append(run_in_thread(threading.current_thread))


def test_a_thread_of_qt_leaves_no_entry() -> None:
    before = threading.enumerate()
    thread = Asking()
    thread.start()
    assert thread.wait(10_000)
    (own,) = thread.found
    assert own not in before
    own.join(10)
    assert threading.enumerate() == before


def test_an_error_is_raised_where_it_is_waited_for() -> None:
    def fail() -> None:
        raise ZeroDivisionError("by design")

    with pytest.raises(ZeroDivisionError, match="by design"):
        run_in_thread(fail)
