"""How fast a training is, over its last seconds; no torch.

How far a training is, how fast it goes and how long it still takes, in words.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

SPAN_S = 5.0


class TrainingSpeed:
    """Counts tokens by the time at which they were learned."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._whole = 0

    def add(self, tokens: int, now: float) -> None:
        """Count tokens at a time in seconds, which only grows."""
        self._whole += tokens
        self._seen.append((now, self._whole))
        while now - self._seen[0][0] > SPAN_S and len(self._seen) > 2:
            self._seen.popleft()

    @property
    def a_second(self) -> float | None:
        """Tokens a second; None before it can be known."""
        if len(self._seen) < 2:
            return None
        (start, before), (end, after) = self._seen[0], self._seen[-1]
        return (after - before) / (end - start) if end > start else None

    def seconds_for(self, tokens: int) -> float | None:
        """Give how long so many tokens will take."""
        pace = self.a_second
        return tokens / pace if pace else None


MINUTE, HOUR, DAY = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far a training is, and how it goes on.

    Parameters
    ----------
    step, steps : int
        Steps done, and after how many it is done.
    rate : float
        The learning rate now.
    tokens_a_second, seconds_left : float or None
        None while that is not known, or where it stands still.
    """

    step: int
    steps: int
    rate: float
    tokens_a_second: float | None = None
    seconds_left: float | None = None

    @property
    def facts(self) -> tuple[str, ...]:
        """All that is known, the most wanted first."""
        known = [f"step {self.step:,} of {self.steps:,}"]
        if self.seconds_left is not None and (left := time_left(self.seconds_left)):
            known.append(left)
        if self.tokens_a_second is not None and math.isfinite(self.tokens_a_second):
            known.append(f"{_rounded(self.tokens_a_second):,} tokens a second")
        return (*known, f"learning rate {self.rate:.3g}")


def time_left(seconds: float) -> str:
    """Say how long it still takes, no more exactly than it can be known."""
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


def _rounded(value: float) -> int:
    """Leave three digits: the others change all the time."""
    return int(round(value, min(0, 3 - len(str(int(value))))))
