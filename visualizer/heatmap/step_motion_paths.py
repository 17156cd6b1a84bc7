"""Which cells travel to which during a playback step: blocks of cells, without places or pictures.

A path follows the axes that a stage shares by name with the one it reads: a key's row goes to the
key's column of the scores, and a row of queries to the row of scores that they make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.session.zoom_ranges import row_role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from visualizer.heatmap.step_cell_and_prediction_highlights import (
        BlockReading,
        HighlightBlock,
        ShownStep,
    )

MOTION_MS = 200
"""How long a motion takes, whatever the speed of playback."""

MAX_BLOCK_PARTS = 16
"""Most parts of a block that travel on their own; of more, several travel together."""
MAX_PATHS = 200
"""Most paths of a step; where there were more, every block travels as one."""

AxisNames = tuple[str, str]
"""The names of a stage's rows and columns."""


class MotionPath(Struct, frozen=True):
    """Cells that are read, and the cells that they are read for."""

    source: HighlightBlock
    target: HighlightBlock


def begins_motion(before: ShownStep | None, after: ShownStep | None) -> bool:
    """Whether a step is shown anew that lasts long enough: in playback, or as the next one."""
    if after is None or (before and before.position == after.position):
        return False
    if after.ms is None:
        return after.position == (before.position if before else -1) + 1
    return after.ms >= MOTION_MS


def ends_motion(before: ShownStep | None, after: ShownStep | None) -> bool:
    """Whether another step is shown, or playback has been paused."""
    if before is None or after is None or before.position != after.position:
        return True
    return before.ms is not None and after.ms is None


def motion_paths(
    readings: tuple[BlockReading, ...], axes: Mapping[str, AxisNames]
) -> tuple[MotionPath, ...]:
    """Return the paths of a step between the stages whose axes are given."""
    whole = [
        MotionPath(source, target)
        for reading in readings
        if reading.made.stage in axes
        for source, target in _placed(reading)
        if source.stage in axes and source.rows and source.columns
    ]
    parts = [part for path in whole for part in _parts(path, axes)]
    return tuple(parts if len(parts) <= MAX_PATHS else whole)


def _placed(reading: BlockReading) -> Iterator[tuple[HighlightBlock, HighlightBlock]]:
    """Pair what is read with the cells it is read for: heads side by side have a part each."""
    made = reading.made
    for source in reading.read:
        heads = [block for block in reading.read if block.stage == source.stage]
        width = len(source.columns)
        is_beside = made.head is None and len(heads) * width == len(made.columns) > width
        if is_beside and source.head is not None:
            first = made.columns.start + heads.index(source) * width
            yield source, replace(made, columns=range(first, first + width))
        else:
            yield source, made


def _parts(path: MotionPath, axes: Mapping[str, AxisNames]) -> Iterator[MotionPath]:
    """Split a path along the one axis that both ends share; cells that stay together are one."""
    links = _links(path, axes)
    if len(links) != 1:
        yield path
        return
    ((from_, to),) = links
    span = _spans(path.source)[from_]
    size = -(-len(span) // MAX_BLOCK_PARTS)
    for start in range(span.start, span.stop, size):
        part = range(start, min(start + size, span.stop))
        yield MotionPath(_cut(path.source, from_, part), _cut(path.target, to, part))


def _links(path: MotionPath, axes: Mapping[str, AxisNames]) -> list[tuple[int, int]]:
    """Return which axis of the cells read is which of the cells made; 0 for rows, 1 for columns."""
    source, target = path.source, path.target
    own, others = axes[source.stage], axes[target.stage]
    return [
        (from_, to)
        for from_, name in enumerate(own)
        for to, other in enumerate(others)
        if other in (name, row_role(source.stage) if name == "token" else name)
        and _spans(source)[from_] == _spans(target)[to]
    ]


def _spans(block: HighlightBlock) -> tuple[range, range]:
    return block.rows, block.columns


def _cut(block: HighlightBlock, axis: int, part: range) -> HighlightBlock:
    return replace(block, rows=part) if axis == 0 else replace(block, columns=part)
