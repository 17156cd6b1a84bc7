"""Context vectors: weighted sums of the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.layer_operations import LateSink
from visualizer.attention.stages import Operation, vector_noun
from visualizer.explanations.cell_terms import TermCombination, combine_as_sum, key_sum_equation
from visualizer.explanations.explainer import Explainer, VectorExplainer
from visualizer.explanations.phrases import (
    NON_FINITE_PHRASE,
    each_head_phrase,
    largest_number_phrase,
    largest_terms_phrase,
    matrix_product_shapes,
    weight_phrase,
)
from visualizer.explanations.step_context import format_vector
from visualizer.format import format_number, format_percentage

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_context import CellContext
    from visualizer.explanations.cell_terms import (
        EquationRightHandSide,
        EquationWriter,
        ExplainedCell,
    )
    from visualizer.explanations.code_dialects import StageCodeContext
    from visualizer.explanations.step_context import StepContext


class WeightedSumExplainer(Explainer):
    """Context vectors: each query's weighted sum of the values."""

    operation = Operation.WEIGHTED_SUM

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, column = explained.index_in_stage
        weights, values = explained.stage.reads
        factors = (
            explained.read_factor(weights, head, query, None),
            explained.read_factor(values, head, None, column),
        )
        return combine_as_sum(factors)

    def explain_cell(self, info: CellContext) -> str:
        vector = (
            f"Column {info.column_number} of the context vector "
            f"of {info.describe_token('query')}{info.head_phrase}"
        )
        adds = (
            f"is the sum of column {info.column_number} of "
            "all values, each multiplied by its weight"
        )
        return f"{vector} {adds}: {format_number(info.value)}."

    def explain_row(self, context: StepContext) -> str:
        weights = context.read_row(context.first_input)
        mixed = context.read_row()
        keys = np.flatnonzero(weights)
        before = context.qualifier_of(context.first_input)
        vector_of = f"the context vector of {context.query_name}"
        if not (np.isfinite(weights).all() and np.isfinite(mixed).all()):
            return f"{vector_of} cannot be computed: {NON_FINITE_PHRASE}"
        if len(keys) == 0:
            return f"{context.query_name} does not attend to any key: its context vector is 0"
        if len(keys) == 1:
            part = weight_phrase(weights, float(weights[keys[0]]))
            value = f"the value of {context.key_name(int(keys[0]))}"
            return f"{before}{vector_of} is {part} {value}: {format_vector(mixed)}"
        parts = largest_terms_phrase(context, weights, keys)
        return (
            f"{before}{context.query_name} mixes {parts} into "
            f"its context vector: {format_vector(mixed)}"
        )

    def explain_stage(self, context: StepContext) -> str:
        made = "each token’s weights mix the values into its context vector"
        return f"{made}; {largest_number_phrase(context)}"

    def formula(self, info: CellContext) -> str:
        return "Σ weight × value"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        return key_sum_equation(writer)

    def code_expression(self, context: StageCodeContext) -> str:
        return f"{context.input_variables[0]} @ {context.input_variables[1]}"

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        return (matrix_product_shapes(tokens, tokens, spec.d_head) + each_head_phrase(spec),)

    def count_multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens * tokens * spec.concatenated_head_width


class PostSoftmaxSinkExplainer(VectorExplainer):
    """Context vectors times the fraction of their row's weight that does not go to the sink.

    The softmax without the sink, followed by this step, is equal to the softmax with the sink.

    Source: Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks".
    """

    operation = Operation.LATE_SINK

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, token, column = explained.index_in_stage
        own = explained.read_factor(explained.stage.reads[0], head, token, column)
        kept = explained.read_weight(
            explained.stage.step_of_type(LateSink).kept, explained.layer, head, token
        )
        return combine_as_sum((own, kept))

    def cell_phrase(self, info: CellContext) -> str:
        head, token, _ = info.cell.place
        name = info.explanation.stage.step_of_type(LateSink).kept
        kept = format_percentage(float(info.run.trace.read(name, (info.layer, head, token))))
        own = "is the same column of the context vector"
        return f"{own} times {kept}, the fraction of the weight that does not go to the sink"

    def row_phrase(self, context: StepContext) -> str:
        name = context.stage.step_of_type(LateSink).kept
        place = (context.layer_index, context.head, context.row_index)
        kept = float(context.run.trace.read(name, place))
        vector = f"the {vector_noun(context.first_input)} of {context.query_name}"
        taken = f"the sink receives {format_percentage(1 - kept)}"
        return f"{taken}, so {vector} is multiplied by {format_percentage(kept)}"

    def stage_phrase(self, context: StepContext) -> str:
        read = vector_noun(context.first_input)
        weight = "the fraction of its row’s weight that does not go to the sink"
        return f"each {read} is multiplied by {weight}"

    def formula(self, info: CellContext) -> str:
        return "number × (1 − sink weight)"


EXPLAINERS: tuple[Explainer, ...] = (
    WeightedSumExplainer(),
    PostSoftmaxSinkExplainer(),
)
