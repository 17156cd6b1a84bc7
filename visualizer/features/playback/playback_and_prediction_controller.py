"""Controller of playback: the timer that moves the playhead, seeking, speed and predictions."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QObject, Qt, QTimer

from visualizer.session.timeline import SPEEDS, STEPS_PER_SECOND, Grain, Place, Playhead, Timeline
from visualizer.session.user_prediction import Prediction, PredictionQuestion, without_marks
from visualizer.session.zoom_ranges import zoom_including

if TYPE_CHECKING:
    from visualizer.session.workspace import Workspace
    from visualizer.session.zoom_ranges import Zoom

BEAT_MS = 8
LATEST_S = 0.5
"""The most time that one tick counts, so that playback does not jump after a long stall."""


class PlaybackController(QObject):
    """Moves the playhead of a workspace; each public method is one user intent."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._timer = QTimer(self, interval=BEAT_MS)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._last = 0.0
        self._due = 0.0

    @property
    def playhead(self) -> Playhead:
        """The requested playhead, which may not be shown yet."""
        return self._workspace.wanted.playhead

    @property
    def place(self) -> Place | None:
        """The place that the track shows: the playhead's, or the stage under prediction."""
        resolved = self._workspace.wanted_resolved
        guess = resolved.prediction if resolved else None
        return Place(guess.stage) if guess else self.playhead.place

    @property
    def timeline(self) -> Timeline | None:
        """The steps of the shown run; None while there is none."""
        run = self._workspace.run
        return Timeline.of(run.trace, self.playhead.grain) if run else None

    def stop(self) -> None:
        self._timer.stop()

    # ------------------------------------------------------------------ time

    def toggle(self) -> None:
        """Play or pause; at the end of the run or of a lesson's span, play from its start."""
        timeline = self.timeline
        if timeline is None:
            return
        if self.playhead.is_playing:
            self._move(is_playing=False)
            return
        span, place = self.playhead.span, self.place
        if span and min(timeline.position(place), len(timeline) - 1) == timeline.last(span[1]):
            place = span[0]
        self._go(timeline.nearest(place) or timeline.place(0), is_playing=True)
        self._last, self._due = perf_counter(), 0.0
        self._timer.start()

    def _beat(self) -> None:
        now = perf_counter()
        passed, self._last = min(now - self._last, LATEST_S), now
        if not self.playhead.is_playing:
            self._timer.stop()
            return
        self._due += passed * self.playhead.speed * STEPS_PER_SECOND[self.playhead.grain]
        steps, self._due = int(self._due), self._due % 1
        if steps:
            self._advance(steps)

    def _advance(self, steps: int) -> None:
        """Advance by all steps that are due: slow frames drop steps and do not slow playback."""
        timeline = self.timeline
        if timeline is None:
            return
        now = timeline.position(self.playhead.place)
        first, last = self._span(timeline, now)
        position, is_playing = now + steps, True
        if position > last and self.playhead.loops:
            position = first + (position - first) % (last + 1 - first)
        elif position > last:
            is_playing = False
            position = last if last < len(timeline) - 1 else len(timeline)
        place = timeline.place(position)
        playhead = replace(self.playhead, place=place, is_playing=is_playing)
        self._workspace.look(playhead=playhead, zoom=self._zoom_at(place))

    def _span(self, timeline: Timeline, now: int) -> tuple[int, int]:
        """The first and last step to play: of the whole run, or of a lesson's span."""
        if self.playhead.span:
            place, stage = self.playhead.span
            first, last = timeline.position(place), timeline.last(stage)
            if first <= now <= last:
                return first, last
        return 0, len(timeline) - 1

    # ------------------------------------------------------------------ seeking

    def step(self, steps: int) -> None:
        """Step forward or back, and pause; a step on from the end goes to the start."""
        timeline = self.timeline
        if timeline is None:
            return
        position = timeline.position(self.place)
        if position == len(timeline) and steps > 0:
            position = -1
        self.seek(position + steps)

    def seek(self, position: int) -> None:
        """Go to a step by its index, and pause."""
        if self.timeline:
            self._go(self.timeline.place(position), is_playing=False)

    def seek_stage(self, stage: str) -> None:
        """Go to the first step of a stage; playback continues."""
        if self.timeline:
            self._go(self.timeline.nearest(Place(stage)))

    def skip(self, stages: int) -> None:
        """Go to the start of the next or the previous stage; playback continues."""
        if self.timeline:
            self._go(self.timeline.beside(self.place, stages))

    def to_start(self) -> None:
        """Go to the first step; playback continues."""
        if self.timeline:
            self._go(self.timeline.place(0))

    def to_end(self) -> None:
        """Go to the end, where everything is computed."""
        self._go(None, is_playing=False)

    def _go(self, place: Place | None, **changes: Any) -> None:
        """Go to a place; a prediction in progress ends."""
        playhead = replace(self.playhead, place=place, **changes)
        self._workspace.look(playhead=playhead, guess=None, zoom=self._zoom_at(place))

    def _zoom_at(self, place: Place | None) -> Zoom | None:
        """Return the zoom, panned just far enough to show the row or the cell of a step."""
        run, zoom, grain = self._workspace.run, self._workspace.wanted.zoom, self.playhead.grain
        if run is None or place is None or grain is Grain.STAGE:
            return zoom
        column = place.column if grain is Grain.CELL else None
        stage = run.trace.stage(place.stage)
        return zoom_including(zoom, run.trace.sides, stage, place.row, column)

    # ------------------------------------------------------------------ options

    def set_grain(self, grain: Grain) -> None:
        """Set the step size to a stage, a row or a cell; the place stays."""
        self._move(grain=Grain(grain))

    def set_speed(self, speed: float) -> None:
        """Set the playback speed, as a factor."""
        self._move(speed=speed)

    def change_speed(self, steps: int) -> None:
        """Change the playback speed by a number of presets."""
        number = SPEEDS.index(self.playhead.speed) + steps
        self.set_speed(SPEEDS[min(max(number, 0), len(SPEEDS) - 1)])

    def toggle_loop(self) -> None:
        self._move(loops=not self.playhead.loops)

    def _move(self, **changes: Any) -> None:
        self._workspace.look(playhead=replace(self.playhead, **changes))

    # ------------------------------------------------------------------ predictions

    def predict(self) -> None:
        """Start a prediction of the stage in focus, or end the one in progress."""
        run, wanted = self._workspace.run, self._workspace.wanted
        if run is None:
            return
        guess = None
        resolved = self._workspace.resolved(wanted)
        if not resolved.prediction:
            place, pinned = resolved.place, wanted.pinned
            stage = place.stage if place else pinned.stage if pinned else run.trace.attention
            guess = Prediction(stage if stage in run.trace else run.trace.attention)
        playhead = replace(self.playhead, is_playing=False)
        self._workspace.look(guess=guess, playhead=playhead)

    def ask(self, question: PredictionQuestion) -> None:
        """Set the question, the largest cells or the zero cells; marks are cleared."""
        guess = self._workspace.wanted.guess
        if guess:
            self._workspace.look(
                guess=without_marks(replace(guess, question=PredictionQuestion(question)))
            )

    def reveal(self) -> None:
        """Reveal the stage and the result of the marks."""
        guess = self._workspace.wanted.guess
        if guess:
            self._workspace.look(guess=replace(guess, is_revealed=True))
