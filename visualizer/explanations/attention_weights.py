"""Explainers for attention weights: softmax and its variants, the mask after it, and dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.layer_operations import SinkSoftmax
from visualizer.attention.masks import MaskingSpec
from visualizer.attention.spec import MaskKind, NormalisationKind
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_terms import (
    CombinationRule,
    EquationPart,
    EquationRightHandSide,
    ExplainedCell,
    Factor,
    TermCombination,
    TermGroup,
    combine_as_choice,
    constant,
    empty_row_equation,
    masked_equation,
    replacement_equation,
    share_equation,
)
from visualizer.explanations.explainer import AttentionWeightsExplainer, Explainer
from visualizer.explanations.phrases import (
    MASKED_ROW_PHRASE,
    WEIGHTS_PHRASE,
    allowed_keys_phrases,
    attention_weight_sentence,
    dropout_factor_phrase,
    empty_rows_phrase,
    largest_weights_phrase,
    masked_cells_phrase,
    most_attended_key_phrase,
    no_allowed_keys_sentence,
    softmax_name,
)
from visualizer.explanations.step_context import (
    all_count_phrase,
    format_trimmed_number,
    sum_rows,
)
from visualizer.format import format_number, format_percentage

if TYPE_CHECKING:
    from visualizer.explanations.cell_context import CellContext
    from visualizer.explanations.cell_terms import EquationWriter, Explanation
    from visualizer.explanations.code_dialects import StageCodeContext
    from visualizer.explanations.step_context import StepContext


MAX_PLAIN_EXPONENT = 5.0
"""Maximum magnitude of a row's largest score for which nothing is subtracted from the scores.
Their exponentials, which are at most 148, are easy to read, and the weights are the same."""


def shifted_exponentials(row: Factor, largest: float) -> Factor:
    """Return the exponentials of scores, after subtracting the largest score if it is large.

    Parameters
    ----------
    largest : float
        The largest score of the row. The module always subtracts it to prevent an overflow; this
        does not change the weights.
    """
    shift = 0.0 if abs(largest) <= MAX_PLAIN_EXPONENT else largest
    with np.errstate(invalid="ignore"):
        used = np.exp(row.read - shift)
    return replace(row, used=used, form="exp({})", shift=shift)


def _naive_exponentials(explained: ExplainedCell, row: Factor) -> Factor:
    dtype = explained.trace.read(row.name, explained.cell).dtype
    with np.errstate(over="ignore"):  # overflows exactly where the trace's dtype does
        used = np.exp(row.read).astype(dtype)
    return replace(row, used=used, form="exp({})")


class ScoresToWeightsExplainer(AttentionWeightsExplainer):
    """Attention weights computed from scores, by softmax or by dividing by the row sum."""

    operation = Operation.SCORES_TO_WEIGHTS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, key = explained.index_in_stage
        row = explained.read_factor(explained.stage.reads[0], head, query, None)
        if explained.spec.normalisation is NormalisationKind.SUM:
            return TermCombination(CombinationRule.SHARE, (TermGroup((row,)),), key)
        is_empty = explained.stage.has_masked_input and not explained.allowed_keys().any()
        if explained.spec.normalisation is NormalisationKind.SOFTMAX:
            largest = 0.0 if row.read.max() == -np.inf else float(row.read.max())
            shares = shifted_exponentials(row, largest)
        else:
            shares = _naive_exponentials(explained, row)
        return TermCombination(CombinationRule.SHARE, (TermGroup((shares,)),), key, is_empty)

    def explain_row(self, context: StepContext) -> str:
        weights = context.read_row()
        if context.stage.has_masked_input and not context.allowed_keys().any():
            return no_allowed_keys_sentence(context)
        if not np.isfinite(weights).all():
            return (
                f"{context.qualifier}{context.query_name} "
                "has no weights: its row cannot be computed"
            )
        if context.spec.normalisation is NormalisationKind.SUM:
            total = format_trimmed_number(float(context.read_row(context.first_input).sum()))
            shared = f"each score of {context.query_name} is divided by the row’s sum, {total}"
        elif len(weights) == 1:
            made = (
                f"{softmax_name(context.spec)} divides the exponential of the only score "
                f"of {context.query_name}"
            )
            shared = f"{made} by itself, which gives 1"
        else:
            shares = f"the scores of {context.query_name} into {WEIGHTS_PHRASE}"
            shared = f"{softmax_name(context.spec)} turns {shares}"
        return f"{context.qualifier}{shared}: {largest_weights_phrase(context, weights)}"

    def explain_stage(self, context: StepContext) -> str:
        if context.stage.has_masked_input and not context.allowed_cells().any():
            return MASKED_ROW_PHRASE
        made = f"{softmax_name(context.spec)} turns each row of scores into {WEIGHTS_PHRASE}"
        if context.spec.normalisation is NormalisationKind.SUM:
            made = "each score is divided by its row’s sum"
        empty = empty_rows_phrase(context.allowed_cells()) if context.stage.has_masked_input else ""
        return f"{context.qualifier}{made}{empty or '; ' + most_attended_key_phrase(context)}"

    def formula(self, info: CellContext) -> str:
        normalisation = info.run.trace.spec.normalisation
        score = info.run.trace.stage(info.explanation.stage.reads[0]).number_noun
        if normalisation is NormalisationKind.SUM:
            return f"{score} ÷ Σ {score}"
        shift = info.explanation.groups[0].factors[0].shift
        is_plain = normalisation is NormalisationKind.NAIVE_SOFTMAX or info.explanation.is_empty
        if is_plain or not shift:
            return f"exp({score}) ÷ Σ exp({score})"
        return f"exp({score} − max) ÷ Σ exp({score} − max), with max = {format_number(shift)}"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        return share_equation(writer)

    def code_expression(self, context: StageCodeContext) -> str:
        x = context.input_variables[0]
        if context.spec.normalisation is NormalisationKind.SUM:
            return f"{x} / {x}.sum(dim=-1, keepdim=True)"
        rest = context.zero_empty_rows_code() if context.stage.has_masked_input else ""
        if context.spec.normalisation is NormalisationKind.SOFTMAX:
            return f"{context.identifiers.softmax}({x}, dim=-1){rest}"
        shares = f"torch.exp({x}) / torch.exp({x}).sum(dim=-1, keepdim=True)"
        return f"({shares}){rest}" if rest else shares


def _format_sink_share(terms: TermCombination | Explanation) -> str:
    """Format the fraction of a row's weight that goes to the sink, computed from the logits."""
    scores, sink = (group.products for group in terms.groups)
    return format_percentage(float(sink[0] / (scores.sum() + sink[0])))


