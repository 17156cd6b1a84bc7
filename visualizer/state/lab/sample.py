"""How the text begins that settings would have a model learn, before any of it is learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from visualizer.attention.errors import InputError
from visualizer.language.corpora.corpus import load
from visualizer.language.settings import Kind, problems

if TYPE_CHECKING:
    from visualizer.language.settings import Settings

LONGEST = 600
ENOUGH_ROWS = 30


def sample_of(settings: Settings) -> str:
    """Give the first letters of the text; nothing while the settings are wrong.

    Raises
    ------
    InputError
        When there is no such text.
    """
    if problems(settings):
        return ""
    source = settings.source
    if source.kind is Kind.FILE:
        return _beginning(Path(source.path))
    size = max(1_000, ENOUGH_ROWS * (settings.block + 1))
    small = replace(settings, source=replace(source, size=min(size, source.size)))
    return load(small).text[:LONGEST]


def _beginning(path: Path) -> str:
    try:
        with path.open("rb") as file:
            read = file.read(4 * LONGEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("path", f"“{path.name}” cannot be read: {reason}.") from error
    return read.decode("utf-8-sig", errors="replace")[:LONGEST]
