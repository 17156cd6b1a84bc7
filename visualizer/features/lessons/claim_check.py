"""Checks of the claims of a page: printed numbers are compared with those of the run."""

from __future__ import annotations

import json
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from visualizer.features.lessons.lesson import ClaimedProperty
from visualizer.format import format_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.features.lessons.lesson import LessonClaim

# Half a unit of the fourth decimal place, plus the rounding error of float32.
CLAIM_TOLERANCE = 0.00005 + 0.00001


class ClaimCheckResult(StrEnum):
    """The result of checking a claim."""

    MATCHES = auto()
    DIFFERS = auto()
    WAITING = auto()
    CHANGED = auto()


class CheckedClaim(Struct, frozen=True):
    """A claim with the result of its check."""

    words: str
    state: ClaimCheckResult
    detail: str = ""


def check_claim(
    claim: LessonClaim, run: Run | None, is_changed: bool, is_working: bool
) -> CheckedClaim:
    """Check a claim against the run; without a run or on a changed page, nothing is compared."""
    is_shape = claim.measure is ClaimedProperty.SHAPE
    exactly = "" if is_shape else " to four decimal places"
    if is_changed:
        reason = "not compared because settings have changed"
        return CheckedClaim(f"{claim.label}: {reason}", ClaimCheckResult.CHANGED)
    if run is None:
        reason = "computing" if is_working else "not computed"
        return CheckedClaim(f"{claim.label}: {reason}", ClaimCheckResult.WAITING)
    detail = (
        _describe_shape_difference(claim, run)
        if is_shape
        else _describe_number_difference(claim, run)
    )
    if detail:
        words = f"{claim.label}: differs from {claim.source}"
        return CheckedClaim(words, ClaimCheckResult.DIFFERS, detail)
    return CheckedClaim(f"{claim.label}: matches {claim.source}{exactly}", ClaimCheckResult.MATCHES)


def computed_numbers_of_claim(claim: LessonClaim, run: Run) -> np.ndarray:
    """Return the numbers that a claim compares: values of a stage, or losses computed from them."""
    numbers = run.trace.read(claim.stage, claim.at).astype(float)
    if claim.targets:
        numbers = _cross_entropies(numbers, claim.targets)
    if claim.measure is ClaimedProperty.MEAN_CROSS_ENTROPY:
        numbers = numbers.mean()
    return np.asarray(numbers * claim.factor)


def _cross_entropies(logits: np.ndarray, targets: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return the negative log-softmax at each target, from logits [row, class]."""
    rows, columns = np.transpose(targets)
    largest = logits.max(-1, keepdims=True)
    log_sums = (largest + np.log(np.exp(logits - largest).sum(-1, keepdims=True)))[:, 0]
    return np.asarray(log_sums[rows] - logits[rows, columns])


def _describe_number_difference(claim: LessonClaim, run: Run) -> str:
    """Describe the first number that differs from the printed one; return "" if none differs."""
    here = computed_numbers_of_claim(claim, run)
    printed = np.broadcast_to(claim.printed_numbers, here.shape)
    is_near = np.isclose(here, printed, rtol=0, atol=CLAIM_TOLERANCE)
    if is_near.all():
        return ""
    place = tuple(np.argwhere(~is_near)[0].tolist())
    where = ", ".join(str(index + 1) for index in place)
    start = f"Value {where}: expected" if place else "Expected"
    expected, computed = (format_number(float(array[place])) for array in (printed, here))
    return f"{start} {expected}, computed {computed}."


def _describe_shape_difference(claim: LessonClaim, run: Run) -> str:
    computed = run.trace.shape(claim.stage)
    printed = tuple(int(size) for size in claim.printed_numbers)
    if computed == printed:
        return ""
    sizes = (" × ".join(map(str, shape)) for shape in (printed, computed))
    return "Expected {}, computed {}.".format(*sizes)


class InvalidLessonValueError(ValueError):
    """An invalid value in a lesson; the caller adds the line number to the message."""


class PrintedNumbers(Struct, frozen=True, eq=False):
    """Printed numbers by section and name.

    Parameters
    ----------
    sections : mapping
        Numbers, or rows of numbers, by name within each section; None represents −∞.
    """

    sections: Mapping[str, Any]

    @classmethod
    def read_files(cls, *paths: Path) -> PrintedNumbers:
        """Read the numbers from JSON files, which must have different sections."""
        sections: dict[str, Any] = {}
        for path in paths:
            sections |= json.loads(path.read_text(encoding="utf-8"))
        return cls(sections)

    def find_by_prefix(self, section: str, name: str) -> tuple[str, str, np.ndarray]:
        """Find numbers by the beginning of their section name and the beginning of their own name.

        Returns
        -------
        tuple of (str, str, numpy.ndarray)
            Both full names, and the numbers as a read-only array.

        Raises
        ------
        InvalidLessonValueError
            If no entry or more than one entry matches, or the entry does not contain numbers.
        """
        tables = {key: value for key, value in self.sections.items() if isinstance(value, dict)}
        whole = _find_key_by_prefix("section name", section, tables)
        found = _find_key_by_prefix(f"name in “{whole}”", name, tables[whole])
        try:
            numbers = np.array(tables[whole][found], dtype=float)  # None becomes NaN
        except (TypeError, ValueError):
            raise InvalidLessonValueError(
                f"“{found}” in “{whole}” is not a matrix of numbers."
            ) from None
        numbers[np.isnan(numbers)] = -np.inf
        numbers.flags.writeable = False
        return whole, found, numbers


def _find_key_by_prefix(kind: str, start: str, table: Mapping[str, Any]) -> str:
    found = [start] if start in table else [name for name in table if name.startswith(start)]
    if len(found) == 1 and start:
        return found[0]
    amount = "More than one" if found else "No"
    raise InvalidLessonValueError(f"{amount} {kind} starts with “{start}”.")
