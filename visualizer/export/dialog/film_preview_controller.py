"""Plays the preview of a film by requesting each frame when it is due."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from PySide6.QtCore import QElapsedTimer, QObject, QTimer, Signal

if TYPE_CHECKING:
    from visualizer.export.films.animation_frames import AnimationFrames


class FilmPreviewPlayer(QObject):
    """Requests each frame of a film when it is due.

    If painting is too slow, frames are dropped to keep the playback speed of the file.
    """

    wanted = Signal(object, int)
    """Emitted with the `AnimationFrames` and the index of the frame to show."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.animation: AnimationFrames | None = None
        """The film that is playing or has ended."""
        self._loops = True
        self._ends: list[int] = []
        self._step = 0
        self._clock = QElapsedTimer()
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._request_frame)

    @property
    def is_playing(self) -> bool:
        """Whether another frame is due."""
        return self._timer.isActive()

    def go_on(self, animation: AnimationFrames, loops: bool) -> None:
        """Continue from the current frame; a different film starts at its first frame."""
        if animation is not self.animation:
            self.animation, self._loops, self._step = animation, loops, 0
            self._ends = list(accumulate(animation.film.durations()))
            self._clock.start()
            self._schedule_frame()
        elif not self._timer.isActive():  # otherwise the current frame was only repainted
            self._schedule_frame()

    def stop(self) -> None:
        """Stop playing."""
        self._timer.stop()
        self.animation = None

    def _schedule_frame(self) -> None:
        """Schedule the next frame, skipping frames that are overdue."""
        passed = self._clock.elapsed()
        laps, within = divmod(passed, self._ends[-1])
        due = laps * len(self._ends) + bisect_right(self._ends, within)
        last = len(self._ends) - 1
        if self._loops or self._step < last:
            self._step = max(self._step + 1, due if self._loops else min(due, last))
            self._timer.start(max(0, self._starts_at(self._step) - passed))

    def _starts_at(self, step: int) -> int:
        """Return the start of a step in ms; step numbers continue across loops."""
        lap, frame = divmod(step, len(self._ends))
        return lap * self._ends[-1] + (self._ends[frame - 1] if frame else 0)

    def _request_frame(self) -> None:
        assert self.animation
        self.wanted.emit(self.animation, self._step % len(self._ends))
