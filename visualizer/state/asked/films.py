"""Films that are asked for: from where to where, in which steps, and how fast."""

from __future__ import annotations

import math

from visualizer.attention.spec import InputError
from visualizer.state.asked.parts import named_stages
from visualizer.state.playback.timeline import ORDER, Place


def span_of(text: str) -> tuple[Place, str]:
    """Read from where to where: ``scores..context``, or from a row on, ``scores:2..weights``.

    A side that is left empty is the beginning or the end.
    """
    first, dots, last = text.partition("..")
    name, colon, row = first.partition(":")
    name, last = name or ORDER[0], last or ORDER[-1]
    named_stages([name, last])
    is_row = not colon or (row.isascii() and row.isdigit() and int(row) > 0)
    if not (dots and is_row) or ORDER.index(name) > ORDER.index(last):
        sentence = f"got '{text}', takes stages in their order such as scores..context"
        raise InputError("span", f"{sentence}, or from a row on: scores:2..weights")
    return Place(name, int(row) - 1 if row else 0), last


def speed_of(text: str) -> float:
    """Read how many times faster than usual."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.05 <= value <= 100:
        raise InputError("speed", f"got '{text}', takes a number from 0.05 to 100")
    return value
