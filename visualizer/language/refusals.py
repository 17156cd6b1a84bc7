"""Why a run cannot go on, in sentences; no torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from visualizer.language.settings import Kind

if TYPE_CHECKING:
    from visualizer.language.settings import Source


def too_much(step: int) -> str:
    """Say that the memory ran out."""
    return (
        f"The memory ran out at step {step:,}; the model is as it was before. Go on when there is "
        "more, or begin again with a smaller batch, block or embedding size."
    )


def changed(source: Source) -> str:
    """Say that a text is not the one that was learned."""
    if source.kind is Kind.FILE:
        name = Path(source.path).name
        sentence = f"“{name}” is not the text that was learned: it was changed since."
        return f"{sentence} Bring the old one back, or begin a new run."
    sentence = "This version makes another text of these settings than the one that was learned."
    return f"{sentence} Begin a new run."
