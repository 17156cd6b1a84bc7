"""Context vectors: weighted sums of the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.layer_operations import LateSink
from visualizer.attention.stages import Operation, vector_noun
from visualizer.explanations.cell_terms import TermCombination, key_sum_equation, sum_terms
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
from visualizer.format import format_number, format_share

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_context import CellContext
    from visualizer.explanations.cell_terms import EquationWriter, ExplainedCell, RightHandSide
    from visualizer.explanations.code_dialects import ExpressionContext
    from visualizer.explanations.step_context import StepContext


class WeightedSumExplainer(Explainer):
    """Context vectors: each query's weighted sum of the values."""

    operation = Operation.WEIGHTED_SUM

    def terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, column = explained.place
        weights, values = explained.stage.reads
        factors = (
            explained.factor(weights, head, query, None),
            explained.factor(values, head, None, column),
        )
        return sum_terms(factors)

    def explain_cell(self, info: CellContext) -> str:
        vector = (
            f"Column {info.column} of the context vector of {info.token('query')}{info.head_phrase}"
        )
        adds = f"is the sum of column {info.column} of all values, each multiplied by its weight"
        return f"{vector} {adds}: {format_number(info.value)}."

    def row_sentence(self, context: StepContext) -> str:
        weights = context.row(context.first_input)
        mixed = context.row()
        keys = np.flatnonzero(weights)
        before = context.qualifier_of(context.first_input)
        vector_of = f"the context vector of {context.query}"
        if not (np.isfinite(weights).all() and np.isfinite(mixed).all()):
            return f"{vector_of} cannot be computed: {NON_FINITE_PHRASE}"
        if len(keys) == 0:
            return f"{context.query} does not attend to any key: its context vector is 0"
        if len(keys) == 1:
            part = weight_phrase(weights, float(weights[keys[0]]))
            value = f"the value of {context.key(int(keys[0]))}"
            return f"{before}{vector_of} is {part} {value}: {format_vector(mixed)}"
        parts = largest_terms_phrase(context, weights, keys)
        return (
            f"{before}{context.query} mixes {parts} into its context vector: {format_vector(mixed)}"
        )

    def stage_sentence(self, context: StepContext) -> str:
        made = "each token’s weights mix the values into its context vector"
        return f"{made}; {largest_number_phrase(context)}"

    def formula(self, info: CellContext) -> str:
        return "Σ weight × value"

    def equation(self, writer: EquationWriter) -> RightHandSide:
        return key_sum_equation(writer)

    def code(self, context: ExpressionContext) -> str:
        return f"{context.inputs[0]} @ {context.inputs[1]}"

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        return (matrix_product_shapes(tokens, tokens, spec.d_head) + each_head_phrase(spec),)

    def multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens * tokens * spec.width


class LateSinkExplainer(VectorExplainer):
    """Context vectors times the fraction of their row's weight that does not go to the sink.

    The softmax without the sink, followed by this step, is equal to the softmax with the sink.

    Source: Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks".
    """

    operation = Operation.LATE_SINK

    def terms(self, explained: ExplainedCell) -> TermCombination:
        head, token, column = explained.place
        own = explained.factor(explained.stage.reads[0], head, token, column)
        kept = explained.weight(
            explained.stage.layer_step(LateSink).kept, explained.layer, head, token
        )
        return sum_terms((own, kept))

    def column_phrase(self, info: CellContext) -> str:
        head, token, _ = info.cell.place
        name = info.explanation.stage.layer_step(LateSink).kept
        kept = format_share(float(info.run.trace.read(name, (info.layer, head, token))))
        own = "is the same column of the context vector"
        return f"{own} times {kept}, the fraction of the weight that does not go to the sink"

    def row_phrase(self, context: StepContext) -> str:
        name = context.stage.layer_step(LateSink).kept
        place = (context.layer, context.head, context.row_index)
        kept = float(context.run.trace.read(name, place))
        vector = f"the {vector_noun(context.first_input)} of {context.query}"
        taken = f"the sink receives {format_share(1 - kept)}"
        return f"{taken}, so {vector} is multiplied by {format_share(kept)}"

    def stage_phrase(self, context: StepContext) -> str:
        read = vector_noun(context.first_input)
        weight = "the fraction of its row’s weight that does not go to the sink"
        return f"each {read} is multiplied by {weight}"

    def formula(self, info: CellContext) -> str:
        return "number × (1 − sink weight)"


EXPLAINERS: tuple[Explainer, ...] = (
    WeightedSumExplainer(),
    LateSinkExplainer(),
)
