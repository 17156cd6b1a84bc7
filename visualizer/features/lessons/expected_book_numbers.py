"""Numbers printed in a book or in notes, or worked by hand, to compare with computed ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class UnfitError(ValueError):
    """An invalid value in a lesson; the message is a sentence, and the caller adds the line."""


class BookNumbers(Struct, frozen=True, eq=False):
    """Printed numbers by section and name.

    Parameters
    ----------
    sections : mapping
        Section name → name → number or rows of numbers; None represents −∞.
    """

    sections: Mapping[str, Any]

    @classmethod
    def read(cls, *paths: Path) -> BookNumbers:
        """Read the numbers from JSON files, which must have different sections."""
        sections: dict[str, Any] = {}
        for path in paths:
            sections |= json.loads(path.read_text(encoding="utf-8"))
        return cls(sections)

    def find(self, section: str, name: str) -> tuple[str, str, np.ndarray]:
        """Look up numbers by a prefix of their section's name and a prefix of their own.

        Returns
        -------
        tuple of (str, str, numpy.ndarray)
            Both full names, and the numbers as a read-only array.

        Raises
        ------
        UnfitError
            If no entry matches, several do, or the entry does not hold numbers.
        """
        tables = {key: value for key, value in self.sections.items() if isinstance(value, dict)}
        whole = _match_prefix("section", section, tables)
        found = _match_prefix(f"value in “{whole}”", name, tables[whole])
        try:
            numbers = np.array(tables[whole][found], dtype=float)  # None becomes NaN
        except (TypeError, ValueError):
            raise UnfitError(f"“{found}” of “{whole}” is not a matrix of numbers.") from None
        numbers[np.isnan(numbers)] = -np.inf
        numbers.flags.writeable = False
        return whole, found, numbers


def _match_prefix(kind: str, start: str, table: Mapping[str, Any]) -> str:
    found = [start] if start in table else [name for name in table if name.startswith(start)]
    if len(found) == 1 and start:
        return found[0]
    amount = "More than one" if found else "No"
    raise UnfitError(f"{amount} {kind} starts with “{start}”.")
