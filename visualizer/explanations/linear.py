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
    constant,
    key_sum_equation,
    sum_terms,
)
from visualizer.explanations.code_dialects import ExpressionContext
from visualizer.explanations.explainer import Explainer, VectorExplainer, WeightsExplainer
from visualizer.explanations.phrases import (
    each_head_phrase,
    largest_number_phrase,
    largest_weights_phrase,
    matrix_product_shapes,
    most_attended_token,
    no_allowed_keys_sentence,
)
from visualizer.explanations.step_context import format_vector
from visualizer.format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_context import CellContext
    from visualizer.explanations.cell_terms import EquationWriter, ExplainedCell, RightHandSide
    from visualizer.explanations.step_context import StepContext


class FeatureMapExplainer(VectorExplainer):
    """Feature map of queries and keys: elu(x) + 1, which is always positive."""

    operation = Operation.FEATURE_MAP

    def terms(self, explained: ExplainedCell) -> TermCombination:
        number = explained.factor(explained.stage.reads[0], *explained.place)
        used = np.where(number.read > 0, number.read + 1, np.exp(np.minimum(number.read, 0)))
        return sum_terms((replace(number, used=used, form="elu({}) + 1"),))

    def column_phrase(self, info: CellContext) -> str:
        read = vector_noun(info.explanation.stage.reads[0])
        return f"is elu(x) + 1 of the same column of the {read}"

    def row_phrase(self, context: StepContext) -> str:
        read, made = vector_noun(context.first_input), vector_noun(context.stage.name)
        return f"elu(x) + 1, applied to the {read} of {context.query}, gives its {made}"

    def stage_phrase(self, context: StepContext) -> str:
        return "elu(x) + 1 makes every number positive"

    def formula(self, info: CellContext) -> str:
        return "elu(number) + 1"

    def code(self, context: ExpressionContext) -> str:
        (x,) = context.inputs
        return f"torch.where({x} > 0, {x} + 1, torch.exp({x}))"


def _allowed_factor(explained: ExplainedCell) -> Factor:
    """Return a factor that is 1 for each key that the query may attend to, and 0 for the others."""
    head, query, _ = explained.place
    cells = explained.trace.allowed(Role.WEIGHTS, explained.leading, head, query)
    counted = cells.astype(np.float64)
    return Factor("", (), counted, counted)


def _key_sum_code(context: ExpressionContext, each: str) -> str:
    """Return code that sums an expression [token, column] over the allowed keys of each query."""
    row = next(row for row in stages(context.spec) if row.role is Role.WEIGHTS)
    masked = ExpressionContext(context.spec, row, context.identifiers)
    if needs_mask_product(context.spec):
        return f"({masked.allowed()}).to({context.x}.dtype) @ {each}"
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
        return info.word(at, "key")

    def equation(self, writer: EquationWriter) -> RightHandSide:
        return key_sum_equation(writer)


class KeyValueSumsExplainer(_SumOverKeysExplainer):
    """Sums of the products of key features and values over the allowed keys of each query."""

    operation = Operation.KEY_VALUE_SUMS

    def terms(self, explained: ExplainedCell) -> TermCombination:
        head, _, column = explained.place
        features, values = explained.stage.reads
        feature, value = divmod(column, explained.spec.d_head)
        return sum_terms(
            (
                explained.factor(features, head, None, feature),
                explained.factor(values, head, None, value),
                _allowed_factor(explained),
            )
        )

    def column_phrase(self, info: CellContext) -> str:
        feature, value = divmod(info.cell.place[-1], info.run.trace.spec.d_head)
        product = f"feature {feature + 1} of the key times column {value + 1} of its value"
        return f"is the sum, over the allowed keys, of {product}"

    def row_phrase(self, context: StepContext) -> str:
        products = "the products of key features and values"
        return f"{products} are summed over the allowed keys of {context.query}"

    def stage_phrase(self, context: StepContext) -> str:
        products = "the products of key features and values"
        return f"{products} are summed over the allowed keys of each query"

    def formula(self, info: CellContext) -> str:
        return "Σ key feature × value × (1 if allowed)"

    def code(self, context: ExpressionContext) -> str:
        features, values = context.inputs
        product = f"({features}.unsqueeze(-1) * {values}.unsqueeze(-2)).flatten(-2)"
        return _key_sum_code(context, product)

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        return _mask_product_shapes(spec, tokens, spec.d_head**2)

    def multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens**2 * spec.d_head * spec.width if needs_mask_product(spec) else 0


class KeySumsExplainer(_SumOverKeysExplainer):
    """Sums of the key features over the allowed keys of each query."""

    operation = Operation.KEY_SUMS

    def terms(self, explained: ExplainedCell) -> TermCombination:
        head, _, column = explained.place
        features = explained.factor(explained.stage.reads[0], head, None, column)
        return sum_terms((features, _allowed_factor(explained)))

    def column_phrase(self, info: CellContext) -> str:
        return "is the sum of this feature over the allowed keys"

    def row_phrase(self, context: StepContext) -> str:
        return f"the key features are summed over the allowed keys of {context.query}"

    def stage_phrase(self, context: StepContext) -> str:
        return "the key features are summed over the allowed keys of each query"

    def formula(self, info: CellContext) -> str:
        return "Σ key feature × (1 if allowed)"

    def code(self, context: ExpressionContext) -> str:
        return _key_sum_code(context, context.inputs[0])

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        return _mask_product_shapes(spec, tokens, spec.d_head)

    def multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens**2 * spec.width if needs_mask_product(spec) else 0