class SoftmaxWithSinkExplainer(Explainer):
    """Softmax with a sink: the softmax of each row includes a logit that belongs to the head.

    Source: OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card"; Xiao et al. 2023, "Efficient
    Streaming Language Models with Attention Sinks".
    """

    operation = Operation.SOFTMAX_WITH_SINK

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, key = explained.index_in_stage
        row = explained.read_factor(explained.stage.reads[0], head, query, None)
        sink = explained.read_weight(
            explained.stage.step_of_type(SinkSoftmax).logits, explained.layer, head
        )
        largest = float(max(row.read.max(), sink.read.max()))
        groups = (
            TermGroup((shifted_exponentials(row, largest),)),
            TermGroup((shifted_exponentials(sink, largest),)),
        )
        return TermCombination(CombinationRule.SHARE, groups, key)

    def explain_cell(self, info: CellContext) -> str:
        if info.is_forbidden or not np.isfinite(info.value):
            return attention_weight_sentence(info)
        taken = _format_sink_share(info.explanation)
        return f"{attention_weight_sentence(info)} The sink{info.head_phrase} receives {taken}."

    def explain_row(self, context: StepContext) -> str:
        weights = context.read_row()
        if not np.isfinite(weights).all():
            return f"{context.query_name} has no weights: its row cannot be computed"
        made = (
            f"softmax turns the scores of {context.query_name} and the sink into {WEIGHTS_PHRASE}"
        )
        if not weights.any():
            return f"{made}: the sink receives everything"
        index = (*context.leading, context.head, context.row_index, 0)
        taken = _format_sink_share(
            self.build_terms(ExplainedCell(context.run.trace, context.stage, index))
        )
        largest = largest_weights_phrase(context, weights)
        return f"{made}: {largest}, and the sink receives {taken}"

    def explain_stage(self, context: StepContext) -> str:
        made = f"softmax turns each row of scores and the sink into {WEIGHTS_PHRASE}"
        rows = context.read_matrix().sum(-1, dtype=np.float64)
        if not np.isfinite(rows).all():
            return f"{made}; {most_attended_key_phrase(context)}"
        taken = format_percentage(max(0.0, 1 - float(rows.mean())))
        return f"{made}; {most_attended_key_phrase(context)}, and the sink receives {taken}"

    def formula(self, info: CellContext) -> str:
        return "exp(score) ÷ (Σ exp(score) + exp(sink))"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        return share_equation(writer)


