"""Measures the heads of a long text on demand, on a separate thread."""

from __future__ import annotations

import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, field
from PySide6.QtCore import QObject

from visualizer.attention.roles import Role
from visualizer.errors import InputError, convert_memory_error
from visualizer.progress import CancelledError
from visualizer.session import worker_jobs
from visualizer.session.model_pane_options import measurement_status
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.head_measures import HeadMeasurementState
    from visualizer.attention.run import Run
    from visualizer.session.workspace import Workspace

FAILED_MESSAGE = "The heads could not be measured."
REPORT_INTERVAL_S = 0.25


class _MeasurementJob(Struct, frozen=True, eq=False):
    """A head measurement of a run."""

    run: Run
    measurement: HeadMeasurementState
    is_cancelled: threading.Event = field(default_factory=threading.Event)


class HeadMeasurementController(QObject):
    """Measures the heads of the current run; the measurement ends when another run is shown."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._running_job: _MeasurementJob | None = None
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._handle_answer)
        self._worker.failed.connect(self._handle_worker_failure)
        self._worker.reported.connect(self._report_progress)
        workspace.changed.connect(self._stop_if_run_changed)

    @property
    def is_working(self) -> bool:
        """Whether heads are being measured."""
        return self._running_job is not None

    def toggle_measurement(self) -> None:
        """Start or stop measuring the heads of the current run."""
        run = self._workspace.run
        if run is None or measurement_status(run) is None:
            return
        measurement = run.trace.head_measurement_state(Role.WEIGHTS, run.key_texts)
        if measurement.is_wanted:
            self._cancel()
        else:
            measurement.is_wanted, measurement.problem = True, ""
            measurement.done = measurement.of = 0
            self._running_job = _MeasurementJob(run, measurement)
            self._worker.submit(
                partial(_run_measurement_job, self._running_job, self._worker.report)
            )
        self._workspace.refresh_screen()

    def close(self) -> None:
        """Stop measuring."""
        self._cancel()
        self._worker.abandon()

    def _stop_if_run_changed(self) -> None:
        """Stop measuring if another run is shown."""
        job, run = self._running_job, self._workspace.run
        if job and (run is None or _measurement_of_run(run) is not job.measurement):
            self._cancel()

    def _cancel(self) -> None:
        if self._running_job:
            self._running_job.is_cancelled.set()
            self._running_job.measurement.is_wanted = False
            self._running_job = None

    def _report_progress(self, progress: tuple[_MeasurementJob, int, int]) -> None:
        measured, done, of = progress
        if measured is self._running_job:
            measured.measurement.done, measured.measurement.of = done, of
            self._workspace.refresh_screen()

    def _handle_worker_failure(self, refused: InputError) -> None:
        """Report that the system cannot create another thread."""
        if self._running_job:
            self._handle_answer((self._running_job, refused))

    def _handle_answer(self, answer: tuple[_MeasurementJob, Exception | None]) -> None:
        measured, error = answer
        if measured is not self._running_job:
            return
        self._running_job, measured.measurement.is_wanted = None, False
        if isinstance(error, InputError):
            measured.measurement.problem = error.sentence
        elif error:
            measured.measurement.problem = FAILED_MESSAGE
        self._workspace.refresh_screen()
        if error and not isinstance(error, InputError):
            self._workspace.failed.emit(log_unexpected_error(error))


def _measurement_of_run(run: Run) -> HeadMeasurementState | None:
    if Role.WEIGHTS not in run.trace:
        return None
    return run.trace.head_measurement_state(Role.WEIGHTS, run.key_texts)


def _run_measurement_job(
    measured: _MeasurementJob, report: Callable[[tuple[_MeasurementJob, int, int]], object]
) -> tuple[_MeasurementJob, Exception | None]:
    last = monotonic()

    def report_progress(done: int, of: int) -> None:
        nonlocal last
        if measured.is_cancelled.is_set():
            raise CancelledError
        if monotonic() - last >= REPORT_INTERVAL_S:
            last = monotonic()
            report((measured, done, of))

    try:
        worker_jobs.measure_heads(measured.run, report_progress)
    except CancelledError:
        return measured, None
    except Exception as error:  # noqa: BLE001 - reported on the GUI thread
        return measured, convert_memory_error(error)
    return measured, None
