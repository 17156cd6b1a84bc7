"""Score bias added by a model, such as the relative position bias of T5.

Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning", section 2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import UNFINISHED, changed
from visualizer.explanations.step_values_and_wording import LargestValue
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    score, bias = (
        format_number(float(group.factors[0].read[0])) for group in facts.explanation.groups
    )
    pair, total = f"{facts.token('query')} and {facts.token('key')}", format_number(facts.value)
    return f"The score of {pair}, {score}, and its bias, {bias}, add up to {total}."


def _describe_row(block: StepValues) -> str:
    before, biased = block.row(block.reads), block.row()
    top = LargestValue.of(biased)
    one = len(biased) == 1
    added = "its bias is" if one else "biases are"
    added += f" added to the score{' of' if one else 's of'} {block.query}"
    if top is None:
        return f"{added}, but not every result is a finite number"
    return f"{added}: {'it' if one else 'the largest'} {changed(before[top.at], top.value)}"


def _describe_stage(block: StepValues) -> str:
    added = "a bias is added to every score"
    top = LargestValue.of(block.matrix())
    if top is None:
        return f"{added}; {UNFINISHED}"
    before = float(block.matrix(block.reads).flat[top.at])
    return f"{added}; the largest {changed(before, top.value)}"


def _collect_terms(explained: ExplainedCell) -> TermList:
    return sum_of(*((explained.factor(name, *explained.place),) for name in explained.stage.reads))


ADD_SCORE_BIAS = OperationExplainer(
    operation=Operation.ADD_SCORE_BIAS,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: "score + bias",
    equation=sum_equation,
)
