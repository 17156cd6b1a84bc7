"""Previews on the worker thread: what is reported of a request that another one replaced."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.support.window_input import PATIENCE_MS
from visualizer.errors import InputError
from visualizer.export.dialog.preview_widget import PreviewController
from visualizer.progress import CancelledError
from visualizer.session.newest_request_worker import join_abandoned_workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytestqt.qtbot import QtBot

    from visualizer.progress import Progress

REFUSED = InputError("format", "the first settings are invalid")


@pytest.fixture
def controller(qtbot: QtBot) -> Iterator[PreviewController]:
    made = PreviewController()
    yield made
    made.close()
    join_abandoned_workers()


class Failing:
    """A preview that starts, waits until it is released, and fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.has_started, self.is_released = threading.Event(), threading.Event()

    def __call__(self, progress: Progress) -> object:
        self.has_started.set()
        assert self.is_released.wait(PATIENCE_MS / 1000)
        raise self.error


@pytest.mark.parametrize("error", [REFUSED, MemoryError(), CancelledError(), ValueError()])
def test_an_error_of_a_replaced_request_is_not_reported(
    controller: PreviewController, qtbot: QtBot, error: Exception
) -> None:
    first = Failing(error)
    reported: list[str] = []
    controller.refused.connect(reported.append)
    controller.failed.connect(reported.append)
    controller.request_preview(first)
    assert first.has_started.wait(PATIENCE_MS / 1000)
    with qtbot.waitSignal(controller.rendered, timeout=PATIENCE_MS) as rendered:
        controller.request_preview(lambda progress: "the second")
        first.is_released.set()
    assert rendered.args == ["the second"]
    assert reported == []
    assert not controller.is_working


def test_an_error_of_the_newest_request_is_reported(
    controller: PreviewController, qtbot: QtBot
) -> None:
    failing = Failing(REFUSED)
    failing.is_released.set()
    with qtbot.waitSignal(controller.refused, timeout=PATIENCE_MS) as refused:
        controller.request_preview(failing)
    assert refused.args == [REFUSED.sentence]
    assert not controller.is_working


def test_a_cancelled_request_is_not_reported(controller: PreviewController, qtbot: QtBot) -> None:
    failing = Failing(CancelledError())
    reported: list[str] = []
    controller.refused.connect(reported.append)
    controller.failed.connect(reported.append)
    controller.request_preview(failing)
    controller.cancel_request()
    failing.is_released.set()
    qtbot.waitUntil(lambda: not controller.is_working, timeout=PATIENCE_MS)
    assert reported == []
