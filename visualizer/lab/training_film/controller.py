"""Collects the probe results of training steps, and creates an animation of them."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QObject, Signal

from visualizer.errors import InputError, convert_memory_error
from visualizer.export.export_runner import CANCELLED_MESSAGE, MESSAGE_MS, ExportRunner
from visualizer.lab.attention_view.probe_result import ProbeResult
from visualizer.lab.training.run_state import RunPhase
from visualizer.lab.training_film.writer import (
    TrainingFilmSettings,
    create_training_film,
    film_format,
    write_training_film,
)
from visualizer.language.run_folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.lab.controller import LabStateController
    from visualizer.lab.training.run_state import RunState
    from visualizer.language.wire_format import Message

MISSING_SNAPSHOT_FIELD = "step"
"""Field of the error for a snapshot that no longer exists; long runs remove some snapshots."""

ENDED_PHASES = frozenset({RunPhase.ENDING, RunPhase.FAILED})
"""Phases in which a run no longer responds."""

INCOMPLETE_FILM_ERROR = (
    "The animation was not saved: training ended before all snapshots were read."
)
MAX_READINGS_BYTES = 512 * 2**20
"""Maximum size of the probe results of an animation, in bytes."""


class TrainingFilmRequest(Struct, frozen=True, eq=False):
    """A request for an animation of a run with a probe, or of its change since a reference."""

    path: Path
    run: RunState
    probe: str
    settings: TrainingFilmSettings
    reference: ProbeResult | None = None


class TrainingFilmController(QObject):
    """Creates animations of a run, one at a time.

    Each result is requested only after the previous one has arrived, so that training continues in
    between. The signals are those of an `ExportRunner`.
    """

    messageReported = Signal(str, int)
    progressReported = Signal(int, int)
    refused = Signal(str)
    failed = Signal(str)
    changed = Signal()

    def __init__(self, lab: LabStateController, parent: QObject | None = None) -> None:
        super().__init__(parent or lab)
        self._lab = lab
        self._pending_steps: deque[int] = deque()
        self._readings: list[ProbeResult] = []
        self._film: TrainingFilmRequest | None = None
        """The requested animation, while its results are being read."""
        self._thinning_note = ""
        self._exporter = ExportRunner(self)
        self._exporter.messageReported.connect(self._show_message)
        for name in ("progressReported", "refused", "failed", "changed"):
            getattr(self._exporter, name).connect(getattr(self, name))
        lab.changed.connect(self._on_lab_changed)

    @property
    def is_working(self) -> bool:
        return self._film is not None or self._exporter.is_working

    def create_film(
        self,
        path: Path,
        settings: TrainingFilmSettings | None = None,
        reference: ProbeResult | None = None,
    ) -> None:
        """Write an animation with the current probe, unless another one is being written.

        With a reference, the animation shows how the weights differ from it.
        """
        run = self._lab.run
        if run is None or self.is_working:
            return
        try:
            film_format(path)
            RunFolder(run.folder).check_export_path(path)
        except InputError as error:
            self.refused.emit(error.sentence)
            return
        self._pending_steps, self._readings, self._thinning_note = deque(run.snapshots), [], ""
        settings = settings or TrainingFilmSettings(title=run.name)
        self._film = TrainingFilmRequest(path, run, self._lab.view.probe, settings, reference)
        self.messageReported.emit("Reading snapshots…", 0)
        self.changed.emit()
        self._request_next()

    def cancel(self) -> None:
        """Discard the animation that is being created."""
        if self._film:
            self._end_film(CANCELLED_MESSAGE)
        else:
            self._exporter.cancel()

    def close(self) -> None:
        """Stop the thread; this must not be called while an animation is being written."""
        self._exporter.close()

    # ------------------------------------------------------------------ reading

    def _request_next(self) -> None:
        assert self._film
        if not self._pending_steps:
            self._export_film()
            return
        reply, step = partial(self._on_answer, self._film), self._pending_steps.popleft()
        self._lab.send_request("read", reply, text=self._film.probe, step=step)

    def _on_answer(self, film: TrainingFilmRequest, message: Message) -> None:
        if film is not self._film:  # the animation was cancelled
            return
        try:
            self._add_result(message)
        except Exception as error:  # noqa: BLE001 - otherwise, the export would never end
            self._end_film("")
            self._exporter.report_error(convert_memory_error(error))

    def _add_result(self, message: Message) -> None:
        if message.kind != "refused":
            self._readings.append(ProbeResult.of(message))
            if len(self._readings) == 1:
                self._thin_steps(self._readings[0].nbytes)
        elif message.values.get("field") != MISSING_SNAPSHOT_FIELD:
            self._cancel_with_error(str(message.values["sentence"]))
            return
        read = len(self._readings)
        self.progressReported.emit(read, read + len(self._pending_steps))
        self._request_next()

    def _thin_steps(self, size: int) -> None:
        """Drop steps at regular intervals if all results would take too much memory."""
        count = 1 + len(self._pending_steps)
        stride = -(-count * size // MAX_READINGS_BYTES)
        if stride > 1 and self._pending_steps:
            last = self._pending_steps[-1]
            steps = [*self._pending_steps][stride - 1 :: stride]
            self._pending_steps = deque(steps if steps and steps[-1] == last else [*steps, last])
            self._thinning_note = (
                f" ({1 + len(self._pending_steps):,} of {count:,} snapshots to save memory; use a "
                "shorter probe text to include all)"
            )

    def _show_message(self, words: str, for_ms: int) -> None:
        self.messageReported.emit(words + self._thinning_note if words else "", for_ms)

    def _on_lab_changed(self) -> None:
        """Cancel the animation if another run is opened; report an error if the run has ended."""
        run = self._lab.run
        if self._film is None:
            return
        if run is None or run.folder != self._film.run.folder:
            self._end_film(CANCELLED_MESSAGE)
        elif run.phase in ENDED_PHASES:
            self._cancel_with_error(INCOMPLETE_FILM_ERROR)

    def _export_film(self) -> None:
        assert self._film
        request, run = self._film, self._lab.run or self._film.run
        losses = {result.step: run.losses_at(result.step) for result in self._readings}
        try:
            shown = [_change_since(request.reference, result) for result in self._readings]
            film = create_training_film(shown, run.model_kind, run.step, losses, request.settings)
        except InputError as error:
            self._cancel_with_error(error.sentence)
            return
        self._film, self._readings = None, []
        self._exporter.start_writing(partial(write_training_film, request.path, film))

    def _cancel_with_error(self, sentence: str) -> None:
        self._end_film("")
        self.refused.emit(sentence)

    def _end_film(self, said: str) -> None:
        self._film, self._readings = None, []
        self.messageReported.emit(said, MESSAGE_MS)
        self.changed.emit()


def _change_since(reference: ProbeResult | None, result: ProbeResult) -> ProbeResult:
    """Return the change of a result since a reference, or the result without a reference."""
    if reference is None:
        return result
    change = result.change_since(reference)
    if change is None:
        sentence = f"Step {result.step:,} cannot be compared with step {reference.step:,}"
        raise InputError(
            "reference", f"{sentence}, because their texts differ. Click Compare again."
        )
    return change
