"""Counts wheel and trackpad rotation in notches."""

from __future__ import annotations

NOTCH = 120
"""Rotation per notch, in Qt's units of 1/8 degree."""


class WheelNotches:
    """Counts whole notches; accumulates the small steps of a trackpad."""

    def __init__(self) -> None:
        self._rest = 0.0

    def count(self, turned: float) -> int:
        """Return the whole notches completed by a rotation; negative towards the user."""
        turned += self._rest
        notches = int(turned / NOTCH)
        self._rest = turned - notches * NOTCH
        return notches
