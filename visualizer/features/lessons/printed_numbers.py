"""The numbers that a book and a set of notes print, to compare ours with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class UnfitError(ValueError):
    """What cannot be in a lesson, in a sentence; where it stands is known to who reads it."""


@dataclass(frozen=True, slots=True, eq=False)
class PrintedNumbers:
    """Printed numbers by section and name.

    Parameters
    ----------
    sections : mapping
        Of names of sections to mappings of names to numbers and rows of numbers; None is −∞.
    """

    sections: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> PrintedNumbers:
        """Read them from a JSON file."""
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def find(self, section: str, name: str) -> tuple[str, str, np.ndarray]:
        """Look up numbers by how the names of their section and of themselves begin.

        Returns
        -------
        tuple of (str, str, numpy.ndarray)
            The whole names of both, and the numbers, read-only.

        Raises
        ------
        UnfitError
            When there are none of that name, several, or no numbers under it.
        """
        tables = {key: value for key, value in self.sections.items() if isinstance(value, dict)}
        whole = _one("section", section, tables)
        found = _one(f"number in “{whole}”", name, tables[whole])
        try:
            numbers = np.array(tables[whole][found], dtype=float)  # None becomes NaN
        except (TypeError, ValueError):
            raise UnfitError(f"“{found}” of “{whole}” is no matrix of numbers.") from None
        numbers[np.isnan(numbers)] = -np.inf
        numbers.flags.writeable = False
        return whole, found, numbers


def _one(kind: str, start: str, table: Mapping[str, Any]) -> str:
    found = [start] if start in table else [name for name in table if name.startswith(start)]
    if len(found) == 1 and start:
        return found[0]
    number = "several begin" if found else "none begins"
    raise UnfitError(f"No printed {kind} is called “{start}”: {number} so.")
