"""Attention scores: the dot product of each query with each key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.shape_equations import each_head, matrix_product
from visualizer.explanations.step_values_and_wording import LargestValue, all_of, others
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    score = format_number(facts.value)
    pair = f"The query of {facts.token('query')} meets the key of {facts.token('key')}"
    return f"{pair}: their score is {score}."


def _describe_row(block: StepValues) -> str:
    scores = block.row()
    count, top = len(scores), LargestValue.of(scores)
    query = f"the query of {block.word(block.at)} (query {block.run.number(block.at, 'query')})"
    if count == 1:
        own = ", its own" if block.run.has_same_keys else ""
        return f"{query} meets the only key{own}: the score is {format_number(scores[0])}"
    meets = f"{query} meets {all_of(count, 'key')}"
    if top is None:
        return f"{meets}, but not every score is a finite number"
    if top.is_everywhere:
        return f"{meets}: {all_of(count, 'score')} are alike, {format_number(top.value)}"
    verb = "agrees most" if top.value >= 0 else "disagrees least"
    key = f"{block.word(top.at, 'key')} (key {top.at + 1})"
    alike = f" and {others(top.times - 1)} alike" if top.is_shared else ""
    return f"{meets}: it {verb} with {key}{alike}, {format_number(top.value)}"


def _describe_stage(block: StepValues) -> str:
    top = LargestValue.of(block.matrix())
    meet = "each query meets each key in a dot product"
    if top is None:
        return f"{meet}; not every score is finite"
    score = format_number(top.value)
    if top.is_everywhere:
        return f"{meet}; all {top.count:,} scores are alike, {score}"
    largest = f"{meet}; of {top.count:,} scores the largest, {score},"
    if top.is_shared:
        return f"{largest} appears {top.times:,} times"
    query, key = divmod(top.at, block.matrix().shape[1])
    return f"{largest} is where {block.named(query, 'query')} meets {block.key(key)}"


def _write_shapes(spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
    return (matrix_product(tokens, spec.d_head, tokens) + each_head(spec),)


def _collect_terms(explained: ExplainedCell) -> TermList:
    head, query, key = explained.place
    queries, keys = explained.stage.reads
    return sum_of(
        (explained.factor(queries, head, query, None), explained.factor(keys, head, key, None))
    )


DOT_PRODUCT = OperationExplainer(
    operation=Operation.DOT_PRODUCT,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: "Σ query × key",
    equation=sum_equation,
    code=lambda context: f"{context.read[0]} @ {context.read[1]}.transpose(-2, -1)",
    shape_equations=_write_shapes,
    multiply_adds=lambda spec, stage, tokens: tokens * tokens * spec.width,
)
