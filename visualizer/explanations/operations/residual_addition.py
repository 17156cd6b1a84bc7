"""Addition of the output of a part of a layer to the residual stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import (
    KINDS,
    column_of,
    largest_number,
    listed,
)
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _addend_names(stage: Stage) -> str:
    return listed([f"the {KINDS[name]}" for name in stage.reads])


def _describe_cell(facts: CellFacts) -> str:
    made = " plus ".join(f"that of the {KINDS[name]}" for name in facts.explanation.stage.reads)
    return f"{column_of(facts)} is {made}: {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    if len(block.stage.reads) == 1:
        taken = f"{_addend_names(block.stage)} of {block.query} is taken over as it is"
        return f"{taken}: {vector(block.row())}"
    made = f"for {block.query}, {_addend_names(block.stage)} add up to"
    return f"{made} the {KINDS[block.stage.name]}: {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    if len(block.stage.reads) == 1:
        return f"{_addend_names(block.stage)} is taken over as it is; {largest_number(block)}"
    return f"{_addend_names(block.stage)} are added, number by number; {largest_number(block)}"


def _collect_terms(explained: ExplainedCell) -> TermList:
    return sum_of(*((explained.factor(name, *explained.place),) for name in explained.stage.reads))


RESIDUAL_ADDITION = OperationExplainer(
    operation=Operation.RESIDUAL_ADDITION,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: " + ".join(KINDS[name] for name in facts.explanation.stage.reads),
    equation=sum_equation,
    code=lambda context: " + ".join(context.read),
)
