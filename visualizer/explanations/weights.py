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
    ExplainedCell,
    Factor,
    RightHandSide,
    TermCombination,
    TermGroup,
    choice_terms,
    constant,
    empty_row_equation,
    masked_equation,
    replacement_equation,
    share_equation,
)
from visualizer.explanations.explainer import Explainer, WeightsExplainer
from visualizer.explanations.phrases import (
    MASKED_ROW_PHRASE,
    WEIGHTS_PHRASE,
    allowed_keys_phrases,
    dropout_factor_phrase,
    empty_rows_phrase,
    largest_weights_phrase,
    masked_cells_phrase,
    most_attended_token,
    no_allowed_keys_sentence,
    softmax_name,
    weights_sentence,
)
from visualizer.explanations.step_context import (
    all_count_phrase,
    format_trimmed,
    row_sums,
)
from visualizer.format import format_number, format_share

if TYPE_CHECKING:
    from visualizer.explanations.cell_context import CellContext
    from visualizer.explanations.cell_terms import EquationWriter, Explanation
    from visualizer.explanations.code_dialects import ExpressionContext
    from visualizer.explanations.step_context import StepContext


MAX_PLAIN_EXPONENT = 5.0
"""Maximum magnitude of a row's largest score for which nothing is subtracted from the scores.
Their exponentials, which are at most 148, are easy to read, and the weights are the same."""


def exponential_factors(row: Factor, largest: float) -> Factor:
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


class ScoresToWeightsExplainer(WeightsExplainer):
    """Attention weights computed from scores, by softmax or by dividing by the row sum."""

    operation = Operation.SCORES_TO_WEIGHTS

    def terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, key = explained.place
        row = explained.factor(explained.stage.reads[0], head, query, None)
        if explained.spec.normalisation is NormalisationKind.SUM:
            return TermCombination(CombinationRule.SHARE, (TermGroup((row,)),), key)
        is_empty = explained.stage.has_masked_input and not explained.allowed().any()
        if explained.spec.normalisation is NormalisationKind.SOFTMAX:
            largest = 0.0 if row.read.max() == -np.inf else float(row.read.max())
            shares = exponential_factors(row, largest)
        else:
            shares = _naive_exponentials(explained, row)
        return TermCombination(CombinationRule.SHARE, (TermGroup((shares,)),), key, is_empty)

    def row_sentence(self, context: StepContext) -> str:
        weights = context.row()
        if context.stage.has_masked_input and not context.allowed_row().any():
            return no_allowed_keys_sentence(context)
        if not np.isfinite(weights).all():
            return f"{context.qualifier}{context.query} has no weights: its row cannot be computed"
        if context.spec.normalisation is NormalisationKind.SUM:
            total = format_trimmed(float(context.row(context.first_input).sum()))
            shared = f"each score of {context.query} is divided by the row’s sum, {total}"
        elif len(weights) == 1:
            made = (
                f"{softmax_name(context.spec)} divides the exponential of the only score "
                f"of {context.query}"
            )
            shared = f"{made} by itself, which gives 1"
        else:
            shares = f"the scores of {context.query} into {WEIGHTS_PHRASE}"
            shared = f"{softmax_name(context.spec)} turns {shares}"
        return f"{context.qualifier}{shared}: {largest_weights_phrase(context, weights)}"

    def stage_sentence(self, context: StepContext) -> str:
        if context.stage.has_masked_input and not context.allowed().any():
            return MASKED_ROW_PHRASE
        made = f"{softmax_name(context.spec)} turns each row of scores into {WEIGHTS_PHRASE}"
        if context.spec.normalisation is NormalisationKind.SUM:
            made = "each score is divided by its row’s sum"
        empty = empty_rows_phrase(context.allowed()) if context.stage.has_masked_input else ""
        return f"{context.qualifier}{made}{empty or '; ' + most_attended_token(context)}"

    def formula(self, info: CellContext) -> str:
        normalisation = info.run.trace.spec.normalisation
        if normalisation is NormalisationKind.SUM:
            return "score ÷ Σ score"
        shift = info.explanation.groups[0].factors[0].shift
        is_plain = normalisation is NormalisationKind.NAIVE_SOFTMAX or info.explanation.is_empty
        if is_plain or not shift:
            return "exp(score) ÷ Σ exp(score)"
        return f"exp(score − max) ÷ Σ exp(score − max), with max = {format_number(shift)}"

    def equation(self, writer: EquationWriter) -> RightHandSide:
        return share_equation(writer)

    def code(self, context: ExpressionContext) -> str:
        x = context.inputs[0]
        if context.spec.normalisation is NormalisationKind.SUM:
            return f"{x} / {x}.sum(dim=-1, keepdim=True)"
        rest = context.zero_empty_rows() if context.stage.has_masked_input else ""
        if context.spec.normalisation is NormalisationKind.SOFTMAX:
            return f"{context.identifiers.softmax}({x}, dim=-1){rest}"
        shares = f"torch.exp({x}) / torch.exp({x}).sum(dim=-1, keepdim=True)"
        return f"({shares}){rest}" if rest else shares


