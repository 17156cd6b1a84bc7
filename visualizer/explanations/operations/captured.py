"""Weights, scores or vectors read from a file or a model instead of being computed."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import copied_equation
from visualizer.explanations.cell_terms import TermList, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import KINDS, UNFINISHED, largest_number
from visualizer.explanations.step_values_and_wording import LargestValue, vector
from visualizer.number_format import format_number, format_share

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _origin(run: Run, read: str, source: str = "a file") -> str:
    """Describe the origin of the numbers.

    Parameters
    ----------
    read : str
        The verb for the numbers that were read: "was" or "were".
    """
    if run.reading:
        return "is as the model computed it" if read == "was" else "are as the model computed them"
    return f"{read} read from {source}"


def _describe_cell(facts: CellFacts) -> str:
    stage = facts.explanation.stage
    origin = _origin(facts.run, "was", escape(facts.run.source))
    if stage.dims[-1] != "key":
        whose = f"{KINDS[stage.name]} of {facts.token(stage.dims[-2])}{facts.in_head}"
        return f"Column {facts.column} of the {whose} {origin}: {format_number(facts.value)}."
    kind = stage.noun
    source = f" This {kind} {origin}."
    query, key = (_numbered(facts, dim) or facts.token(dim) for dim in ("query", "key"))
    pair = f"{query} and {key}"
    if np.isnan(facts.value):
        return f"For {pair} there is no number.{source}"
    if stage.is_weights and 0 <= facts.value <= 1:
        query = query.replace("<b>query", "<b>Query", 1) if _numbered(facts, "query") else query
        return f"{query} reads {format_share(facts.value)} from {key}.{source}"
    return f"The {kind} of {pair} is {format_number(facts.value)}.{source}"


def _numbered(facts: CellFacts, dim: str) -> str:
    """Return the number of a position whose token is unknown; otherwise an empty string."""
    at = facts.place[dim]
    return f"<b>{dim} {at + 1}</b>" if facts.word(at, dim) == str(at + 1) else ""


def _describe_row(block: StepValues) -> str:
    if block.stage.dims[-1] != "key":
        read = f"the {KINDS[block.stage.name]} of {block.query} {_origin(block.run, 'was')}"
        return f"{read}: {vector(block.row())}"
    name, kind = block.stage.nouns, block.stage.noun
    read = f"the {name} of {block.query} {_origin(block.run, 'were')}"
    top = LargestValue.of(block.row())
    if top is None:
        return f"{read}; not every number is finite"
    if top.is_shared:
        return f"{read}; the largest, {format_number(top.value)}, appears {top.times:,} times"
    return f"{read}; the largest {kind}, {format_number(top.value)}, is that of {block.key(top.at)}"


def _describe_stage(block: StepValues) -> str:
    if block.stage.dims[-1] != "key":
        read = f"each token’s {KINDS[block.stage.name]} {_origin(block.run, 'was')}"
        return f"{read}; {largest_number(block)}"
    name, kind = block.stage.nouns, block.stage.noun
    read = f"all {name} {_origin(block.run, 'were')}"
    top = LargestValue.of(block.matrix())
    if top is None:
        return f"{read}; {UNFINISHED}"
    if top.is_shared:
        return (
            f"{read}; the largest {kind}, {format_number(top.value)}, appears {top.times:,} times"
        )
    query, key = divmod(top.at, block.matrix().shape[1])
    pair = f"{block.named(query, 'query')} and {block.key(key)}"
    return f"{read}; the largest {kind}, {format_number(top.value)}, is that of {pair}"


def _collect_terms(explained: ExplainedCell) -> TermList:
    return sum_of((explained.factor(explained.stage.name, *explained.place),))


CAPTURED = OperationExplainer(
    operation=Operation.CAPTURED,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=lambda facts: f"read from the {'model' if facts.run.reading else 'file'}",
    equation=lambda line: copied_equation(line, "taken as it is"),
)
