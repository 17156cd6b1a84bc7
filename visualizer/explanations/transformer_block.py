"""Explainers for the rest of a layer: residual stream, norms, feed-forward layers and experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.layer_operations import (
    ACTIVATIONS,
    EmbeddedTokens,
    ExpertMixture,
    HiddenActivation,
    NormLayer,
    ResidualStream,
    ScaledVector,
)
from visualizer.attention.roles import Role
from visualizer.attention.stages import Operation, vector_noun
from visualizer.explanations.cell_terms import (
    DIVISOR_FORM,
    EquationPart,
    EquationRightHandSide,
    EquationWriter,
    Factor,
    TermCombination,
    combine_as_sum,
    combine_inputs_as_sum,
    constant,
    copied_equation,
    sum_equation,
)
from visualizer.explanations.explainer import Explainer, VectorExplainer
from visualizer.explanations.phrases import (
    WeightShape,
    add_closing_comma,
    join_names,
    largest_number_phrase,
    vector_column_name,
)
from visualizer.explanations.step_context import (
    format_trimmed_number,
    format_vector,
    parenthesize_negative,
)
from visualizer.format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace
    from visualizer.explanations.cell_context import CellContext
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.code_dialects import StageCodeContext
    from visualizer.explanations.step_context import StepContext


def _embedded_tokens(stage: Stage, layer: int) -> EmbeddedTokens | None:
    """Return the first layer's embedded tokens, or None if they are unknown or in other layers."""
    return stage.step_of_type(ResidualStream).embedded if layer == 0 else None


def _describe_residual_source(stage: Stage, layer: int) -> str:
    """Describe the source of the residual stream."""
    if stage.step_of_type(ResidualStream).before[layer] is not None:
        return "the output of the previous layer"
    known = _embedded_tokens(stage, layer)
    if known is None:
        return "read from the model (its origin is unknown)"
    names = [path.rpartition(".")[2] for path, _ in known.tables]
    rows = "the token’s row" if len(names) == 1 else "the sum of the token’s rows"
    times = "" if known.factor == 1 else f", times {format_trimmed_number(known.factor)}"
    norm = f", normalized ({known.norm.name})" if known.norm else ""
    return f"{rows} of {' and '.join(names)}{times}{norm}"


class ResidualStreamExplainer(Explainer):
    """The residual stream that enters a layer: the previous layer's output or the embedding."""

    operation = Operation.RESIDUAL_STREAM

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        token, column = explained.index_in_stage
        before = explained.stage.step_of_type(ResidualStream).before[explained.layer]
        if before is not None:
            return combine_as_sum((explained.read_layer_factor(before, "result", token, column),))
        known = _embedded_tokens(explained.stage, explained.layer)
        if known is None:
            return combine_as_sum((explained.read_factor(explained.stage.name, token, column),))
        more = (
            ()
            if known.factor == 1
            else (constant(known.factor, format_trimmed_number(known.factor)),)
        )
        rows = [(f"{path}.weight", numbers[token]) for path, numbers in known.tables]
        parts: tuple[tuple[Factor, ...], ...] = tuple(
            (explained.read_weight(name, row, column), *more) for name, row in rows
        )
        if known.norm is None:
            return combine_as_sum(*parts)
        whole = np.sum([explained.read_weight(name, row, None).read for name, row in rows], axis=0)
        return normalized_terms(explained, known.norm, parts, whole * known.factor, column)

    def explain_cell(self, info: CellContext) -> str:
        source = _describe_residual_source(info.explanation.stage, info.layer)
        return f"{vector_column_name(info)} is {format_number(info.value)}: {source}."

    def explain_row(self, context: StepContext) -> str:
        source = _describe_residual_source(context.stage, context.layer_index)
        return (
            f"the residual stream of {context.query_name} is "
            f"{format_vector(context.read_row())}: {source}"
        )

    def explain_stage(self, context: StepContext) -> str:
        source = _describe_residual_source(context.stage, context.layer_index)
        stream = f"the residual stream at the start of the layer is {source}"
        return f"{stream}; {largest_number_phrase(context)}"

    def formula(self, info: CellContext) -> str:
        stage = info.explanation.stage
        if stage.step_of_type(ResidualStream).before[info.layer] is not None:
            return "output of the previous layer"
        known = _embedded_tokens(stage, info.layer)
        if known is None:
            return "read from the model"
        times = "" if known.factor == 1 else f" × {format_trimmed_number(known.factor)}"
        return f"{known.norm.name} of embedding{times}" if known.norm else f"embedding{times}"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        factors, _ = writer.term_factors(0)
        if len(writer.explanation.terms) > 1 or len(factors) > 1:
            return sum_equation(writer)
        name = factors[0].name
        hows = {"result": "from the previous layer", Role.RESIDUAL: "read from the model"}
        return copied_equation(writer, hows.get(name, "the token’s row of the embedding"))


