"""Explanations of single cells as terms and factors with their sources; imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.explanations.cell_terms import CellIndex, ExplainedCell, Explanation
from visualizer.explanations.operation_registry import TEXTS

if TYPE_CHECKING:
    from visualizer.attention.trace import Trace


def explain(trace: Trace, stage: str, cell: CellIndex) -> Explanation:
    """Explain one cell of a trace.

    Parameters
    ----------
    cell : tuple of int
        The full index of the cell: leading axes first, then the stage's dims.
    """
    row = trace.stage_at(stage, cell[: len(trace.axes)])
    value = float(trace.read(stage, cell))
    made = TEXTS[row.operation].terms(ExplainedCell(trace, row, cell))
    return Explanation(row, cell, made.rule, made.groups, value, made.chosen, made.is_empty)
