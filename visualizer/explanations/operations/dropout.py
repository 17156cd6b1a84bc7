"""Dropout: some weights become 0, the others are scaled up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import EquationTerm, replaced
from visualizer.explanations.cell_terms import CombineRule, Group, TermList, constant
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import factor_of
from visualizer.explanations.step_values_and_wording import all_of, row_sums, trimmed
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.explanations.cell_equation_writer import EquationTermWriter
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    weight = f"the weight of {facts.token('query')} for {facts.token('key')}"
    before = facts.explanation.groups[0].factors[0].read[0]
    if before == 0:
        return f"There was nothing to drop: {weight} is 0."
    if facts.value == 0:
        return f"Dropout takes away {weight}: {format_number(before)} becomes 0."
    factor = 1 / (1 - facts.run.trace.spec.dropout)
    times = f"{format_number(before)} times {factor:.4g} is {format_number(facts.value)}"
    return f"Dropout keeps {weight}: {times}."


def _describe_row(block: StepValues) -> str:
    weights, dropped = block.row(block.reads), block.row()
    count = int(np.count_nonzero(weights))
    lost = int(((weights != 0) & (dropped == 0)).sum())
    if count == 0:
        return f"{block.query} has no weights that dropout could take: its row stays 0"
    kind = "weight" if count == block.allowed_row().sum() else "nonzero weight"
    total = float(row_sums(dropped))
    sums = f"the row now sums to {trimmed(total)}" if np.isfinite(total) else "the row has no sum"
    if lost == count:
        return f"dropout takes {all_of(count, kind)} of {block.query}: nothing is left to read"
    kept = factor_of(block.spec)
    if lost == 0:
        each = "it" if count == 1 else "each"
        return f"dropout keeps {all_of(count, kind)} of {block.query}; {each} {kept}, and {sums}"
    takes = f"dropout takes {lost:,} of the {count:,} {kind}s of {block.query}"
    return f"{takes}; the rest {kept}, and {sums}"


def _describe_stage(block: StepValues) -> str:
    weights, dropped = block.matrix(block.reads), block.matrix()
    count = int(np.count_nonzero(weights))
    lost = int(((weights != 0) & (dropped == 0)).sum())
    if count == 0:
        return "there are no weights that dropout could take: all stay 0"
    sums = row_sums(dropped)
    low, high = trimmed(float(sums.min())), trimmed(float(sums.max()))
    lie = f"row sums now lie between {low} and {high}"
    run = f"every row now sums to {low}" if low == high else lie
    run = run if np.isfinite(sums).all() else "not every row has a sum"
    kind = "weight" if count == block.allowed().sum() else "nonzero weight"
    if lost == count:
        return f"dropout takes {all_of(count, kind)}: nothing is left to read"
    kept = factor_of(block.spec)
    if lost == 0:
        each = "it" if count == 1 else "each"
        return f"dropout keeps {all_of(count, kind)}; {each} {kept}, and {run}"
    return f"dropout takes {lost:,} of the {count:,} {kind}s; the rest {kept}, and {run}"


def _write_equation(line: EquationTermWriter) -> EquationTerm:
    if line.explanation.chosen == 0:
        return EquationTerm(line.term(0, is_first=True))
    return replaced(line, "as it is dropped")


def _collect_terms(explained: ExplainedCell) -> TermList:
    weight = explained.factor(explained.stage.reads[0], *explained.place)
    factor = 1 / (1 - explained.spec.dropout)
    scaled = constant(factor, f"1/(1 − {explained.spec.dropout:g})")
    value = float(explained.trace.read(explained.stage.name, explained.cell))
    dropped = value == 0 and weight.read[0] != 0
    groups = (Group((weight, scaled)), Group((constant(0.0, "0"),)))
    return TermList(CombineRule.CHOICE, groups, int(dropped))


DROPOUT = OperationExplainer(
    operation=Operation.DROPOUT,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: "weight ÷ (1 − rate) where kept, else 0",
    equation=_write_equation,
    code=lambda context: (
        f"({context.read[0]} / (1 - {float(context.spec.dropout)!r})).where(kept, 0.0)"
    ),
)
