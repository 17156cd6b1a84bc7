"""Linear layer: a vector times a weight matrix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from visualizer.attention.model_layer_steps import LinearLayer
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, constant, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import KINDS, column_of, largest_number
from visualizer.explanations.shape_equations import ShapeParameter, matrix_product
from visualizer.explanations.shared_sentences import with_bias
from visualizer.explanations.step_values_and_wording import trimmed, vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _write_multiplier(stage: Stage, result: int | None = None) -> str:
    """Return the multiplier of a vector: the matrix, or the part of it for one output."""
    step = stage.step_as(LinearLayer)
    which = (
        step.name if result is None else f"the weights of {step.name} for its result {result + 1}"
    )
    bias = ", plus a bias" if step.has_bias else ""
    return which + bias + ("" if step.factor == 1 else f", times {trimmed(step.factor)}")


def _output_index(stage: Stage, place: tuple[int, ...]) -> int:
    """Return the output index of a cell."""
    head = place[0] if len(place) == 3 else 0
    return stage.step_as(LinearLayer).first_columns[head] + place[-1]


def _describe_cell(facts: CellFacts) -> str:
    stage = facts.explanation.stage
    times = _write_multiplier(stage, _output_index(stage, facts.cell.place))
    made = f"is the {KINDS[stage.reads[0]]} times {times}"
    return f"{column_of(facts)} {made}: {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    made = f"the {KINDS[block.reads]} of {block.query} times {_write_multiplier(block.stage)}"
    return f"{made} gives its {KINDS[block.stage.name]}: {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    made = f"each {KINDS[block.reads]} times {_write_multiplier(block.stage)}"
    return f"{made} gives a {KINDS[block.stage.name]}; {largest_number(block)}"


def _write_formula(facts: CellFacts) -> str:
    step = facts.explanation.stage.step_as(LinearLayer)
    made = with_bias(facts, "Σ number × weight")
    if step.factor == 1:
        return made
    return f"{f'({made})' if step.has_bias else made} × {trimmed(step.factor)}"


def linear_terms(explained: ExplainedCell) -> TermList:
    """Return the terms of one output of a linear layer: a vector times a row of the matrix."""
    step, (*_, token, _) = explained.stage.step_as(LinearLayer), explained.place
    result, module = _output_index(explained.stage, explained.place), step.modules[explained.layer]
    row = (None, result) if step.is_transposed else (result, None)
    more = () if step.factor == 1 else (constant(step.factor, trimmed(step.factor)),)
    read = explained.factor(explained.stage.reads[0], token, None)
    products = (read, explained.weight(f"{module}.weight", *row), *more)
    if not step.has_bias:
        return sum_of(products)
    return sum_of(products, (explained.weight(f"{module}.bias", result), *more))


def _matrix_sizes(spec: AttentionSpec, stage: Stage) -> tuple[int, int] | None:
    """Return the input and output sizes of a matrix of a block; None for one of a model."""
    if not stage.parameters:
        return None
    made, read = spec.block_sizes[f"{stage.parameters[0]}.weight"]
    return read, made


def _write_shapes(spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
    found = _matrix_sizes(spec, stage)
    return (matrix_product(tokens, *found, has_bias=True),) if found else ()


def _multiply_adds(spec: AttentionSpec, stage: Stage, tokens: int) -> int:
    return tokens * math.prod(_matrix_sizes(spec, stage) or (0,))


def _find_parameter(spec: AttentionSpec, stage: Stage, tokens: int) -> ShapeParameter | None:
    found = _matrix_sizes(spec, stage)
    return ShapeParameter(stage.parameters[0], found) if found else None


LINEAR_LAYER = OperationExplainer(
    operation=Operation.LINEAR_LAYER,
    terms=linear_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=_write_formula,
    equation=sum_equation,
    code=lambda context: f"{context.words.layers[context.stage.parameters[0]]}({context.read[0]})",
    shape_equations=_write_shapes,
    multiply_adds=_multiply_adds,
    parameter=_find_parameter,
)
