"""Queries, keys and values without a projection: the input, split between the heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.spec import Arrangement
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import copied_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import KINDS, largest_number, taken_over
from visualizer.explanations.shape_equations import each_head, heads_apart, sizes
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.code_expression_context import ExpressionContext
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    whose = f"{KINDS[facts.cell.stage]} of {facts.token('token')}{facts.in_head}"
    read = KINDS[facts.explanation.stage.reads[0]]
    taken = f"Column {facts.column} of the {whose} is taken from its {read}"
    return f"{taken}, as there is no projection: {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    kind = KINDS[block.stage.name]
    taken = f"the {kind} of {block.query} is {taken_over(block)}"
    return f"with no projection, {taken}: {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    taken = f"each token’s {KINDS[block.stage.name]} is {taken_over(block)}"
    return f"with no projection, {taken}; {largest_number(block)}"


def _write_code(context: ExpressionContext) -> str:
    if context.spec.arrangement is Arrangement.STACKED and context.spec.heads > 1:
        return f"torch.stack([{context.read[0]}] * {context.spec.heads}, dim=-3)"
    return context.to_heads(context.read[0])


def _write_shapes(spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
    if spec.arrangement is Arrangement.STACKED:
        return (f"{sizes(tokens, spec.d_in)}{each_head(spec)}",)
    return (heads_apart(spec, tokens),)


def _collect_terms(explained: ExplainedCell) -> TermList:
    head, token, column = explained.place
    if explained.spec.arrangement is Arrangement.SPLIT:
        column += head * explained.spec.d_head
    return sum_of((explained.factor(explained.stage.reads[0], token, column),))


UNPROJECTED_INPUT = OperationExplainer(
    operation=Operation.UNPROJECTED_INPUT,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: "taken over",
    equation=lambda line: copied_equation(
        line, f"taken from the {KINDS[line.explanation.stage.reads[0]]}"
    ),
    code=_write_code,
    shape_equations=_write_shapes,
)
