"""Input vectors: one given vector per token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import copied_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import largest_number
from visualizer.explanations.shared_sentences import vector_column
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_count

if TYPE_CHECKING:
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_row(block: StepValues) -> str:
    size = format_count(block.spec.d_in, "number")
    name = ", its embedding" if block.stage.name == "embedding" else ""
    return f"{block.query} becomes a vector of {size}{name}: {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    size = format_count(block.spec.d_in, "number")
    name = ", its embedding" if block.stage.name == "embedding" else ""
    each = f"each of {block.tokens:,} tokens becomes a vector of {size}{name}"
    return f"{each}; {largest_number(block)}"


def _collect_terms(explained: ExplainedCell) -> TermList:
    return sum_of((explained.factor(explained.stage.name, *explained.place),))


INPUT_VECTORS = OperationExplainer(
    operation=Operation.INPUT_VECTORS,
    terms=_collect_terms,
    cell_sentence=lambda facts: vector_column(facts, "vector"),
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: "given",
    equation=lambda line: copied_equation(line, "given"),
    code=lambda context: "inputs",
)
