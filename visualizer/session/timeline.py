"""The playback timeline, with steps that are derived from a trace and never stored.

A step is a block of cells in one stage. It is computed in all heads at the same time, as in the
module.
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
from visualizer.attention.roles import Role

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex, Trace

PLAYBACK_SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


class StepSize(StrEnum):
    """The amount of computation in one step.

    The steps of a tour are rows: one row of each stage is shown in full, and the other rows are
    shown quickly.
    """

    TOUR = "tour"
    STAGE = "stage"
    ROW = "row"
    CELL = "cell"

    @property
    def is_row(self) -> bool:
        """Whether a step computes one row."""
        return self in {StepSize.TOUR, StepSize.ROW}


STEP_MS = {StepSize.STAGE: 4000.0, StepSize.ROW: 2000.0, StepSize.CELL: 750.0}
"""Duration of a step at normal speed, in ms: long enough to read its caption or see its inputs."""

TOUR_MS = 26_000.0
"""Duration of a tour at normal speed, in milliseconds; a run with many stages takes longer."""
MIN_TOUR_STAGE_MS = 1500.0
"""Minimum duration of a stage in a tour, in milliseconds: long enough to read its caption."""
MIN_EQUATION_MS = 2500.0
"""Minimum duration of a stage in a tour, in ms, in which its equation can be read as well."""
TOUR_SHARES: dict[str, float] = {
    Role.SCORES: 2.5,
    Role.WEIGHTS: 4.5,
    Role.CONTEXT: 2.1,
    Role.OUTPUT: 0.6,
}
"""Shares of a tour's remaining time; all other stages take only the minimum."""
FULL_ROW_SHARE = 0.6
"""Fraction of a stage's time in a tour during which the full row is shown."""
TIME_TOLERANCE_MS = 1e-6
"""Remaining time, in ms, that is treated as zero, because sums of durations are not exact."""


class PlaybackPosition(Struct, frozen=True):
    """A playback position that stays valid when the document changes."""

    stage: str
    row: int = 0
    column: int = 0


class PlaybackState(Struct, frozen=True):
    """The playback position, and the options for continuing playback.

    Parameters
    ----------
    place : PlaybackPosition or None
        None at the end, where everything has been computed.
    speed : float
        Playback speed, relative to normal speed.
    span : tuple of (PlaybackPosition, str) or None
        The start of the range to play, and the last stage in it; None to play to the end.
    """

    place: PlaybackPosition | None = None
    grain: StepSize = StepSize.TOUR
    speed: float = 1.0
    loops: bool = False
    is_playing: bool = False
    span: tuple[PlaybackPosition, str] | None = None


class Step(Struct, frozen=True):
    """Cells that are computed together: a block of one stage, in every head."""

    stage: str
    rows: range
    columns: range


