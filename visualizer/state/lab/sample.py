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
MADE_SOON = 5_000_000
"""Tokens that are made in a second or two; of a longer text, one of this length is shown."""


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
    soon = replace(settings, source=replace(source, size=min(MADE_SOON, source.size)))
    return load(soon).text[:LONGEST]


def _beginning(path: Path) -> str:
    try:
        with path.open("rb") as file:
            read = file.read(4 * LONGEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("path", f"“{path.name}” cannot be read: {reason}.") from error
    return read.decode("utf-8-sig", errors="replace")[:LONGEST]
