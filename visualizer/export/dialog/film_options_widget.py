"""Animation options of the export dialog: range, speed and width, with the estimated file size."""

from __future__ import annotations

import threading
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QFormLayout, QWidget

from visualizer.errors import InputError
from visualizer.export.figure_settings import FILM_WIDTHS_PX, AnimationSettings
from visualizer.export.film_plan import plan_animation
from visualizer.export.films.film_writer import estimate_animation
from visualizer.features.playback.playback_bar_widget import GRAIN_LABELS
from visualizer.format import format_count, format_size
from visualizer.progress import CancelledError
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.session.resolved_view import resolve_view
from visualizer.session.timeline import PLAYBACK_SPEEDS, PlaybackPosition, StepSize
from visualizer.widgets.labels import PlainTextLabel
from visualizer.widgets.setting_controls import create_combo_box

if TYPE_CHECKING:
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.films.film_writer import AnimationEstimate
    from visualizer.progress import Progress
    from visualizer.session.export_snapshot import ExportSnapshot


class AnimationRange(StrEnum):
    """Part of the computation that an animation shows."""

    WHOLE = "The whole computation"
    HERE = "From the current step to the end"
    LESSON = "The part shown in the lesson"
    STAGES = "Range of stages"


SHRINKING_POLICY = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
MOTION_TIP = "Show how inputs move to the cells that are computed from them"