def _addend_names(stage: Stage) -> str:
    return join_names([f"the {vector_noun(name)}" for name in stage.reads])


class ResidualAdditionExplainer(VectorExplainer):
    """Addition of a sublayer's output to the residual stream."""

    operation = Operation.RESIDUAL_ADDITION

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        return combine_inputs_as_sum(explained)

    def cell_phrase(self, info: CellContext) -> str:
        reads = info.explanation.stage.reads
        if len(reads) == 1:
            return f"is the same column of the {vector_noun(reads[0])}"
        return f"is the sum of the same columns of {_addend_names(info.explanation.stage)}"

    def row_phrase(self, context: StepContext) -> str:
        if len(context.stage.reads) == 1:
            return f"{_addend_names(context.stage)} of {context.query_name} is unchanged"
        made = f"for {context.query_name}, {_addend_names(context.stage)} add up to"
        return f"{made} the {vector_noun(context.stage.name)}"

    def stage_phrase(self, context: StepContext) -> str:
        if len(context.stage.reads) == 1:
            return f"{_addend_names(context.stage)} is unchanged"
        return f"{_addend_names(context.stage)} are added elementwise"

    def formula(self, info: CellContext) -> str:
        return " + ".join(vector_noun(name) for name in info.explanation.stage.reads)

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        if len(writer.explanation.terms) == 1:
            return copied_equation(writer, "unchanged")
        return sum_equation(writer)

    def code_expression(self, context: StageCodeContext) -> str:
        return " + ".join(context.input_variables)


def _normalization_phrase(stage: Stage) -> str:
    """Describe how a vector is normalized, without the gain and the bias."""
    if stage.step_of_type(NormLayer).is_centred:
        return " minus the mean, divided by the standard deviation"
    return " divided by the root mean square"


def _gain_and_bias_phrase(stage: Stage, whose: str) -> str:
    """Describe the gain and the bias; `whose` is "its" or "each column’s"."""
    step = stage.step_of_type(NormLayer)
    weight = f" times (1 + {whose} weight)" if step.adds_one else f" times {whose} weight"
    parts = [weight] if step.has_gain else []
    parts += [f" plus {whose} bias"] if step.has_bias else []
    return ",".join(("", *parts)) if parts else ""


def normalized_terms(
    explained: ExplainedCell,
    step: NormLayer,
    parts: tuple[tuple[Factor, ...], ...],
    whole: np.ndarray,
    column: int,
) -> TermCombination:
    """Return the terms of one number in a normalized vector.

    Parameters
    ----------
    parts : tuple of tuple of Factor
        The products that sum to the number before normalization.
    whole : ndarray
        The vector before normalization, float64.
    column : int
        Column of the number in the vector.
    """
    moved = whole - whole.mean() if step.is_centred else whole
    size = float(np.sqrt(np.square(moved).mean() + step.epsilon))
    share = Factor("", (), np.array([size]), np.array([1 / size]), DIVISOR_FORM)
    module = step.modules[explained.layer if len(step.modules) > 1 else 0]
    if step.is_centred:
        parts = (*parts, (constant(-float(whole.mean()), "{}"),))
    gain = (explained.read_weight(f"{module}.weight", column),) if step.has_gain else ()
    groups = [(*part, share, *gain) for part in parts]
    if step.adds_one:  # the gain is 1 plus the parameter
        groups += [(*part, share) for part in parts]
    if step.has_bias:
        groups.append((explained.read_weight(f"{module}.bias", column),))
    return combine_as_sum(*groups)


