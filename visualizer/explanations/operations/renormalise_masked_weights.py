"""Masked weights, renormalized so that each row sums to 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import share_equation
from visualizer.explanations.cell_terms import CombineRule, Group, TermList
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import (
    empty_rows,
    most_read,
    reads_nothing,
    shared_out,
)
from visualizer.explanations.shared_sentences import weights_sentence
from visualizer.explanations.step_values_and_wording import trimmed

if TYPE_CHECKING:
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.code_expression_context import ExpressionContext
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_row(block: StepValues) -> str:
    weights, zeroed = block.row(), block.row(block.reads)
    if not block.allowed_row().any():
        return reads_nothing(block)
    if not np.isfinite(weights).all():
        return f"{block.query} has no weights: its row cannot be worked out"
    if not zeroed.any():
        return f"the weights of {block.query} are all 0, so there is nothing to share out"
    total = trimmed(float(zeroed.sum()))
    divided = f"{block.before}the weights of {block.query} are divided by their sum, {total}"
    return f"{divided}: {shared_out(block, weights)}"


def _describe_stage(block: StepValues) -> str:
    zeroed = block.matrix(block.reads)
    if not zeroed.any():
        return "all weights are 0, so there is nothing to share out"
    divided = f"{block.before}each row is divided by its sum"
    return divided + (empty_rows(zeroed) or f"; {most_read(block)}")


def _write_code(context: ExpressionContext) -> str:
    zeroed = context.read[0]
    # A row of zeros cannot be normalized.
    sums = f"{zeroed}.sum(dim=-1, keepdim=True)"
    return f"{zeroed} / {sums}.where({zeroed}.any(dim=-1, keepdim=True), 1)"


def _collect_terms(explained: ExplainedCell) -> TermList:
    head, query, key = explained.place
    row = explained.factor(explained.stage.reads[0], head, query, None)
    return TermList(CombineRule.SHARE, (Group((row,)),), key, not row.read.any())


RENORMALISE_MASKED_WEIGHTS = OperationExplainer(
    operation=Operation.RENORMALISE_MASKED_WEIGHTS,
    terms=_collect_terms,
    cell_sentence=weights_sentence,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: "weight ÷ Σ of the row's weights",
    equation=share_equation,
    code=_write_code,
)
