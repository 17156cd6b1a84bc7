"""The worker runs one request at a time, queues one request, and returns results as values."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from PySide6.QtCore import QCoreApplication, QObject, QThread
from shiboken6 import isValid

from visualizer.errors import MEMORY_ERROR, InputError
from visualizer.progress import CancelledError, check_cancelled, report_progress
from visualizer.session import newest_request_worker
from visualizer.session.newest_request_worker import NewestRequestWorker, join_abandoned_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytestqt.qtbot import QtBot

SECONDS = 10


class Held:
    """A request that runs until it is released."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.restart, self.resume = threading.Event(), threading.Event()

    def __call__(self) -> object:
        self.restart.set()
        assert self.resume.wait(SECONDS)
        return self.answer


@pytest.fixture
def worker(qtbot: QtBot) -> Iterator[NewestRequestWorker]:
    made = NewestRequestWorker()
    yield made
    made.abandon()
    join_abandoned_workers()


@pytest.fixture
def answers(worker: NewestRequestWorker) -> list[object]:
    heard: list[object] = []
    worker.answered.connect(heard.append)
    worker.failed.connect(heard.append)
    return heard


@pytest.mark.parametrize(
    ("error", "is_said"),
    [(MemoryError(), True), (RuntimeError("can't start new thread"), True), (OSError("no"), False)],
)
def test_running_out_of_memory_is_reported_with_a_message(
    error: Exception, is_said: bool, worker: NewestRequestWorker, qtbot: QtBot
) -> None:
    def fail() -> None:
        raise error

    with qtbot.waitSignal(worker.failed) as blocker:
        worker.submit(fail)
    assert blocker.args
    told = blocker.args[0]
    assert (str(told) == MEMORY_ERROR) == is_said
    assert isinstance(told, InputError) or told is error


def test_a_thread_that_cannot_be_created_is_reported(
    worker: NewestRequestWorker,
    answers: list[object],
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "start", lambda: None)
    worker.submit(threading.get_ident)
    assert worker.is_working
    assert answers == []  # the caller continues before it receives the result
    qtbot.waitUntil(lambda: bool(answers))
    assert [str(answer) for answer in answers] == [MEMORY_ERROR]
    assert not worker.is_working
    monkeypatch.undo()
    worker.submit(lambda: "again")
    qtbot.waitUntil(lambda: answers[1:] == ["again"])


def test_a_result_is_delivered_on_the_requesting_thread(
    worker: NewestRequestWorker, qtbot: QtBot
) -> None:
    heard: list[QThread] = []
    worker.answered.connect(lambda _: heard.append(QThread.currentThread()))
    with qtbot.waitSignal(worker.answered) as blocker:
        worker.submit(threading.get_ident)
    assert blocker.args != [threading.get_ident()]
    assert heard == [worker.thread()]


