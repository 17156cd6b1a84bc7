"""Speed, progress and remaining time of a training run. This module does not import torch."""

from __future__ import annotations

import math
from collections import deque

from msgspec import Struct

SPEED_WINDOW_S = 5.0


class TrainingSpeed:
    """Measures how many tokens were trained per second in the last `SPEED_WINDOW_S` seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()
        self._total_tokens = 0

    def add_tokens(self, tokens: int, now: float) -> None:
        """Record tokens whose training ended at `now`, a monotonic time in seconds."""
        self._total_tokens += tokens
        self._samples.append((now, self._total_tokens))
        while now - self._samples[0][0] > SPEED_WINDOW_S and len(self._samples) > 2:
            self._samples.popleft()

    @property
    def tokens_per_second(self) -> float | None:
        """Number of tokens per second; None until the speed can be measured."""
        if len(self._samples) < 2:
            return None
        (start, before), (end, after) = self._samples[0], self._samples[-1]
        return (after - before) / (end - start) if end > start else None

    def estimate_seconds(self, tokens: int) -> float | None:
        """Return the estimated time for the given number of tokens, or None if it is unknown."""
        pace = self.tokens_per_second
        return tokens / pace if pace else None


MINUTE, HOUR, DAY = 60, 3600, 86_400


class TrainingProgress(Struct, frozen=True):
    """Progress of a training run.

    Parameters
    ----------
    step, steps : int
        Number of completed steps, and total number of steps.
    rate : float
        Current learning rate.
    tokens_per_second, seconds_left : float or None
        Training speed and remaining time; None while training is paused or the value is unknown.
    """

    step: int
    steps: int
    rate: float
    tokens_per_second: float | None = None
    seconds_left: float | None = None

    @property
    def status_texts(self) -> tuple[str, ...]:
        """The known values as texts, with the most important first."""
        known = [f"step {self.step:,} of {self.steps:,}"]
        if self.seconds_left is not None and (left := format_time_left(self.seconds_left)):
            known.append(left)
        if self.tokens_per_second is not None and math.isfinite(self.tokens_per_second):
            known.append(f"{_round_to_three_digits(self.tokens_per_second):,} tokens per second")
        return (*known, f"learning rate {self.rate:.3g}")


def format_time_left(seconds: float) -> str:
    """Format a remaining time with a precision that matches its uncertainty."""
    if not math.isfinite(seconds) or seconds < 0:
        return ""
    if seconds < 10:
        return "a few seconds left"
    if seconds < MINUTE - 5:
        return f"{10 * round(seconds / 10)} s left"
    if seconds < HOUR - MINUTE / 2:
        return f"{max(1, round(seconds / MINUTE))} min left"
    hours, minutes = divmod(round(seconds / MINUTE / 10) * 10, 60)
    if seconds < DAY:
        return f"{hours} h {minutes} min left" if minutes else f"{hours} h left"
    days = round(seconds / DAY)
    return f"{days:,} day{'' if days == 1 else 's'} left"


def _round_to_three_digits(value: float) -> int:
    """Round to three significant digits, because further digits fluctuate."""
    return int(round(value, min(0, 3 - len(str(int(value))))))
