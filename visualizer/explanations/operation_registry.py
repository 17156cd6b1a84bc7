"""What is said and written of the operations: the row of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.explanations.operations.add import ADD
from visualizer.explanations.operations.average import AVERAGE
from visualizer.explanations.operations.captured import CAPTURED
from visualizer.explanations.operations.dot import DOT
from visualizer.explanations.operations.drop import DROP
from visualizer.explanations.operations.forbid import FORBID
from visualizer.explanations.operations.given import GIVEN
from visualizer.explanations.operations.join import JOIN
from visualizer.explanations.operations.mix import MIX
from visualizer.explanations.operations.normalise import NORMALISE
from visualizer.explanations.operations.position import POSITION
from visualizer.explanations.operations.project import PROJECT
from visualizer.explanations.operations.project_out import PROJECT_OUT
from visualizer.explanations.operations.renormalise import RENORMALISE
from visualizer.explanations.operations.scale import SCALE
from visualizer.explanations.operations.split import SPLIT
from visualizer.explanations.operations.zero import ZERO

if TYPE_CHECKING:
    from visualizer.attention.stages import Operation
    from visualizer.explanations.operation_text import OperationText

_ROWS = (
    GIVEN,
    POSITION,
    ADD,
    PROJECT,
    SPLIT,
    DOT,
    SCALE,
    FORBID,
    NORMALISE,
    AVERAGE,
    ZERO,
    RENORMALISE,
    DROP,
    MIX,
    JOIN,
    PROJECT_OUT,
    CAPTURED,
)

TEXTS: dict[Operation, OperationText] = {row.operation: row for row in _ROWS}
