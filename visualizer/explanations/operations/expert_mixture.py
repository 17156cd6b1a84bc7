"""Outputs of the experts chosen by the router for a token, times the router weights.

Source: Shazeer et al. 2017, "Outrageously Large Neural Networks: The Sparsely-Gated
Mixture-of-Experts Layer"; Dai et al. 2024, "DeepSeekMoE" (experts that all tokens share).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.model_layer_steps import ExpertMixture
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import (
    KINDS,
    column_of,
    largest_number,
    listed,
)
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _experts(trace: Trace, stage: Stage, layer: int, token: int) -> str:
    """Return the experts of a token, numbered from 1, with their router weights."""
    module = stage.step_as(ExpertMixture).modules[layer]
    numbers, weights = (
        trace.read(f"{module}.{name}", (token,)).tolist() for name in ("numbers", "router_weights")
    )
    named = [
        f"expert {number + 1} times {format_number(weight)}"
        for number, weight in zip(numbers, weights, strict=True)
    ]
    if stage.step_as(ExpertMixture).has_shared:
        named.append("what all tokens share")
    return listed(named)


def _describe_cell(facts: CellFacts) -> str:
    experts = _experts(facts.run.trace, facts.explanation.stage, facts.layer, facts.cell.place[-2])
    return f"{column_of(facts)} is that of {experts}: {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    experts = _experts(block.run.trace, block.stage, block.layer, block.at)
    read = f"the {KINDS[block.reads]} of {block.query} goes to {experts}"
    return f"{read}; they add up to {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    made = f"each {KINDS[block.reads]} goes to the experts that the router has chosen for it"
    return f"{made}, and their results, times its weights, are added; {largest_number(block)}"


def _write_formula(facts: CellFacts) -> str:
    shared = " + shared result" * facts.explanation.stage.step_as(ExpertMixture).has_shared
    return f"Σ router weight × expert’s result{shared}"


def _collect_terms(explained: ExplainedCell) -> TermList:
    step, (token, column) = explained.stage.step_as(ExpertMixture), explained.place
    module = step.modules[explained.layer]
    routed = (
        explained.weight(f"{module}.router_weights", token, None),
        explained.weight(f"{module}.results", token, None, column),
    )
    if not step.has_shared:
        return sum_of(routed)
    return sum_of(routed, (explained.weight(f"{module}.shared", token, column),))


EXPERT_MIXTURE = OperationExplainer(
    operation=Operation.EXPERT_MIXTURE,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=_write_formula,
    equation=sum_equation,
)