class Listener(QObject):
    """Receives results; those from another thread arrive as events."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[object] = []

    def hear(self, answer: object) -> None:
        self.heard.append(answer)


def test_a_result_arrives_and_is_emitted_in_one_event(worker: NewestRequestWorker) -> None:
    held, listener = Held("answer"), Listener()
    worker.answered.connect(listener.hear)
    worker.submit(held)
    assert held.restart.wait(SECONDS)
    held.resume.set()
    done = [object()]
    worker.clear_on_thread(done)
    while done:  # the result then waits for this thread
        QThread.yieldCurrentThread()
    QCoreApplication.sendPostedEvents(worker)
    assert listener.heard == ["answer"]


class Request:
    def __call__(self) -> str:
        return "answer"


def test_the_worker_is_working_until_its_result_has_arrived(
    worker: NewestRequestWorker, qtbot: QtBot
) -> None:
    was_working: list[bool] = []
    worker.answered.connect(lambda _: was_working.append(worker.is_working))
    request = Request()
    asked = weakref.ref(request)
    worker.submit(request)
    del request
    while asked():  # no event is handled during this loop
        QThread.yieldCurrentThread()
    assert worker.is_working
    qtbot.waitUntil(lambda: not worker.is_working)
    assert was_working == [False]


def test_any_value_is_delivered_unchanged(worker: NewestRequestWorker, qtbot: QtBot) -> None:
    value = {1: "one", ("a", None): 2**80}
    with qtbot.waitSignal(worker.answered) as blocker:
        worker.submit(lambda: value)
    assert blocker.args is not None
    assert blocker.args[0] is value


def test_only_the_newest_waiting_request_runs(
    worker: NewestRequestWorker, answers: list[object], qtbot: QtBot
) -> None:
    first = Held("first")
    worker.submit(first)
    assert first.restart.wait(SECONDS)
    for number in range(5):
        worker.submit(lambda number=number: number)  # type: ignore[misc]
    assert worker.is_working
    assert answers == []
    first.resume.set()
    qtbot.waitUntil(lambda: len(answers) == 2)
    assert answers == ["first", 4]
    assert not worker.is_working


def test_a_running_request_is_not_interrupted(
    worker: NewestRequestWorker, answers: list[object], qtbot: QtBot
) -> None:
    first, second = Held("first"), Held("second")
    worker.submit(first)
    assert first.restart.wait(SECONDS)
    worker.submit(second)
    first.resume.set()
    assert second.restart.wait(SECONDS)
    assert worker.is_working
    second.resume.set()
    qtbot.waitUntil(lambda: len(answers) == 2)
    assert answers == ["first", "second"]


def test_an_exception_is_delivered_and_the_next_request_runs(
    worker: NewestRequestWorker, answers: list[Any], qtbot: QtBot
) -> None:
    def fail() -> None:
        raise KeyError("lost")

    worker.submit(fail)
    qtbot.waitUntil(lambda: len(answers) == 1)
    assert repr(answers[0]) == "KeyError('lost')"
    assert answers[0].__traceback__ is not None
    worker.submit(lambda: "next")
    qtbot.waitUntil(lambda: len(answers) == 2)
    assert answers[1] == "next"


def test_leaving_does_not_wait_and_drops_the_waiting_request(
    answers: list[object], worker: NewestRequestWorker, qtbot: QtBot
) -> None:
    first, second = Held("first"), Held("second")
    worker.submit(first)
    assert first.restart.wait(SECONDS)
    worker.submit(second)
    worker.abandon()
    assert worker.isRunning()
    assert not worker.is_working
    first.resume.set()
    qtbot.waitUntil(lambda: not isValid(worker))  # the thread has ended, and the worker is deleted
    assert not second.restart.is_set()
    assert answers == []


def test_an_abandoned_worker_outlives_its_parent(qtbot: QtBot) -> None:
    parent, held = QObject(), Held("held")
    worker = NewestRequestWorker(parent)
    worker.submit(held)
    assert held.restart.wait(SECONDS)
    worker.abandon()
    with qtbot.waitSignal(parent.destroyed):
        parent.deleteLater()
    assert worker.isRunning()
    held.resume.set()
    qtbot.waitUntil(lambda: not isValid(worker))


def test_the_last_call_of_an_abandoned_worker_follows_the_running_request(
    worker: NewestRequestWorker,
) -> None:
    held, done = Held("held"), list[str]()
    worker.submit(lambda: done.append(str(held())))
    assert held.restart.wait(SECONDS)
    worker.abandon(lambda: done.append(str(threading.get_ident())))
    assert done == []
    held.resume.set()
    join_abandoned_workers()
    assert done == ["held", *done[1:]]
    assert len(done) == 2
    assert done[1] != str(threading.get_ident())


def test_a_worker_that_never_ran_makes_its_last_call(worker: NewestRequestWorker) -> None:
    done: list[int] = []
    worker.abandon(lambda: done.append(1))
    join_abandoned_workers()
    assert done == [1]


def test_without_another_thread_the_last_call_is_made_immediately(
    worker: NewestRequestWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NewestRequestWorker, "start", lambda self: None)
    done: list[int] = []
    worker.abandon(lambda: done.append(1))
    assert done == [1]


def test_reports_arrive_until_the_worker_is_abandoned(
    worker: NewestRequestWorker, qtbot: QtBot
) -> None:
    heard: list[object] = []
    worker.reported.connect(heard.append)
    held = Held("held")

    def work() -> None:
        worker.report("before")
        held()
        worker.report("after")

    worker.submit(work)
    qtbot.waitUntil(lambda: heard == ["before"])
    worker.abandon()
    held.resume.set()
    join_abandoned_workers()
    QCoreApplication.processEvents()
    assert heard == ["before"]


def test_stopping_ends_long_work_that_checks_for_it(
    worker: NewestRequestWorker, answers: list[object], qtbot: QtBot
) -> None:
    begun = threading.Event()

    def long_work() -> None:
        begun.set()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            check_cancelled()

    worker.submit(long_work)
    assert begun.wait(SECONDS)
    before = time.monotonic()
    worker.abandon()
    join_abandoned_workers()
    assert time.monotonic() - before < SECONDS / 2
    QCoreApplication.processEvents()
    assert answers == []
    assert not worker.is_working


def test_a_newer_request_ends_long_work_that_checks_for_it(
    worker: NewestRequestWorker, answers: list[object], qtbot: QtBot
) -> None:
    begun = threading.Event()
    held: list[weakref.ref[Held]] = []

    def long_work() -> None:
        computed = Held("much")
        held.append(weakref.ref(computed))
        begun.set()
        while not computed.resume.wait(0.001):
            check_cancelled()

    worker.submit(long_work)
    assert begun.wait(SECONDS)
    worker.submit(lambda: "newer")
    qtbot.waitUntil(lambda: len(answers) == 2)
    assert isinstance(answers[0], CancelledError)
    assert held[0]() is None
    assert answers[1] == "newer"


def test_progress_is_reported_with_its_request_at_intervals(
    worker: NewestRequestWorker,
    answers: list[object],
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(newest_request_worker, "monotonic", lambda: now)
    told: list[object] = []
    worker.progressReported.connect(lambda *one: told.append(one))

    def work() -> None:
        nonlocal now
        for step in range(9):
            now = step * 0.1
            report_progress(step, 9)

    worker.submit(work)
    qtbot.waitUntil(lambda: answers == [None])
    assert told == [(work, 3, 9), (work, 6, 9)]


def test_other_cancellations_are_delivered_as_failures(
    worker: NewestRequestWorker, qtbot: QtBot
) -> None:
    def cancelled() -> None:
        raise CancelledError

    with qtbot.waitSignal(worker.failed) as blocker:
        worker.submit(cancelled)
    assert isinstance(blocker.args[0], CancelledError)
    check_cancelled()  # there is nothing to stop on this thread


def test_results_are_not_kept(worker: NewestRequestWorker, qtbot: QtBot) -> None:
    class Large:
        pass

    kept: list[Callable[[], object]] = []

    def make() -> Large:
        made = Large()
        kept.append(weakref.ref(made))
        return made

    with qtbot.waitSignal(worker.answered) as blocker:
        worker.submit(make)
    del blocker
    with qtbot.waitSignal(worker.answered):
        worker.submit(lambda: None)
    assert kept[0]() is None


def test_large_values_are_freed_on_the_workers_thread(
    worker: NewestRequestWorker, qtbot: QtBot
) -> None:
    class Large:
        def __del__(self) -> None:
            where.append(threading.get_ident())

    where: list[int] = []
    with qtbot.waitSignal(worker.answered) as blocker:
        worker.submit(threading.get_ident)
    assert blocker.args is not None
    value: list[object] = [Large()]
    worker.clear_on_thread(value)
    qtbot.waitUntil(lambda: bool(where))
    assert where == blocker.args


def test_after_the_end_no_requests_are_accepted(
    worker: NewestRequestWorker, answers: list[object]
) -> None:
    worker.abandon()
    worker.submit(lambda: "too late")
    assert not worker.is_working
    assert not worker.isRunning()
    assert answers == []


def test_rest_is_called_on_the_thread_when_there_are_no_requests(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visualizer.session.newest_request_worker.IDLE_DELAY_S", 0.01)
    rested: list[int] = []
    worker = NewestRequestWorker(on_idle=lambda: rested.append(threading.get_ident()))
    with qtbot.waitSignal(worker.answered) as blocker:
        worker.submit(threading.get_ident)
    assert blocker.args is not None
    qtbot.waitUntil(lambda: rested == blocker.args)
    worker.abandon()
    join_abandoned_workers()
    assert rested == blocker.args * 2


def test_values_discarded_before_the_first_request_are_freed(qapp: object) -> None:
    worker, values = NewestRequestWorker(), [object()]
    worker.clear_on_thread(values)
    assert values == []