class NormLayerExplainer(VectorExplainer):
    """Vectors normalized by a layer norm or an RMS norm.

    Sources: Ba et al. 2016, "Layer Normalization"; Zhang and Sennrich 2019, "Root Mean Square Layer
    Normalization".
    """

    operation = Operation.NORM_LAYER
    row_separator = " is "

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        step, (*head, token, column) = (
            explained.stage.step_of_type(NormLayer),
            explained.index_in_stage,
        )
        read = explained.stage.reads[0]
        own = explained.read_factor(read, *head, token, column)
        if not step.is_over_heads:
            whole = explained.read_factor(read, *head, token, None).read
            return normalized_terms(explained, step, ((own,),), whole, column)
        firsts = [step.heads.index(shared) for shared in dict.fromkeys(step.heads)]
        vectors = [explained.read_factor(read, first, token, None).read for first in firsts]
        within = step.heads[head[0]] * len(vectors[0]) + column
        return normalized_terms(explained, step, ((own,),), np.concatenate(vectors), within)

    def cell_phrase(self, info: CellContext) -> str:
        stage = info.explanation.stage
        norm = f"{_normalization_phrase(stage)}{_gain_and_bias_phrase(stage, 'its')}"
        return f"is the same column of the {vector_noun(stage.reads[0])}{norm}"

    def row_phrase(self, context: StepContext) -> str:
        read = f"the {vector_noun(context.first_input)} of {context.query_name}"
        gain = _gain_and_bias_phrase(context.stage, "each column’s")
        return add_closing_comma(f"{read}{_normalization_phrase(context.stage)}{gain}")

    def stage_phrase(self, context: StepContext) -> str:
        name = context.stage.step_of_type(NormLayer).name
        return f"each {vector_noun(context.first_input)} is normalized ({name})"

    def formula(self, info: CellContext) -> str:
        step = info.explanation.stage.step_of_type(NormLayer)
        first = "(number − mean) ÷ deviation" if step.is_centred else "number ÷ root mean square"
        weight = " × (1 + weight)" if step.adds_one else " × weight"
        return first + weight * step.has_gain + " + bias" * step.has_bias

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        """Write the mean, which is subtracted, before the division and the gain."""
        step, groups = writer.explanation.stage.step_of_type(NormLayer), writer.explanation.groups
        if not step.is_centred or step.adds_one:
            return super().write_equation(writer)
        own, mean = groups[0].factors, groups[1].factors[0]
        subtracted = parenthesize_negative(format_trimmed_number(-float(mean.read[0])))
        parts = [
            EquationPart("("),
            writer.write_number(own[0], 0),
            EquationPart(f" − {subtracted})"),
        ]
        parts += writer.write_multiplied_factors(own[1:], 0)
        for bias in groups[2:]:
            parts += [EquationPart(" + "), *writer.write_factor(bias.factors[0], 0, False)]
        return EquationRightHandSide(parts)

    def code_expression(self, context: StageCodeContext) -> str:
        return (
            f"{context.identifiers.layers[context.stage.parameters[0]]}"
            f"({context.input_variables[0]})"
        )

    def weight_shape(self, spec: AttentionSpec, stage: Stage, tokens: int) -> WeightShape | None:
        """Return the weights of a norm in a module's block, or None for a norm in a model."""
        return WeightShape(stage.parameters[0], (spec.d_in,)) if stage.parameters else None


def _activation_phrase(stage: Stage) -> str:
    first, *others = (vector_noun(name) for name in stage.reads)
    times = f" times the {others[0]}" if others else ""
    return f"{stage.step_of_type(HiddenActivation).function} of the {first}{times}"


class HiddenActivationExplainer(VectorExplainer):
    """Hidden activations of a feed-forward layer, times a second vector if the layer is gated."""

    operation = Operation.HIDDEN_ACTIVATION
    row_separator = " gives "

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        name = explained.stage.step_of_type(HiddenActivation).function
        first, *others = (
            explained.read_factor(read, *explained.index_in_stage) for read in explained.stage.reads
        )
        used = np.array([ACTIVATIONS[name](float(first.read[0]))])
        return combine_as_sum((replace(first, used=used, form=f"{name}({{}})"), *others))

    def cell_phrase(self, info: CellContext) -> str:
        return f"is {_activation_phrase(info.explanation.stage)}"

    def row_phrase(self, context: StepContext) -> str:
        return f"for {context.query_name}, {_activation_phrase(context.stage)}"

    def stage_phrase(self, context: StepContext) -> str:
        return f"each element is {_activation_phrase(context.stage)}"

    def formula(self, info: CellContext) -> str:
        stage = info.explanation.stage
        first, *others = (vector_noun(name) for name in stage.reads)
        return " × ".join([f"{stage.step_of_type(HiddenActivation).function}({first})", *others])

    def code_expression(self, context: StageCodeContext) -> str:
        return f"F.{context.spec.activation}({context.input_variables[0]})"