def _sink_share(terms: TermCombination | Explanation) -> str:
    """Format the fraction of a row's weight that goes to the sink, computed from the logits."""
    scores, sink = (group.terms for group in terms.groups)
    return format_share(float(sink[0] / (scores.sum() + sink[0])))


class SoftmaxWithSinkExplainer(Explainer):
    """Softmax with a sink: the softmax of each row includes a logit that belongs to the head.

    Source: OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card"; Xiao et al. 2023, "Efficient
    Streaming Language Models with Attention Sinks".
    """

    operation = Operation.SOFTMAX_WITH_SINK

    def terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, key = explained.place
        row = explained.factor(explained.stage.reads[0], head, query, None)
        sink = explained.weight(
            explained.stage.layer_step(SinkSoftmax).logits, explained.layer, head
        )
        largest = float(max(row.read.max(), sink.read.max()))
        groups = (
            TermGroup((exponential_factors(row, largest),)),
            TermGroup((exponential_factors(sink, largest),)),
        )
        return TermCombination(CombinationRule.SHARE, groups, key)

    def explain_cell(self, info: CellContext) -> str:
        if info.is_forbidden or not np.isfinite(info.value):
            return weights_sentence(info)
        taken = _sink_share(info.explanation)
        return f"{weights_sentence(info)} The sink{info.head_phrase} receives {taken}."

    def row_sentence(self, context: StepContext) -> str:
        weights = context.row()
        if not np.isfinite(weights).all():
            return f"{context.query} has no weights: its row cannot be computed"
        made = f"softmax turns the scores of {context.query} and the sink into {WEIGHTS_PHRASE}"
        if not weights.any():
            return f"{made}: the sink receives everything"
        index = (*context.leading, context.head, context.row_index, 0)
        taken = _sink_share(self.terms(ExplainedCell(context.run.trace, context.stage, index)))
        largest = largest_weights_phrase(context, weights)
        return f"{made}: {largest}, and the sink receives {taken}"

    def stage_sentence(self, context: StepContext) -> str:
        made = f"softmax turns each row of scores and the sink into {WEIGHTS_PHRASE}"
        rows = context.matrix().sum(-1, dtype=np.float64)
        if not np.isfinite(rows).all():
            return f"{made}; {most_attended_token(context)}"
        taken = format_share(max(0.0, 1 - float(rows.mean())))
        return f"{made}; {most_attended_token(context)}, and the sink receives {taken}"

    def formula(self, info: CellContext) -> str:
        return "exp(score) ÷ (Σ exp(score) + exp(sink))"

    def equation(self, writer: EquationWriter) -> RightHandSide:
        return share_equation(writer)


def _counted_keys(info: CellContext) -> str:
    masking = MaskingSpec.of(info.run.trace.spec, info.cell.stage)
    if masking.mask is not MaskKind.NONE:
        return "allowed keys"
    return "keys except padding" if masking.lengths else "keys"


