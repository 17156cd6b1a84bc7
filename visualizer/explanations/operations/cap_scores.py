"""Soft-capped scores: limit·tanh(score/limit), as in Gemma 2.

Source: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.model_layer_steps import ScoreCap
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, constant, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import UNFINISHED, changed
from visualizer.explanations.step_values_and_wording import LargestValue, trimmed
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    before = format_number(float(facts.explanation.groups[0].factors[0].read[0]))
    limit = trimmed(facts.explanation.stage.step_as(ScoreCap).limit)
    pair = f"{facts.token('query')} and {facts.token('key')}"
    within = f"kept within ±{limit}, is {format_number(facts.value)}"
    return f"The score of {pair}, {before}, {within}."


def _describe_row(block: StepValues) -> str:
    before, capped = block.row(block.reads), block.row()
    top = LargestValue.of(capped)
    one = len(capped) == 1
    kept = f"the score{' of' if one else 's of'} {block.query} {'is' if one else 'are'} kept"
    kept += f" within ±{trimmed(block.stage.step_as(ScoreCap).limit)}"
    if top is None:
        return f"{kept}, but not every result is a finite number"
    return f"{kept}: {'it' if one else 'the largest'} {changed(before[top.at], top.value)}"


def _describe_stage(block: StepValues) -> str:
    kept = f"every score is kept within ±{trimmed(block.stage.step_as(ScoreCap).limit)}"
    top = LargestValue.of(block.matrix())
    if top is None:
        return f"{kept}; {UNFINISHED}"
    before = float(block.matrix(block.reads).flat[top.at])
    return f"{kept}; the largest {changed(before, top.value)}"


def _write_formula(facts: CellFacts) -> str:
    limit = trimmed(facts.explanation.stage.step_as(ScoreCap).limit)
    return f"tanh(score ÷ {limit}) × {limit}"


def _collect_terms(explained: ExplainedCell) -> TermList:
    limit = explained.stage.step_as(ScoreCap).limit
    score = explained.factor(explained.stage.reads[0], *explained.place)
    bent = replace(score, used=np.tanh(score.read / limit), form=f"tanh({{}} ÷ {trimmed(limit)})")
    return sum_of((bent, constant(limit, trimmed(limit))))


CAP_SCORES = OperationExplainer(
    operation=Operation.CAP_SCORES,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=_write_formula,
    equation=sum_equation,
)