class NormalizerExplainer(Explainer):
    """The divisor of each query: the dot product of its features and the sums of key features."""

    operation = Operation.NORMALIZER

    def terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, _ = explained.place
        return sum_terms(
            tuple(explained.factor(name, head, query, None) for name in explained.stage.reads)
        )

    def term_name(self, info: CellContext, at: int) -> str:
        return f"feature {at + 1}"

    def explain_cell(self, info: CellContext) -> str:
        made = "is the dot product of its features and the sums of the key features"
        return f"The normalizer of {info.token('query')}{info.head_phrase} {made}: " + (
            f"{format_number(info.value)}."
        )

    def row_sentence(self, context: StepContext) -> str:
        made = f"the features of {context.query} times the sums of the key features"
        return f"{made} give its normalizer: {format_vector(context.row())}"

    def stage_sentence(self, context: StepContext) -> str:
        made = "the features of each query times the sums of the key features give its normalizer"
        return f"{made}; {largest_number_phrase(context)}"

    def formula(self, info: CellContext) -> str:
        return "Σ query feature × sum of key features"

    def code(self, context: ExpressionContext) -> str:
        features, sums = context.inputs
        return f"({features} * {sums}).sum(dim=-1, keepdim=True)"


def _invert_factor(normalizer: Factor) -> Factor:
    return replace(normalizer, used=1 / normalizer.read, form=DIVISOR_FORM)


def _zero_terms(explained: ExplainedCell) -> TermCombination:
    """Return a single term of 0, for a forbidden cell or a normalizer of 0."""
    head, query, _ = explained.place
    zero = sum_terms((constant(0.0, "0"),))
    allowed = explained.trace.allowed(Role.WEIGHTS, explained.leading, head, query)
    return TermCombination(zero.rule, zero.groups, is_empty=not allowed.any())


def _divisor_code(normalizer: str) -> str:
    return f"{normalizer}.where({normalizer} != 0, 1)"


class ImpliedWeightsExplainer(WeightsExplainer):
    """The weights that linear attention implies; the context vectors do not use them."""

    operation = Operation.IMPLIED_WEIGHTS

    def terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, key = explained.place
        queries, keys, normalizer = explained.stage.reads
        divisor = explained.factor(normalizer, head, query, 0)
        if not (explained.allowed()[key] and divisor.read.any()):
            return _zero_terms(explained)
        return sum_terms(
            (
                explained.factor(queries, head, query, None),
                explained.factor(keys, head, key, None),
                _invert_factor(divisor),
            )
        )

    def term_name(self, info: CellContext, at: int) -> str:
        return f"feature {at + 1}"

    def row_sentence(self, context: StepContext) -> str:
        weights = context.row()
        if not context.allowed_row().any():
            return no_allowed_keys_sentence(context)
        if not np.isfinite(weights).all():
            return f"{context.query} has no implied weights: its row cannot be computed"
        made = f"the features of {context.query} imply weights that no step uses"
        return f"{made}: {largest_weights_phrase(context, weights)}"

    def stage_sentence(self, context: StepContext) -> str:
        return f"features imply weights that no step uses; {most_attended_token(context)}"

    def formula(self, info: CellContext) -> str:
        return "Σ query feature × key feature ÷ normalizer"

    def code(self, context: ExpressionContext) -> str:
        queries, keys, normalizer = context.inputs
        made = f"{queries} @ {keys}.transpose(-2, -1) / {_divisor_code(normalizer)}"
        return f"({made}).masked_fill({context.forbidden()}, 0)" if context.masks() else made

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        return (matrix_product_shapes(tokens, spec.d_head, tokens) + each_head_phrase(spec),)

    def multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens**2 * spec.width


class LinearContextExplainer(VectorExplainer):
    """Context vectors of linear attention: query features times sums, divided by the normalizer."""

    operation = Operation.LINEAR_CONTEXT

    def terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, column = explained.place
        queries, sums, normalizer = explained.stage.reads
        divisor = explained.factor(normalizer, head, query, 0)
        if not divisor.read.any():
            return _zero_terms(explained)
        divisor, d_head = _invert_factor(divisor), explained.spec.d_head
        return sum_terms(
            *(
                (
                    explained.factor(queries, head, query, feature),
                    explained.factor(sums, head, query, feature * d_head + column),
                    divisor,
                )
                for feature in range(d_head)
            )
        )

    def term_name(self, info: CellContext, at: int) -> str:
        return f"feature {at + 1}"

    def column_phrase(self, info: CellContext) -> str:
        return (
            "is the sum of the query features, each multiplied by its sum of keys and values, "
            "divided by the normalizer"
        )

    def row_phrase(self, context: StepContext) -> str:
        made = f"the features of {context.query} times its sums, divided by its normalizer,"
        return f"{made} give its context vector"

    def stage_phrase(self, context: StepContext) -> str:
        made = "each query’s features times its sums, divided by its normalizer, give its context"
        return f"{made} vector"

    def formula(self, info: CellContext) -> str:
        return "Σ query feature × sum of keys and values ÷ normalizer"

    def code(self, context: ExpressionContext) -> str:
        queries, sums, normalizer = context.inputs
        d_head = context.spec.d_head
        product = f"{queries}.unsqueeze(-2) @ {sums}.unflatten(-1, ({d_head}, {d_head}))"
        return f"({product}).squeeze(-2) / {_divisor_code(normalizer)}"

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        product = matrix_product_shapes(1, spec.d_head, spec.d_head)
        return (f"{product} for each query{each_head_phrase(spec)}",)

    def multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens * spec.d_head * spec.width


EXPLAINERS: tuple[Explainer, ...] = (
    FeatureMapExplainer(),
    KeyValueSumsExplainer(),
    KeySumsExplainer(),
    NormalizerExplainer(),
    ImpliedWeightsExplainer(),
    LinearContextExplainer(),
)
