"""Attention weights: softmax and its variants, the mask after it, and dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.layer_operations import SinkSoftmax
from visualizer.attention.masks import Masking
from visualizer.attention.spec import Mask, Normalisation
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation import (
    EquationPart,
    EquationTerm,
    allowed_or_replaced,
    empty_row_equation,
    replaced,
    share_equation,
)
from visualizer.explanations.cell_terms import (
    CombineRule,
    ExplainedCell,
    Factor,
    Group,
    TermList,
    choice_of,
    constant,
)
from visualizer.explanations.explainer import Explainer
from visualizer.explanations.phrases import (
    NOTHING,
    SHARES,
    empty_rows,
    factor_of,
    forbidden_cells,
    may_read,
    most_read,
    reads_nothing,
    shared_out,
    softmax,
    weights_sentence,
)
from visualizer.explanations.step_values import all_of, bracketed, row_sums, trimmed
from visualizer.format import format_number, format_share

if TYPE_CHECKING:
    from visualizer.explanations.cell_equation import EquationTermWriter
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import Explanation
    from visualizer.explanations.code_dialects import ExpressionContext
    from visualizer.explanations.step_values import StepValues


def exponentials(row: Factor, largest: float) -> Factor:
    """Create factors of exponentials, with a number subtracted first that cancels out."""
    with np.errstate(invalid="ignore"):
        used = np.exp(row.read - largest)
    return replace(row, used=used, form="exp({})", shift=largest)


def _naive_exponentials(explained: ExplainedCell, row: Factor) -> Factor:
    dtype = explained.trace.read(row.name, explained.cell).dtype
    with np.errstate(over="ignore"):  # overflows exactly where the trace's dtype does
        used = np.exp(row.read).astype(dtype)
    return replace(row, used=used, form="exp({})")


class ScoresToWeightsExplainer(Explainer):
    """Attention weights computed from scores, by softmax or by dividing by the row sum."""

    operation = Operation.SCORES_TO_WEIGHTS

    def terms(self, explained: ExplainedCell) -> TermList:
        head, query, key = explained.place
        row = explained.factor(explained.stage.reads[0], head, query, None)
        if explained.spec.normalisation is Normalisation.SUM:
            return TermList(CombineRule.SHARE, (Group((row,)),), key)
        is_empty = explained.stage.reads_masked and not explained.allowed().any()
        if explained.spec.normalisation is Normalisation.SOFTMAX:
            largest = 0.0 if row.read.max() == -np.inf else float(row.read.max())
            shares = exponentials(row, largest)
        else:
            shares = _naive_exponentials(explained, row)
        return TermList(CombineRule.SHARE, (Group((shares,)),), key, is_empty)

    def cell_sentence(self, facts: CellFacts) -> str:
        return weights_sentence(facts)

    def row_sentence(self, block: StepValues) -> str:
        weights = block.row()
        if block.stage.reads_masked and not block.allowed_row().any():
            return reads_nothing(block)
        if not np.isfinite(weights).all():
            return f"{block.before}{block.query} has no weights: its row cannot be computed"
        if block.spec.normalisation is Normalisation.SUM:
            total = trimmed(float(block.row(block.reads).sum()))
            shared = f"each score of {block.query} is divided by the row’s sum, {total}"
        elif len(weights) == 1:
            made = (
                f"{softmax(block.spec)} divides the exponential of the only score of {block.query}"
            )
            shared = f"{made} by itself, which is 1"
        else:
            shares = f"the scores of {block.query} into {SHARES}"
            shared = f"{softmax(block.spec)} turns {shares}"
        return f"{block.before}{shared}: {shared_out(block, weights)}"

    def stage_sentence(self, block: StepValues) -> str:
        if block.stage.reads_masked and not block.allowed().any():
            return NOTHING
        made = f"{softmax(block.spec)} turns each row of scores into {SHARES}"
        if block.spec.normalisation is Normalisation.SUM:
            made = "each score is divided by its row’s sum"
        empty = empty_rows(block.allowed()) if block.stage.reads_masked else ""
        return f"{block.before}{made}{empty or '; ' + most_read(block)}"

    def formula(self, facts: CellFacts) -> str:
        normalisation = facts.run.trace.spec.normalisation
        if normalisation is Normalisation.SUM:
            return "score ÷ Σ scores of the row"
        if normalisation is Normalisation.NAIVE_SOFTMAX or facts.explanation.is_empty:
            return "exp(score) ÷ Σ of the row"
        largest = bracketed(format_number(facts.explanation.groups[0].factors[0].shift))
        return f"exp(score − {largest}, the row’s largest) ÷ Σ of the row"

    def equation(self, line: EquationTermWriter) -> EquationTerm:
        return share_equation(line)

    def code(self, context: ExpressionContext) -> str:
        x = context.read[0]
        if context.spec.normalisation is Normalisation.SUM:
            return f"{x} / {x}.sum(dim=-1, keepdim=True)"
        rest = context.where_nothing() if context.stage.reads_masked else ""
        if context.spec.normalisation is Normalisation.SOFTMAX:
            return f"{context.words.softmax}({x}, dim=-1){rest}"
        shares = f"torch.exp({x}) / torch.exp({x}).sum(dim=-1, keepdim=True)"
        return f"({shares}){rest}" if rest else shares


def _sink_share(terms: TermList | Explanation) -> str:
    """Format the share of a row that the sink takes, computed from the logits."""
    scores, sink = (group.terms for group in terms.groups)
    return format_share(float(sink[0] / (scores.sum() + sink[0])))


class SoftmaxWithSinkExplainer(Explainer):
    """Softmax with a sink: a logit of the head takes part in the softmax of each row.

    Source: OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card"; Xiao et al. 2023, "Efficient
    Streaming Language Models with Attention Sinks".
    """

    operation = Operation.SOFTMAX_WITH_SINK

    def terms(self, explained: ExplainedCell) -> TermList:
        head, query, key = explained.place
        row = explained.factor(explained.stage.reads[0], head, query, None)
        sink = explained.weight(explained.stage.step_as(SinkSoftmax).logits, explained.layer, head)
        largest = float(max(row.read.max(), sink.read.max()))
        groups = (Group((exponentials(row, largest),)), Group((exponentials(sink, largest),)))
        return TermList(CombineRule.SHARE, groups, key)

    def cell_sentence(self, facts: CellFacts) -> str:
        if facts.is_forbidden or not np.isfinite(facts.value):
            return weights_sentence(facts)
        taken = _sink_share(facts.explanation)
        return f"{weights_sentence(facts)} The sink{facts.in_head} receives {taken} of the row."

    def row_sentence(self, block: StepValues) -> str:
        weights = block.row()
        if not np.isfinite(weights).all():
            return f"{block.query} has no weights: its row cannot be computed"
        made = f"softmax turns the scores of {block.query} and the sink into {SHARES}"
        if not weights.any():
            return f"{made}: the sink receives everything"
        index = (*block.leading, block.head, block.at, 0)
        taken = _sink_share(self.terms(ExplainedCell(block.run.trace, block.stage, index)))
        return f"{made}: {shared_out(block, weights)}, and the sink {taken}"

    def stage_sentence(self, block: StepValues) -> str:
        made = f"softmax turns each row of scores and the sink into {SHARES}"
        rows = block.matrix().sum(-1, dtype=np.float64)
        if not np.isfinite(rows).all():
            return f"{made}; {most_read(block)}"
        taken = format_share(max(0.0, 1 - float(rows.mean())))
        return f"{made}; {most_read(block)}, and the sink receives {taken}"

    def formula(self, facts: CellFacts) -> str:
        return "exp(score) ÷ (Σ of the row + exp(sink))"

    def equation(self, line: EquationTermWriter) -> EquationTerm:
        return share_equation(line)


def _counted_keys(facts: CellFacts) -> str:
    masking = Masking.of(facts.run.trace.spec, facts.cell.stage)
    if masking.mask is not Mask.NONE:
        return "allowed keys"
    return "keys without padding" if masking.lengths else "keys"


class EqualWeightsExplainer(Explainer):
    """Equal weights for all allowed keys."""

    operation = Operation.EQUAL_WEIGHTS

    def terms(self, explained: ExplainedCell) -> TermList:
        cells = explained.allowed().astype(np.float64)
        group = Group((Factor("", (), cells, cells),))
        return TermList(CombineRule.SHARE, (group,), explained.place[-1], not cells.any())

    def cell_sentence(self, facts: CellFacts) -> str:
        return weights_sentence(facts)

    def row_sentence(self, block: StepValues) -> str:
        weights = block.row()
        keys = np.flatnonzero(weights)
        if len(keys) == 0:
            return reads_nothing(block)
        attends = f"{block.before}{block.query} {'would attend' if block.is_before else 'attends'}"
        weight = f"with weight {format_share(float(weights[keys[0]]))}"
        if len(keys) == 1:
            return f"{attends} only to {block.key(int(keys[0]))}, {weight}"
        if len(keys) == len(weights):
            return f"{attends} equally to {all_of(len(keys), 'key')}, {weight}"
        return f"{attends} equally to {len(keys):,} of {len(weights):,} keys, {weight}"

    def stage_sentence(self, block: StepValues) -> str:
        allowed = block.allowed()
        count = block.queries
        who = f"each of {count:,} tokens" if count > 1 else "the only token"
        each = f"{block.before}{who} {'would attend' if block.is_before else 'attends'}"
        if not allowed.any():
            return NOTHING
        if allowed.all():
            return f"{each} equally to all keys, with weight {format_share(1 / block.tokens)}"
        some = f"{each} equally to its allowed keys"
        return some + (empty_rows(allowed) or f"; {most_read(block)}")

    def formula(self, facts: CellFacts) -> str:
        return f"1 ÷ number of {_counted_keys(facts)}"

    def equation(self, line: EquationTermWriter) -> EquationTerm:
        explanation = line.explanation
        if explanation.is_empty:
            return empty_row_equation()
        chosen = trimmed(float(explanation.terms[explanation.chosen]))
        return EquationTerm([EquationPart(f"{chosen} ÷ {int(explanation.terms.sum()):,}")])

    def code(self, context: ExpressionContext) -> str:
        tokens = context.words.tokens
        if not context.masks():
            sizes = f"(*{context.words.batch}, {context.spec.heads}, {tokens}, {tokens})"
            return f"torch.full({sizes}, 1 / {tokens}, dtype={context.x}.dtype)"
        least = ".clamp(min=1)" if context.leaves_nothing() else ""
        return f"readable / readable.sum(dim=-1, keepdim=True){least}"


class MaskAfterSoftmaxExplainer(Explainer):
    """The mask after the softmax: forbidden weights become 0."""

    operation = Operation.MASK_AFTER_SOFTMAX

    def terms(self, explained: ExplainedCell) -> TermList:
        return choice_of(explained, 0.0, "0")

    def cell_sentence(self, facts: CellFacts) -> str:
        return weights_sentence(facts)

    def row_sentence(self, block: StepValues) -> str:
        may, rest = may_read(block)
        weights = block.row()
        total = trimmed(float(row_sums(weights)))
        sums = (
            f"the row now sums to {total}" if np.isfinite(weights).all() else "the row has no sum"
        )
        if not rest:
            stays = "its weight is" if block.tokens == 1 else "every weight is"
            return (
                f"{may}: {stays} unchanged" if np.isfinite(weights).all() else f"{may}, but {sums}"
            )
        becomes = f"{rest.format('weight')} {'are' if rest.endswith('s') else 'is'} set to 0"
        return f"{may}: {becomes}" if not weights.any() else f"{may}: {becomes}, and {sums}"

    def stage_sentence(self, block: StepValues) -> str:
        return forbidden_cells(block, "weight", "is set to 0", "are set to 0")

    def formula(self, facts: CellFacts) -> str:
        return "the weight where allowed, else 0"

    def equation(self, line: EquationTermWriter) -> EquationTerm:
        return allowed_or_replaced(line)

    def code(self, context: ExpressionContext) -> str:
        return f"{context.read[0]}.masked_fill({context.forbidden()}, 0)"


class RenormaliseMaskedWeightsExplainer(Explainer):
    """Masked weights, renormalized so that each row sums to 1."""

    operation = Operation.RENORMALISE_MASKED_WEIGHTS

    def terms(self, explained: ExplainedCell) -> TermList:
        head, query, key = explained.place
        row = explained.factor(explained.stage.reads[0], head, query, None)
        return TermList(CombineRule.SHARE, (Group((row,)),), key, not row.read.any())

    def cell_sentence(self, facts: CellFacts) -> str:
        return weights_sentence(facts)

    def row_sentence(self, block: StepValues) -> str:
        weights, zeroed = block.row(), block.row(block.reads)
        if not block.allowed_row().any():
            return reads_nothing(block)
        if not np.isfinite(weights).all():
            return f"{block.query} has no weights: its row cannot be computed"
        if not zeroed.any():
            return f"the weights of {block.query} are all 0, so they cannot be normalized"
        total = trimmed(float(zeroed.sum()))
        divided = f"{block.before}the weights of {block.query} are divided by their sum, {total}"
        return f"{divided}: {shared_out(block, weights)}"

    def stage_sentence(self, block: StepValues) -> str:
        zeroed = block.matrix(block.reads)
        if not zeroed.any():
            return "all weights are 0, so they cannot be normalized"
        divided = f"{block.before}each row is divided by its sum"
        return divided + (empty_rows(zeroed) or f"; {most_read(block)}")

    def formula(self, facts: CellFacts) -> str:
        return "weight ÷ Σ of the row's weights"

    def equation(self, line: EquationTermWriter) -> EquationTerm:
        return share_equation(line)

    def code(self, context: ExpressionContext) -> str:
        zeroed = context.read[0]
        # A row of zeros cannot be normalized.
        sums = f"{zeroed}.sum(dim=-1, keepdim=True)"
        return f"{zeroed} / {sums}.where({zeroed}.any(dim=-1, keepdim=True), 1)"


class DropoutExplainer(Explainer):
    """Dropout: some weights become 0, the others are scaled up."""

    operation = Operation.DROPOUT

    def terms(self, explained: ExplainedCell) -> TermList:
        weight = explained.factor(explained.stage.reads[0], *explained.place)
        factor = 1 / (1 - explained.spec.dropout)
        scaled = constant(factor, f"1/(1 − {explained.spec.dropout:g})")
        value = float(explained.trace.read(explained.stage.name, explained.cell))
        dropped = value == 0 and weight.read[0] != 0
        groups = (Group((weight, scaled)), Group((constant(0.0, "0"),)))
        return TermList(CombineRule.CHOICE, groups, int(dropped))

    def cell_sentence(self, facts: CellFacts) -> str:
        weight = f"the weight of {facts.token('query')} for {facts.token('key')}"
        before = facts.explanation.groups[0].factors[0].read[0]
        if before == 0:
            return f"There is nothing to drop: {weight} is 0."
        if facts.value == 0:
            return f"Dropout drops {weight}: {format_number(before)} becomes 0."
        factor = 1 / (1 - facts.run.trace.spec.dropout)
        times = f"{format_number(before)} times {factor:.4g} is {format_number(facts.value)}"
        return f"Dropout keeps {weight}: {times}."

    def row_sentence(self, block: StepValues) -> str:
        weights, dropped = block.row(block.reads), block.row()
        count = int(np.count_nonzero(weights))
        lost = int(((weights != 0) & (dropped == 0)).sum())
        if count == 0:
            return f"{block.query} has no nonzero weights to drop: its row stays 0"
        kind = "weight" if count == block.allowed_row().sum() else "nonzero weight"
        total = float(row_sums(dropped))
        sums = (
            f"the row now sums to {trimmed(total)}" if np.isfinite(total) else "the row has no sum"
        )
        if lost == count:
            return f"dropout drops {all_of(count, kind)} of {block.query}"
        kept = factor_of(block.spec)
        if lost == 0:
            each = "it" if count == 1 else "each"
            return (
                f"dropout keeps {all_of(count, kind)} of {block.query}; {each} {kept}, and {sums}"
            )
        takes = f"dropout drops {lost:,} of the {count:,} {kind}s of {block.query}"
        return f"{takes}; the rest {kept}, and {sums}"

    def stage_sentence(self, block: StepValues) -> str:
        weights, dropped = block.matrix(block.reads), block.matrix()
        count = int(np.count_nonzero(weights))
        lost = int(((weights != 0) & (dropped == 0)).sum())
        if count == 0:
            return "there are no nonzero weights to drop: all stay 0"
        sums = row_sums(dropped)
        low, high = trimmed(float(sums.min())), trimmed(float(sums.max()))
        lie = f"row sums are now between {low} and {high}"
        run = f"every row now sums to {low}" if low == high else lie
        run = run if np.isfinite(sums).all() else "not every row has a sum"
        kind = "weight" if count == block.allowed().sum() else "nonzero weight"
        if lost == count:
            return f"dropout drops {all_of(count, kind)}"
        kept = factor_of(block.spec)
        if lost == 0:
            each = "it" if count == 1 else "each"
            return f"dropout keeps {all_of(count, kind)}; {each} {kept}, and {run}"
        return f"dropout drops {lost:,} of the {count:,} {kind}s; the rest {kept}, and {run}"

    def formula(self, facts: CellFacts) -> str:
        return "weight ÷ (1 − rate) where kept, else 0"

    def equation(self, line: EquationTermWriter) -> EquationTerm:
        if line.explanation.chosen == 0:
            return EquationTerm(line.term(0, is_first=True))
        return replaced(line, "as it is dropped")

    def code(self, context: ExpressionContext) -> str:
        return f"({context.read[0]} / (1 - {float(context.spec.dropout)!r})).where(kept, 0.0)"


EXPLAINERS: tuple[Explainer, ...] = (
    ScoresToWeightsExplainer(),
    SoftmaxWithSinkExplainer(),
    EqualWeightsExplainer(),
    MaskAfterSoftmaxExplainer(),
    RenormaliseMaskedWeightsExplainer(),
    DropoutExplainer(),
)
