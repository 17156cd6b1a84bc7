"""Concatenation of the heads' context vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.model_layer_steps import JoinedHeads
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import (
    EquationTerm,
    copied_equation,
    sum_equation,
)
from visualizer.explanations.cell_terms import TermList, constant, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import all_heads, largest_number, listed
from visualizer.explanations.shape_equations import head_shapes
from visualizer.explanations.step_values_and_wording import trimmed, vector
from visualizer.number_format import format_count, format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_equation_writer import EquationTermWriter
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


EDITS = {0.0: "is switched off", None: "is replaced in the model"}
"""Phrase for an edited head, by the factor that multiplies it."""


def _describe_cell(facts: CellFacts) -> str:
    read = facts.explanation.stage.reads[0]
    head = facts.cell.place[-1] // facts.run.trace.shape(read)[-1] + 1
    column, value = f"olumn {facts.column} of {facts.token('query')}", format_number(facts.value)
    if edit := _find_edit(facts.explanation.stage, facts.layer, head - 1):
        return f"C{column} comes from head {head}, which {_describe_factor(edit.factor)}: {value}."
    if facts.run.trace.spec.heads == 1:
        return f"With one head, c{column} goes on as it is: {value}."
    return f"C{column}, with all heads side by side, comes from head {head}: {value}."


def _describe_row(block: StepValues) -> str:
    spec, joined = block.spec, vector(block.row())
    edited = _describe_edits(block)
    if spec.heads == 1:
        goes = f"with one head{edited}, the context vector of {block.query} goes on"
        return f"{goes}{'' if edited else ' as it is'}: {joined}"
    vectors = f"the context vectors of {block.query} from {all_heads(spec)}"
    return f"{vectors}{edited} are set side by side: {joined}"


def _describe_stage(block: StepValues) -> str:
    size = format_count(len(block.row()), "number")
    edited = _describe_edits(block)
    if block.spec.heads == 1:
        goes = f"with one head{edited}, the context vectors go on"
        return f"{goes}{'' if edited else ' as they are'}; {largest_number(block)}"
    heads = all_heads(block.spec)
    joined = f"the context vectors from {heads}{edited} are set side by side, {size} a token"
    return f"{joined}; {largest_number(block)}"


def _describe_edits(block: StepValues) -> str:
    """Describe the edited heads; empty if there are none."""
    if not isinstance(block.stage.step, JoinedHeads):
        return ""
    edits = sorted(edit for edit in block.stage.step.edits if edit[0] == block.layer)
    if block.spec.heads == 1:
        return "".join(f", which {_describe_factor(factor)}" for _, _, factor in edits)
    told = [f"head {head + 1} {_describe_factor(factor)}" for _, head, factor in edits]
    return f", of which {listed(told)}," if told else ""


def _describe_factor(factor: float | None) -> str:
    return EDITS.get(factor, f"is multiplied by {factor}")


def _write_formula(facts: CellFacts) -> str:
    head = facts.cell.place[-1] // facts.run.trace.shape(facts.explanation.stage.reads[0])[-1]
    edit = _find_edit(facts.explanation.stage, facts.layer, head)
    if edit is None:
        return "taken over"
    return "replaced in the model" if edit.factor is None else f"number × {trimmed(edit.factor)}"


def _write_equation(line: EquationTermWriter) -> EquationTerm:
    factors, _ = line.factors[0]
    if len(factors) > 1:
        return sum_equation(line)
    if not factors[0].name:  # the head's own vectors are replaced
        return sum_equation(line)
    return copied_equation(line, f"taken from head {factors[0].source(0)[-3] + 1}")


def _write_shapes(spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
    apart, between, joined = head_shapes(spec, tokens)
    return (f"{apart} → {between} → {joined}",)


def _collect_terms(explained: ExplainedCell) -> TermList:
    query, column = explained.place
    name = explained.stage.reads[0]
    head, within = divmod(column, explained.trace.shape(name)[-1])
    read = explained.factor(name, head, query, within)
    edit = _find_edit(explained.stage, explained.layer, head)
    if edit is None:
        return sum_of((read,))
    if edit.factor is None:
        there = float(explained.trace.read(explained.stage.name, explained.cell))
        return sum_of((constant(there, "{}"),))
    return sum_of((read, constant(edit.factor, f"{edit.factor:g}")))


class _HeadEdit(Struct, frozen=True):
    """Factor of a head's context vectors; None if they are replaced by others."""

    factor: float | None


def _find_edit(stage: Stage, layer: int, head: int) -> _HeadEdit | None:
    """Return the edit of a head of a model, if any."""
    if not isinstance(stage.step, JoinedHeads):
        return None
    found = [factor for at, one, factor in stage.step.edits if (at, one) == (layer, head)]
    return _HeadEdit(found[0]) if found else None


CONCAT_HEADS = OperationExplainer(
    operation=Operation.CONCAT_HEADS,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=_write_formula,
    equation=_write_equation,
    code=lambda context: f"{context.read[0]}.transpose(-3, -2).flatten(-2)",
    shape_equations=_write_shapes,
)
