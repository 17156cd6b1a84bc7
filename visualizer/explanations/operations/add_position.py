"""Addition of token and position embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import largest_number
from visualizer.explanations.shape_equations import sizes
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    column = f"Column {facts.column} of the input of {facts.token('token')}"
    return f"{column} is its embedding plus its position: {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    embedding = f"the embedding of {block.word(block.at)}"
    position = f"the position vector of place {block.at + 1}"
    return f"{embedding} plus {position} gives its input: {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    return f"embedding and position are added, number by number; {largest_number(block)}"


def _write_shapes(spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
    one = sizes(tokens, spec.d_in)
    return (f"{one} + {one} = {one}",)


def _collect_terms(explained: ExplainedCell) -> TermList:
    return sum_of(*((explained.factor(name, *explained.place),) for name in explained.stage.reads))


ADD_POSITION = OperationExplainer(
    operation=Operation.ADD_POSITION,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: "embedding + position",
    equation=sum_equation,
    code=lambda context: " + ".join(context.read),
    shape_equations=_write_shapes,
)
