"""What is said and written of the operations: the row of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.explanations.operations.add_position import ADD_POSITION
from visualizer.explanations.operations.captured import CAPTURED
from visualizer.explanations.operations.concat_heads import CONCAT_HEADS
from visualizer.explanations.operations.dot_product import DOT_PRODUCT
from visualizer.explanations.operations.dropout import DROPOUT
from visualizer.explanations.operations.equal_weights import EQUAL_WEIGHTS
from visualizer.explanations.operations.input_projection import INPUT_PROJECTION
from visualizer.explanations.operations.input_vectors import INPUT_VECTORS
from visualizer.explanations.operations.mask_after_softmax import MASK_AFTER_SOFTMAX
from visualizer.explanations.operations.mask_before_softmax import MASK_BEFORE_SOFTMAX
from visualizer.explanations.operations.output_projection import OUTPUT_PROJECTION
from visualizer.explanations.operations.position_vectors import POSITION_VECTORS
from visualizer.explanations.operations.renormalise_masked_weights import RENORMALISE_MASKED_WEIGHTS
from visualizer.explanations.operations.scale_scores import SCALE_SCORES
from visualizer.explanations.operations.scores_to_weights import SCORES_TO_WEIGHTS
from visualizer.explanations.operations.unprojected_input import UNPROJECTED_INPUT
from visualizer.explanations.operations.weighted_sum import WEIGHTED_SUM

if TYPE_CHECKING:
    from visualizer.attention.stages import Operation
    from visualizer.explanations.operation_explainer import OperationExplainer

_ROWS = (
    INPUT_VECTORS,
    POSITION_VECTORS,
    ADD_POSITION,
    INPUT_PROJECTION,
    UNPROJECTED_INPUT,
    DOT_PRODUCT,
    SCALE_SCORES,
    MASK_BEFORE_SOFTMAX,
    SCORES_TO_WEIGHTS,
    EQUAL_WEIGHTS,
    MASK_AFTER_SOFTMAX,
    RENORMALISE_MASKED_WEIGHTS,
    DROPOUT,
    WEIGHTED_SUM,
    CONCAT_HEADS,
    OUTPUT_PROJECTION,
    CAPTURED,
)

TEXTS: dict[Operation, OperationExplainer] = {row.operation: row for row in _ROWS}