def _experts_phrase(trace: Trace, stage: Stage, layer: int, token: int) -> str:
    """List a token's experts, numbered from 1, with their router weights."""
    module = stage.step_of_type(ExpertMixture).modules[layer]
    numbers, weights = (
        trace.read(f"{module}.{name}", (token,)).tolist() for name in ("numbers", "router_weights")
    )
    named = [
        f"expert {number + 1} (× {format_number(weight)})"
        for number, weight in zip(numbers, weights, strict=True)
    ]
    if stage.step_of_type(ExpertMixture).has_shared:
        named.append("the shared expert")
    return join_names(named)


class ExpertMixtureExplainer(VectorExplainer):
    """Sum of the outputs of the experts that the router chose, each times its router weight.

    Source: Shazeer et al. 2017, "Outrageously Large Neural Networks: The Sparsely-Gated
    Mixture-of-Experts Layer"; Dai et al. 2024, "DeepSeekMoE" (experts that all tokens share).
    """

    operation = Operation.EXPERT_MIXTURE
    row_separator = "; the sum is "

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        step, (token, column) = (
            explained.stage.step_of_type(ExpertMixture),
            explained.index_in_stage,
        )
        module = step.modules[explained.layer]
        routed = (
            explained.read_weight(f"{module}.router_weights", token, None),
            explained.read_weight(f"{module}.results", token, None, column),
        )
        if not step.has_shared:
            return combine_as_sum(routed)
        return combine_as_sum(routed, (explained.read_weight(f"{module}.shared", token, column),))

    def cell_phrase(self, info: CellContext) -> str:
        stage, token = info.explanation.stage, info.cell.place[-2]
        experts = _experts_phrase(info.run.trace, stage, info.layer, token)
        return f"is the sum of the outputs of {experts}"

    def row_phrase(self, context: StepContext) -> str:
        experts = _experts_phrase(
            context.run.trace, context.stage, context.layer_index, context.row_index
        )
        return (
            f"the {vector_noun(context.first_input)} of "
            f"{context.query_name} is processed by {experts}"
        )

    def stage_phrase(self, context: StepContext) -> str:
        made = f"each {vector_noun(context.first_input)} is processed by the experts"
        return f"{made} that the router selects; their outputs, times the router weights, are added"

    def formula(self, info: CellContext) -> str:
        shared = " + shared output" * info.explanation.stage.step_of_type(ExpertMixture).has_shared
        return f"Σ router weight × expert output{shared}"


def _scale_factor_phrase(stage: Stage) -> str:
    step = stage.step_of_type(ScaledVector)
    return f"its column’s {step.name}" if step.is_by_column else format_trimmed_number(step.factor)


class ScaleVectorExplainer(VectorExplainer):
    """A vector multiplied by one factor per column or by a single factor.

    Source: Touvron et al. 2021, "Going deeper with Image Transformers" (LayerScale).
    """

    operation = Operation.SCALE_VECTOR
    row_separator = " gives "

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        step, (token, column) = explained.stage.step_of_type(ScaledVector), explained.index_in_stage
        own = explained.read_factor(explained.stage.reads[0], token, column)
        if not step.is_by_column:
            return combine_as_sum((own, constant(step.factor, format_trimmed_number(step.factor))))
        return combine_as_sum((own, explained.read_weight(step.modules[explained.layer], column)))

    def cell_phrase(self, info: CellContext) -> str:
        stage = info.explanation.stage
        return (
            f"is the same column of the {vector_noun(stage.reads[0])} "
            f"times {_scale_factor_phrase(stage)}"
        )

    def row_phrase(self, context: StepContext) -> str:
        read = f"the {vector_noun(context.first_input)} of {context.query_name}"
        return f"each element of {read} times {_scale_factor_phrase(context.stage)}"

    def stage_phrase(self, context: StepContext) -> str:
        read = vector_noun(context.first_input)
        return f"each element of the {read} is multiplied by {_scale_factor_phrase(context.stage)}"

    def formula(self, info: CellContext) -> str:
        return "number × factor"


EXPLAINERS: tuple[Explainer, ...] = (
    ResidualStreamExplainer(),
    ResidualAdditionExplainer(),
    NormLayerExplainer(),
    HiddenActivationExplainer(),
    ExpertMixtureExplainer(),
    ScaleVectorExplainer(),
)
