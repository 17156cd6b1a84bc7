"""A long task runs in parts, and other events are handled between these parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QObject, QTimer

from visualizer.widgets.incremental_gui_task import IncrementalTask

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pytestqt.qtbot import QtBot


def parts(done: list[str], count: int) -> Generator[None]:
    for part in range(count):
        done.append(f"part {part}")
        yield


@pytest.fixture
def owner(qapp: object) -> Iterator[QObject]:
    made = QObject()
    yield made
    made.deleteLater()


def test_other_events_are_handled_between_the_parts(owner: QObject, qtbot: QtBot) -> None:
    done: list[str] = []
    beat = QTimer(owner, interval=0)
    beat.timeout.connect(lambda: done.append("beat"))
    beat.start()
    turns = IncrementalTask(parts(done, 3), owner)
    qtbot.waitUntil(lambda: not turns.is_working)
    assert [what for what in done if what != "beat"] == ["part 0", "part 1", "part 2"]
    first, last = done.index("part 0"), done.index("part 2")
    assert "beat" in done[first : done.index("part 1")]
    assert "beat" in done[done.index("part 1") : last]


def test_a_stopped_task_runs_no_further_part(owner: QObject, qtbot: QtBot) -> None:
    done: list[str] = []
    turns = IncrementalTask(parts(done, 1000), owner)
    qtbot.waitUntil(lambda: len(done) >= 2)
    turns.stop()
    count = len(done)
    later = IncrementalTask(parts([], 5), owner)
    qtbot.waitUntil(lambda: not later.is_working)
    assert len(done) == count


def test_a_failing_task_raises_once_and_ends(owner: QObject, qtbot: QtBot) -> None:
    def breaking() -> Generator[None]:
        yield
        raise ZeroDivisionError

    with qtbot.captureExceptions() as caught:
        turns = IncrementalTask(breaking(), owner)
        qtbot.waitUntil(lambda: not turns.is_working)
    assert [one[0] for one in caught] == [ZeroDivisionError]


def test_a_stopped_task_runs_its_cleanup(owner: QObject, qtbot: QtBot) -> None:
    done: list[str] = []
    stopped_within: list[IncrementalTask] = []

    def work() -> Generator[None]:
        try:
            while True:
                done.append("part")
                if stopped_within:
                    stopped_within[0].stop()
                yield
        finally:
            done.append("end")

    task = IncrementalTask(work(), owner)
    qtbot.waitUntil(lambda: bool(done))
    task.stop()
    assert done[-1] == "end"
    done.clear()
    task = IncrementalTask(work(), owner)
    stopped_within.append(task)
    with qtbot.waitSignal(task.ended):
        pass
    assert done == ["part", "end"]
