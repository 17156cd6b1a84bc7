"""Softmax with a sink: a logit of the head takes part in the softmax of each row.

Source: OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card"; Xiao et al. 2023, "Efficient
Streaming Language Models with Attention Sinks".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.model_layer_steps import SinkSoftmax
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import share_equation
from visualizer.explanations.cell_terms import CombineRule, ExplainedCell, Group, TermList
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import SHARES, most_read, shared_out
from visualizer.explanations.operations.scores_to_weights import exponentials
from visualizer.explanations.shared_sentences import weights_sentence
from visualizer.number_format import format_share

if TYPE_CHECKING:
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import Explanation
    from visualizer.explanations.step_values_and_wording import StepValues


def _sink_share(terms: TermList | Explanation) -> str:
    """Format the share of a row that the sink takes, computed from the logits."""
    scores, sink = (group.terms for group in terms.groups)
    return format_share(float(sink[0] / (scores.sum() + sink[0])))


def _describe_cell(facts: CellFacts) -> str:
    if facts.is_forbidden or not np.isfinite(facts.value):
        return weights_sentence(facts)
    taken = _sink_share(facts.explanation)
    return f"{weights_sentence(facts)} The sink{facts.in_head} takes {taken} of the row."


def _describe_row(block: StepValues) -> str:
    weights = block.row()
    if not np.isfinite(weights).all():
        return f"{block.query} has no weights: its row cannot be worked out"
    made = f"softmax turns the scores of {block.query} and the sink into {SHARES}"
    if not weights.any():
        return f"{made}: the sink takes all"
    index = (*block.leading, block.head, block.at, 0)
    taken = _sink_share(_collect_terms(ExplainedCell(block.run.trace, block.stage, index)))
    return f"{made}: {shared_out(block, weights)}, and {taken} to the sink"


def _describe_stage(block: StepValues) -> str:
    made = f"softmax turns each row of scores and the sink into {SHARES}"
    rows = block.matrix().sum(-1, dtype=np.float64)
    if not np.isfinite(rows).all():
        return f"{made}; {most_read(block)}"
    taken = format_share(max(0.0, 1 - float(rows.mean())))
    return f"{made}; {most_read(block)}, and the sink takes {taken}"


def _collect_terms(explained: ExplainedCell) -> TermList:
    head, query, key = explained.place
    row = explained.factor(explained.stage.reads[0], head, query, None)
    sink = explained.weight(explained.stage.step_as(SinkSoftmax).logits, explained.layer, head)
    largest = float(max(row.read.max(), sink.read.max()))
    groups = (Group((exponentials(row, largest),)), Group((exponentials(sink, largest),)))
    return TermList(CombineRule.SHARE, groups, key)


SOFTMAX_WITH_SINK = OperationExplainer(
    operation=Operation.SOFTMAX_WITH_SINK,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: "exp(score) ÷ (Σ of the row + exp(sink))",
    equation=share_equation,
)
