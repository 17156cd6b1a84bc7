"""The heads' context vectors side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.model_layer_steps import JoinedHeads
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import (
    EquationTerm,
    copied_equation,
    sum_equation,
)
from visualizer.explanations.cell_terms import TermList, constant, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import all_heads, largest_number
from visualizer.explanations.shape_equations import head_shapes
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_count, format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_equation_writer import EquationTermWriter
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _cell(facts: CellFacts) -> str:
    head = facts.cell.place[-1] // facts.run.trace.spec.d_head + 1
    column, value = f"olumn {facts.column} of {facts.token('query')}", format_number(facts.value)
    if _is_off(facts.explanation.stage, facts.layer, head - 1):
        return f"C{column} comes from head {head}, which is switched off: {value}."
    if facts.run.trace.spec.heads == 1:
        return f"With one head, c{column} goes on as it is: {value}."
    return f"C{column}, with all heads side by side, comes from head {head}: {value}."


def _row(block: StepValues) -> str:
    spec, joined = block.spec, vector(block.row())
    if spec.heads == 1:
        return f"with one head, the context vector of {block.query} goes on as it is: {joined}"
    vectors = f"the context vectors of {block.query} from {all_heads(spec)}"
    return f"{vectors} are set side by side: {joined}"


def _stage(block: StepValues) -> str:
    size = format_count(block.spec.width, "number")
    if block.spec.heads == 1:
        return f"with one head, the context vectors go on as they are; {largest_number(block)}"
    heads = all_heads(block.spec)
    joined = f"the context vectors from {heads} are set side by side, {size} a token"
    return f"{joined}; {largest_number(block)}"


def _equation(line: EquationTermWriter) -> EquationTerm:
    factors, _ = line.factors[0]
    if len(factors) > 1:
        return sum_equation(line)
    return copied_equation(line, f"taken from head {factors[0].source(0)[-3] + 1}")


def _shapes(spec: AttentionSpec, tokens: int) -> tuple[str, ...]:
    apart, between, joined = head_shapes(spec, tokens)
    return (f"{apart} → {between} → {joined}",)


def _terms(explained: ExplainedCell) -> TermList:
    query, column = explained.place
    head, within = divmod(column, explained.spec.d_head)
    read = explained.factor(explained.stage.reads[0], head, query, within)
    if _is_off(explained.stage, explained.layer, head):
        return sum_of((read, constant(0, "0")))
    return sum_of((read,))


def _is_off(stage: Stage, layer: int, head: int) -> bool:
    """Whether a head of a model is switched off, so that zeros stand in its place."""
    return isinstance(stage.step, JoinedHeads) and (layer, head) in stage.step.off


CONCAT_HEADS = OperationExplainer(
    operation=Operation.CONCAT_HEADS,
    terms=_terms,
    cell_sentence=_cell,
    row_sentence=_row,
    stage_sentence=_stage,
    formula=lambda facts: "taken over",
    equation=_equation,
    code=lambda context: f"{context.read[0]}.transpose(-3, -2).flatten(-2)",
    shape_equations=_shapes,
)
