"""What is said and written of the operations: the row of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.explanations.operations.add import ADD
from visualizer.explanations.operations.captured import CAPTURED
from visualizer.explanations.operations.concat_heads import CONCAT_HEADS
from visualizer.explanations.operations.dot_product import DOT_PRODUCT
from visualizer.explanations.operations.dropout import DROPOUT
from visualizer.explanations.operations.given import GIVEN
from visualizer.explanations.operations.input_projection import INPUT_PROJECTION
from visualizer.explanations.operations.mask_scores import MASK_SCORES
from visualizer.explanations.operations.mask_weights import MASK_WEIGHTS
from visualizer.explanations.operations.normalise import NORMALISE
from visualizer.explanations.operations.output_projection import OUTPUT_PROJECTION
from visualizer.explanations.operations.positional_encoding import POSITIONAL_ENCODING
from visualizer.explanations.operations.renormalise import RENORMALISE
from visualizer.explanations.operations.scale import SCALE
from visualizer.explanations.operations.uniform_weights import UNIFORM_WEIGHTS
from visualizer.explanations.operations.unprojected_input import UNPROJECTED_INPUT
from visualizer.explanations.operations.weighted_sum import WEIGHTED_SUM

if TYPE_CHECKING:
    from visualizer.attention.stages import Operation
    from visualizer.explanations.operation_explainer import OperationExplainer

_ROWS = (
    GIVEN,
    POSITIONAL_ENCODING,
    ADD,
    INPUT_PROJECTION,
    UNPROJECTED_INPUT,
    DOT_PRODUCT,
    SCALE,
    MASK_SCORES,
    NORMALISE,
    UNIFORM_WEIGHTS,
    MASK_WEIGHTS,
    RENORMALISE,
    DROPOUT,
    WEIGHTED_SUM,
    CONCAT_HEADS,
    OUTPUT_PROJECTION,
    CAPTURED,
)

TEXTS: dict[Operation, OperationExplainer] = {row.operation: row for row in _ROWS}
