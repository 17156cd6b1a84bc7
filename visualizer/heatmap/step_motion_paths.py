"""Motion paths of a playback step: source and target blocks, independent of positions and images.

A path follows the axes that have the same name in a stage and in its input: the row of a key moves
to the column of that key in the scores, and the row of a query to the row of that query.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.heatmap.step_motion_phases import READ_PHASES, unpaused_motion_ms
from visualizer.session.zoom_ranges import row_token_role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from visualizer.heatmap.highlights import BlockComputation, HighlightBlock, HighlightedStep
    from visualizer.heatmap.step_motion_phases import MotionKind

MOTION_MS = 200
"""Minimum duration of a motion in milliseconds; quicker steps have no motion."""
READ_MS = 1500
"""Time for reading the card of a single step, in milliseconds; the next step ends it earlier."""
MAX_MOTION_SHARE = 0.8
"""Maximum share of a step's display time during which its inputs move."""
MAX_SLOWDOWN = 2
"""Maximum duration of a motion during playback, as a multiple of the duration in a single step.

A motion with a card may take longer, so that the card can be read.
"""

MAX_BLOCK_PARTS = 16
"""Maximum number of parts of a block that move separately; if there are more, they are grouped."""
MAX_PATHS = 200
"""Maximum number of paths of a step; if there are more, every block moves as a whole."""

AxisNames = tuple[str, str]
"""Names of a stage's row and column axes."""


class MotionPath(Struct, frozen=True):
    """Input cells, and the cells computed from them."""

    source: HighlightBlock
    target: HighlightBlock


def motion_duration_ms(step_ms: float | None, kind: MotionKind) -> int:
    """Return how long the inputs of a step move, in milliseconds.

    During playback, the motion is shorter for quick steps, and longer for slow steps, in which
    there is time to read the numbers.

    Parameters
    ----------
    step_ms : float or None
        How long the step is shown, in milliseconds; None if it is not played.
    """
    full_ms = unpaused_motion_ms(kind)
    if step_ms is None:
        return full_ms + (READ_MS if kind in READ_PHASES else 0)
    most = math.inf if kind in READ_PHASES else MAX_SLOWDOWN * full_ms
    return int(max(MOTION_MS, min(most, MAX_MOTION_SHARE * step_ms)))


def starts_motion(before: HighlightedStep | None, after: HighlightedStep | None) -> bool:
    """Return whether a new step should be animated.

    During playback, it must last long enough; while paused, it must be the next step.
    """
    if after is None or (before and before.position == after.position):
        return False
    if after.ms is None:
        return after.position == (before.position if before else -1) + 1
    return after.ms >= MOTION_MS


def ends_motion(before: HighlightedStep | None, after: HighlightedStep | None) -> bool:
    """Return whether another step is shown, or playback has been paused."""
    if before is None or after is None or before.position != after.position:
        return True
    return before.ms is not None and after.ms is None


def motion_paths(
    computations: tuple[BlockComputation, ...], axes: Mapping[str, AxisNames]
) -> tuple[MotionPath, ...]:
    """Return the paths of a step between the stages in `axes`."""
    whole = [
        MotionPath(source, target)
        for computation in computations
        if computation.result.stage in axes
        for source, target in _pair_blocks(computation)
        if source.stage in axes and source.rows and source.columns
    ]
    parts = [part for path in whole for part in _split_path(path, axes)]
    return tuple(parts if len(parts) <= MAX_PATHS else whole)


def _pair_blocks(computation: BlockComputation) -> Iterator[tuple[HighlightBlock, HighlightBlock]]:
    """Pair inputs with the cells computed from them, and heads with their concatenated columns."""
    result = computation.result
    for source in computation.inputs:
        heads = [block for block in computation.inputs if block.stage == source.stage]
        width = len(source.columns)
        is_beside = result.head is None and len(heads) * width == len(result.columns) > width
        if is_beside and source.head is not None:
            first = result.columns.start + heads.index(source) * width
            yield source, replace(result, columns=range(first, first + width))
        else:
            yield source, result


def _split_path(path: MotionPath, axes: Mapping[str, AxisNames]) -> Iterator[MotionPath]:
    """Split a path along the axis shared by both ends, if there is exactly one."""
    links = _shared_axes(path, axes)
    if len(links) != 1:
        yield path
        return
    ((from_, to),) = links
    span = _block_ranges(path.source)[from_]
    size = -(-len(span) // MAX_BLOCK_PARTS)
    for start in range(span.start, span.stop, size):
        part = range(start, min(start + size, span.stop))
        yield MotionPath(_cut_block(path.source, from_, part), _cut_block(path.target, to, part))


def _shared_axes(path: MotionPath, axes: Mapping[str, AxisNames]) -> list[tuple[int, int]]:
    """Return pairs of shared source and target axes, where 0 is for rows and 1 for columns."""
    source, target = path.source, path.target
    own, others = axes[source.stage], axes[target.stage]
    return [
        (from_, to)
        for from_, name in enumerate(own)
        for to, other in enumerate(others)
        if other in (name, row_token_role(source.stage) if name == "token" else name)
        and _block_ranges(source)[from_] == _block_ranges(target)[to]
    ]


def _block_ranges(block: HighlightBlock) -> tuple[range, range]:
    return block.rows, block.columns


def _cut_block(block: HighlightBlock, axis: int, part: range) -> HighlightBlock:
    return replace(block, rows=part) if axis == 0 else replace(block, columns=part)
