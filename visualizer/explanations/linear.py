"""Linear attention: feature maps, running sums over the keys, and the weights that they imply.

Source: Katharopoulos et al. 2020, "Transformers are RNNs: Fast Autoregressive Transformers with
Linear Attention", §3.2 and §3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.masks import needs_mask_product
from visualizer.attention.roles import Role
from visualizer.attention.spec import MaskKind
from visualizer.attention.stages import Operation, stages, vector_noun
from visualizer.explanations.cell_terms import (
    DIVISOR_FORM,
    Factor,
    TermCombination,
    combine_as_sum,
    constant,
    key_sum_equation,
)
from visualizer.explanations.code_dialects import StageCodeContext
from visualizer.explanations.explainer import AttentionWeightsExplainer, Explainer, VectorExplainer
from visualizer.explanations.phrases import (
    each_head_phrase,
    largest_number_phrase,
    largest_weights_phrase,
    matrix_product_shapes,
    most_attended_key_phrase,
    no_allowed_keys_sentence,
)
from visualizer.explanations.step_context import format_vector
from visualizer.format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_context import CellContext
    from visualizer.explanations.cell_terms import (
        EquationRightHandSide,
        EquationWriter,
        ExplainedCell,
    )
    from visualizer.explanations.step_context import StepContext


class FeatureMapExplainer(VectorExplainer):
    """Feature map of queries and keys: elu(x) + 1, which is always positive."""

    operation = Operation.FEATURE_MAP

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        number = explained.read_factor(explained.stage.reads[0], *explained.index_in_stage)
        used = np.where(number.read > 0, number.read + 1, np.exp(np.minimum(number.read, 0)))
        return combine_as_sum((replace(number, used=used, form="elu({}) + 1"),))

    def cell_phrase(self, info: CellContext) -> str:
        read = vector_noun(info.explanation.stage.reads[0])
        return f"is elu(x) + 1 of the same column of the {read}"

    def row_phrase(self, context: StepContext) -> str:
        read, made = vector_noun(context.first_input), vector_noun(context.stage.name)
        return f"elu(x) + 1, applied to the {read} of {context.query_name}, gives its {made}"

    def stage_phrase(self, context: StepContext) -> str:
        return "elu(x) + 1 makes every number positive"

    def formula(self, info: CellContext) -> str:
        return "elu(number) + 1"

    def code_expression(self, context: StageCodeContext) -> str:
        (x,) = context.input_variables
        return f"torch.where({x} > 0, {x} + 1, torch.exp({x}))"


def _allowed_keys_factor(explained: ExplainedCell) -> Factor:
    """Return a factor that is 1 for each key that the query may attend to, and 0 for the others."""
    head, query, _ = explained.index_in_stage
    cells = explained.trace.allowed_mask(Role.WEIGHTS, explained.leading_index, head, query)
    counted = cells.astype(np.float64)
    return Factor("", (), counted, counted)


def _key_sum_code(context: StageCodeContext, each: str) -> str:
    """Return code that sums an expression [token, column] over the allowed keys of each query."""
    row = next(row for row in stages(context.spec) if row.role is Role.WEIGHTS)
    masked = StageCodeContext(context.spec, row, context.identifiers)
    if needs_mask_product(context.spec):
        return f"({masked.allowed_expression()}).to({context.x}.dtype) @ {each}"
    if context.spec.mask is MaskKind.CAUSAL:
        return f"{each}.cumsum(dim=-2)"
    return f"{each}.sum(dim=-2, keepdim=True).expand_as({each})"


def _mask_product_shapes(spec: AttentionSpec, tokens: int, columns: int) -> tuple[str, ...]:
    if not needs_mask_product(spec):
        return ()
    return (matrix_product_shapes(tokens, tokens, columns) + each_head_phrase(spec),)


class _SumOverKeysExplainer(VectorExplainer):
    """Base class for sums over the keys that a query may attend to."""

    def term_name(self, info: CellContext, at: int) -> str:
        return info.format_token(at, "key")

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        return key_sum_equation(writer)


class KeyValueSumsExplainer(_SumOverKeysExplainer):
    """Sums of the products of key features and values over the allowed keys of each query."""

    operation = Operation.KEY_VALUE_SUMS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, _, column = explained.index_in_stage
        features, values = explained.stage.reads
        feature, value = divmod(column, explained.spec.d_head)
        return combine_as_sum(
            (
                explained.read_factor(features, head, None, feature),
                explained.read_factor(values, head, None, value),
                _allowed_keys_factor(explained),
            )
        )

    def cell_phrase(self, info: CellContext) -> str:
        feature, value = divmod(info.cell.place[-1], info.run.trace.spec.d_head)
        product = f"feature {feature + 1} of the key times column {value + 1} of its value"
        return f"is the sum, over the allowed keys, of {product}"

    def row_phrase(self, context: StepContext) -> str:
        products = "the products of key features and values"
        return f"{products} are summed over the allowed keys of {context.query_name}"

    def stage_phrase(self, context: StepContext) -> str:
        products = "the products of key features and values"
        return f"{products} are summed over the allowed keys of each query"

    def formula(self, info: CellContext) -> str:
        return "Σ key feature × value × (1 if allowed)"

    def code_expression(self, context: StageCodeContext) -> str:
        features, values = context.input_variables
        product = f"({features}.unsqueeze(-1) * {values}.unsqueeze(-2)).flatten(-2)"
        return _key_sum_code(context, product)

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        return _mask_product_shapes(spec, tokens, spec.d_head**2)

    def count_multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return (
            tokens**2 * spec.d_head * spec.concatenated_head_width
            if needs_mask_product(spec)
            else 0
        )


class KeySumsExplainer(_SumOverKeysExplainer):
    """Sums of the key features over the allowed keys of each query."""

    operation = Operation.KEY_SUMS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, _, column = explained.index_in_stage
        features = explained.read_factor(explained.stage.reads[0], head, None, column)
        return combine_as_sum((features, _allowed_keys_factor(explained)))

    def cell_phrase(self, info: CellContext) -> str:
        return "is the sum of this feature over the allowed keys"

    def row_phrase(self, context: StepContext) -> str:
        return f"the key features are summed over the allowed keys of {context.query_name}"

    def stage_phrase(self, context: StepContext) -> str:
        return "the key features are summed over the allowed keys of each query"

    def formula(self, info: CellContext) -> str:
        return "Σ key feature × (1 if allowed)"

    def code_expression(self, context: StageCodeContext) -> str:
        return _key_sum_code(context, context.input_variables[0])

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        return _mask_product_shapes(spec, tokens, spec.d_head)

    def count_multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens**2 * spec.concatenated_head_width if needs_mask_product(spec) else 0


class LinearAttentionNormalizerExplainer(Explainer):
    """The divisor of each query: the dot product of its features and the sums of key features."""

    operation = Operation.NORMALIZER

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, _ = explained.index_in_stage
        return combine_as_sum(
            tuple(explained.read_factor(name, head, query, None) for name in explained.stage.reads)
        )

    def term_name(self, info: CellContext, at: int) -> str:
        return f"feature {at + 1}"

    def explain_cell(self, info: CellContext) -> str:
        made = "is the dot product of its features and the sums of the key features"
        return f"The normalizer of {info.describe_token('query')}{info.head_phrase} {made}: " + (
            f"{format_number(info.value)}."
        )

    def explain_row(self, context: StepContext) -> str:
        made = f"the features of {context.query_name} times the sums of the key features"
        return f"{made} give its normalizer: {format_vector(context.read_row())}"

    def explain_stage(self, context: StepContext) -> str:
        made = "the features of each query times the sums of the key features give its normalizer"
        return f"{made}; {largest_number_phrase(context)}"

    def formula(self, info: CellContext) -> str:
        return "Σ query feature × sum of key features"

    def code_expression(self, context: StageCodeContext) -> str:
        features, sums = context.input_variables
        return f"({features} * {sums}).sum(dim=-1, keepdim=True)"


def _reciprocal_factor(normalizer: Factor) -> Factor:
    return replace(normalizer, used=1 / normalizer.read, form=DIVISOR_FORM)


def _zero_terms(explained: ExplainedCell) -> TermCombination:
    """Return a single term of 0, for a forbidden cell or a normalizer of 0."""
    head, query, _ = explained.index_in_stage
    zero = combine_as_sum((constant(0.0, "0"),))
    allowed = explained.trace.allowed_mask(Role.WEIGHTS, explained.leading_index, head, query)
    return TermCombination(zero.rule, zero.groups, is_empty=not allowed.any())


def _nonzero_divisor_code(normalizer: str) -> str:
    return f"{normalizer}.where({normalizer} != 0, 1)"


class ImpliedWeightsExplainer(AttentionWeightsExplainer):
    """The weights that linear attention implies; the context vectors do not use them."""

    operation = Operation.IMPLIED_WEIGHTS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, key = explained.index_in_stage
        queries, keys, normalizer = explained.stage.reads
        divisor = explained.read_factor(normalizer, head, query, 0)
        if not (explained.allowed_keys()[key] and divisor.read.any()):
            return _zero_terms(explained)
        return combine_as_sum(
            (
                explained.read_factor(queries, head, query, None),
                explained.read_factor(keys, head, key, None),
                _reciprocal_factor(divisor),
            )
        )

    def term_name(self, info: CellContext, at: int) -> str:
        return f"feature {at + 1}"

    def explain_row(self, context: StepContext) -> str:
        weights = context.read_row()
        if not context.allowed_keys().any():
            return no_allowed_keys_sentence(context)
        if not np.isfinite(weights).all():
            return f"{context.query_name} has no implied weights: its row cannot be computed"
        made = f"the features of {context.query_name} imply weights that no step uses"
        return f"{made}: {largest_weights_phrase(context, weights)}"

    def explain_stage(self, context: StepContext) -> str:
        return f"features imply weights that no step uses; {most_attended_key_phrase(context)}"

    def formula(self, info: CellContext) -> str:
        return "Σ query feature × key feature ÷ normalizer"

    def code_expression(self, context: StageCodeContext) -> str:
        queries, keys, normalizer = context.input_variables
        made = f"{queries} @ {keys}.transpose(-2, -1) / {_nonzero_divisor_code(normalizer)}"
        return (
            f"({made}).masked_fill({context.forbidden_expression()}, 0)"
            if context.mask_variables()
            else made
        )

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        return (matrix_product_shapes(tokens, spec.d_head, tokens) + each_head_phrase(spec),)

    def count_multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens**2 * spec.concatenated_head_width


class LinearAttentionContextExplainer(VectorExplainer):
    """Context vectors of linear attention: query features times sums, divided by the normalizer."""

    operation = Operation.LINEAR_CONTEXT

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, column = explained.index_in_stage
        queries, sums, normalizer = explained.stage.reads
        divisor = explained.read_factor(normalizer, head, query, 0)
        if not divisor.read.any():
            return _zero_terms(explained)
        divisor, d_head = _reciprocal_factor(divisor), explained.spec.d_head
        return combine_as_sum(
            *(
                (
                    explained.read_factor(queries, head, query, feature),
                    explained.read_factor(sums, head, query, feature * d_head + column),
                    divisor,
                )
                for feature in range(d_head)
            )
        )

    def term_name(self, info: CellContext, at: int) -> str:
        return f"feature {at + 1}"

    def cell_phrase(self, info: CellContext) -> str:
        return (
            "is the sum of the query features, each multiplied by its sum of keys and values, "
            "divided by the normalizer"
        )

    def row_phrase(self, context: StepContext) -> str:
        made = f"the features of {context.query_name} times its sums, divided by its normalizer,"
        return f"{made} give its context vector"

    def stage_phrase(self, context: StepContext) -> str:
        made = "each query’s features times its sums, divided by its normalizer, give its context"
        return f"{made} vector"

    def formula(self, info: CellContext) -> str:
        return "Σ query feature × sum of keys and values ÷ normalizer"

    def code_expression(self, context: StageCodeContext) -> str:
        queries, sums, normalizer = context.input_variables
        d_head = context.spec.d_head
        product = f"{queries}.unsqueeze(-2) @ {sums}.unflatten(-1, ({d_head}, {d_head}))"
        return f"({product}).squeeze(-2) / {_nonzero_divisor_code(normalizer)}"

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        product = matrix_product_shapes(1, spec.d_head, spec.d_head)
        return (f"{product} for each query{each_head_phrase(spec)}",)

    def count_multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens * spec.d_head * spec.concatenated_head_width


EXPLAINERS: tuple[Explainer, ...] = (
    FeatureMapExplainer(),
    KeyValueSumsExplainer(),
    KeySumsExplainer(),
    LinearAttentionNormalizerExplainer(),
    ImpliedWeightsExplainer(),
    LinearAttentionContextExplainer(),
)
