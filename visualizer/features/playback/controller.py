"""Playback: a timer that moves the playhead, and what a hand can want of it."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Qt, QTimer

from visualizer.session.prediction import Prediction, PredictionQuestion, begun_anew
from visualizer.session.timeline import SPEEDS, STEPS_PER_SECOND, Grain, Place, Playhead, Timeline

if TYPE_CHECKING:
    from visualizer.session.workspace import Workspace

BEAT_MS = 8
LATEST_S = 0.5
"""After a longer pause of the whole program it goes on from where it was."""


class PlaybackController(QObject):
    """Moves the playhead of a workspace; every method is something a viewer wants."""

    def __init__(self, workspace: Workspace, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._timer = QTimer(self, interval=BEAT_MS)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._last = 0.0
        self._due = 0.0

    @property
    def playhead(self) -> Playhead:
        """Where playback stands, or will as soon as it can be shown."""
        return self._workspace.wanted.playhead

    @property
    def place(self) -> Place | None:
        """What the track shows: where playback stands, or the stage that is predicted."""
        resolved = self._workspace.wanted_resolved
        guess = resolved.prediction if resolved else None
        return Place(guess.stage) if guess else self.playhead.place

    @property
    def timeline(self) -> Timeline | None:
        """The steps of the run that is shown; None while there is none."""
        run = self._workspace.run
        return Timeline.of(run.trace, self.playhead.grain) if run else None

    def stop(self) -> None:
        """End the timer."""
        self._timer.stop()

    # ------------------------------------------------------------------ time

    def toggle(self) -> None:
        """Play or pause; from the end of all, or of a lesson's span, play from its start."""
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
        """Go on by all the steps that are due: a picture that takes long slows nothing down."""
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
        self._move(place=timeline.place(position), is_playing=is_playing)

    def _span(self, timeline: Timeline, now: int) -> tuple[int, int]:
        """Give the numbers of the first and last step that are played: of all, or of a lesson's."""
        if self.playhead.span:
            place, stage = self.playhead.span
            first, last = timeline.position(place), timeline.last(stage)
            if first <= now <= last:
                return first, last
        return 0, len(timeline) - 1

    # ------------------------------------------------------------------ places

    def step(self, steps: int) -> None:
        """Go some steps on or back, and pause; on from the end, to the start."""
        timeline = self.timeline
        if timeline is None:
            return
        position = timeline.position(self.place)
        if position == len(timeline) and steps > 0:
            position = -1
        self.seek(position + steps)

    def seek(self, position: int) -> None:
        """Go to a step by its number, and pause."""
        if self.timeline:
            self._go(self.timeline.place(position), is_playing=False)

    def seek_stage(self, stage: str) -> None:
        """Go to the first step of a stage; playing goes on."""
        if self.timeline:
            self._go(self.timeline.nearest(Place(stage)))

    def skip(self, stages: int) -> None:
        """Go to the start of the next stage or of the one before; playing goes on."""
        if self.timeline:
            self._go(self.timeline.beside(self.place, stages))

    def to_start(self) -> None:
        """Go to the first step; playing goes on."""
        if self.timeline:
            self._go(self.timeline.place(0))

    def to_end(self) -> None:
        """Show everything computed."""
        self._go(None, is_playing=False)

    def _go(self, place: Place | None, **changes: Any) -> None:
        """Go to a place; what was being predicted is uncovered."""
        playhead = replace(self.playhead, place=place, **changes)
        self._workspace.look(playhead=playhead, guess=None)

    # ------------------------------------------------------------------ manners

    def set_grain(self, grain: Grain) -> None:
        """Play by stage, by row or by cell; at the same place."""
        self._move(grain=Grain(grain))

    def set_speed(self, speed: float) -> None:
        """Play so many times as fast as usual."""
        self._move(speed=speed)

    def change_speed(self, steps: int) -> None:
        """Play one speed faster or slower."""
        number = SPEEDS.index(self.playhead.speed) + steps
        self.set_speed(SPEEDS[min(max(number, 0), len(SPEEDS) - 1)])

    def toggle_loop(self) -> None:
        """Begin anew at the end, or stop there."""
        self._move(loops=not self.playhead.loops)

    def _move(self, **changes: Any) -> None:
        self._workspace.look(playhead=replace(self.playhead, **changes))

    # ------------------------------------------------------------------ predictions

    def predict(self) -> None:
        """Cover the stage that is looked at, or uncover what is covered."""
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
        """Ask for the largest cells, or for those that are zero; the marks go."""
        guess = self._workspace.wanted.guess
        if guess:
            self._workspace.look(
                guess=begun_anew(replace(guess, question=PredictionQuestion(question)))
            )

    def reveal(self) -> None:
        """Uncover the stage and say what became of the marks."""
        guess = self._workspace.wanted.guess
        if guess:
            self._workspace.look(guess=replace(guess, is_revealed=True))
