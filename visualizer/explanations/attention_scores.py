"""Explainers for attention scores: dot products, scale, bias, cap, and mask before the softmax."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.layer_operations import ScoreCap
from visualizer.attention.spec import MaskKind, ScaleKind
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_terms import (
    DIVISOR_FORM,
    EquationPart,
    EquationRightHandSide,
    EquationWriter,
    ExplainedCell,
    Explanation,
    Factor,
    TermCombination,
    combine_as_choice,
    combine_as_sum,
    combine_inputs_as_sum,
    constant,
    masked_equation,
)
from visualizer.explanations.explainer import Explainer
from visualizer.explanations.phrases import (
    NON_FINITE_PHRASE,
    allowed_keys_phrases,
    change_phrase,
    divisor_phrase,
    divisor_root,
    each_head_phrase,
    masked_cells_phrase,
    matrix_product_shapes,
)
from visualizer.explanations.step_context import (
    LargestValue,
    all_count_phrase,
    format_trimmed_number,
    other_count_phrase,
)
from visualizer.format import format_count, format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_context import CellContext
    from visualizer.explanations.code_dialects import StageCodeContext
    from visualizer.explanations.step_context import StepContext


class DotProductExplainer(Explainer):
    """Attention scores: the dot product of each query with each key."""

    operation = Operation.DOT_PRODUCT

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, key = explained.index_in_stage
        queries, keys = explained.stage.reads
        return combine_as_sum(
            (
                explained.read_factor(queries, head, query, None),
                explained.read_factor(keys, head, key, None),
            )
        )

    def explain_cell(self, info: CellContext) -> str:
        score = format_number(info.value)
        pair = (
            f"the query of {info.describe_token('query')} "
            f"and the key of {info.describe_token('key')}"
        )
        return f"The dot product of {pair} is {score}."

    def explain_row(self, context: StepContext) -> str:
        scores = context.read_row()
        count, top = len(scores), LargestValue.of(scores)
        at = context.row_index
        token = f"{context.bold_token(at)} (query {context.run.token_number(at, 'query')})"
        query = f"the query of {token}"
        if count == 1:
            own = ", its own" if context.run.has_same_keys else ""
            score = format_number(scores[0])
            return f"{query} is multiplied by the only key{own}: the score is {score}"
        meets = f"{query} is multiplied by {all_count_phrase(count, 'key')}"
        if top is None:
            return f"{meets}, but not every score is a finite number"
        if top.is_constant:
            return f"{meets}: {all_count_phrase(count, 'score')} are {format_number(top.value)}"
        key = f"{context.bold_token(top.at, 'key')} (key {top.at + 1})"
        alike = f" and {other_count_phrase(top.occurrences - 1)}" if top.is_tied else ""
        score = format_number(top.value)
        return f"{meets}: the largest score, {score}, is for {key}{alike}"

    def explain_stage(self, context: StepContext) -> str:
        top = LargestValue.of(context.read_matrix())
        meet = "each query is multiplied by each key"
        if top is None:
            return f"{meet}; not every score is finite"
        score = format_number(top.value)
        if top.is_constant:
            return f"{meet}; all {top.count:,} scores are {score}"
        largest = f"{meet}; the largest of {top.count:,} scores, {score},"
        if top.is_tied:
            return f"{largest} appears {top.occurrences:,} times"
        query, key = divmod(top.at, context.read_matrix().shape[1])
        return (
            f"{largest} is that of {context.token_name(query, 'query')} and {context.key_name(key)}"
        )

    def formula(self, info: CellContext) -> str:
        return "Σ query × key"

    def code_expression(self, context: StageCodeContext) -> str:
        return f"{context.input_variables[0]} @ {context.input_variables[1]}.transpose(-2, -1)"

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        return (matrix_product_shapes(tokens, spec.d_head, tokens) + each_head_phrase(spec),)

    def count_multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens * tokens * spec.concatenated_head_width


class ScaleScoresExplainer(Explainer):
    """Scores divided by a constant."""

    operation = Operation.SCALE_SCORES

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        divisor = explained.spec.divisor
        inverse = np.array([1 / divisor])
        constant = Factor("", (), np.array([divisor]), inverse, DIVISOR_FORM)
        return combine_as_sum(
            (explained.read_factor(explained.stage.reads[0], *explained.index_in_stage), constant)
        )

    def explain_cell(self, info: CellContext) -> str:
        divisor = format_trimmed_number(info.run.trace.spec.divisor)
        pair = f"{info.describe_token('query')} and {info.describe_token('key')}"
        score = format_number(float(info.explanation.groups[0].factors[0].read[0]))
        return f"The score of {pair}, {score}, divided by {divisor} is {format_number(info.value)}."

    def explain_row(self, context: StepContext) -> str:
        scores, scaled = context.read_row(context.first_input), context.read_row()
        one = len(scores) == 1
        divided = f"the score{' of' if one else 's of'} {context.query_name}"
        divided += f" {'is' if one else 'are'} divided by {divisor_phrase(context)}"
        top = LargestValue.of(scaled)
        if top is None:
            return f"{divided}, but not every result is a finite number"
        if context.spec.divisor == 1:
            score = f"the {'' if one else 'largest '}score of {context.query_name}"
            divided, which = f"dividing by {divisor_phrase(context)} changes nothing", score
        else:
            which = "it" if one else "the largest"
        return f"{divided}: {which} {change_phrase(scores[top.at], top.value)}"

    def explain_stage(self, context: StepContext) -> str:
        divided = f"every score is divided by {divisor_phrase(context)}"
        top = LargestValue.of(context.read_matrix())
        if top is None:
            return f"{divided}; {NON_FINITE_PHRASE}"
        score = float(context.read_matrix(context.first_input).flat[top.at])
        if context.spec.divisor == 1:
            divided = f"dividing by {divisor_phrase(context)} changes no score"
        return f"{divided}; the largest {change_phrase(score, top.value)}"

    def formula(self, info: CellContext) -> str:
        spec = info.run.trace.spec
        if spec.scale is ScaleKind.NONE:
            is_from_source = bool(info.run.source_display_name)
            divisor = format_trimmed_number(spec.divisor) if is_from_source else "temperature"
            return f"score ÷ {divisor}"
        return "score ÷ √d" if spec.temperature == 1 else "score ÷ (√d × temperature)"

    def code_expression(self, context: StageCodeContext) -> str:
        return f"{context.input_variables[0]} / {context.divisor_expression}"


class _ElementwiseScoreExplainer(Explainer):
    """Base class for steps that change each score individually."""

    @abstractmethod
    def row_phrase(self, context: StepContext, *, is_single: bool) -> str:
        """Describe the computation of a row of one or several scores, without its numbers."""

    @abstractmethod
    def stage_phrase(self, context: StepContext) -> str:
        """Describe the computation of a whole stage, without its numbers."""

    def explain_row(self, context: StepContext) -> str:
        before, after = context.read_row(context.first_input), context.read_row()
        is_single, top = len(after) == 1, LargestValue.of(after)
        made = self.row_phrase(context, is_single=is_single)
        if top is None:
            return f"{made}, but not every result is a finite number"
        subject = "the score" if is_single else "the largest"
        return f"{made}: {subject} {change_phrase(before[top.at], top.value)}"

    def explain_stage(self, context: StepContext) -> str:
        top, made = LargestValue.of(context.read_matrix()), self.stage_phrase(context)
        if top is None:
            return f"{made}; {NON_FINITE_PHRASE}"
        before = float(context.read_matrix(context.first_input).flat[top.at])
        return f"{made}; the largest {change_phrase(before, top.value)}"


class CapScoresExplainer(_ElementwiseScoreExplainer):
    """Soft-capped scores: limit·tanh(score/limit), as in Gemma 2.

    Source: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size".
    """

    operation = Operation.CAP_SCORES

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        limit = explained.stage.step_of_type(ScoreCap).limit
        score = explained.read_factor(explained.stage.reads[0], *explained.index_in_stage)
        bent = replace(
            score,
            used=np.tanh(score.read / limit),
            form=f"tanh({{}} ÷ {format_trimmed_number(limit)})",
        )
        return combine_as_sum((bent, constant(limit, format_trimmed_number(limit))))

    def explain_cell(self, info: CellContext) -> str:
        before = format_number(float(info.explanation.groups[0].factors[0].read[0]))
        limit = format_trimmed_number(info.explanation.stage.step_of_type(ScoreCap).limit)
        pair = f"{info.describe_token('query')} and {info.describe_token('key')}"
        within = f"capped at ±{limit}, is {format_number(info.value)}"
        return f"The score of {pair}, {before}, {within}."

    def row_phrase(self, context: StepContext, *, is_single: bool) -> str:
        scores = "the score" if is_single else "the scores"
        capped = f"{'is' if is_single else 'are'} capped at {self._cap_range(context)}"
        return f"{scores} of {context.query_name} {capped}"

    def stage_phrase(self, context: StepContext) -> str:
        return f"every score is capped at {self._cap_range(context)}"

    def _cap_range(self, context: StepContext) -> str:
        return f"±{format_trimmed_number(context.stage.step_of_type(ScoreCap).limit)}"

    def formula(self, info: CellContext) -> str:
        limit = format_trimmed_number(info.explanation.stage.step_of_type(ScoreCap).limit)
        return f"tanh(score ÷ {limit}) × {limit}"


class AlibiExplainer(Explainer):
    """Linear biases (ALiBi): minus the distance between query and key times the head's slope.

    Source: Press et al. 2022, "Train Short, Test Long", §3.
    """

    operation = Operation.LINEAR_BIAS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, key = explained.index_in_stage
        slope, distance = explained.spec.alibi_slopes[head], abs(query - key)
        shown_slope = f"−{format_trimmed_number(slope)}"
        return combine_as_sum((constant(-slope, shown_slope), constant(distance, f"{distance:,}")))

    def explain_cell(self, info: CellContext) -> str:
        slope = format_trimmed_number(
            info.run.trace.spec.alibi_slopes[info.position_by_axis["head"]]
        )
        distance = format_count(
            abs(info.position_by_axis["query"] - info.position_by_axis["key"]), "position"
        )
        pair = f"{info.describe_token('query')} and {info.describe_token('key')}"
        bias = f"minus the slope, {slope}, times the distance, {distance}"
        return f"The bias of {pair}{info.head_phrase} is {bias}: {format_number(info.value)}."

    def explain_row(self, context: StepContext) -> str:
        return f"{context.query_name} has a bias for each key: {self._bias_rule_phrase(context)}"

    def explain_stage(self, context: StepContext) -> str:
        lowest = format_number(float(context.read_matrix().min()))
        return f"each score has a bias: {self._bias_rule_phrase(context)}; the lowest is {lowest}"

    def _bias_rule_phrase(self, context: StepContext) -> str:
        slope = format_trimmed_number(context.spec.alibi_slopes[context.head])
        return f"minus the distance in positions times the slope of this head, {slope}"

    def formula(self, info: CellContext) -> str:
        return "−slope × distance"

    def code_expression(self, context: StageCodeContext) -> str:
        return "-slopes * (positions[:, None] - positions).abs()"

    def helper_definitions(self, context: StageCodeContext) -> dict[str, str]:
        slopes = ", ".join(map(repr, context.spec.alibi_slopes))
        made = f"torch.tensor([{slopes}], dtype={context.x}.dtype)[:, None, None]"
        return {
            "slopes": f"slopes = {made}",
            "positions": f"positions = torch.arange({context.identifiers.tokens})",
        }


class AddScoreBiasExplainer(_ElementwiseScoreExplainer):
    """Biases added to the scores: linear biases (ALiBi), or biases from a model such as T5.

    Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning", §2.1.
    """

    operation = Operation.ADD_SCORE_BIAS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        return combine_inputs_as_sum(explained)

    def explain_cell(self, info: CellContext) -> str:
        score, bias = (
            format_number(float(group.factors[0].read[0])) for group in info.explanation.groups
        )
        pair, total = (
            f"{info.describe_token('query')} and {info.describe_token('key')}",
            format_number(info.value),
        )
        return f"The score of {pair}, {score}, and its bias, {bias}, add up to {total}."

    def row_phrase(self, context: StepContext, *, is_single: bool) -> str:
        if is_single:
            return f"its bias is added to the score of {context.query_name}"
        return f"biases are added to the scores of {context.query_name}"

    def stage_phrase(self, context: StepContext) -> str:
        return "a bias is added to every score"

    def formula(self, info: CellContext) -> str:
        return "score + bias"

    def code_expression(self, context: StageCodeContext) -> str:
        return " + ".join(context.input_variables)


def _write_allowed_score(writer: EquationWriter) -> EquationRightHandSide | None:
    """Write an allowed score as its dot product and scaling; None if there are other steps."""
    trace, cell = writer.trace, writer.explanation.cell
    leading = cell[: len(trace.axes)]
    scaled = trace.stage_in_layer(writer.explanation.stage.reads[0], leading)
    is_scaled = scaled.operation is Operation.SCALE_SCORES
    scores = trace.stage_in_layer(scaled.reads[0], leading) if is_scaled else scaled
    if scores.operation is not Operation.DOT_PRODUCT:
        return None
    terms = DotProductExplainer().build_terms(ExplainedCell(trace, scores, cell))
    value = float(terms.groups[0].products.sum())
    products = EquationWriter(
        trace, Explanation(scores, cell, terms.rule, terms.groups, value), writer.most
    )
    parts = products.write_sum(omit_zeros=False)
    if is_scaled:
        if len(products.explanation.terms) > 1:
            parts = [EquationPart("("), *parts, EquationPart(")")]
        root = divisor_root(trace.spec) if trace.spec.temperature == 1 else ""
        parts.append(EquationPart(f" ÷ {root or format_trimmed_number(trace.spec.divisor)}"))
    return EquationRightHandSide(parts, remark=", allowed")


class MaskBeforeSoftmaxExplainer(Explainer):
    """The mask before the softmax: forbidden scores become −∞."""

    operation = Operation.MASK_BEFORE_SOFTMAX

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        return combine_as_choice(explained, -np.inf, "−∞")

    def explain_cell(self, info: CellContext) -> str:
        if info.is_forbidden:
            pair = f"{info.describe_token('query')} may not attend to {info.describe_token('key')}"
            return f"{pair}: their score becomes −∞, so their weight will be 0."
        return (
            f"{info.describe_token('query')} may attend to "
            f"{info.describe_token('key')}: the score is unchanged."
        )

    def explain_row(self, context: StepContext) -> str:
        may, rest = allowed_keys_phrases(context)
        is_one = not rest.endswith("s")
        if not rest:
            is_single = len(context.allowed_keys()) == 1
            return f"{may}: {'its score' if is_single else 'every score'} is unchanged"
        becomes = "becomes −∞" if is_one else "become −∞"
        if context.masking.mask is MaskKind.NONE and rest.startswith("the other"):
            is_padding = "is padding, and its score" if is_one else "are padding, and their scores"
            rest = rest.replace(" {}s", "").replace(" {}", "")
            return f"{may}: {rest} {is_padding} {becomes}"
        return f"{may}: {rest.format('score')} {becomes}"

    def explain_stage(self, context: StepContext) -> str:
        return masked_cells_phrase(context, "score", "becomes −∞", "become −∞")

    def formula(self, info: CellContext) -> str:
        return "the score if allowed, otherwise −∞"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        is_allowed = writer.explanation.chosen == 0
        return (_write_allowed_score(writer) if is_allowed else None) or masked_equation(writer)

    def code_expression(self, context: StageCodeContext) -> str:
        infinity = context.identifiers.infinity
        return (
            f"{context.input_variables[0]}"
            f".masked_fill({context.forbidden_expression()}, {infinity})"
        )


EXPLAINERS: tuple[Explainer, ...] = (
    DotProductExplainer(),
    ScaleScoresExplainer(),
    CapScoresExplainer(),
    AlibiExplainer(),
    AddScoreBiasExplainer(),
    MaskBeforeSoftmaxExplainer(),
)
