"""Hidden activations of a feed-forward layer, multiplied by a second value if gated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.activation_functions import ACTIVATIONS
from visualizer.attention.model_layer_steps import HiddenActivation
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import KINDS, column_of, largest_number
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _write_activation(stage: Stage) -> str:
    first, *others = (KINDS[name] for name in stage.reads)
    times = f" times the {others[0]}" if others else ""
    return f"{stage.step_as(HiddenActivation).function} of the {first}{times}"


def _describe_cell(facts: CellFacts) -> str:
    made = _write_activation(facts.explanation.stage)
    return f"{column_of(facts)} is {made}: {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    return f"for {block.query}, {_write_activation(block.stage)} gives {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    return f"each number is {_write_activation(block.stage)}; {largest_number(block)}"


def _write_formula(facts: CellFacts) -> str:
    stage = facts.explanation.stage
    first, *others = (KINDS[name] for name in stage.reads)
    return " × ".join([f"{stage.step_as(HiddenActivation).function}({first})", *others])


def _collect_terms(explained: ExplainedCell) -> TermList:
    name = explained.stage.step_as(HiddenActivation).function
    first, *others = (explained.factor(read, *explained.place) for read in explained.stage.reads)
    used = np.array([ACTIVATIONS[name](float(first.read[0]))])
    return sum_of((replace(first, used=used, form=f"{name}({{}})"), *others))


HIDDEN_ACTIVATION = OperationExplainer(
    operation=Operation.HIDDEN_ACTIVATION,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=_write_formula,
    equation=sum_equation,
    code=lambda context: f"F.{context.spec.activation}({context.read[0]})",
)
