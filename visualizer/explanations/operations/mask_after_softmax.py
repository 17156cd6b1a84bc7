"""The mask after the softmax: forbidden weights become 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.stages import Operation
from visualizer.explanations.cell_equation_writer import allowed_or_replaced
from visualizer.explanations.cell_terms import choice_of
from visualizer.explanations.operation_explainer import OperationExplainer
from visualizer.explanations.operation_sentence_parts import forbidden_cells, may_read
from visualizer.explanations.shared_sentences import weights_sentence
from visualizer.explanations.step_values_and_wording import row_sums, trimmed

if TYPE_CHECKING:
    from visualizer.explanations.step_values_and_wording import StepValues


def _describe_row(block: StepValues) -> str:
    may, rest = may_read(block)
    weights = block.row()
    total = trimmed(float(row_sums(weights)))
    sums = f"the row now sums to {total}" if np.isfinite(weights).all() else "the row has no sum"
    if not rest:
        stays = "its weight stays" if block.tokens == 1 else "every weight stays"
        return f"{may}: {stays}" if np.isfinite(weights).all() else f"{may}, but {sums}"
    becomes = f"{rest.format('weight')} {'are' if rest.endswith('s') else 'is'} set to 0"
    return f"{may}: {becomes}" if not weights.any() else f"{may}: {becomes}, and {sums}"


MASK_AFTER_SOFTMAX = OperationExplainer(
    operation=Operation.MASK_AFTER_SOFTMAX,
    terms=lambda explained: choice_of(explained, 0.0, "0"),
    cell_sentence=weights_sentence,
    row_sentence=_describe_row,
    stage_sentence=lambda block: forbidden_cells(block, "weight", "is set to 0", "are set to 0"),
    formula=lambda facts: "the weight where allowed, else 0",
    equation=allowed_or_replaced,
    code=lambda context: f"{context.read[0]}.masked_fill({context.forbidden()}, 0)",
)