class Timeline(Struct, frozen=True, dict=True):
    """The steps of a run, indexed by number.

    Parameters
    ----------
    sizes : tuple of (stage, rows, columns)
        The stages and their sizes, in order of computation.
    full_row : int or None
        The row that a tour shows in full; None for the middle one, which is computed from several
        terms.
    given_stages : frozenset of str
        The stages without inputs, which are complete before they are played.
    """

    sizes: tuple[tuple[str, int, int], ...]
    grain: StepSize
    full_row: int | None = None
    given_stages: frozenset[str] = frozenset()

    @classmethod
    def from_trace(cls, trace: Trace, grain: StepSize, full_row: int | None = None) -> Timeline:
        """Create a timeline from the sizes of a trace's stages."""
        sides = ((name, trace.shape(name)[-2:]) for name in trace.names)
        sizes = tuple((name, rows, columns) for name, (rows, columns) in sides)
        given = frozenset(name for name in trace.names if not trace.stage(name).reads)
        return cls(sizes, grain, full_row, given)

    def __len__(self) -> int:
        return self.stage_start_indices[-1]

    @cached_property
    def stage_start_indices(self) -> tuple[int, ...]:
        """The index of each stage's first step, followed by the total number of steps.

        The result is cached, because an animation needs it at every step.
        """
        return tuple(accumulate((self.count_steps(*size) for size in self.sizes), initial=0))

    def count_steps(self, stage: str, rows: int, columns: int) -> int:
        """Return the number of steps of a stage."""
        if self.grain.is_row:
            return rows
        return 1 if self.grain is StepSize.STAGE else rows * columns

    def position_of_step(self, position: int) -> PlaybackPosition | None:
        """Return the playback position of a step, or None after the last step."""
        if position >= len(self):
            return None
        starts = self.stage_start_indices
        number = bisect_right(starts, max(0, position)) - 1
        stage, _, columns = self.sizes[number]
        within = max(0, position) - starts[number]
        if self.grain is StepSize.CELL:
            return PlaybackPosition(stage, *divmod(within, columns))
        return PlaybackPosition(stage, within)

    def step_at(self, place: PlaybackPosition) -> Step:
        """Return the cells computed at an existing position."""
        if self.grain is StepSize.STAGE:
            return self.whole_stage(place.stage)
        columns = next(size[2] for size in self.sizes if size[0] == place.stage)
        row = range(place.row, place.row + 1)
        if self.grain.is_row:
            return Step(place.stage, row, range(columns))
        return Step(place.stage, row, range(place.column, place.column + 1))

    def whole_stage(self, stage: str) -> Step:
        """Return a step with all cells of an existing stage."""
        rows, columns = next(size[1:] for size in self.sizes if size[0] == stage)
        return Step(stage, range(rows), range(columns))

    def step_index(self, place: PlaybackPosition | None) -> int:
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
            if self.grain is not StepSize.STAGE:
                within = row if self.grain.is_row else row * columns + column
        return self.stage_start_indices[number] + within

    def nearest_position(self, place: PlaybackPosition | None) -> PlaybackPosition | None:
        """Return the given position if it exists, or the nearest existing one."""
        return self.position_of_step(self.step_index(place))

    def playback_reach(self, place: PlaybackPosition, stage: str) -> tuple[int, int]:
        """Return how much of a stage has been computed once the step at a position is complete.

        Returns
        -------
        tuple of int
            The number of complete rows, and the number of columns in the next row.
        """
        names = [size[0] for size in self.sizes]
        rows = self.sizes[names.index(stage)][1]
        if stage in self.given_stages:
            return rows, 0
        if stage != place.stage:
            return (rows if names.index(stage) < names.index(place.stage) else 0), 0
        if self.grain is StepSize.STAGE:
            return rows, 0
        return (place.row + 1, 0) if self.grain.is_row else (place.row, place.column + 1)

    def last_step_index(self, stage: str) -> int:
        """Return the index of a stage's last step or, for a missing stage, of the previous step."""
        later = STAGE_ORDER[STAGE_ORDER.index(stage) + 1 :]
        names = [size[0] for size in self.sizes]
        ends = (
            start
            for name, start in zip(names, self.stage_start_indices, strict=False)
            if name in later
        )
        return max(0, next(ends, len(self)) - 1)

    def step_index_within_stage(self, stage: str, share: float) -> int:
        """Return the index of the step at a fraction, from 0 to 1, of an existing stage's steps."""
        number = [size[0] for size in self.sizes].index(stage)
        start, end = self.stage_start_indices[number : number + 2]
        return min(end - 1, start + int(share * (end - start)))

    # ------------------------------------------------------------------ time at normal speed

    @cached_property
    def stage_starts_ms(self) -> tuple[float, ...]:
        """The start time of each stage in milliseconds, followed by the end time."""
        return tuple(accumulate(map(self._stage_ms, range(len(self.sizes))), initial=0.0))

    def _stage_ms(self, number: int) -> float:
        if self.grain is not StepSize.TOUR:
            return (
                self.stage_start_indices[number + 1] - self.stage_start_indices[number]
            ) * STEP_MS[self.grain]
        rest = max(0.0, TOUR_MS - len(self.sizes) * MIN_TOUR_STAGE_MS)
        share = TOUR_SHARES.get(self.sizes[number][0], 0.0) / (self._total_tour_share or 1.0)
        return MIN_TOUR_STAGE_MS + share * rest

    def is_too_brief_for_equation(self, stage: str) -> bool:
        """Return whether a tour shows a stage for too short a time to read its equation."""
        number = [size[0] for size in self.sizes].index(stage)
        return self.grain is StepSize.TOUR and self._stage_ms(number) < MIN_EQUATION_MS

    def describes_whole_stage(self, place: PlaybackPosition) -> bool:
        """Return whether the sentence of a tour is about the whole stage at a position.

        A stage that is shown briefly has only this sentence; otherwise, it precedes the sentence of
        the row shown in full.
        """
        is_early = place.row < self.described_position(place).row
        return is_early or self.is_too_brief_for_equation(place.stage)

    @cached_property
    def _total_tour_share(self) -> float:
        return sum(TOUR_SHARES.get(stage, 0.0) for stage, _, _ in self.sizes)

    def described_position(self, place: PlaybackPosition) -> PlaybackPosition:
        """Return the position of the step that is described while steps are played.

        The quick rows of a tour leave no time to read, so the row shown in full is described during
        the whole stage.
        """
        if self.grain is not StepSize.TOUR:
            return place
        rows = next(size[1] for size in self.sizes if size[0] == place.stage)
        return PlaybackPosition(place.stage, self._full_row_index(rows))

    def _full_row_index(self, rows: int) -> int:
        return rows // 2 if self.full_row is None else min(self.full_row, rows - 1)

    def step_start_ms(self, position: int) -> float:
        """Return the start time of a step in milliseconds or, after the last step, the end time."""
        if position >= len(self):
            return self.stage_starts_ms[-1]
        number = bisect_right(self.stage_start_indices, position) - 1
        start, end = self.stage_start_indices[number : number + 2]
        within, steps = position - start, end - start
        quick, full = self._step_times_ms(number, steps)
        passed = 1 if within > self._full_row_index(steps) else 0
        return self.stage_starts_ms[number] + within * quick + passed * (full - quick)

    def _step_times_ms(self, number: int, steps: int) -> tuple[float, float]:
        """Return the durations of a quick step of a stage and of the step shown in full."""
        whole = self._stage_ms(number)
        if self.grain is not StepSize.TOUR or steps == 1:
            return whole / steps, whole / steps
        return (1 - FULL_ROW_SHARE) * whole / (steps - 1), FULL_ROW_SHARE * whole

    def step_duration_ms(self, position: int) -> float:
        """Return the duration of a step in milliseconds."""
        return self.step_start_ms(position + 1) - self.step_start_ms(position)

    def step_index_at_time(self, ms: float) -> int:
        """Return the index of the step shown at a time or, after the end, the number of steps."""
        starts = self.stage_starts_ms
        ms = max(0.0, ms + TIME_TOLERANCE_MS)
        if ms >= starts[-1]:
            return len(self)
        number = bisect_right(starts, ms) - 1
        steps = self.stage_start_indices[number + 1] - self.stage_start_indices[number]
        quick, full = self._step_times_ms(number, steps)
        within, before = ms - starts[number], self._full_row_index(steps)
        after_full = within - before * quick - full
        if after_full >= 0:
            row = before + 1 + int(after_full / quick)
        else:
            row = min(before, int(within / quick))
        return self.stage_start_indices[number] + min(steps - 1, row)

    def skip_stages(self, place: PlaybackPosition | None, stages: int) -> PlaybackPosition | None:
        """Return the start of the next stage or, going back, of the current or previous stage."""
        position, starts = self.step_index(place), self.stage_start_indices
        if stages > 0:
            return self.position_of_step(
                next((start for start in starts if start > position), len(self))
            )
        return self.position_of_step(
            max((start for start in starts if start < position), default=0)
        )


def caption_cell(run: Run, leading: LeadingIndex, step: Step, head: int) -> tuple[int, ...]:
    """Return the cell that a step's caption describes: the largest value in one head.

    In a row that cannot be computed, this is a NaN cell. For a whole stage that is not kept in
    memory, only the last row is searched.

    Returns
    -------
    tuple of int
        Indices of the cell in the stage's named dimensions.
    """
    trace = run.trace
    heads = (min(head, trace.spec.heads - 1),) if "head" in trace.stage(step.stage).dims else ()
    if len(step.rows) > 1 and trace.cached_stage_tensor(step.stage).is_blockwise:
        step = Step(step.stage, step.rows[-1:], step.columns)  # read only the last row
    block = (slice(step.rows.start, step.rows.stop), slice(step.columns.start, step.columns.stop))
    numbers = trace.read(step.stage, (*leading, *heads, *block))
    largest = int(numbers.argmax())  # argmax prefers NaN within a row
    if len(step.rows) > 1 and np.isnan(numbers.flat[largest]):
        largest = int(np.nan_to_num(numbers, nan=-np.inf).argmax())
    row, column = divmod(largest, numbers.shape[1])
    return (*heads, step.rows[row], step.columns[column])
