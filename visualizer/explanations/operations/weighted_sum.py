"""Context vectors: each query's weighted sum of the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_over_keys
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import largest_number, mixed_by, part_of
from visualizer.explanations.shape_equations import each_head, matrix_product
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    vector = f"Column {facts.column} of the context vector of {facts.token('query')}{facts.in_head}"
    adds = f"adds up column {facts.column} of the values, each times its weight"
    return f"{vector} {adds}: {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    weights = block.row(block.reads)
    mixed = block.row()
    keys = np.flatnonzero(weights)
    before = block.before_of(block.reads)
    vector_of = f"the context vector of {block.query}"
    if not (np.isfinite(weights).all() and np.isfinite(mixed).all()):
        return f"{vector_of} cannot be worked out: not every number is finite"
    if len(keys) == 0:
        return f"{block.query} reads nothing: its context vector is all 0"
    if len(keys) == 1:
        part = part_of(weights, float(weights[keys[0]]))
        return (
            f"{before}{vector_of} is {part} the value of {block.key(int(keys[0]))}: {vector(mixed)}"
        )
    parts = mixed_by(block, weights, keys)
    return f"{before}{block.query} mixes {parts}, into its context vector: {vector(mixed)}"


def _describe_stage(block: StepValues) -> str:
    made = "each token’s weights mix the values into its context vector"
    return f"{made}; {largest_number(block)}"


def _write_shapes(spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
    return (matrix_product(tokens, tokens, spec.d_head) + each_head(spec),)


def _collect_terms(explained: ExplainedCell) -> TermList:
    head, query, column = explained.place
    weights, values = explained.stage.reads
    factors = (
        explained.factor(weights, head, query, None),
        explained.factor(values, head, None, column),
    )
    return sum_of(factors)


WEIGHTED_SUM = OperationExplainer(
    operation=Operation.WEIGHTED_SUM,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: "Σ weight × value",
    equation=sum_over_keys,
    code=lambda context: f"{context.read[0]} @ {context.read[1]}",
    shape_equations=_write_shapes,
    multiply_adds=lambda spec, stage, tokens: tokens * tokens * spec.width,
)
