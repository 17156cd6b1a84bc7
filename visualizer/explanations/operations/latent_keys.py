"""Latent keys: the first columns come from a matrix of each head, the others are shared.

Source: DeepSeek-AI 2024, "DeepSeek-V2", §2.1 (multi-head latent attention, decoupled positions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.model_layer_steps import LatentKeys
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import KINDS, column_of, largest_number
from visualizer.explanations.operations.linear_layer import linear_terms
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _parts(stage: Stage) -> str:
    latent, shared = (KINDS[name] for name in stage.reads)
    return f"the {latent} times {stage.step_as(LatentKeys).name}, and the {shared} beside it"


def _describe_cell(facts: CellFacts) -> str:
    stage, value = facts.explanation.stage, format_number(facts.value)
    latent, shared = (KINDS[name] for name in stage.reads)
    step = stage.step_as(LatentKeys)
    if facts.cell.place[-1] < step.own_columns:
        return f"{column_of(facts)} is the {latent} times {step.name}: {value}."
    return f"{column_of(facts)} is that of the {shared}, the same in all heads: {value}."


def _describe_row(block: StepValues) -> str:
    made = f"{_parts(block.stage)} are the {KINDS[block.stage.name]} of {block.query}"
    return f"{made}: {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    made = f"{_parts(block.stage)} are each {KINDS[block.stage.name]}"
    return f"{made}; {largest_number(block)}"


def _write_formula(facts: CellFacts) -> str:
    is_own = facts.cell.place[-1] < facts.explanation.stage.step_as(LatentKeys).own_columns
    return "Σ number × weight" if is_own else "taken over"


def _collect_terms(explained: ExplainedCell) -> TermList:
    step, (*_, token, column) = explained.stage.step_as(LatentKeys), explained.place
    if column < step.own_columns:
        return linear_terms(explained)
    return sum_of((explained.factor(explained.stage.reads[1], token, column - step.own_columns),))


LATENT_KEYS = OperationExplainer(
    operation=Operation.LATENT_KEYS,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=_write_formula,
    equation=sum_equation,
)
