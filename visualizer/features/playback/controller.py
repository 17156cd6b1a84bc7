"""Controller of playback: timer, seeking, speed and predictions."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QObject, Qt, QTimer

from visualizer.session.resolved_view import view_timeline
from visualizer.session.timeline import PLAYBACK_SPEEDS, PlaybackPosition, PlaybackState, StepSize
from visualizer.session.user_prediction import Prediction, PredictionQuestion, clear_marks
from visualizer.session.zoom_ranges import pan_to_show

if TYPE_CHECKING:
    from visualizer.features.playback.playback_bar_widget import PlaybackBar
    from visualizer.session.timeline import Timeline
    from visualizer.session.workspace import Workspace
    from visualizer.session.zoom_ranges import ZoomRange

TICK_MS = 8
MAX_TICK_S = 0.5
"""Maximum time in seconds that one tick adds, so that playback does not jump after a stall."""


class PlaybackController(QObject):
    """Controller that moves the playhead of a workspace; each public method is one user action."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._on_tick)
        self._last_tick = 0.0
        self._shown_ms = 0.0
        """How long the step has been shown, converted to normal playback speed."""

    def connect_bar(self, bar: PlaybackBar) -> None:
        """Connect the playback bar."""
        bar.grainChosen.connect(self.set_step_size)
        bar.speedChosen.connect(self.set_speed)
        bar.questionChosen.connect(self.set_prediction_question)

    @property
    def playhead(self) -> PlaybackState:
        """The requested playhead, which may not be shown yet."""
        return self._workspace.requested_view.playhead

    @property
    def place(self) -> PlaybackPosition | None:
        """The position on the timeline: the playhead, or the stage that is predicted."""
        resolved = self._workspace.resolved_requested_view
        guess = resolved.prediction if resolved else None
        return PlaybackPosition(guess.stage) if guess else self.playhead.place

    @property
    def timeline(self) -> Timeline | None:
        """The steps of the visible run, or None without a run."""
        run = self._workspace.run
        return view_timeline(run, self._workspace.requested_view) if run else None

    def stop(self) -> None:
        self._timer.stop()

    # ------------------------------------------------------------------ playing

    def toggle_playback(self) -> None:
        """Play or pause; at the end of the run or of a lesson's span, start again."""
        timeline = self.timeline
        if timeline is None:
            return
        if self.playhead.is_playing:
            # Keep the row with the explained cell while a tour moves between rows.
            place = timeline.nearest_position(self.playhead.place)
            place = timeline.described_position(place) if place else None
            self._change_playhead(place=place, is_playing=False)
            return
        span, place = self.playhead.span, self.place
        if span and min(timeline.step_index(place), len(timeline) - 1) == timeline.last_step_index(
            span[1]
        ):
            place = span[0]
        self._go_to_position(
            timeline.nearest_position(place) or timeline.position_of_step(0), is_playing=True
        )
        self._last_tick, self._shown_ms = perf_counter(), 0.0
        self._timer.start()

    def _on_tick(self) -> None:
        now = perf_counter()
        elapsed, self._last_tick = min(now - self._last_tick, MAX_TICK_S), now
        if not self.playhead.is_playing:
            self._timer.stop()
            return
        self._advance_playhead(1000 * elapsed * self.playhead.speed)

    def _advance_playhead(self, ms: float) -> None:
        """Advance by a time, given at normal speed; steps are skipped if frames are slow."""
        timeline = self.timeline
        if timeline is None:
            return
        now = timeline.step_index(self.playhead.place)
        first, last = self._playback_step_range(timeline, now)
        start, end = timeline.step_start_ms(first), timeline.step_start_ms(last + 1)
        self._shown_ms += ms
        time, is_playing = timeline.step_start_ms(now) + self._shown_ms, True
        if time >= end and self.playhead.loops:
            time = start + (time - start) % (end - start)
        position = timeline.step_index_at_time(time)
        if position > last:
            is_playing = False
            position = last if last < len(timeline) - 1 else len(timeline)
        if position == now and is_playing:
            return
        self._shown_ms = max(0.0, time - timeline.step_start_ms(position))
        place = timeline.position_of_step(position)
        playhead = replace(self.playhead, place=place, is_playing=is_playing)
        self._workspace.change_view(playhead=playhead, zoom=self._zoom_range_at(place, is_playing))

    def _playback_step_range(self, timeline: Timeline, now: int) -> tuple[int, int]:
        """Return the first and the last step to play, in the lesson's span or in the whole run."""
        if self.playhead.span:
            place, stage = self.playhead.span
            first, last = timeline.step_index(place), timeline.last_step_index(stage)
            if first <= now <= last:
                return first, last
        return 0, len(timeline) - 1

    # ------------------------------------------------------------------ seeking

    def step_by(self, steps: int) -> None:
        """Step forward or back, and pause.

        A step forward from the end leads to the pinned cell or, without one, to the start.
        """
        timeline, pinned = self.timeline, self._workspace.requested_view.pinned
        if timeline is None:
            return
        position = timeline.step_index(self.place)
        if position < len(timeline) or steps < 0:
            self.seek(position + steps)
        elif pinned and pinned.stage in {name for name, _, _ in timeline.sizes}:
            self.seek(timeline.step_index(PlaybackPosition(pinned.stage, *pinned.place[-2:])))
        else:
            self.seek(steps - 1)

    def seek(self, position: int) -> None:
        """Go to a step by its index, and pause."""
        if self.timeline:
            self._go_to_position(self.timeline.position_of_step(position), is_playing=False)

    def seek_within_stage(self, stage: str, share: float) -> None:
        """Go to the step at the given fraction of a stage, and pause."""
        if self.timeline:
            self.seek(self.timeline.step_index_within_stage(stage, share))

    def seek_stage(self, stage: str) -> None:
        """Go to the first step of a stage; playback continues."""
        if self.timeline:
            self._go_to_position(self.timeline.nearest_position(PlaybackPosition(stage)))

    def skip_stages(self, stages: int) -> None:
        """Go to the start of the next or the previous stage; playback continues."""
        if self.timeline:
            self._go_to_position(self.timeline.skip_stages(self.place, stages))

    def go_to_start(self) -> None:
        """Go to the first step; playback continues."""
        if self.timeline:
            self._go_to_position(self.timeline.position_of_step(0))

    def go_to_end(self) -> None:
        """Go to the end, at which all stages are computed."""
        self._go_to_position(None, is_playing=False)

    def _go_to_position(self, place: PlaybackPosition | None, **changes: Any) -> None:
        """Go to a position and end any prediction in progress."""
        playhead = replace(self.playhead, place=place, **changes)
        zoom = self._zoom_range_at(place, playhead.is_playing)
        self._workspace.change_view(playhead=playhead, guess=None, zoom=zoom)

    def _zoom_range_at(self, place: PlaybackPosition | None, is_playing: bool) -> ZoomRange | None:
        """Return the zoom, panned as little as possible to show the step's row or cell."""
        run, zoom, grain = (
            self._workspace.run,
            self._workspace.requested_view.zoom,
            self.playhead.grain,
        )
        timeline = self.timeline
        if run is None or timeline is None or place is None or grain is StepSize.STAGE:
            return zoom
        if is_playing:
            place = timeline.described_position(place)
        column = place.column if grain is StepSize.CELL else None
        stage = run.trace.stage(place.stage)
        return pan_to_show(zoom, run.trace.query_key_counts, stage, place.row, column)

    # ------------------------------------------------------------------ options

    def set_step_size(self, grain: StepSize) -> None:
        """Set the step size, and keep the position."""
        self._change_playhead(grain=StepSize(grain))

    def set_speed(self, speed: float) -> None:
        """Set the playback speed, as a factor."""
        self._change_playhead(speed=speed)

    def change_speed(self, steps: int) -> None:
        """Change the playback speed by a number of presets."""
        number = PLAYBACK_SPEEDS.index(self.playhead.speed) + steps
        self.set_speed(PLAYBACK_SPEEDS[min(max(number, 0), len(PLAYBACK_SPEEDS) - 1)])

    def toggle_loop(self) -> None:
        self._change_playhead(loops=not self.playhead.loops)

    def _change_playhead(self, **changes: Any) -> None:
        self._workspace.change_view(playhead=replace(self.playhead, **changes))

    # ------------------------------------------------------------------ predictions

    def toggle_prediction(self, stage: str = "") -> None:
        """Start a prediction of a stage (default: the current stage), or end a prediction."""
        run, wanted = self._workspace.run, self._workspace.requested_view
        if run is None:
            return
        guess = None
        resolved = self._workspace.resolve(wanted)
        if not resolved.prediction:
            place, pinned = resolved.place, wanted.pinned
            current = (
                place.stage if place else pinned.stage if pinned else run.trace.attention_stage_name
            )
            stage = stage or current
            guess = Prediction(stage if stage in run.trace else run.trace.attention_stage_name)
        playhead = replace(self.playhead, is_playing=False)
        self._workspace.change_view(guess=guess, playhead=playhead)

    def set_prediction_question(self, question: PredictionQuestion) -> None:
        """Set the question (largest cells or zero cells) and clear the marks."""
        guess = self._workspace.requested_view.guess
        if guess:
            self._workspace.change_view(
                guess=clear_marks(replace(guess, question=PredictionQuestion(question)))
            )

    def reveal_prediction(self) -> None:
        """Reveal the stage and the verdict on the marks."""
        guess = self._workspace.requested_view.guess
        if guess:
            self._workspace.change_view(guess=replace(guess, is_revealed=True))
