"""Queries, keys and values without a projection: the input, shared among the heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.spec import Arrangement
from visualizer.attention.stages import Operation
from visualizer.explanations.equation_line import taken_equation
from visualizer.explanations.operation_text import OperationText
from visualizer.explanations.phrases import KINDS, largest_number, taken_over
from visualizer.explanations.shape_equations import each_head, heads_apart, sizes
from visualizer.explanations.step_values import vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.explanations.cell_explanation import CellFacts
    from visualizer.explanations.code_expression import ExpressionContext
    from visualizer.explanations.step_values import StepValues


def _cell(told: CellFacts) -> str:
    whose = f"{KINDS[told.cell.stage]} of {told.token('token')}{told.in_head}"
    taken = f"Column {told.column} of the {whose} is taken from its input"
    return f"{taken}, as there is no projection: {format_number(told.value)}."


def _row(block: StepValues) -> str:
    kind = KINDS[block.stage.name]
    taken = f"the {kind} of {block.query} is {taken_over(block)}"
    return f"with no projection, {taken}: {vector(block.row())}"


def _stage(block: StepValues) -> str:
    taken = f"each token’s {KINDS[block.stage.name]} is {taken_over(block)}"
    return f"with no projection, {taken}; {largest_number(block)}"


def _code(asked: ExpressionContext) -> str:
    if asked.spec.arrangement is Arrangement.STACKED and asked.spec.heads > 1:
        return f"torch.stack([{asked.x}] * {asked.spec.heads}, dim=-3)"
    return asked.to_heads(asked.x)


def _shapes(spec: AttentionSpec, tokens: int) -> tuple[str, ...]:
    if spec.arrangement is Arrangement.STACKED:
        return (f"{sizes(tokens, spec.d_in)}{each_head(spec)}",)
    return (heads_apart(spec, tokens),)


SPLIT = OperationText(
    operation=Operation.SPLIT,
    cell_sentence=_cell,
    row_sentence=_row,
    stage_sentence=_stage,
    formula=lambda told: "taken over",
    equation=lambda line: taken_equation(line, "taken from the input"),
    code=_code,
    shape_equations=_shapes,
)
