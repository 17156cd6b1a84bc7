"""Equal weights for all allowed keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import Masking
from visualizer.attention.spec import Mask
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import (
    EquationPart,
    EquationTerm,
    empty_row_equation,
)
from visualizer.explanations.cell_terms import CombineRule, Factor, Group, TermList
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import (
    NOTHING,
    empty_rows,
    most_read,
    reads_nothing,
)
from visualizer.explanations.shared_sentences import weights_sentence
from visualizer.explanations.step_values_and_wording import all_of, trimmed
from visualizer.number_format import format_share

if TYPE_CHECKING:
    from visualizer.explanations.cell_equation_writer import EquationTermWriter
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.code_expression_context import ExpressionContext
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_row(block: StepValues) -> str:
    weights = block.row()
    keys = np.flatnonzero(weights)
    if len(keys) == 0:
        return reads_nothing(block)
    before, reads = block.before, "would read" if block.is_before else "reads"
    part = format_share(float(weights[keys[0]]))
    if len(keys) == 1:
        return f"{before}{block.query} {reads} {part} from {block.key(int(keys[0]))}, its only key"
    if len(keys) == len(weights):
        return f"{before}{block.query} {reads} {all_of(len(keys), 'key')} alike, {part} from each"
    if block.is_before:
        return f"{before}{block.query} {reads} {len(keys):,} keys alike, {part} from each"
    return f"{before}{block.query} may read {len(keys):,} keys, and reads {part} from each"


def _describe_stage(block: StepValues) -> str:
    allowed = block.allowed()
    count = block.queries
    who = f"each of {count:,} tokens" if count > 1 else "the only token"
    each = f"{block.before}{who} {'would read' if block.is_before else 'reads'}"
    if not allowed.any():
        return NOTHING
    if allowed.all():
        return f"{each} all keys alike, {format_share(1 / block.tokens)} from each"
    some = f"{each} equal parts of the keys it may read"
    return some + (empty_rows(allowed) or f"; {most_read(block)}")


def _counted_keys(facts: CellFacts) -> str:
    masking = Masking.of(facts.run.trace.spec, facts.cell.stage)
    if masking.mask is not Mask.NONE:
        return "allowed keys"
    return "keys, padding aside" if masking.lengths else "keys"


def _write_equation(line: EquationTermWriter) -> EquationTerm:
    explanation = line.explanation
    if explanation.is_empty:
        return empty_row_equation()
    chosen = trimmed(float(explanation.terms[explanation.chosen]))
    return EquationTerm([EquationPart(f"{chosen} ÷ {int(explanation.terms.sum()):,}")])


def _write_code(context: ExpressionContext) -> str:
    tokens = context.words.tokens
    if not context.masks():
        sizes = f"(*{context.words.batch}, {context.spec.heads}, {tokens}, {tokens})"
        return f"torch.full({sizes}, 1 / {tokens}, dtype={context.x}.dtype)"
    least = ".clamp(min=1)" if context.leaves_nothing() else ""
    return f"readable / readable.sum(dim=-1, keepdim=True){least}"


def _collect_terms(explained: ExplainedCell) -> TermList:
    cells = explained.allowed().astype(np.float64)
    group = Group((Factor("", (), cells, cells),))
    return TermList(CombineRule.SHARE, (group,), explained.place[-1], not cells.any())


EQUAL_WEIGHTS = OperationExplainer(
    operation=Operation.EQUAL_WEIGHTS,
    terms=_collect_terms,
    cell_sentence=weights_sentence,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: f"1 ÷ number of {_counted_keys(facts)}",
    equation=_write_equation,
    code=_write_code,
)
