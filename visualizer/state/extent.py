"""Which part of a stage is drawn, and how coarse."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace
    from visualizer.state.zoom import Zoom


@dataclass(frozen=True, slots=True)
class Look:
    """Which part of a stage is drawn, and how many of its rows and columns a drawn cell holds."""

    blocks: tuple[int, int]
    rows: range | None
    columns: range | None
    side: tuple[int, int]

    @property
    def cells(self) -> tuple[slice, slice]:
        """The drawn cells, among all that there would be of such blocks."""
        return _cells(self.rows, self.blocks[0]), _cells(self.columns, self.blocks[1])


def _cells(part: range | None, block: int) -> slice:
    return slice(None) if part is None else slice(part.start // block, -(-part.stop // block))


def look_of(trace: Trace, stage: Stage, room: int, zoom: Zoom | None) -> Look:
    """Say which part of a stage is drawn, and how coarse, with room for so many cells a side.

    Parameters
    ----------
    zoom : Zoom or None
        A part that the trace has; None for all of it.
    """
    sizes = trace.tensor(stage.name).shape[-2:]
    whole = blocks_of(trace, stage, room)
    side = (math.ceil(sizes[0] / whole[0]), math.ceil(sizes[1] / whole[1]))
    if zoom is None:
        return Look(whole, None, None, side)
    rows, columns = zoom.of(stage)
    blocks = (_block(rows, room), whole[1] if columns is None else _block(columns, room))
    across = None if columns is None else _whole_blocks(columns, blocks[1], sizes[1])
    return Look(blocks, _whole_blocks(rows, blocks[0], sizes[0]), across, side)


def _block(part: range, room: int) -> int:
    """Give a power of two: of those few there are, each is read once and kept."""
    return 1 << (math.ceil(len(part) / room) - 1).bit_length()


def _whole_blocks(part: range, block: int, size: int) -> range:
    return range(part.start // block * block, min(-(-part.stop // block) * block, size))


def blocks_of(trace: Trace, stage: Stage, room: int) -> tuple[int, int]:
    """Give how many rows and columns of a stage a drawn cell holds, with room for so many."""
    rows, columns = trace.tensor(stage.name).shape[-2:]
    return math.ceil(rows / room), math.ceil(columns / room)
