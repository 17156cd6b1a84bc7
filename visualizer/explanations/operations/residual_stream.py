"""Residual stream entering a layer: the output of the previous layer, or the embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.model_layer_steps import EmbeddedTokens, ResidualStream
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import (
    EquationTerm,
    EquationTermWriter,
    copied_equation,
    sum_equation,
)
from visualizer.explanations.cell_terms import Factor, TermList, constant, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import column_of, largest_number
from visualizer.explanations.operations.norm_layer import normed_terms
from visualizer.explanations.step_values_and_wording import trimmed, vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _embedded_tokens(stage: Stage, layer: int) -> EmbeddedTokens | None:
    """Return the input of the first layer, if this is the first layer and the input is known."""
    return stage.step_as(ResidualStream).embedded if layer == 0 else None


def _describe_source(stage: Stage, layer: int) -> str:
    """Describe the source of the stream."""
    if stage.step_as(ResidualStream).before[layer] is not None:
        return "as it left the layer before"
    known = _embedded_tokens(stage, layer)
    if known is None:
        return "as the model has it there; how it arose is not known"
    names = [path.rpartition(".")[2] for path, _ in known.tables]
    rows = "the token’s row" if len(names) == 1 else "the token’s rows"
    times = "" if known.factor == 1 else f", times {trimmed(known.factor)}"
    norm = f", made of one size ({known.norm.name})" if known.norm else ""
    return f"{rows} of {' and '.join(names)}{times}{norm}"


def _describe_cell(facts: CellFacts) -> str:
    source = _describe_source(facts.explanation.stage, facts.layer)
    return f"{column_of(facts)} is {format_number(facts.value)}: {source}."


def _describe_row(block: StepValues) -> str:
    source = _describe_source(block.stage, block.layer)
    return f"the residual stream of {block.query} is {vector(block.row())}: {source}"


def _describe_stage(block: StepValues) -> str:
    source = _describe_source(block.stage, block.layer)
    return f"the residual stream enters the layer, {source}; {largest_number(block)}"


def _write_formula(facts: CellFacts) -> str:
    stage = facts.explanation.stage
    if stage.step_as(ResidualStream).before[facts.layer] is not None:
        return "the result of the layer before"
    known = _embedded_tokens(stage, facts.layer)
    if known is None:
        return "read from the model"
    times = "" if known.factor == 1 else f" × {trimmed(known.factor)}"
    return f"{known.norm.name} of embedding{times}" if known.norm else f"embedding{times}"


def _write_equation(line: EquationTermWriter) -> EquationTerm:
    if len(line.factors) > 1 or len(line.factors[0][0]) > 1:
        return sum_equation(line)
    name = line.factors[0][0][0].name
    hows = {"result": "from the layer before", "residual": "read from the model"}
    return copied_equation(line, hows.get(name, "the token’s row of the embedding"))


def _collect_terms(explained: ExplainedCell) -> TermList:
    token, column = explained.place
    before = explained.stage.step_as(ResidualStream).before[explained.layer]
    if before is not None:
        return sum_of((explained.factor_of_layer(before, "result", token, column),))
    known = _embedded_tokens(explained.stage, explained.layer)
    if known is None:
        return sum_of((explained.factor(explained.stage.name, token, column),))
    more = () if known.factor == 1 else (constant(known.factor, trimmed(known.factor)),)
    rows = [(f"{path}.weight", numbers[token]) for path, numbers in known.tables]
    parts: tuple[tuple[Factor, ...], ...] = tuple(
        (explained.weight(name, row, column), *more) for name, row in rows
    )
    if known.norm is None:
        return sum_of(*parts)
    whole = np.sum([explained.weight(name, row, None).read for name, row in rows], axis=0)
    return normed_terms(explained, known.norm, parts, whole * known.factor, column)


RESIDUAL_STREAM = OperationExplainer(
    operation=Operation.RESIDUAL_STREAM,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=_write_formula,
    equation=_write_equation,
)
