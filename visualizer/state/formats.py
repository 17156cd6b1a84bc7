"""The formats that can be written, as a table; what writes each is in `ui/exports.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    """What a format holds, which decides what can be chosen of it."""

    FIGURE = "figure"
    FILM = "film"
    NUMBERS = "numbers"


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Parameters
    ----------
    suffix : str
        How the names of its files end, with the dot.
    words : str
        What is in such a file.
    """

    suffix: str
    words: str
    kind: Kind


FORMATS: tuple[Format, ...] = (
    Format(".png", "Picture of the heatmaps", Kind.FIGURE),
    Format(".svg", "Drawing of the heatmaps", Kind.FIGURE),
    Format(".pdf", "Page with the heatmaps", Kind.FIGURE),
    Format(".npz", "Numbers of every stage", Kind.NUMBERS),
)


def format_of(name: str) -> Format | None:
    """Find the format that a file's name asks for, however it is written."""
    lower = name.lower()
    return next((each for each in FORMATS if lower.endswith(each.suffix)), None)


def named(name: str, chosen: str) -> Path:
    """Give a file's path; a name without a suffix takes that of the chosen kind of file."""
    path = Path(name)
    suffix = next((each.suffix for each in FORMATS if f"*{each.suffix}" in chosen), ".png")
    return path if path.suffix else path.with_suffix(suffix)


def taken(formats: tuple[Format, ...] = FORMATS) -> str:
    """List the suffixes in words."""
    *others, last = (each.suffix for each in formats)
    return f"{', '.join(others)} or {last}" if others else last