def _counted_keys_phrase(info: CellContext) -> str:
    masking = MaskingSpec.from_spec(info.run.trace.spec, info.cell.stage)
    if masking.mask is not MaskKind.NONE:
        return "allowed keys"
    return "keys except padding" if masking.lengths else "keys"


class EqualWeightsExplainer(AttentionWeightsExplainer):
    """Equal weights for all allowed keys."""

    operation = Operation.EQUAL_WEIGHTS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        cells = explained.allowed_keys().astype(np.float64)
        group = TermGroup((Factor("", (), cells, cells),))
        return TermCombination(
            CombinationRule.SHARE, (group,), explained.index_in_stage[-1], not cells.any()
        )

    def explain_row(self, context: StepContext) -> str:
        weights = context.read_row()
        keys = np.flatnonzero(weights)
        if len(keys) == 0:
            return no_allowed_keys_sentence(context)
        attends = (
            f"{context.qualifier}{context.query_name} "
            f"{'would attend' if context.is_before_mask else 'attends'}"
        )
        weight = f"with weight {format_percentage(float(weights[keys[0]]))}"
        if len(keys) == 1:
            return f"{attends} only to {context.key_name(int(keys[0]))}, {weight}"
        if len(keys) == len(weights):
            return f"{attends} equally to {all_count_phrase(len(keys), 'key')}, {weight}"
        return f"{attends} equally to {len(keys):,} of {len(weights):,} keys, {weight}"

    def explain_stage(self, context: StepContext) -> str:
        allowed = context.allowed_cells()
        count = context.query_count
        who = f"each of {count:,} tokens" if count > 1 else "the only token"
        each = f"{context.qualifier}{who} {'would attend' if context.is_before_mask else 'attends'}"
        if not allowed.any():
            return MASKED_ROW_PHRASE
        if allowed.all():
            return (
                f"{each} equally to all keys, with weight "
                f"{format_percentage(1 / context.token_count)}"
            )
        some = f"{each} equally to its allowed keys"
        return some + (empty_rows_phrase(allowed) or f"; {most_attended_key_phrase(context)}")

    def formula(self, info: CellContext) -> str:
        return f"1 ÷ number of {_counted_keys_phrase(info)}"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        explanation = writer.explanation
        if explanation.is_empty:
            return empty_row_equation()
        chosen = format_trimmed_number(float(explanation.terms[explanation.chosen]))
        return EquationRightHandSide([EquationPart(f"{chosen} ÷ {int(explanation.terms.sum()):,}")])

    def code_expression(self, context: StageCodeContext) -> str:
        tokens = context.identifiers.tokens
        if not context.mask_variables():
            sizes = f"(*{context.identifiers.batch}, {context.spec.heads}, {tokens}, {tokens})"
            return f"torch.full({sizes}, 1 / {tokens}, dtype={context.x}.dtype)"
        least = ".clamp(min=1)" if context.may_have_empty_rows() else ""
        return f"readable / readable.sum(dim=-1, keepdim=True){least}"


