"""Context vectors scaled by the share of a head's sink: a softmax with a sink in two steps.

Source: Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.model_layer_steps import LateSink
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import KINDS, column_of, largest_number
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_number, format_share

if TYPE_CHECKING:
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    head, token, _ = facts.cell.place
    name = facts.explanation.stage.step_as(LateSink).kept
    kept = format_share(float(facts.run.trace.read(name, (facts.layer, head, token))))
    made = f"is that of the context vector times {kept}, what the head’s sink leaves of its row"
    return f"{column_of(facts)} {made}: {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    name = block.stage.step_as(LateSink).kept
    kept = block.run.trace.read(name, (block.layer, block.head, block.at))
    made = f"the sink leaves {format_share(float(kept))} of the {KINDS[block.reads]}"
    return f"{made} of {block.query}: {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    made = f"each {KINDS[block.reads]} is multiplied by what the head’s sink leaves of its row"
    return f"{made}; {largest_number(block)}"


def _collect_terms(explained: ExplainedCell) -> TermList:
    head, token, column = explained.place
    own = explained.factor(explained.stage.reads[0], head, token, column)
    kept = explained.weight(explained.stage.step_as(LateSink).kept, explained.layer, head, token)
    return sum_of((own, kept))


LATE_SINK = OperationExplainer(
    operation=Operation.LATE_SINK,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda _: "number × share that the sink leaves",
    equation=sum_equation,
)