class AnimationOptionsWidget(QWidget):
    """Animation options, with the length of the animation and its estimated file size.

    The owner adds the label `description` to a layout, and calls `stop`, which ends the estimate,
    before it deletes this widget.
    """

    changed = Signal(object)
    """Emitted with the changed settings."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._request: tuple[ExportSnapshot, FigureSettings, str] | None = None
        self._length = ""
        self._stopped = threading.Event()
        self.part = create_combo_box("Part", [])
        self.first, self.last = (
            create_combo_box("First stage", []),
            create_combo_box("Last stage", []),
        )
        self.grain = create_combo_box("Animation steps", GRAIN_LABELS.items())
        self.speed = create_combo_box(
            "Animation speed", [(speed, f"{speed:g}×") for speed in PLAYBACK_SPEEDS]
        )
        self.width_ = create_combo_box(
            "Pixels", [(width, f"{width:,} pixels wide") for width in FILM_WIDTHS_PX]
        )
        self.loops = QCheckBox("Loop (&begin again at the end)")
        self.loops.setAccessibleName("Loop (begin again at the end)")
        self.motion = QCheckBox("Ani&mate inputs")
        self.motion.setAccessibleName("Animate inputs")
        self.motion.setToolTip(MOTION_TIP)
        self.description = PlainTextLabel(parent=self)
        self.description.setWordWrap(True)
        self.description.setAccessibleName("Size of the animation")
        self._lay_out()
        self._show_settings(AnimationSettings())
        for box in self._choice_boxes:
            box.activated.connect(self._apply_choices)
        for check in (self.motion, self.loops):
            check.clicked.connect(self._apply_choices)
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._show_estimate)
        self._worker.failed.connect(self._show_problem)

    @property
    def _choice_boxes(self) -> tuple[QComboBox, ...]:
        choices = (self.part, self.first, self.last, self.grain, self.speed)
        return (*choices, self.width_)

    def _lay_out(self) -> None:
        self.form = form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        for words, box in (
            ("S&how", self.part),
            ("Fr&om", self.first),
            ("&Up to", self.last),
            ("&Granularity", self.grain),
            ("Sp&eed", self.speed),
            ("Si&ze", self.width_),
        ):
            box.setSizeAdjustPolicy(SHRINKING_POLICY)
            form.addRow(words, box)
        form.addRow(self.motion)
        form.addRow(self.loops)

    def stop_estimates(self) -> None:
        """Cancel the running estimate and prevent further estimates."""
        self._stopped.set()
        self._worker.abandon()

    # ------------------------------------------------------------------ showing

    def show_snapshot(
        self, snapshot: ExportSnapshot, figure_settings: FigureSettings, suffix: str
    ) -> None:
        """Show the options for a snapshot and estimate the size of the animation in a format."""
        if self._request == (snapshot, figure_settings, suffix):
            return
        self._request = (snapshot, figure_settings, suffix)
        self._show_ranges(snapshot)
        self._show_settings(figure_settings.film)
        self._start_estimate()

    def _show_ranges(self, snapshot: ExportSnapshot) -> None:
        playhead, stages = snapshot.view.playhead, snapshot.run.trace.stages
        has_position = (
            resolve_view(snapshot.document, snapshot.view, snapshot.run).place is not None
        )
        is_available = {
            AnimationRange.HERE: has_position,
            AnimationRange.LESSON: playhead.span is not None,
        }
        self.part.clear()
        for part in AnimationRange:
            if is_available.get(part, True):
                self.part.addItem(part, part)
        for box in (self.first, self.last):
            box.clear()
            for stage in stages:
                box.addItem(stage.title, stage.name)
        self.last.setCurrentIndex(self.last.count() - 1)

    def _show_settings(self, film_settings: AnimationSettings) -> None:
        for box, value in (
            (self.part, self._find_range(film_settings)),
            (self.grain, film_settings.grain),
            (self.speed, film_settings.speed),
            (self.width_, film_settings.width),
        ):
            box.setCurrentIndex(max(0, box.findData(value)))
        if film_settings.span:
            self.first.setCurrentIndex(max(0, self.first.findData(film_settings.span[0].stage)))
            index = self.last.findData(film_settings.span[1])
            self.last.setCurrentIndex(self.last.count() - 1 if index < 0 else index)
        self.loops.setChecked(film_settings.loops)
        self.motion.setChecked(film_settings.has_motion)
        self._enable_stage_boxes()

    def _find_range(self, film_settings: AnimationSettings) -> AnimationRange:
        if film_settings.span is None:
            return AnimationRange.WHOLE
        ranges = (
            part
            for part in (AnimationRange.LESSON, AnimationRange.HERE)
            if self._span_of_range(part) == film_settings.span
        )
        return next(ranges, AnimationRange.STAGES)

    def _enable_stage_boxes(self) -> None:
        is_chosen = self.part.currentData() == AnimationRange.STAGES
        for box in (self.first, self.last):
            box.setEnabled(is_chosen)

    # ------------------------------------------------------------------ input

    @property
    def chosen_settings(self) -> AnimationSettings:
        """The chosen settings."""
        return AnimationSettings(
            self._span_of_range(AnimationRange(self.part.currentData() or AnimationRange.WHOLE)),
            StepSize(self.grain.currentData()),
            self.speed.currentData(),
            self.loops.isChecked(),
            self.width_.currentData(),
            has_motion=self.motion.isChecked(),
        )

    def _span_of_range(self, part: AnimationRange) -> tuple[PlaybackPosition, str] | None:
        if self._request is None or part is AnimationRange.WHOLE:
            return None
        snapshot = self._request[0]
        if part is AnimationRange.LESSON:
            return snapshot.view.playhead.span
        if part is AnimationRange.HERE:
            position = resolve_view(snapshot.document, snapshot.view, snapshot.run).place
            return (position, snapshot.run.trace.names[-1]) if position else None
        return PlaybackPosition(self.first.currentData()), self.last.currentData()

    def _apply_choices(self) -> None:
        if self.first.currentIndex() > self.last.currentIndex():  # keep the two ends in order
            follower = self.last if self.sender() is self.first else self.first
            leader = self.first if follower is self.last else self.last
            follower.setCurrentIndex(leader.currentIndex())
        self._enable_stage_boxes()
        if self._request:
            snapshot, figure_settings, suffix = self._request
            self._request = snapshot, replace(figure_settings, film=self.chosen_settings), suffix
            self._start_estimate()
        self.changed.emit(self.chosen_settings)

    # ------------------------------------------------------------------ size

    def _start_estimate(self) -> None:
        """Show the length of the animation and start to estimate its file size."""
        if self._request is None:
            return
        snapshot, figure_settings, _ = request = self._request
        try:
            film = plan_animation(snapshot.run.trace, figure_settings.film)
        except InputError as refused:
            self._show_message(refused.sentence, "warning")
            return
        self._length = (
            f"{format_count(len(film.steps), 'step')} · {_format_duration(film.duration_seconds)}"
        )
        self._show_message(self._length, "quiet")
        self._worker.submit(
            partial(
                _estimate_animation_request, *request, partial(_raise_if_stopped, self._stopped)
            )
        )

    def _show_estimate(
        self, result: tuple[FigureSettings, str, AnimationEstimate | InputError]
    ) -> None:
        *settings, film = result
        if self._request is None or (*settings,) != self._request[1:]:  # ignore outdated results
            return
        if isinstance(film, InputError):
            self._show_problem(film)
        else:
            estimate = f"about {format_size(film.bytes)} · takes {film.duration_text}"
            self._show_message(f"{self._length} · {estimate}", "quiet")

    def _show_problem(self, error: Exception) -> None:
        """Show why the animation cannot be written; the export reports unexpected errors."""
        if isinstance(error, InputError):
            self._show_message(error.sentence, "warning")

    def _show_message(self, sentence: str, role: str) -> None:
        self.description.setProperty("role", role)
        self.description.style().polish(self.description)
        self.description.setText(sentence)


def _raise_if_stopped(stopped: threading.Event, done: int, of: int) -> None:
    if stopped.is_set():
        raise CancelledError


def _estimate_animation_request(
    snapshot: ExportSnapshot, figure_settings: FigureSettings, suffix: str, progress: Progress
) -> tuple[FigureSettings, str, AnimationEstimate | InputError]:
    try:
        estimate = estimate_animation(snapshot, figure_settings, suffix, progress)
    except InputError as refused:
        return figure_settings, suffix, refused
    return figure_settings, suffix, estimate


def _format_duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 300 else f"{seconds / 60:,.0f} min"