class MaskAfterSoftmaxExplainer(AttentionWeightsExplainer):
    """The mask after the softmax: forbidden weights become 0."""

    operation = Operation.MASK_AFTER_SOFTMAX

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        return combine_as_choice(explained, 0.0, "0")

    def explain_row(self, context: StepContext) -> str:
        may, rest = allowed_keys_phrases(context)
        weights = context.read_row()
        total = format_trimmed_number(float(sum_rows(weights)))
        sums = (
            f"the row now sums to {total}"
            if np.isfinite(weights).all()
            else "the row sum is not finite"
        )
        if not rest:
            stays = "its weight is" if context.token_count == 1 else "every weight is"
            return (
                f"{may}: {stays} unchanged" if np.isfinite(weights).all() else f"{may}, but {sums}"
            )
        becomes = f"{rest.format('weight')} {'are' if rest.endswith('s') else 'is'} set to 0"
        return f"{may}: {becomes}" if not weights.any() else f"{may}: {becomes}, and {sums}"

    def explain_stage(self, context: StepContext) -> str:
        return masked_cells_phrase(context, "weight", "is set to 0", "are set to 0")

    def formula(self, info: CellContext) -> str:
        return "the weight if allowed, otherwise 0"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        return masked_equation(writer)

    def code_expression(self, context: StageCodeContext) -> str:
        return f"{context.input_variables[0]}.masked_fill({context.forbidden_expression()}, 0)"


class RenormaliseMaskedWeightsExplainer(AttentionWeightsExplainer):
    """Masked weights, renormalized so that each row sums to 1."""

    operation = Operation.RENORMALISE_MASKED_WEIGHTS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, key = explained.index_in_stage
        row = explained.read_factor(explained.stage.reads[0], head, query, None)
        return TermCombination(CombinationRule.SHARE, (TermGroup((row,)),), key, not row.read.any())

    def explain_row(self, context: StepContext) -> str:
        weights, zeroed = context.read_row(), context.read_row(context.first_input)
        if not context.allowed_keys().any():
            return no_allowed_keys_sentence(context)
        if not np.isfinite(weights).all():
            return f"{context.query_name} has no weights: its row cannot be computed"
        if not zeroed.any():
            return f"the weights of {context.query_name} are all 0, so they cannot be normalized"
        total = format_trimmed_number(float(zeroed.sum()))
        divided = (
            f"{context.qualifier}the weights of {context.query_name} "
            f"are divided by their sum, {total}"
        )
        return f"{divided}: {largest_weights_phrase(context, weights)}"

    def explain_stage(self, context: StepContext) -> str:
        zeroed = context.read_matrix(context.first_input)
        if not zeroed.any():
            return "all weights are 0, so they cannot be normalized"
        divided = f"{context.qualifier}each row is divided by its sum"
        return divided + (empty_rows_phrase(zeroed) or f"; {most_attended_key_phrase(context)}")

    def formula(self, info: CellContext) -> str:
        return "weight ÷ Σ weight"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        return share_equation(writer)

    def code_expression(self, context: StageCodeContext) -> str:
        zeroed = context.input_variables[0]
        # A row of zeros cannot be normalized.
        sums = f"{zeroed}.sum(dim=-1, keepdim=True)"
        return f"{zeroed} / {sums}.where({zeroed}.any(dim=-1, keepdim=True), 1)"


