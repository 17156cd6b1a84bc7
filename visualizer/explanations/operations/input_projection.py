"""Queries, keys and values: the input times a weight matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.spec import Arrangement, Projection
from visualizer.attention.stages import Operation, parameter_names
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import KINDS, largest_number, projected_by
from visualizer.explanations.shape_equations import (
    ShapeParameter,
    each_head,
    heads_apart,
    matrix_product,
)
from visualizer.explanations.shared_sentences import with_bias
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_count, format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.code_expression_context import ExpressionContext
    from visualizer.explanations.step_values_and_wording import StepValues


def _projected_name(stage: Stage) -> str:
    """Return the name of the projected vectors: the input, or in a block its norm."""
    return "input vector" if stage.reads[0] == "input" else KINDS[stage.reads[0]]


def _describe_cell(facts: CellFacts) -> str:
    bias = ", plus a bias," if len(facts.explanation.groups) > 1 else ""
    whose = _projected_name(facts.explanation.stage)
    made = f"The {whose} of {facts.token('token')} times {_weights_column(facts)}{bias}"
    column = f"column {facts.column} of its {KINDS[facts.cell.stage]}{facts.in_head}"
    return f"{made} gives {column}: {format_number(facts.value)}."


def _weights_column(facts: CellFacts) -> str:
    """Return the exact weight column; the columns of split heads share one matrix."""
    weights = facts.explanation.groups[0].factors[1]
    column = next(at for at in weights.index if at is not None) + 1
    *_, layer = weights.name.removesuffix(".weight").split(".")
    whose = f"this head’s {layer}" if weights.name.startswith("heads.") else layer
    return f"column {column} of {whose}"


def _describe_row(block: StepValues) -> str:
    kind = KINDS[block.stage.name]
    made = f"the {_projected_name(block.stage)} of {block.query} times {projected_by(block)}"
    return f"{made} gives its {kind}: {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    size = format_count(block.spec.d_head, "number")
    gives = f"gives a {KINDS[block.stage.name]} of {size}"
    largest = largest_number(block, "the largest")
    return f"each {_projected_name(block.stage)} times {projected_by(block)} {gives}; {largest}"


def _write_code(context: ExpressionContext) -> str:
    layer, x = context.words.layers[context.stage.parameters[0]], context.read[0]
    is_matrix = context.spec.projection is Projection.UNIFORM
    if context.spec.arrangement is Arrangement.STACKED and context.spec.heads > 1:
        each = f"{x} @ W" if is_matrix else f"W({x})"
        return f"torch.stack([{each} for W in {layer}], dim=-3)"
    return context.to_heads(f"({x} @ {layer})" if is_matrix else f"{layer}({x})")


def _write_shapes(spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
    has_bias = spec.bias and spec.projection is Projection.LINEAR
    if spec.arrangement is Arrangement.STACKED:
        product = matrix_product(tokens, spec.d_in, spec.d_head, has_bias)
        return (product + each_head(spec),)
    return (matrix_product(tokens, spec.d_in, spec.width, has_bias), heads_apart(spec, tokens))


def _find_parameter(spec: AttentionSpec, stage: Stage, tokens: int) -> ShapeParameter:
    stacked = spec.arrangement is Arrangement.STACKED
    columns, copies = (spec.d_head, spec.heads) if stacked else (spec.width, 1)
    return ShapeParameter(stage.parameters[0], (spec.d_in, columns), copies)


def _collect_terms(explained: ExplainedCell) -> TermList:
    head, token, column = explained.place
    spec = explained.spec
    names = parameter_names(spec, explained.stage.parameters[0])
    kinds = [name for name in names if not name.endswith(".bias")]
    if len(kinds) == 1 and spec.arrangement is Arrangement.SPLIT:
        column += head * spec.d_head
    number = head % len(kinds)
    x = explained.factor(explained.stage.reads[0], token, None)
    if spec.projection is Projection.UNIFORM:
        return sum_of((x, explained.weight(kinds[number], None, column)))
    products = (x, explained.weight(kinds[number], column, None))
    biases = names[len(kinds) :]
    return (
        sum_of(products, (explained.weight(biases[number], column),))
        if biases
        else sum_of(products)
    )


INPUT_PROJECTION = OperationExplainer(
    operation=Operation.INPUT_PROJECTION,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: with_bias(facts, f"Σ {KINDS[facts.explanation.stage.reads[0]]} × weight"),
    equation=sum_equation,
    code=_write_code,
    shape_equations=_write_shapes,
    multiply_adds=lambda spec, stage, tokens: tokens * spec.d_in * spec.width,
    parameter=_find_parameter,
)
