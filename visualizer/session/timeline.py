"""The playback timeline: steps as blocks of cells, computed from a trace and never stored.

A step is a block of cells of one stage, computed in all heads at once, as the module does.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.layer_stages import STAGE_ORDER

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex, Trace

PLAYBACK_SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


class StepSize(StrEnum):
    """The amount of computation in one step."""

    STAGE = "stage"
    ROW = "row"
    CELL = "cell"


# At normal speed: long enough to read a step's caption aloud, or to see a cell.
STEPS_PER_SECOND = {StepSize.STAGE: 0.25, StepSize.ROW: 0.5, StepSize.CELL: 4.0}


def step_duration_ms(grain: StepSize, speed: float) -> float:
    """Return the duration of a step at a speed, in milliseconds."""
    return 1000 / (speed * STEPS_PER_SECOND[grain])


class PlaybackPosition(Struct, frozen=True):
    """A playback position that stays valid when the document changes."""

    stage: str
    row: int = 0
    column: int = 0


class Playhead(Struct, frozen=True):
    """The playback position and how playback continues.

    Parameters
    ----------
    place : PlaybackPosition or None
        None at the end, where everything is computed.
    speed : float
        Relative to normal speed.
    span : tuple of (PlaybackPosition, str) or None
        Start of the range and the stage it ends after; None plays to the end.
    """

    place: PlaybackPosition | None = None
    grain: StepSize = StepSize.ROW
    speed: float = 1.0
    loops: bool = False
    is_playing: bool = False
    span: tuple[PlaybackPosition, str] | None = None


class Step(Struct, frozen=True):
    """The cells computed together: a block of a stage, in every head."""

    stage: str
    rows: range
    columns: range


class Timeline(Struct, frozen=True, dict=True):
    """The steps of a run, indexed by number.

    Parameters
    ----------
    sizes : tuple of (stage, rows, columns)
        In order of computation.
    """

    sizes: tuple[tuple[str, int, int], ...]
    grain: StepSize

    @classmethod
    def of(cls, trace: Trace, grain: StepSize) -> Timeline:
        """Create a timeline from the sizes of a trace's stages."""
        sides = ((name, trace.shape(name)[-2:]) for name in trace.names)
        return cls(tuple((name, rows, columns) for name, (rows, columns) in sides), grain)

    def __len__(self) -> int:
        return self.starts[-1]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The index of each stage's first step, followed by the total number of steps.

        The result is cached, because a film needs it at every step.
        """
        return tuple(accumulate((self.count_steps(*size) for size in self.sizes), initial=0))

    def count_steps(self, stage: str, rows: int, columns: int) -> int:
        """Return the number of steps of a stage."""
        return {StepSize.STAGE: 1, StepSize.ROW: rows, StepSize.CELL: rows * columns}[self.grain]

    def place(self, position: int) -> PlaybackPosition | None:
        """Return the playback position of a step; None at the end and beyond."""
        if position >= len(self):
            return None
        starts = self.starts
        number = bisect_right(starts, max(0, position)) - 1
        stage, _, columns = self.sizes[number]
        within = max(0, position) - starts[number]
        if self.grain is StepSize.CELL:
            return PlaybackPosition(stage, *divmod(within, columns))
        return PlaybackPosition(stage, within)

    def step(self, place: PlaybackPosition) -> Step:
        """Return the cells computed at an existing position."""
        rows, columns = next(size[1:] for size in self.sizes if size[0] == place.stage)
        if self.grain is StepSize.STAGE:
            return Step(place.stage, range(rows), range(columns))
        row = range(place.row, place.row + 1)
        if self.grain is StepSize.ROW:
            return Step(place.stage, row, range(columns))
        return Step(place.stage, row, range(place.column, place.column + 1))

    def position(self, place: PlaybackPosition | None) -> int:
        """Return the index of the step at a position, or of the nearest existing step.

        A missing stage is replaced by the next one.
        """
        if place is None:
            return len(self)
        names = [size[0] for size in self.sizes]
        later = STAGE_ORDER[STAGE_ORDER.index(place.stage) :]
        found = next((name for name in later if name in names), None)
        if found is None:
            return len(self)
        number = names.index(found)
        _, rows, columns = self.sizes[number]
        within = 0
        if found == place.stage:
            row, column = min(place.row, rows - 1), min(place.column, columns - 1)
            cell = row * columns + column
            within = {StepSize.STAGE: 0, StepSize.ROW: row, StepSize.CELL: cell}[self.grain]
        return self.starts[number] + within

    def nearest(self, place: PlaybackPosition | None) -> PlaybackPosition | None:
        """Return a position if it exists, or the nearest existing one."""
        return self.place(self.position(place))

    def playback_reach(self, place: PlaybackPosition, stage: str) -> tuple[int, int]:
        """Return how much of a stage is computed after the step at a position.

        Returns
        -------
        tuple of int
            Whole rows, and columns of the next row.
        """
        names = [size[0] for size in self.sizes]
        rows = self.sizes[names.index(stage)][1]
        if stage != place.stage:
            return (rows if names.index(stage) < names.index(place.stage) else 0), 0
        if self.grain is StepSize.STAGE:
            return rows, 0
        return (place.row + 1, 0) if self.grain is StepSize.ROW else (place.row, place.column + 1)

    def last_step_index(self, stage: str) -> int:
        """Return the index of a stage's last step, or of the last step before the stage."""
        later = STAGE_ORDER[STAGE_ORDER.index(stage) + 1 :]
        names = [size[0] for size in self.sizes]
        ends = (start for name, start in zip(names, self.starts, strict=False) if name in later)
        return max(0, next(ends, len(self)) - 1)

    def skip_stages(self, place: PlaybackPosition | None, stages: int) -> PlaybackPosition | None:
        """Move to the first step of an adjacent stage or, going back, of the current stage."""
        position, starts = self.position(place), self.starts
        if stages > 0:
            return self.place(next((start for start in starts if start > position), len(self)))
        return self.place(max((start for start in starts if start < position), default=0))


def caption_cell(run: Run, leading: LeadingIndex, step: Step, head: int) -> tuple[int, ...]:
    """Return the cell that a step's caption describes: the largest number in one head.

    In a row that cannot be computed, this is a NaN cell. For a whole stage that is not kept in
    memory, it is the cell of the largest number in the last row.

    Returns
    -------
    tuple of int
        Index of the cell in the stage's named dims.
    """
    trace = run.trace
    heads = (min(head, trace.spec.heads - 1),) if "head" in trace.stage(step.stage).dims else ()
    if len(step.rows) > 1 and trace.cached_stage(step.stage).is_blockwise:
        step = Step(step.stage, step.rows[-1:], step.columns)  # read only the last row
    block = (slice(step.rows.start, step.rows.stop), slice(step.columns.start, step.columns.stop))
    numbers = trace.read(step.stage, (*leading, *heads, *block))
    largest = int(numbers.argmax())  # argmax prefers NaN within a row
    if len(step.rows) > 1 and np.isnan(numbers.flat[largest]):
        largest = int(np.nan_to_num(numbers, nan=-np.inf).argmax())
    row, column = divmod(largest, numbers.shape[1])
    return (*heads, step.rows[row], step.columns[column])
