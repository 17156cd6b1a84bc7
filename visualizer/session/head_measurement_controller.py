"""Measures the heads of a long text when that is asked for, on a thread of its own."""

from __future__ import annotations

import threading
import traceback
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, field
from PySide6.QtCore import QObject

from visualizer.errors import InputError, memory_error_in_words
from visualizer.progress_callback import CancelledError
from visualizer.session import worker_jobs
from visualizer.session.head_measurement_offer import measurement_offer
from visualizer.session.newest_request_worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.head_measurement import HeadMeasurement
    from visualizer.attention.run import Run
    from visualizer.session.workspace import Workspace

FAILED = "The heads could not be measured."
REPORTED_EACH_S = 0.25


class _Measured(Struct, frozen=True, eq=False):
    """A run whose heads are being measured."""

    run: Run
    measurement: HeadMeasurement
    is_cancelled: threading.Event = field(default_factory=threading.Event)


class HeadMeasurementController(QObject):
    """Measures the heads of the run that is shown; another run ends that."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._under_way: _Measured | None = None
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._refuse)
        self._worker.reported.connect(self._report)
        workspace.changed.connect(self._follow)

    @property
    def is_working(self) -> bool:
        """Whether heads are being measured."""
        return self._under_way is not None

    def toggle(self) -> None:
        """Measure the heads of the run that is shown, or stop that."""
        run = self._workspace.run
        if run is None or measurement_offer(run) is None:
            return
        measurement = run.trace.head_measurement("weights", run.compared_texts)
        if measurement.is_wanted:
            self._give_up()
        else:
            measurement.is_wanted, measurement.problem = True, ""
            measurement.done = measurement.of = 0
            self._under_way = _Measured(run, measurement)
            self._worker.ask(partial(_measure, self._under_way, self._worker.report))
        self._workspace.show_again()

    def close(self) -> None:
        """Stop measuring."""
        self._give_up()
        self._worker.leave()

    def _follow(self) -> None:
        """Stop measuring where the heads of another run are shown."""
        under_way, run = self._under_way, self._workspace.run
        if under_way and (run is None or _measurement(run) is not under_way.measurement):
            self._give_up()

    def _give_up(self) -> None:
        if self._under_way:
            self._under_way.is_cancelled.set()
            self._under_way.measurement.is_wanted = False
            self._under_way = None

    def _report(self, progress: tuple[_Measured, int, int]) -> None:
        measured, done, of = progress
        if measured is self._under_way:
            measured.measurement.done, measured.measurement.of = done, of
            self._workspace.show_again()

    def _refuse(self, refused: InputError) -> None:
        """Say that nothing can be measured: the system makes no more threads."""
        if self._under_way:
            self._take((self._under_way, refused))

    def _take(self, answer: tuple[_Measured, Exception | None]) -> None:
        measured, error = answer
        if measured is not self._under_way:
            return
        self._under_way, measured.measurement.is_wanted = None, False
        if isinstance(error, InputError):
            measured.measurement.problem = error.sentence
        elif error:
            measured.measurement.problem = FAILED
        self._workspace.show_again()
        if error and not isinstance(error, InputError):
            self._workspace.broke.emit("".join(traceback.format_exception(error)))


def _measurement(run: Run) -> HeadMeasurement | None:
    if "weights" not in run.trace:
        return None
    return run.trace.head_measurement("weights", run.compared_texts)


def _measure(
    measured: _Measured, report: Callable[[tuple[_Measured, int, int]], object]
) -> tuple[_Measured, Exception | None]:
    last = monotonic()

    def go_on(done: int, of: int) -> None:
        nonlocal last
        if measured.is_cancelled.is_set():
            raise CancelledError
        if monotonic() - last >= REPORTED_EACH_S:
            last = monotonic()
            report((measured, done, of))

    try:
        worker_jobs.measure_heads(measured.run, go_on)
    except CancelledError:
        return measured, None
    except Exception as error:  # noqa: BLE001 - handed to the GUI thread
        return measured, memory_error_in_words(error)
    return measured, None
