"""Layer-normalized vectors: RMS norm and layer norm.

Sources: Ba et al. 2016, "Layer Normalization"; Zhang and Sennrich 2019, "Root Mean Square Layer
Normalization".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.model_layer_steps import NormLayer
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import sum_equation
from visualizer.explanations.cell_terms import Factor, TermList, constant, sum_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import KINDS, column_of, largest_number
from visualizer.explanations.shape_equations import ShapeParameter
from visualizer.explanations.step_values_and_wording import vector
from visualizer.number_format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell
    from visualizer.explanations.step_values_and_wording import StepValues


def _divided(stage: Stage) -> str:
    """Return the formula of the normalization, without the gain of each column."""
    by = "its standard deviation" if stage.step_as(NormLayer).is_centred else "its root mean square"
    less = " less its mean," if stage.step_as(NormLayer).is_centred else ""
    return f"{less} divided by {by}"


def _then(stage: Stage) -> str:
    step = stage.step_as(NormLayer)
    weight = " times 1 plus the column’s weight" if step.adds_one else " times the column’s weight"
    parts = [weight] if step.has_gain else []
    parts += [" plus its bias"] if step.has_bias else []
    return ",".join(("", *parts)) if parts else ""


def _describe_cell(facts: CellFacts) -> str:
    stage = facts.explanation.stage
    made = f"is that of the {KINDS[stage.reads[0]]}{_divided(stage)}{_then(stage)}"
    return f"{column_of(facts)} {made}: {format_number(facts.value)}."


def _describe_row(block: StepValues) -> str:
    made = f"the {KINDS[block.reads]} of {block.query}{_divided(block.stage)}{_then(block.stage)}"
    return f"{made} is {vector(block.row())}"


def _describe_stage(block: StepValues) -> str:
    made = f"each {KINDS[block.reads]} is made of one size"
    return f"{made} ({block.stage.step_as(NormLayer).name}); {largest_number(block)}"


def _write_formula(facts: CellFacts) -> str:
    step = facts.explanation.stage.step_as(NormLayer)
    first = "(number − mean) ÷ deviation" if step.is_centred else "number ÷ root mean square"
    weight = " × (1 + weight)" if step.adds_one else " × weight"
    return first + weight * step.has_gain + " + bias" * step.has_bias


def normed_terms(
    explained: ExplainedCell,
    step: NormLayer,
    parts: tuple[tuple[Factor, ...], ...],
    whole: np.ndarray,
    column: int,
) -> TermList:
    """Return the terms of a number of a normalized vector.

    Parameters
    ----------
    parts : tuple of tuple of Factor
        The products whose sum is the number before normalization.
    whole : ndarray
        The vector before normalization, float64.
    column : int
        Column of the number in the vector.
    """
    moved = whole - whole.mean() if step.is_centred else whole
    size = float(np.sqrt(np.square(moved).mean() + step.epsilon))
    share = Factor("", (), np.array([size]), np.array([1 / size]), "1/{}")
    module = step.modules[explained.layer if len(step.modules) > 1 else 0]
    if step.is_centred:
        parts = (*parts, (constant(-float(whole.mean()), "{}"),))
    gain = (explained.weight(f"{module}.weight", column),) if step.has_gain else ()
    groups = [(*part, share, *gain) for part in parts]
    if step.adds_one:  # the gain is 1 plus the parameter
        groups += [(*part, share) for part in parts]
    if step.has_bias:
        groups.append((explained.weight(f"{module}.bias", column),))
    return sum_of(*groups)


def _collect_terms(explained: ExplainedCell) -> TermList:
    step, (*head, token, column) = explained.stage.step_as(NormLayer), explained.place
    read = explained.stage.reads[0]
    own = explained.factor(read, *head, token, column)
    if not step.is_over_heads:
        whole = explained.factor(read, *head, token, None).read
        return normed_terms(explained, step, ((own,),), whole, column)
    firsts = [step.heads.index(shared) for shared in dict.fromkeys(step.heads)]
    vectors = [explained.factor(read, first, token, None).read for first in firsts]
    within = step.heads[head[0]] * len(vectors[0]) + column
    return normed_terms(explained, step, ((own,),), np.concatenate(vectors), within)


def _find_parameter(spec: AttentionSpec, stage: Stage, tokens: int) -> ShapeParameter | None:
    """Return the weights of a norm of a module's block; None for a norm of a model."""
    return ShapeParameter(stage.parameters[0], (spec.d_in,)) if stage.parameters else None


NORM_LAYER = OperationExplainer(
    operation=Operation.NORM_LAYER,
    terms=_collect_terms,
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=_describe_stage,
    formula=_write_formula,
    equation=sum_equation,
    code=lambda context: f"{context.words.layers[context.stage.parameters[0]]}({context.read[0]})",
    parameter=_find_parameter,
)
