"""Explanations of individual cells as terms and factors with their sources, and as one equation."""

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
    EquationTermWriter,
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
        The full index of the cell: leading axes first, then the stage's dims.
    """
    row = trace.stage_at(stage, cell[: len(trace.axes)])
    value = float(trace.read(stage, cell))
    terms = EXPLAINERS[row.operation].terms(ExplainedCell(trace, row, cell))
    return Explanation(row, cell, terms.rule, terms.groups, value, terms.chosen, terms.is_empty)


class Equation(Struct, frozen=True):
    """One line: a name, an equals sign, the parts, an equals sign and the result.

    Parameters
    ----------
    left : str
        Name of the cell.
    result : str
        Empty if nothing is computed and the parts are the result, as for a table lookup.
    """

    left: str
    parts: tuple[EquationPart, ...]
    result: str

    __repr__ = brief_repr

    @property
    def plain(self) -> str:
        """The line as plain text."""
        terms = "".join(part.text for part in self.parts)
        return " = ".join(filter(None, (self.left, terms, self.result)))


def equation(run: Run, leading: LeadingIndex, step: Step, head: int) -> Equation:
    """Write the computation of the leading cell of a playback step, with its numbers."""
    place = caption_cell(run, leading, step, head)
    return cell_equation(run.trace, explain(run.trace, step.stage, (*leading, *place)))


def cell_equation(trace: Trace, explanation: Explanation) -> Equation:
    """Write the computation of an explained cell, with its numbers."""
    explainer = EXPLAINERS[explanation.stage.operation]
    written = explainer.equation(EquationTermWriter(trace, explanation))
    parts = tuple(
        EquationPart("".join(part.text for part in alike), is_lit)
        for is_lit, alike in groupby(written.parts, lambda part: part.is_highlighted)
    )
    result = format_number(explanation.value) if written.is_computed_number else ""
    return Equation(explanation.stage.noun, parts, result)
