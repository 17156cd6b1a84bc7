"""Whether a run has lines at all: captured attention may have none.

Which weights have a line: the largest of each query and head, as many as can be told apart.

What is read of a whole tensor is what `Reading` names; the worker reads it before it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import Masking, allowed_by
from visualizer.heatmap.panel_colour_scale import SHORT
from visualizer.session.view_options import FOLLOWS, ColourLimits

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.run import Run
    from visualizer.attention.tensor_cache import CachedTensor
    from visualizer.attention.weight_transforms import WeightTransform
    from visualizer.session.resolved_view import Resolved


def why_none(run: Run) -> str:
    """Say why there are no lines; empty where there are some."""
    if "weights" not in run.trace:
        return "These are scores, and lines are drawn of weights."
    if run.words(0) != run.words(0, "key"):
        return "Lines lead from a text to itself, and here queries and keys are other tokens."
    return ""


MOST_LINES = 3000
MOST_LIT = 100


@dataclass(frozen=True, slots=True, eq=False)
class SelectedLines:
    """Lines, smallest weight first: those drawn last lie on top.

    Parameters
    ----------
    heads, queries, keys : numpy.ndarray
        Of each line.
    weights : numpy.ndarray
        Of each line; below 0 where a spec makes such.
    strengths : numpy.ndarray
        Of each line, from 0 to 1: how strongly it is drawn.
    is_thinned : bool
        Whether there are more of them than can be drawn.
    """

    heads: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    weights: np.ndarray
    strengths: np.ndarray
    is_thinned: bool = False

    def __len__(self) -> int:
        return len(self.weights)


@dataclass(frozen=True, slots=True)
class LineRequest:
    """What of a run the lines are read from.

    Parameters
    ----------
    stage : str
        Whose numbers they are.
    text : int
        Which text of a batch.
    lens : Lens
        What they are looked at as.
    heads : tuple of int
        Those that are drawn.
    drawn : int
        How many lines of each query and head are drawn at most.
    top : int
        How many were asked for at most; 0 where all were.
    by_query : bool
        Whether strength is in relation to the largest of the same query, and not to 1.
    """

    stage: str
    lens: WeightTransform
    text: int
    heads: tuple[int, ...]
    drawn: int
    top: int
    threshold: float
    masking: Masking
    by_query: bool

    @property
    def count(self) -> int:
        """How many numbers of each row are to be known: one more tells whether any are left out."""
        return max(self.drawn, self.top) + 1


def reading_of(resolved: Resolved) -> LineRequest:
    """Say what the lines of a view are read from."""
    view, trace = resolved.view, resolved.run.trace
    look, colouring, stage, solo = view.lines, view.colouring, resolved.read_stage, _solo(resolved)
    heads = resolved.drawn_heads if solo is None else (solo,)
    top = look.top if look.top < trace.tokens else 0
    room = max(1, MOST_LINES // (len(heads) * trace.tokens))
    is_long = colouring.limits is ColourLimits.AUTO and trace.tokens > SHORT
    return LineRequest(
        stage=stage,
        lens=trace.possible(view.lens),
        text=resolved.text,
        heads=heads,
        drawn=min(room, top or trace.tokens),
        top=top,
        threshold=look.threshold,
        masking=Masking.of(trace.spec, stage),
        by_query=is_long or colouring.limits is ColourLimits.ROW,
    )


def needs(resolved: Resolved) -> Hashable:
    """Name what of a large tensor the lines are read from; None where there are none."""
    if why_none(resolved.run):
        return None
    reading = reading_of(resolved)
    return reading.stage, reading.lens, reading.count


def warm(resolved: Resolved) -> None:
    """Read what the lines are read from of a large tensor: for the worker."""
    if not why_none(resolved.run):
        _largest(resolved.run, reading_of(resolved))


def held_by(run: Run, reading: LineRequest) -> CachedTensor:
    """Give what the lines are read from."""
    return run.trace.seen(reading.stage, reading.lens)


def _solo(resolved: Resolved) -> int | None:
    solo, last = resolved.view.lines.solo, resolved.run.trace.spec.heads - 1
    if solo == FOLLOWS:
        pinned = resolved.pinned
        return (pinned.head or 0) if pinned else 0
    return None if solo is None else min(solo, last)


def _largest(run: Run, reading: LineRequest) -> tuple[np.ndarray, np.ndarray]:
    """Read the largest numbers of each row, and their keys: [head, query, nth]."""
    count = min(reading.count, run.trace.tokens)
    numbers, keys = held_by(run, reading).read_largest(count, run.index(reading.text))
    return numbers[list(reading.heads)], keys[list(reading.heads)]


def the_largest(run: Run, reading: LineRequest) -> SelectedLines:
    """Choose the lines of the whole picture.

    Where not even one of each query and head has room, they are those of as many heads of each
    query as have: of the strongest.
    """
    weights, keys = _largest(run, reading)
    queries = np.arange(run.trace.tokens)[:, None]
    passing = _pass(weights, reading) & _allowed(run, reading)[queries, keys]
    is_thinned = bool(passing[..., reading.drawn : reading.top or None].any())
    passing = passing[..., : reading.drawn]
    if heads := heads_with_room(run, reading):
        sizes = np.where(passing[..., 0], np.abs(weights[..., 0]), -1)  # head query
        rank = np.argsort(np.argsort(-sizes, axis=0, kind="stable"), axis=0, kind="stable")
        is_thinned |= bool(passing[rank >= heads].any())
        passing = passing & (rank < heads)[..., None]
    at = np.nonzero(passing)
    return _lines(run, reading, (at[0], at[1], keys[at]), weights[at], is_thinned)


def heads_with_room(run: Run, reading: LineRequest) -> int:
    """Say of how many heads each query can have a line, where it is not all of them; else 0."""
    most = max(1, MOST_LINES // run.trace.tokens)
    return most if most < len(reading.heads) else 0


def of_query(run: Run, reading: LineRequest, query: int) -> SelectedLines:
    """Choose the lines of one query: what it reads, in every head that is drawn."""
    weights = _read(run, reading, query, slice(None))  # head key
    passing = _pass(weights, reading) & _allowed(run, reading)[query]
    if reading.top:
        keys = _largest(run, reading)[1][:, query, : reading.top]  # head nth
        among = np.zeros_like(passing)
        np.put_along_axis(among, keys, True, axis=-1)
        passing = passing & among
    at, keys = np.nonzero(passing)
    place = (at, np.full(len(at), query), keys)
    return _most(_lines(run, reading, place, weights[at, keys]))


def of_key(run: Run, reading: LineRequest, key: int) -> SelectedLines:
    """Choose the lines to one key: who reads it, in every head that is drawn."""
    weights = _read(run, reading, slice(None), key)  # head query
    passing = _pass(weights, reading) & _allowed(run, reading)[:, key]
    if reading.top:
        keys = _largest(run, reading)[1][..., : reading.top]  # head query nth
        passing = passing & (keys == key).any(axis=-1)
    at, queries = np.nonzero(passing)
    place = (at, queries, np.full(len(at), key))
    return _most(_lines(run, reading, place, weights[at, queries]))


def weight_of(run: Run, reading: LineRequest, place: tuple[int, ...]) -> float | None:
    """Give the weight of a head, a query and a key, if there is anything to draw of it."""
    head, query, key = place
    if head not in reading.heads or not _allowed(run, reading)[query, key]:
        return None
    weight = float(held_by(run, reading).read((*run.index(reading.text), *place)))
    return weight if weight and np.isfinite(weight) else None


def _read(run: Run, reading: LineRequest, query: int | slice, key: int | slice) -> np.ndarray:
    """Read a row or a column of every head that is drawn."""
    numbers = held_by(run, reading).read((*run.index(reading.text), slice(None), query, key))
    return numbers[list(reading.heads)]


def pairs(run: Run, reading: LineRequest) -> int:
    """Count the pairs of a query and a key that may have a line, over all heads that are drawn."""
    return len(reading.heads) * _allowed_count(reading.masking, run.trace.tokens, reading.text)


def reached(lines: SelectedLines, rows: int, columns: int) -> SelectedLines:
    """Keep the lines of cells that playback has come to: whole rows, and columns of the next."""
    there = (lines.queries < rows) | ((lines.queries == rows) & (lines.keys < columns))
    return _at(lines, there, lines.is_thinned)


def _pass(weights: np.ndarray, reading: LineRequest) -> np.ndarray:
    """A weight of 0 reads nothing and has no line; nor has what is no number."""
    sizes = np.abs(weights)
    passing: np.ndarray = np.isfinite(weights) & (sizes > 0) & (sizes >= reading.threshold)
    return passing


def _allowed(run: Run, reading: LineRequest) -> np.ndarray:
    allowed = allowed_by(reading.masking, run.trace.tokens)
    return allowed[reading.text, 0] if allowed.ndim > 2 else allowed


@lru_cache(maxsize=4)
def _allowed_count(masking: Masking, tokens: int, text: int) -> int:
    allowed = allowed_by(masking, tokens)
    return int((allowed[text, 0] if allowed.ndim > 2 else allowed).sum())


def _lines(
    run: Run,
    reading: LineRequest,
    place: tuple[np.ndarray, np.ndarray, np.ndarray],
    weights: np.ndarray,
    is_thinned: bool = False,
) -> SelectedLines:
    """Sort lines that were found; heads are counted among those that are drawn."""
    heads, queries, keys = place
    sizes = np.abs(weights)
    full = _full(run, reading)[queries]
    order = np.argsort(sizes, kind="stable")
    found = (np.array(reading.heads)[heads], queries, keys, weights, (sizes / full).clip(0, 1))
    heads, queries, keys, weights, strengths = (array[order] for array in found)
    return SelectedLines(heads, queries, keys, weights, strengths, is_thinned)


def _full(run: Run, reading: LineRequest) -> np.ndarray:
    """Give, for each query, the weight that is drawn at full strength."""
    sizes = np.nan_to_num(np.abs(_largest(run, reading)[0][..., 0]), posinf=0)
    largest: np.ndarray = sizes.max(axis=0)  # query
    if not reading.by_query:
        largest = np.full_like(largest, max(1.0, float(largest.max(initial=0))))
    return np.where(largest > 0, largest, 1)


def _most(lines: SelectedLines) -> SelectedLines:
    return _at(lines, slice(-MOST_LIT, None), len(lines) > MOST_LIT)


def _at(lines: SelectedLines, which: np.ndarray | slice, is_thinned: bool) -> SelectedLines:
    held = (lines.heads, lines.queries, lines.keys, lines.weights, lines.strengths)
    heads, queries, keys, weights, strengths = (array[which] for array in held)
    return SelectedLines(heads, queries, keys, weights, strengths, is_thinned)


def no_lines() -> SelectedLines:
    """Give no line at all."""
    nothing = np.zeros(0, dtype=np.int64)
    return SelectedLines(nothing, nothing, nothing, np.zeros(0), np.zeros(0))
