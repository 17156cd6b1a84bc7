"""How fast a training is, over its last seconds; no torch."""

from __future__ import annotations

from collections import deque

SPAN_S = 5.0


class Pace:
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
