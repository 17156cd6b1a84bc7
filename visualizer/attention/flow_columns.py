"""The columns of the flow board: the matrices of a computation, their states and their operands.

In a matrix product, the rows are from the matrix to the left and the columns from the matrix above;
the result is at their intersection. Everything in this module is derived from the stage table.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.layer_operations import LinearLayer
from visualizer.attention.roles import Role
from visualizer.attention.stages import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from visualizer.attention.stages import Stage

TRANSPOSED_OPERANDS = {Operation.DOT_PRODUCT: 1, Operation.IMPLIED_WEIGHTS: 1}
"""Operations with a transposed input above their result, and the index of this input."""
UPRIGHT_OPERANDS = {Operation.WEIGHTED_SUM: 1}
"""Operations with an untransposed input above their result, and the index of this input."""
LAYER_OPERATIONS = {
    Operation.INPUT_PROJECTION,
    Operation.OUTPUT_PROJECTION,
    Operation.LINEAR_LAYER,
}
"""Operations with the weights of a layer above their result."""

CELL_BY_CELL_OPERATIONS = {Operation.RESIDUAL_ADDITION, Operation.HIDDEN_ACTIVATION}
"""Operations that compute each number from the same cell of the input if there is only one."""


class FlowPart(IntEnum):
    """Part of the flow; the parts are ordered from left to right."""

    BEFORE_HEADS = 0
    HEADS = 1
    AFTER_HEADS = 2


class FlowColumn(Struct, frozen=True):
    """One matrix of the flow.

    Parameters
    ----------
    states : tuple of str
        The stages that the matrix can show, such as scores, scaled and masked.
    part : FlowPart
        Whether the matrix is to the left of the heads, within a head, or to the right of the heads.
    dims : tuple of str
        Names of the axes of the states.
    reads : tuple of str
        The input stages of the states, without the states themselves.
    is_feed_forward : bool
        Whether the matrix is a hidden layer of the feed-forward layer, or is computed from one.
    operand : str
        The stage above the matrix; empty if there is none.
    is_operand_transposed : bool
        Whether the operand is shown transposed, as the keys are above the scores.
    layer : str
        The layer that the weights above the matrix belong to; empty if there are none.
    layer_stage : str
        The state that this layer computes.
    is_residual_addition : bool
        Whether the matrix is the sum of the stages that it reads; the first is the residual stream.
    """

    states: tuple[str, ...]
    part: FlowPart
    dims: tuple[str, ...]
    reads: tuple[str, ...]
    is_feed_forward: bool = False
    operand: str = ""
    is_operand_transposed: bool = False
    layer: str = ""
    layer_stage: str = ""
    is_residual_addition: bool = False

    @property
    def is_query_key(self) -> bool:
        """Whether the rows are queries and the columns are keys."""
        return self.dims[-1] == "key"

    @property
    def has_heads(self) -> bool:
        """Whether each head has its own matrix."""
        return "head" in self.dims


def flow_columns(stages: Sequence[Stage]) -> tuple[FlowColumn, ...]:
    """Return the columns of the flow from left to right."""
    groups: list[list[Stage]] = []
    for stage in stages:
        group = _find_continued_group(stage, groups)
        if group is None:
            groups.append([stage])
        else:
            group.append(stage)
    last = max((at for at, group in enumerate(groups) if _has_heads(group[0])), default=-1)
    hidden = frozenset(stage.name for stage in stages if stage.dims[-1] == "d_ff")
    columns = [
        _create_flow_column(group, hidden, is_late=at > last) for at, group in enumerate(groups)
    ]
    return tuple(sorted(columns, key=lambda column: column.part))


def focused_column_index(columns: Sequence[FlowColumn], wanted: Iterable[str]) -> int:
    """Return the index of the column with the first existing wanted stage, or with the weights."""
    for name in (*wanted, Role.WEIGHTS, Role.SCORES):
        for at, column in enumerate(columns):
            if name in column.states:
                return at
    return len(columns) - 1


def visible_state(column: FlowColumn, wanted: Iterable[str]) -> str:
    """Return the state that a column shows: its first wanted state, or else its last state."""
    return next((name for name in wanted if name in column.states), column.states[-1])


def previous_state(columns: Sequence[FlowColumn], stage: str) -> str:
    """Return the state of a matrix before a stage, or an empty string for its first stage."""
    states = next(column.states for column in columns if stage in column.states)
    at = states.index(stage)
    return states[at - 1] if at else ""


def _find_continued_group(stage: Stage, groups: list[list[Stage]]) -> list[Stage] | None:
    """Return the group of states that a stage continues, or None if it begins a new matrix."""
    if stage.dims[-1] == "key":
        same = (
            group
            for group in groups
            if group[0].dims[-1] == "key" and group[0].is_weights is stage.is_weights
        )
        return next(same, None)
    if not stage.reads or stage.operation in LAYER_OPERATIONS:
        return None
    is_cell_by_cell = stage.operation in CELL_BY_CELL_OPERATIONS and len(stage.reads) == 1
    for group in groups:
        if group[-1].name != stage.reads[0]:
            continue
        # A copied stage may have other names for the same axes.
        is_same_head = _has_heads(stage) and group[-1].dims[-2:] == stage.dims[-2:]
        return group if is_cell_by_cell or is_same_head else None
    return None


def _has_heads(stage: Stage) -> bool:
    return "head" in stage.dims


def _create_flow_column(group: list[Stage], hidden: frozenset[str], *, is_late: bool) -> FlowColumn:
    names = tuple(stage.name for stage in group)
    reads = dict.fromkeys(name for stage in group for name in stage.reads if name not in names)
    part = FlowPart.AFTER_HEADS if is_late else FlowPart.BEFORE_HEADS
    operand, is_transposed, layer = _find_operand(group)
    computed = (stage.name for stage in group if stage.operation in LAYER_OPERATIONS)
    is_addition = any(stage.operation is Operation.RESIDUAL_ADDITION for stage in group)
    return FlowColumn(
        names,
        FlowPart.HEADS if _has_heads(group[0]) else part,
        group[-1].dims,
        tuple(reads),
        not hidden.isdisjoint((*names, *reads)),
        operand,
        is_transposed,
        layer,
        next(computed, "") if layer else "",
        is_addition and len(reads) > 1,
    )


def _find_operand(group: list[Stage]) -> tuple[str, bool, str]:
    """Return the stage above a matrix, whether this stage is transposed, and the layer above."""
    for stage in group:
        for operations, is_transposed in ((TRANSPOSED_OPERANDS, True), (UPRIGHT_OPERANDS, False)):
            at = operations.get(stage.operation)
            if at is not None:
                return stage.reads[at], is_transposed, ""
        if stage.operation in LAYER_OPERATIONS:
            return "", False, layer_name_of_stage(stage)
    return "", False, ""


def layer_name_of_stage(stage: Stage) -> str:
    """Return the name of the layer that computes a stage, or an empty string without weights."""
    if stage.parameters:
        return stage.parameters[0]
    return stage.step.name if isinstance(stage.step, LinearLayer) else ""
