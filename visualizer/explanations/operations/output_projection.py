"""Output projection: the concatenated heads times a weight matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.stages import Operation, parameter_names
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import all_heads, largest_number
from visualizer.explanations.shape_equations import ShapeParameter, matrix_product
from visualizer.explanations.shared_sentences import with_bias
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_count, format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    spec = facts.run.trace.spec
    heads = "the one head" if spec.heads == 1 else all_heads(spec)
    made = "is made of" if spec.width == 1 else "mixes"
    mixed = f"{made} the {format_count(spec.width, 'number')} from {heads}"
    column = f"Column {facts.column} of the output for {facts.token('query')}"
    return f"{column} {mixed}: {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    size = format_count(block.spec.width, "number")
    mixes = f"the output projection {'turns' if block.spec.width == 1 else 'mixes'} the {size}"
    return f"{mixes} of {block.query} into its output: {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    size = format_count(block.spec.width, "number")
    verb = "turns" if block.spec.width == 1 else "mixes"
    mixes = f"the output projection {verb} the {size} of each token into its output"
    return f"{mixes}; {largest_number(block)}"


def _write_shapes(spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
    return (matrix_product(tokens, spec.width, spec.width, has_bias=True),)


def _find_parameter(spec: AttentionSpec, stage: Stage, tokens: int) -> ShapeParameter:
    return ShapeParameter(stage.parameters[0], (spec.width, spec.width))


def _collect_terms(explained: ExplainedCell) -> TermList:
    query, column = explained.place
    weight, bias = parameter_names(explained.spec, explained.stage.parameters[0])
    joined = explained.factor(explained.stage.reads[0], query, None)
    return sum_of(
        (joined, explained.weight(weight, column, None)), (explained.weight(bias, column),)
    )


OUTPUT_PROJECTION = OperationExplainer(
    operation=Operation.OUTPUT_PROJECTION,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: with_bias(facts, "Σ number × weight"),
    equation=sum_equation,
    code=lambda context: f"{context.words.layers[context.stage.parameters[0]]}({context.read[0]})",
    shape_equations=_write_shapes,
    multiply_adds=lambda spec, stage, tokens: tokens * spec.width * spec.width,
    parameter=_find_parameter,
)
