"""Decides which snapshots of a training run are kept, to limit their total size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.language.run_folder import RunFolder

    pass

GROWTH = 1.08
"""Ratio of the steps of consecutive snapshots, which are evenly spaced on a log axis."""
MAX_SNAPSHOT_BYTES = 512 * 2**20
"""Maximum size of all snapshots of a run; if exceeded, every other one is removed."""


def is_first(step: int, growth: float) -> bool:
    """Whether a step is the first in its interval of a log axis with ratio ``growth``."""
    return step < 2 or int(math.log(step, growth)) > int(math.log(step - 1, growth))


def thin(folder: RunFolder) -> None:
    """Remove every other snapshot if all together exceed `MAX_SNAPSHOT_BYTES`."""
    kept = folder.snapshots()
    if not kept:
        return  # the folder became unreadable: there is nothing to thin
    size = folder.snapshot(kept[-1]).stat().st_size
    if size * len(kept) > MAX_SNAPSHOT_BYTES and len(kept) > 2:
        for step in kept[1:-1:2]:
            folder.snapshot(step).unlink(missing_ok=True)


def forget_after(folder: RunFolder, step: int) -> None:
    """Remove the snapshots after a step, since these steps are trained again.

    Raises
    ------
    InputError
        With field ``folder`` if one cannot be removed.
    """
    try:
        for kept in folder.snapshots():
            if kept > step:
                folder.snapshot(kept).unlink(missing_ok=True)
    except OSError as error:
        raise folder.unwritable(error) from error
