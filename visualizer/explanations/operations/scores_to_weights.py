"""Attention weights computed from scores, by softmax or by dividing by the row sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.spec import Normalisation
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import share_equation
from visualizer.explanations.cell_terms import CombineRule, Factor, Group, TermList
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import (
    NOTHING,
    SHARES,
    empty_rows,
    most_read,
    reads_nothing,
    shared_out,
    softmax,
)
from visualizer.explanations.shared_sentences import weights_sentence
from visualizer.explanations.step_values_and_wording import bracketed, trimmed
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.code_expression_context import ExpressionContext
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_row(block: StepValues) -> str:
    weights = block.row()
    if block.stage.reads_masked and not block.allowed_row().any():
        return reads_nothing(block)
    if not np.isfinite(weights).all():
        return f"{block.before}{block.query} has no weights: its row cannot be worked out"
    if block.spec.normalisation is Normalisation.SUM:
        total = trimmed(float(block.row(block.reads).sum()))
        shared = f"each score of {block.query} is divided by the row’s sum, {total}"
    elif len(weights) == 1:
        made = f"{softmax(block.spec)} divides the exponential of the only score of {block.query}"
        shared = f"{made} by itself, which is 1"
    else:
        shares = f"the scores of {block.query} into {SHARES}"
        shared = f"{softmax(block.spec)} turns {shares}"
    return f"{block.before}{shared}: {shared_out(block, weights)}"


def _describe_stage(block: StepValues) -> str:
    if block.stage.reads_masked and not block.allowed().any():
        return NOTHING
    made = f"{softmax(block.spec)} turns each row of scores into {SHARES}"
    if block.spec.normalisation is Normalisation.SUM:
        made = "each score is divided by its row’s sum"
    empty = empty_rows(block.allowed()) if block.stage.reads_masked else ""
    return f"{block.before}{made}{empty or '; ' + most_read(block)}"


def _write_formula(facts: CellFacts) -> str:
    normalisation = facts.run.trace.spec.normalisation
    if normalisation is Normalisation.SUM:
        return "score ÷ Σ scores of the row"
    if normalisation is Normalisation.NAIVE_SOFTMAX or facts.explanation.is_empty:
        return "exp(score) ÷ Σ of the row"
    largest = bracketed(format_number(facts.explanation.groups[0].factors[0].shift))
    return f"exp(score − {largest}, the row’s largest) ÷ Σ of the row"


def _write_code(context: ExpressionContext) -> str:
    x = context.read[0]
    if context.spec.normalisation is Normalisation.SUM:
        return f"{x} / {x}.sum(dim=-1, keepdim=True)"
    rest = context.where_nothing() if context.stage.reads_masked else ""
    if context.spec.normalisation is Normalisation.SOFTMAX:
        return f"{context.words.softmax}({x}, dim=-1){rest}"
    shares = f"torch.exp({x}) / torch.exp({x}).sum(dim=-1, keepdim=True)"
    return f"({shares}){rest}" if rest else shares


def _collect_terms(explained: ExplainedCell) -> TermList:
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


SCORES_TO_WEIGHTS = OperationExplainer(
    operation=Operation.SCORES_TO_WEIGHTS,
    terms=_collect_terms,
    cell_sentence=weights_sentence,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=_write_formula,
    equation=share_equation,
    code=_write_code,
)
