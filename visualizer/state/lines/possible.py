"""Whether a run has lines at all: captured attention may have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.attention.run import Run


def why_none(run: Run) -> str:
    """Say why there are no lines; empty where there are some."""
    if "weights" not in run.trace:
        return "These are scores, and lines are drawn of weights."
    if run.words(0) != run.words(0, "key"):
        return "Lines lead from a text to itself, and here queries and keys are other tokens."
    return ""