class DropoutExplainer(Explainer):
    """Dropout: some weights become 0, and the others are scaled up."""

    operation = Operation.DROPOUT

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        weight = explained.read_factor(explained.stage.reads[0], *explained.index_in_stage)
        factor = 1 / (1 - explained.spec.dropout)
        scaled = constant(factor, f"1/(1 − {explained.spec.dropout:g})")
        value = float(explained.trace.read(explained.stage.name, explained.cell))
        dropped = value == 0 and weight.read[0] != 0
        groups = (TermGroup((weight, scaled)), TermGroup((constant(0.0, "0"),)))
        return TermCombination(CombinationRule.CHOICE, groups, int(dropped))

    def explain_cell(self, info: CellContext) -> str:
        weight = f"the weight of {info.describe_token('query')} for {info.describe_token('key')}"
        before = info.explanation.groups[0].factors[0].read[0]
        if before == 0:
            return f"There is nothing to drop: {weight} is 0."
        if info.value == 0:
            return f"Dropout drops {weight}: {format_number(before)} becomes 0."
        factor = 1 / (1 - info.run.trace.spec.dropout)
        times = f"{format_number(before)} times {factor:.4g} is {format_number(info.value)}"
        return f"Dropout keeps {weight}: {times}."

    def explain_row(self, context: StepContext) -> str:
        weights, dropped = context.read_row(context.first_input), context.read_row()
        count = int(np.count_nonzero(weights))
        lost = int(((weights != 0) & (dropped == 0)).sum())
        if count == 0:
            return f"{context.query_name} has no nonzero weights to drop: its row stays 0"
        kind = "weight" if count == context.allowed_keys().sum() else "nonzero weight"
        total = float(sum_rows(dropped))
        sums = (
            f"the row now sums to {format_trimmed_number(total)}"
            if np.isfinite(total)
            else "the row sum is not finite"
        )
        if lost == count:
            return f"dropout drops {all_count_phrase(count, kind)} of {context.query_name}"
        kept = dropout_factor_phrase(context.spec)
        if lost == 0:
            each = "it" if count == 1 else "each"
            return (
                f"dropout keeps {all_count_phrase(count, kind)} of {context.query_name}; {each} "
                f"{kept}, and {sums}"
            )
        takes = f"dropout drops {lost:,} of the {count:,} {kind}s of {context.query_name}"
        return f"{takes}; the rest {kept}, and {sums}"

    def explain_stage(self, context: StepContext) -> str:
        weights, dropped = context.read_matrix(context.first_input), context.read_matrix()
        count = int(np.count_nonzero(weights))
        lost = int(((weights != 0) & (dropped == 0)).sum())
        if count == 0:
            return "the matrix has no nonzero weights to drop: all stay 0"
        sums = sum_rows(dropped)
        low, high = (
            format_trimmed_number(float(sums.min())),
            format_trimmed_number(float(sums.max())),
        )
        lie = f"row sums are now between {low} and {high}"
        run = f"every row now sums to {low}" if low == high else lie
        run = run if np.isfinite(sums).all() else "not every row sum is finite"
        kind = "weight" if count == context.allowed_cells().sum() else "nonzero weight"
        if lost == count:
            return f"dropout drops {all_count_phrase(count, kind)}"
        kept = dropout_factor_phrase(context.spec)
        if lost == 0:
            each = "it" if count == 1 else "each"
            return f"dropout keeps {all_count_phrase(count, kind)}; {each} {kept}, and {run}"
        return f"dropout drops {lost:,} of the {count:,} {kind}s; the rest {kept}, and {run}"

    def formula(self, info: CellContext) -> str:
        return "weight ÷ (1 − rate) if kept, otherwise 0"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        if writer.explanation.chosen == 0:
            return EquationRightHandSide(writer.write_term(0, is_first=True))
        return replacement_equation(writer, "because it is dropped")

    def code_expression(self, context: StageCodeContext) -> str:
        return (
            f"({context.input_variables[0]} / (1 - "
            f"{float(context.spec.dropout)!r})).where(kept, 0.0)"
        )


EXPLAINERS: tuple[Explainer, ...] = (
    ScoresToWeightsExplainer(),
    SoftmaxWithSinkExplainer(),
    EqualWeightsExplainer(),
    MaskAfterSoftmaxExplainer(),
    RenormaliseMaskedWeightsExplainer(),
    DropoutExplainer(),
)
