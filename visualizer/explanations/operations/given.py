"""What is given: a vector a token, made by nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.stages import Operation
from visualizer.explanations.cell_explanation import vector_column
from visualizer.explanations.equation_line import taken_equation
from visualizer.explanations.operation_text import OperationText
from visualizer.explanations.phrases import largest_number
from visualizer.explanations.step_values import vector
from visualizer.number_format import format_count

if TYPE_CHECKING:
    from visualizer.explanations.step_values import StepValues


def _row(block: StepValues) -> str:
    size = format_count(block.spec.d_in, "number")
    name = ", its embedding" if block.stage.name == "embedding" else ""
    return f"{block.query} becomes a vector of {size}{name}: {vector(block.row())}"


def _stage(block: StepValues) -> str:
    size = format_count(block.spec.d_in, "number")
    name = ", its embedding" if block.stage.name == "embedding" else ""
    each = f"each of {block.tokens:,} tokens becomes a vector of {size}{name}"
    return f"{each}; {largest_number(block)}"


GIVEN = OperationText(
    operation=Operation.GIVEN,
    cell_sentence=lambda told: vector_column(told, "vector"),
    row_sentence=_row,
    stage_sentence=_stage,
    formula=lambda told: "given",
    equation=lambda line: taken_equation(line, "given"),
    code=lambda asked: "inputs",
)
