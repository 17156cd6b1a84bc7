"""Finds the cells of later stages that are computed from a given cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.stages import Operation
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import LeadingIndex, Trace

SAME_CELL_OPERATIONS = {
    Operation.ADD_POSITION,
    Operation.ADD_SCORE_BIAS,
    Operation.CAP_SCORES,
    Operation.DROPOUT,
    Operation.HIDDEN_ACTIVATION,
    Operation.MASK_AFTER_SOFTMAX,
    Operation.MASK_BEFORE_SOFTMAX,
    Operation.RENORMALISE_MASKED_WEIGHTS,
    Operation.RESIDUAL_ADDITION,
    Operation.SCALE_SCORES,
    Operation.SCALE_VECTOR,
    Operation.SCORES_TO_WEIGHTS,
    Operation.SOFTMAX_WITH_SINK,
    Operation.UNPROJECTED_INPUT,
}
"""Operations that compute each number from the number in the same cell, or from it and others."""
SAME_ROW_OPERATIONS = {
    Operation.INPUT_PROJECTION,
    Operation.LINEAR_LAYER,
    Operation.NORM_LAYER,
    Operation.OUTPUT_PROJECTION,
}
"""Operations that compute each row from the same row of the input."""
PRODUCT_OPERATIONS = {Operation.DOT_PRODUCT, Operation.WEIGHTED_SUM}
"""Operations that compute each number from a row of the first input and a row or column of the
second."""


class DependentCell(Struct, frozen=True):
    """One of the cells in a stage that are computed from a number.

    Parameters
    ----------
    words : str
        Name for all of these cells, such as "row 4 of Scores".
    """

    cell: Cell
    words: str


def dependent_cells(trace: Trace, leading: LeadingIndex, cell: Cell) -> tuple[DependentCell, ...]:
    """Return, for each stage that reads a cell, one of the cells that are computed from that cell.

    Stages that compute each number from all numbers of their input are left out.
    """
    if cell.fold is not None:
        return ()
    stages = (trace.stage_in_layer(name, leading) for name in trace.names)
    readers = (stage for stage in stages if cell.stage in stage.reads)
    return tuple(found for stage in readers if (found := _find_dependent_cell(trace, stage, cell)))


def _find_dependent_cell(trace: Trace, stage: Stage, cell: Cell) -> DependentCell | None:
    rows, columns = trace.shape(stage.name)[-2:]
    row, column = cell.place[-2:]
    title, place, words = stage.title, (row, column), stage.title
    if stage.operation in SAME_ROW_OPERATIONS:
        place, words = (row, min(column, columns - 1)), f"row {row + 1:,} of {title}"
    elif stage.operation in PRODUCT_OPERATIONS:
        is_second = stage.reads.index(cell.stage) == 1
        across = row if stage.operation is Operation.DOT_PRODUCT else column
        if is_second:  # a key vector, or a number in a value vector
            place, words = (min(row, rows - 1), across), f"column {across + 1:,} of {title}"
        else:
            place, words = (row, 0), f"row {row + 1:,} of {title}"
    elif stage.operation is Operation.CONCAT_HEADS:
        width = trace.shape(cell.stage)[-1]
        place = (row, (cell.head or 0) * width + column)
        words = f"column {place[1] + 1:,} of {title}"
    elif stage.operation not in SAME_CELL_OPERATIONS:
        return None
    if place[0] >= rows or place[1] >= columns:
        return None
    return DependentCell(
        Cell(stage.name, (*_head_of_dependent_cell(trace, stage, cell), *place)), words
    )


def _head_of_dependent_cell(trace: Trace, stage: Stage, cell: Cell) -> tuple[int, ...]:
    """Return the head of the result: the same head, or the first that shares the keys or values."""
    if "head" not in stage.dims:
        return ()
    if cell.head is None:
        return (0,)
    own, others = (_head_count(trace, name) for name in (stage.name, cell.stage))
    return (cell.head * (own // max(1, others)),)


def _head_count(trace: Trace, stage: str) -> int:
    return trace.shape(stage)[len(trace.axes)]
