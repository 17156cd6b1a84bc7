"""Which weights of a training are kept, and for how long; no torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.language.folder import RunFolder

GROWTH = 1.08
"""From one snapshot to the next, the steps grow by this: their times are even on a log axis."""
MOST_BYTES = 512 * 2**20
"""Of all snapshots of a run; every other one goes when there are more."""


def is_first(step: int, growth: float) -> bool:
    """Whether a number of steps is the first in its growth: such are even on a log axis."""
    return step < 2 or int(math.log(step, growth)) > int(math.log(step - 1, growth))


def thin(folder: RunFolder) -> None:
    """Leave out every other snapshot, where they take too much room together."""
    kept = folder.snapshots()
    size = folder.snapshot(kept[-1]).stat().st_size
    if size * len(kept) > MOST_BYTES and len(kept) > 2:
        for step in kept[1:-1:2]:
            folder.snapshot(step).unlink(missing_ok=True)


def forget_after(folder: RunFolder, step: int) -> None:
    """Leave out snapshots of steps that come again."""
    for kept in folder.snapshots():
        if kept > step:
            folder.snapshot(kept).unlink(missing_ok=True)
