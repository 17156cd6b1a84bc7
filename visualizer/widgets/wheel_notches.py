"""Turns of a wheel or a trackpad, counted by notches."""

from __future__ import annotations

NOTCH = 120
"""How far a notch turns the wheel, as Qt measures it."""


class WheelNotches:
    """Counts whole notches; a trackpad sends small parts, which add up to them."""

    def __init__(self) -> None:
        self._rest = 0.0

    def count(self, turned: float) -> int:
        """Return the notches that are whole with this turn; those towards the user are negative."""
        turned += self._rest
        notches = int(turned / NOTCH)
        self._rest = turned - notches * NOTCH
        return notches
