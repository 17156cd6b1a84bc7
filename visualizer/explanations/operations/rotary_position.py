"""Rotary embedding (RoPE): pairs of query or key columns, each rotated by its own angle.

Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.model_layer_steps import RotaryPosition
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import Factor, TermList, constant, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import KINDS, column_of, largest_number
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    turned = facts.explanation.stage.step_as(RotaryPosition).turned(facts.cell.place[-1])
    read, value = KINDS[facts.explanation.stage.reads[0]], format_number(facts.value)
    if turned is None:
        return f"{column_of(facts)} is that of the {read}: this column is not turned: {value}."
    columns = f"columns {turned[1] + 1} and {turned[2] + 1} of the {read}"
    place = facts.place["token"] + 1
    return (
        f"{column_of(facts)} is {columns}, turned as a pair by the angle of place {place}: {value}."
    )


def _describe_row(block: StepValues) -> str:
    turned = f"the {KINDS[block.reads]} of {block.query} is turned by its place, {block.at + 1}"
    if not block.stage.step_as(RotaryPosition).pairs:
        turned = f"the {KINDS[block.reads]} of {block.query} stays, as places turn nothing here"
    return f"{turned}: {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    turned = f"each {KINDS[block.reads]} is turned by its place, pair of columns by pair"
    if not block.stage.step_as(RotaryPosition).pairs:
        turned = f"each {KINDS[block.reads]} stays, as places turn nothing in this layer"
    return f"{turned}; {largest_number(block)}"


def _write_formula(facts: CellFacts) -> str:
    turned = facts.explanation.stage.step_as(RotaryPosition).turned(facts.cell.place[-1])
    if turned is None:
        return "taken over"
    sign = "+" if turned[3] > 0 else "−"
    return f"number × cos angle {sign} other of the pair × sin angle"


def _collect_terms(explained: ExplainedCell) -> TermList:
    step, (*head, token, column) = explained.stage.step_as(RotaryPosition), explained.place
    read = explained.stage.reads[0]
    found = step.turned(column)
    if found is None:
        return sum_of((explained.factor(read, *head, token, column),))
    pair, own, other, sign = found
    at = (explained.layer, token, pair)
    turned: tuple[Factor, ...] = (
        explained.factor(read, *head, token, other),
        explained.weight(f"{step.angles}.sin", *at),
    )
    if sign < 0:
        turned = (*turned, constant(-1, "−1"))
    first = explained.factor(read, *head, token, own)
    return sum_of((first, explained.weight(f"{step.angles}.cos", *at)), turned)


ROTARY_POSITION = OperationExplainer(
    operation=Operation.ROTARY_POSITION,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=_write_formula,
    equation=sum_equation,
)
