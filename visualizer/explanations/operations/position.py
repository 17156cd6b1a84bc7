"""The position vectors: looked up where they are learned, else sines and cosines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.spec import Position
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_explanation import vector_column
from visualizer.explanations.equation_line import EquationPart, EquationTerm, taken_equation
from visualizer.explanations.operation_text import OperationText
from visualizer.explanations.phrases import largest_number
from visualizer.explanations.shape_equations import ShapeParameter
from visualizer.explanations.step_values import vector
from visualizer.number_format import format_count

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.code_expression import ExpressionContext
    from visualizer.explanations.equation_line import EquationLine
    from visualizer.explanations.step_values import StepValues


def _row(block: StepValues) -> str:
    place = f"place {block.at + 1}, where {block.word(block.at)} stands"
    return f"{place}, has the position vector {vector(block.row())}"


def _stage(block: StepValues) -> str:
    size = format_count(block.spec.d_in, "number")
    made = "learned" if block.spec.position is Position.LEARNED else "made of sines and cosines"
    each = f"each of {block.tokens:,} places has a vector of {size}, {made}"
    return f"{each}; {largest_number(block, 'the largest', is_of_places=True)}"


def _equation(line: EquationLine) -> EquationTerm:
    factors, _ = line.factors[0]
    form = factors[0].form
    if form != "{}":  # a wave, worked out from the place
        return EquationTerm([EquationPart(form.removesuffix(" = {}"))])
    return taken_equation(line, "looked up")


def _code(asked: ExpressionContext) -> str:
    embedding = asked.words.names["embedding"]
    if asked.spec.position is Position.LEARNED:
        return f"position_table.expand_as({embedding})"
    return f"sinusoids(*{embedding}.shape[-2:]).expand_as({embedding})"


def _parameter(spec: AttentionSpec, stage: Stage, tokens: int) -> ShapeParameter | None:
    if spec.position is Position.LEARNED:
        return ShapeParameter(stage.name, (tokens, spec.d_in))
    return None


POSITION = OperationText(
    operation=Operation.POSITION,
    cell_sentence=lambda told: vector_column(told, "position"),
    row_sentence=_row,
    stage_sentence=_stage,
    formula=lambda told: "looked up",
    equation=_equation,
    code=_code,
    parameter=_parameter,
)
