"""Checks a claim of a lesson's page against the run."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.features.lessons.lesson import Measure
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.features.lessons.lesson import Claim

# Half a unit of the fourth decimal, plus the rounding error of float32.
NEAR = 0.00005 + 0.00001


class ClaimResult(StrEnum):
    """The result of checking a claim."""

    MATCHES = auto()
    DIFFERS = auto()
    WAITING = auto()
    CHANGED = auto()


class ClaimCheck(Struct, frozen=True):
    """A claim with the result of its check."""

    words: str
    state: ClaimResult
    detail: str = ""


def check_claim(claim: Claim, run: Run | None, is_changed: bool, is_working: bool) -> ClaimCheck:
    """Check a claim against the run, if there is one and its page was not changed."""
    is_shape = claim.measure is Measure.SHAPE
    exactly = "" if is_shape else " to four decimals"
    if is_changed:
        return ClaimCheck(
            f"{claim.called}: not compared, as you changed something", ClaimResult.CHANGED
        )
    if run is None:
        why = "waiting for the numbers" if is_working else "not computed"
        return ClaimCheck(f"{claim.called}: {why}", ClaimResult.WAITING)
    detail = _shape_difference(claim, run) if is_shape else _difference(claim, run)
    if detail:
        return ClaimCheck(
            f"{claim.called}: differs from {claim.source}", ClaimResult.DIFFERS, detail
        )
    return ClaimCheck(f"{claim.called}: matches {claim.source}{exactly}", ClaimResult.MATCHES)


def _difference(claim: Claim, run: Run) -> str:
    """Describe the first number that differs from the printed one."""
    here = run.trace.read(claim.stage, claim.at).astype(float) * claim.factor
    printed = np.broadcast_to(claim.printed, here.shape)
    with np.errstate(invalid="ignore"):
        is_near = (np.abs(here - printed) <= NEAR) | (here == printed)
    if is_near.all():
        return ""
    place = tuple(int(axis) for axis in np.argwhere(~is_near)[0])
    where = ", ".join(str(axis + 1) for axis in place)
    start = f"Number {where}: printed" if place else "Printed"
    return (
        f"{start} {format_number(float(printed[place]))}, here {format_number(float(here[place]))}."
    )


def _shape_difference(claim: Claim, run: Run) -> str:
    here = run.trace.shape(claim.stage)
    printed = tuple(int(size) for size in claim.printed)
    if tuple(here) == printed:
        return ""
    sizes = (" × ".join(map(str, shape)) for shape in (printed, here))
    return "Printed {}, here {}.".format(*sizes)
