"""Words of a comparison: why two runs cannot be compared, signed numbers, names of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.language.tokenizers import visible
from visualizer.number_format import format_count, format_number, shorten

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import LeadingIndex


def mismatch(kept: Run, run: Run, stage: Stage) -> str:
    """Return why a stage cannot be compared between A and B; empty if it can."""
    mine, yours = kept.trace, run.trace
    if mine.sides != yours.sides:
        return _other_sides(mine.sides, yours.sides)
    for axis in dict.fromkeys((*mine.axes, *yours.axes)):
        if mine.count(axis) != yours.count(axis):
            return f"A has {format_count(mine.count(axis), axis)} and B {yours.count(axis):,}"
    if stage.name not in mine:
        return f"A has no {stage.title.lower()}"
    old, new = (trace.shape(stage.name) for trace in (mine, yours))
    if old == new:
        return ""
    if "head" in stage.dims and old[-3] != new[-3]:
        return f"A has {format_count(old[-3], 'head')} and B {new[-3]:,}"
    return f"A has {format_count(old[-1], 'number')} per vector and B {new[-1]:,}"


def _other_sides(mine: tuple[int, int], yours: tuple[int, int]) -> str:
    if mine[0] == mine[1] and yours[0] == yours[1]:
        return f"A has {format_count(mine[0], 'token')} and B {yours[0]:,}"
    return "A has {:,} × {:,} queries and keys and B {:,} × {:,}".format(*mine, *yours)


def signed(value: float) -> str:
    """Format a difference with its sign."""
    written = format_number(value)
    return written if written.startswith("−") or value == 0 else f"+{written}"


def cell_name(run: Run, leading: LeadingIndex, stage: Stage, place: tuple[int, ...]) -> str:
    """Name a cell's tokens, or its token and column, and its head if it has one."""
    row, column = place[-2:]
    joined = shorten(visible(run.words(leading, stage.dims[-2])[row]))
    if stage.dims[-1] == "key":
        key = run.words(leading, "key")[column]
        joined += f" → {shorten(visible(key))}"
    else:
        joined += f", column {column + 1}"
    has_head = len(place) == 3 and run.trace.spec.heads > 1
    return f"{joined} in head {place[0] + 1}" if has_head else joined
