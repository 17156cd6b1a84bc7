"""Explains individual cells: the terms of a cell, the sources of their factors, and an equation."""

from __future__ import annotations

from itertools import chain, groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.brief_repr import brief_repr
from visualizer.explanations import (
    context_vectors,
    inputs,
    layers,
    linear,
    projections,
    scores,
    weights,
)
from visualizer.explanations.cell_terms import (
    CellIndex,
    EquationPart,
    EquationWriter,
    ExplainedCell,
    Explanation,
)
from visualizer.format import format_number
from visualizer.session.timeline import caption_cell

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Operation
    from visualizer.attention.trace import LeadingIndex, Trace
    from visualizer.explanations.explainer import Explainer
    from visualizer.session.timeline import Step

EXPLAINERS: dict[Operation, Explainer] = {
    explainer.operation: explainer
    for explainer in chain(
        inputs.EXPLAINERS,
        projections.EXPLAINERS,
        scores.EXPLAINERS,
        weights.EXPLAINERS,
        context_vectors.EXPLAINERS,
        linear.EXPLAINERS,
        layers.EXPLAINERS,
    )
}
"""The explainer of each operation."""


def explain(trace: Trace, stage: str, cell: CellIndex) -> Explanation:
    """Explain one cell of a trace.

    Parameters
    ----------
    cell : tuple of int
        Full index of the cell: the leading axes first, then the axes of the stage.
    """
    row = trace.stage_at(stage, cell[: len(trace.axes)])
    value = float(trace.read(stage, cell))
    terms = EXPLAINERS[row.operation].terms(ExplainedCell(trace, row, cell))
    return Explanation(row, cell, terms.rule, terms.groups, value, terms.chosen, terms.is_empty)


class Equation(Struct, frozen=True):
    """An equation on one line: the name of a number, its computation and its value.

    Parameters
    ----------
    left : str
        Name of the number.
    parts : tuple of EquationPart
        The computation.
    result : str
        The value; empty if the parts already state it, as for a table lookup.
    """

    left: str
    parts: tuple[EquationPart, ...]
    result: str

    __repr__ = brief_repr

    @property
    def plain(self) -> str:
        """The equation as plain text."""
        terms = "".join(part.text for part in self.parts)
        return " = ".join(filter(None, (self.left, terms, self.result)))


def equation(run: Run, leading: LeadingIndex, step: Step, head: int) -> Equation:
    """Return the equation of the cell that the caption of a playback step describes."""
    place = caption_cell(run, leading, step, head)
    return cell_equation(run.trace, explain(run.trace, step.stage, (*leading, *place)))


def cell_equation(trace: Trace, explanation: Explanation) -> Equation:
    """Return the equation of an explained cell."""
    explainer = EXPLAINERS[explanation.stage.operation]
    written = explainer.equation(EquationWriter(trace, explanation))
    parts = tuple(
        EquationPart("".join(part.text for part in group), is_highlighted)
        for is_highlighted, group in groupby(written.parts, lambda part: part.is_highlighted)
    )
    result = format_number(explanation.value) if written.is_computed_number else ""
    return Equation(explanation.stage.noun, parts, result)