class EqualWeightsExplainer(WeightsExplainer):
    """Equal weights for all allowed keys."""

    operation = Operation.EQUAL_WEIGHTS

    def terms(self, explained: ExplainedCell) -> TermCombination:
        cells = explained.allowed().astype(np.float64)
        group = TermGroup((Factor("", (), cells, cells),))
        return TermCombination(
            CombinationRule.SHARE, (group,), explained.place[-1], not cells.any()
        )

    def row_sentence(self, context: StepContext) -> str:
        weights = context.row()
        keys = np.flatnonzero(weights)
        if len(keys) == 0:
            return no_allowed_keys_sentence(context)
        attends = (
            f"{context.qualifier}{context.query} "
            f"{'would attend' if context.is_before_mask else 'attends'}"
        )
        weight = f"with weight {format_share(float(weights[keys[0]]))}"
        if len(keys) == 1:
            return f"{attends} only to {context.key(int(keys[0]))}, {weight}"
        if len(keys) == len(weights):
            return f"{attends} equally to {all_count_phrase(len(keys), 'key')}, {weight}"
        return f"{attends} equally to {len(keys):,} of {len(weights):,} keys, {weight}"

    def stage_sentence(self, context: StepContext) -> str:
        allowed = context.allowed()
        count = context.query_count
        who = f"each of {count:,} tokens" if count > 1 else "the only token"
        each = f"{context.qualifier}{who} {'would attend' if context.is_before_mask else 'attends'}"
        if not allowed.any():
            return MASKED_ROW_PHRASE
        if allowed.all():
            return (
                f"{each} equally to all keys, with weight {format_share(1 / context.token_count)}"
            )
        some = f"{each} equally to its allowed keys"
        return some + (empty_rows_phrase(allowed) or f"; {most_attended_token(context)}")

    def formula(self, info: CellContext) -> str:
        return f"1 ÷ number of {_counted_keys(info)}"

    def equation(self, writer: EquationWriter) -> RightHandSide:
        explanation = writer.explanation
        if explanation.is_empty:
            return empty_row_equation()
        chosen = format_trimmed(float(explanation.terms[explanation.chosen]))
        return RightHandSide([EquationPart(f"{chosen} ÷ {int(explanation.terms.sum()):,}")])

    def code(self, context: ExpressionContext) -> str:
        tokens = context.identifiers.tokens
        if not context.masks():
            sizes = f"(*{context.identifiers.batch}, {context.spec.heads}, {tokens}, {tokens})"
            return f"torch.full({sizes}, 1 / {tokens}, dtype={context.x}.dtype)"
        least = ".clamp(min=1)" if context.may_have_empty_rows() else ""
        return f"readable / readable.sum(dim=-1, keepdim=True){least}"


class MaskAfterSoftmaxExplainer(WeightsExplainer):
    """The mask after the softmax: forbidden weights become 0."""

    operation = Operation.MASK_AFTER_SOFTMAX

    def terms(self, explained: ExplainedCell) -> TermCombination:
        return choice_terms(explained, 0.0, "0")

    def row_sentence(self, context: StepContext) -> str:
        may, rest = allowed_keys_phrases(context)
        weights = context.row()
        total = format_trimmed(float(row_sums(weights)))
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

    def stage_sentence(self, context: StepContext) -> str:
        return masked_cells_phrase(context, "weight", "is set to 0", "are set to 0")

    def formula(self, info: CellContext) -> str:
        return "the weight if allowed, otherwise 0"

    def equation(self, writer: EquationWriter) -> RightHandSide:
        return masked_equation(writer)

    def code(self, context: ExpressionContext) -> str:
        return f"{context.inputs[0]}.masked_fill({context.forbidden()}, 0)"


class RenormaliseMaskedWeightsExplainer(WeightsExplainer):
    """Masked weights, renormalized so that each row sums to 1."""

    operation = Operation.RENORMALISE_MASKED_WEIGHTS

    def terms(self, explained: ExplainedCell) -> TermCombination:
        head, query, key = explained.place
        row = explained.factor(explained.stage.reads[0], head, query, None)
        return TermCombination(CombinationRule.SHARE, (TermGroup((row,)),), key, not row.read.any())

    def row_sentence(self, context: StepContext) -> str:
        weights, zeroed = context.row(), context.row(context.first_input)
        if not context.allowed_row().any():
            return no_allowed_keys_sentence(context)
        if not np.isfinite(weights).all():
            return f"{context.query} has no weights: its row cannot be computed"
        if not zeroed.any():
            return f"the weights of {context.query} are all 0, so they cannot be normalized"
        total = format_trimmed(float(zeroed.sum()))
        divided = (
            f"{context.qualifier}the weights of {context.query} are divided by their sum, {total}"
        )
        return f"{divided}: {largest_weights_phrase(context, weights)}"

    def stage_sentence(self, context: StepContext) -> str:
        zeroed = context.matrix(context.first_input)
        if not zeroed.any():
            return "all weights are 0, so they cannot be normalized"
        divided = f"{context.qualifier}each row is divided by its sum"
        return divided + (empty_rows_phrase(zeroed) or f"; {most_attended_token(context)}")

    def formula(self, info: CellContext) -> str:
        return "weight ÷ Σ weight"

    def equation(self, writer: EquationWriter) -> RightHandSide:
        return share_equation(writer)

    def code(self, context: ExpressionContext) -> str:
        zeroed = context.inputs[0]
        # A row of zeros cannot be normalized.
        sums = f"{zeroed}.sum(dim=-1, keepdim=True)"
        return f"{zeroed} / {sums}.where({zeroed}.any(dim=-1, keepdim=True), 1)"


