"""Explains cells and steps: terms with the sources of their factors, equations, and sentences."""

from __future__ import annotations

from itertools import chain, groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.brief_repr import brief_repr
from visualizer.explanations import (
    attention_scores,
    attention_weights,
    context_vectors,
    input_vectors,
    linear,
    projections,
    transformer_block,
)
from visualizer.explanations.cell_context import CellContext
from visualizer.explanations.cell_terms import (
    MAX_SHOWN_TERMS,
    CellIndex,
    EquationPart,
    EquationRightHandSide,
    EquationWriter,
    ExplainedCell,
    Explanation,
)
from visualizer.explanations.step_context import EMPTY_SYMBOL, MAX_SHOWN_NUMBERS, StepContext
from visualizer.format import format_number
from visualizer.session.cell_address import Cell
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
        input_vectors.EXPLAINERS,
        projections.EXPLAINERS,
        attention_scores.EXPLAINERS,
        attention_weights.EXPLAINERS,
        context_vectors.EXPLAINERS,
        linear.EXPLAINERS,
        transformer_block.EXPLAINERS,
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
    row = trace.stage_in_layer(stage, cell[: len(trace.axes)])
    value = float(trace.read(stage, cell))
    terms = EXPLAINERS[row.operation].build_terms(ExplainedCell(trace, row, cell))
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
    versions : tuple of tuple of EquationPart
        The computation with more terms, with the usual number of terms, and with fewer terms; empty
        if there is only one version.
    remark : str
        Remark after the value, with the comma before it; empty for most stages.
    """

    left: str
    parts: tuple[EquationPart, ...]
    result: str
    versions: tuple[tuple[EquationPart, ...], ...] = ()
    remark: str = ""

    __repr__ = brief_repr

    @property
    def plain_text(self) -> str:
        """The equation as plain text."""
        terms = "".join(part.text for part in self.parts)
        return " = ".join(filter(None, (self.left, terms, self.result))) + self.remark


def equation(run: Run, leading: LeadingIndex, step: Step, head: int) -> Equation:
    """Return the equation for the cell that the caption of a playback step describes."""
    place = caption_cell(run, leading, step, head)
    return cell_equation(run.trace, explain(run.trace, step.stage, (*leading, *place)))


def cell_equation(trace: Trace, explanation: Explanation) -> Equation:
    """Return the equation for an explained cell; for a long vector, it names the column."""
    written, longer, shorter = (
        EXPLAINERS[explanation.stage.operation].write_equation(
            EquationWriter(trace, explanation, most)
        )
        for most in (MAX_SHOWN_TERMS, 2 * MAX_SHOWN_TERMS, MAX_SHOWN_TERMS // 2)
    )
    result = format_number(explanation.value) if written.is_computed_number else ""
    left, column = explanation.stage.number_noun, explanation.cell[-1] + 1
    is_vector = explanation.stage.dims[-1] != "key"
    if is_vector and trace.shape(explanation.stage.name)[-1] > MAX_SHOWN_NUMBERS:
        left = f"{left}, column {column:,}"
    sides: tuple[EquationRightHandSide, ...] = (written, shorter)
    if not any("…" in part.text for part in longer.parts):  # more terms with gaps are hard to read
        sides = (longer, *sides)
    versions = tuple(map(_merge_equation_parts, sides))
    return Equation(left, _merge_equation_parts(written), result, versions, written.remark)


def _merge_equation_parts(side: EquationRightHandSide) -> tuple[EquationPart, ...]:
    """Join neighbouring parts that are highlighted in the same way."""
    return tuple(
        EquationPart("".join(part.text for part in group), is_highlighted)
        for is_highlighted, group in groupby(side.parts, lambda part: part.is_highlighted)
    )


def describe_step(run: Run, leading: LeadingIndex, step: Step, head: int) -> str:
    """Describe a step in one sentence with the tokens in bold (HTML).

    If a row has only one cell, the caption describes the row.

    Parameters
    ----------
    leading : tuple of int
        The layer and the text, as an index into the run's leading axes.
    head : int
        The head to describe if the stage has heads.
    """
    context = StepContext(run, leading, step, min(head, run.trace.spec.heads - 1))
    texts = EXPLAINERS[context.stage.operation]
    if len(step.rows) > 1 and run.trace.cached_stage_tensor(step.stage).is_blockwise:
        told = f"{context.stage.description}, in all {len(step.rows):,} rows"  # without the numbers
        return context.to_sentence(told)
    if len(step.rows) > 1:
        return context.to_sentence(texts.explain_stage(context))
    if len(step.columns) == run.trace.shape(step.stage)[-1]:
        return context.to_sentence(texts.explain_row(context))
    return _describe_cell(context)


def _describe_cell(context: StepContext) -> str:
    head = (context.head,) if "head" in context.stage.dims else ()
    cell = Cell(context.stage.name, (*head, context.row_index, context.step.columns[0]))
    explanation = explain(context.run.trace, cell.stage, (*context.leading, *cell.place))
    info = CellContext(context.run, context.leading, cell, explanation)
    sentence = EXPLAINERS[context.stage.operation].explain_cell(info)
    sentence = sentence.replace("<b></b>", f"<b>{EMPTY_SYMBOL}</b>")
    return info.with_head(sentence)
