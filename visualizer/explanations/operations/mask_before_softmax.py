"""The mask before the softmax: forbidden scores become −∞."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import Mask
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import allowed_or_replaced
from visualizer.explanations.cell_terms import choice_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import forbidden_cells, may_read

if TYPE_CHECKING:
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_cell(facts: CellFacts) -> str:
    if facts.is_forbidden:
        pair = f"{facts.token('query')} may not read {facts.token('key')}"
        return f"{pair}: its score becomes −∞, so its weight will be 0."
    return f"{facts.token('query')} may read {facts.token('key')}: its score stays."


def _describe_row(block: StepValues) -> str:
    may, rest = may_read(block)
    is_one = not rest.endswith("s")
    if not rest:
        is_single = len(block.allowed_row()) == 1
        return f"{may}: {'its score' if is_single else 'every score'} stays"
    becomes = "becomes −∞" if is_one else "become −∞"
    if block.masking.mask is Mask.NONE and rest.startswith("the other"):
        is_padding = "is padding, and its score" if is_one else "are padding, and their scores"
        rest = rest.replace(" {}s", "").replace(" {}", "")
        return f"{may}: {rest} {is_padding} {becomes}"
    return f"{may}: {rest.format('score')} {becomes}"


MASK_BEFORE_SOFTMAX = OperationExplainer(
    operation=Operation.MASK_BEFORE_SOFTMAX,
    terms=lambda explained: choice_of(explained, -np.inf, "−∞"),
    cell_sentence=_describe_cell,
    row_sentence=_describe_row,
    stage_sentence=lambda block: forbidden_cells(block, "score", "becomes −∞", "become −∞"),
    formula=lambda facts: "the score where allowed, else −∞",
    equation=allowed_or_replaced,
    code=lambda context: (
        f"{context.read[0]}.masked_fill({context.forbidden()}, {context.words.infinity})"
    ),
)