class DropoutExplainer(Explainer):
    """Dropout: some weights become 0, and the others are scaled up."""

    operation = Operation.DROPOUT

    def terms(self, explained: ExplainedCell) -> TermCombination:
        weight = explained.factor(explained.stage.reads[0], *explained.place)
        factor = 1 / (1 - explained.spec.dropout)
        scaled = constant(factor, f"1/(1 − {explained.spec.dropout:g})")
        value = float(explained.trace.read(explained.stage.name, explained.cell))
        dropped = value == 0 and weight.read[0] != 0
        groups = (TermGroup((weight, scaled)), TermGroup((constant(0.0, "0"),)))
        return TermCombination(CombinationRule.CHOICE, groups, int(dropped))

    def explain_cell(self, info: CellContext) -> str:
        weight = f"the weight of {info.token('query')} for {info.token('key')}"
        before = info.explanation.groups[0].factors[0].read[0]
        if before == 0:
            return f"There is nothing to drop: {weight} is 0."
        if info.value == 0:
            return f"Dropout drops {weight}: {format_number(before)} becomes 0."
        factor = 1 / (1 - info.run.trace.spec.dropout)
        times = f"{format_number(before)} times {factor:.4g} is {format_number(info.value)}"
        return f"Dropout keeps {weight}: {times}."

    def row_sentence(self, context: StepContext) -> str:
        weights, dropped = context.row(context.first_input), context.row()
        count = int(np.count_nonzero(weights))
        lost = int(((weights != 0) & (dropped == 0)).sum())
        if count == 0:
            return f"{context.query} has no nonzero weights to drop: its row stays 0"
        kind = "weight" if count == context.allowed_row().sum() else "nonzero weight"
        total = float(row_sums(dropped))
        sums = (
            f"the row now sums to {format_trimmed(total)}"
            if np.isfinite(total)
            else "the row sum is not finite"
        )
        if lost == count:
            return f"dropout drops {all_count_phrase(count, kind)} of {context.query}"
        kept = dropout_factor_phrase(context.spec)
        if lost == 0:
            each = "it" if count == 1 else "each"
            return (
                f"dropout keeps {all_count_phrase(count, kind)} of {context.query}; {each} "
                f"{kept}, and {sums}"
            )
        takes = f"dropout drops {lost:,} of the {count:,} {kind}s of {context.query}"
        return f"{takes}; the rest {kept}, and {sums}"

    def stage_sentence(self, context: StepContext) -> str:
        weights, dropped = context.matrix(context.first_input), context.matrix()
        count = int(np.count_nonzero(weights))
        lost = int(((weights != 0) & (dropped == 0)).sum())
        if count == 0:
            return "the matrix has no nonzero weights to drop: all stay 0"
        sums = row_sums(dropped)
        low, high = format_trimmed(float(sums.min())), format_trimmed(float(sums.max()))
        lie = f"row sums are now between {low} and {high}"
        run = f"every row now sums to {low}" if low == high else lie
        run = run if np.isfinite(sums).all() else "not every row sum is finite"
        kind = "weight" if count == context.allowed().sum() else "nonzero weight"
        if lost == count:
            return f"dropout drops {all_count_phrase(count, kind)}"
        kept = dropout_factor_phrase(context.spec)
        if lost == 0:
            each = "it" if count == 1 else "each"
            return f"dropout keeps {all_count_phrase(count, kind)}; {each} {kept}, and {run}"
        return f"dropout drops {lost:,} of the {count:,} {kind}s; the rest {kept}, and {run}"

    def formula(self, info: CellContext) -> str:
        return "weight ÷ (1 − rate) if kept, otherwise 0"

    def equation(self, writer: EquationWriter) -> RightHandSide:
        if writer.explanation.chosen == 0:
            return RightHandSide(writer.term_parts(0, is_first=True))
        return replacement_equation(writer, "because it is dropped")

    def code(self, context: ExpressionContext) -> str:
        return f"({context.inputs[0]} / (1 - {float(context.spec.dropout)!r})).where(kept, 0.0)"


EXPLAINERS: tuple[Explainer, ...] = (
    ScoresToWeightsExplainer(),
    SoftmaxWithSinkExplainer(),
    EqualWeightsExplainer(),
    MaskAfterSoftmaxExplainer(),
    RenormaliseMaskedWeightsExplainer(),
    DropoutExplainer(),
)
