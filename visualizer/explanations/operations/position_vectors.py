"""Position vectors: looked up if they are learned, otherwise sines and cosines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.spec import Position
from visualizer.attention.stages import Operation
from visualizer.attention.token_and_position_vectors import sinusoids
from visualizer.explanations.cell_equation_writer import EquationPart, EquationTerm, copied_equation
from visualizer.explanations.cell_terms import TermList, constant, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import largest_number
from visualizer.explanations.shape_equations import ShapeParameter
from visualizer.explanations.shared_sentences import vector_column
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_count

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_equation_writer import EquationTermWriter
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.code_expression_context import ExpressionContext
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_row(block: StepValues) -> str:
    place = f"place {block.at + 1}, where {block.word(block.at)} stands"
    return f"{place}, has the position vector {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    size = format_count(block.spec.d_in, "number")
    made = "learned" if block.spec.position is Position.LEARNED else "made of sines and cosines"
    each = f"each of {block.tokens:,} places has a vector of {size}, {made}"
    return f"{each}; {largest_number(block, 'the largest', is_of_places=True)}"


def _write_equation(line: EquationTermWriter) -> EquationTerm:
    factors, _ = line.factors[0]
    form = factors[0].form
    if form != "{}":  # sine or cosine, computed from the position
        return EquationTerm([EquationPart(form.removesuffix(" = {}"))])
    return copied_equation(line, "looked up")


def _write_code(context: ExpressionContext) -> str:
    embedding = context.words.names["embedding"]
    if context.spec.position is Position.LEARNED:
        return f"position_table.expand_as({embedding})"
    return f"sinusoids(*{embedding}.shape[-2:]).expand_as({embedding})"


def _find_parameter(spec: AttentionSpec, stage: Stage, tokens: int) -> ShapeParameter | None:
    if spec.position is Position.LEARNED:
        return ShapeParameter(stage.name, (tokens, spec.d_in))
    return None


def _collect_terms(explained: ExplainedCell) -> TermList:
    place, column = explained.place
    if explained.spec.position is Position.LEARNED:
        return sum_of((explained.weight("position.weight", place, column),))
    value = sinusoids(place + 1, explained.spec.d_in)[place, column]
    exponent = f"{column - column % 2}/{explained.spec.d_in}"
    function = "cos" if column % 2 else "sin"
    return sum_of((constant(float(value), f"{function}({place} / 10000^({exponent})) = {{}}"),))


POSITION_VECTORS = OperationExplainer(
    operation=Operation.POSITION_VECTORS,
    terms=_collect_terms,
    cell_sentence=lambda facts: vector_column(facts, "position"),
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: "looked up",
    equation=_write_equation,
    code=_write_code,
    parameter=_find_parameter,
)
