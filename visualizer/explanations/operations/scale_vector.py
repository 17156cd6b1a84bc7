"""A vector times one factor per column, or a single factor, before the residual addition.

Source: Touvron et al. 2021, "Going deeper with Image Transformers" (LayerScale).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.model_layer_steps import ScaledVector
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, constant, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import KINDS, column_of, largest_number
from visualizer.explanations.step_values_and_wording import trimmed, vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _times(stage: Stage) -> str:
    step = stage.step_as(ScaledVector)
    return f"its column’s {step.name}" if step.is_by_column else trimmed(step.factor)


def _describe_cell(facts: CellFacts) -> str:
    stage = facts.explanation.stage
    made = f"is that of the {KINDS[stage.reads[0]]} times {_times(stage)}"
    return f"{column_of(facts)} {made}: {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    made = f"each number of the {KINDS[block.reads]} of {block.query} times {_times(block.stage)}"
    return f"{made} gives {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    made = f"each number of the {KINDS[block.reads]} is multiplied by {_times(block.stage)}"
    return f"{made}; {largest_number(block)}"


def _collect_terms(explained: ExplainedCell) -> TermList:
    step, (token, column) = explained.stage.step_as(ScaledVector), explained.place
    own = explained.factor(explained.stage.reads[0], token, column)
    if not step.is_by_column:
        return sum_of((own, constant(step.factor, trimmed(step.factor))))
    return sum_of((own, explained.weight(step.modules[explained.layer], column)))


SCALE_VECTOR = OperationExplainer(
    operation=Operation.SCALE_VECTOR,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda _: "number × factor",
    equation=sum_equation,
)
