"""Scores divided by a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import Scale
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import Factor, TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import UNFINISHED, changed, divided_by
from visualizer.explanations.step_values_and_wording import LargestValue, trimmed
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    divisor = trimmed(facts.run.trace.spec.divisor)
    pair = f"{facts.token('query')} and {facts.token('key')}"
    score = format_number(float(facts.explanation.groups[0].factors[0].read[0]))
    return f"The score of {pair}, {score}, divided by {divisor} is {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    scores, scaled = block.row(block.reads), block.row()
    one = len(scores) == 1
    divided = f"the score{' of' if one else 's of'} {block.query}"
    divided += f" {'is' if one else 'are'} divided by {divided_by(block)}"
    top = LargestValue.of(scaled)
    if top is None:
        return f"{divided}, but not every result is a finite number"
    if block.spec.divisor == 1:
        score = f"the {'' if one else 'largest '}score of {block.query}"
        divided, which = f"dividing by {divided_by(block)} changes nothing", score
    else:
        which = "it" if one else "the largest"
    return f"{divided}: {which} {changed(scores[top.at], top.value)}"


def _describe_stage(block: StepValues) -> str:
    divided = f"every score is divided by {divided_by(block)}"
    top = LargestValue.of(block.matrix())
    if top is None:
        return f"{divided}; {UNFINISHED}"
    score = float(block.matrix(block.reads).flat[top.at])
    if block.spec.divisor == 1:
        divided = f"dividing by {divided_by(block)} changes no score"
    return f"{divided}; the largest {changed(score, top.value)}"


def _write_formula(facts: CellFacts) -> str:
    spec = facts.run.trace.spec
    if spec.scale is Scale.NONE:
        return f"score ÷ {trimmed(spec.divisor) if facts.run.source else 'temperature'}"
    return "score ÷ √d" if spec.temperature == 1 else "score ÷ (√d × temperature)"


def _collect_terms(explained: ExplainedCell) -> TermList:
    divisor = explained.spec.divisor
    inverse = np.array([1 / divisor])
    constant = Factor("", (), np.array([divisor]), inverse, "1/{}")
    return sum_of((explained.factor(explained.stage.reads[0], *explained.place), constant))


SCALE_SCORES = OperationExplainer(
    operation=Operation.SCALE_SCORES,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=_write_formula,
    equation=sum_equation,
    code=lambda context: f"{context.read[0]} / {context.divisor}",
)
