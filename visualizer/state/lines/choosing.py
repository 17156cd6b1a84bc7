"""Which weights have a line: the largest of each query and head, as many as can be told apart.

What is read of a whole tensor is what `Reading` names; the worker reads it before it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import Masking, allowed_by
from visualizer.state.heatmaps import shown_stages
from visualizer.state.lines.look import FOLLOWS
from visualizer.state.view import existing

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.state.view import View

MOST_LINES = 3000
MOST_LIT = 400


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Lines, smallest weight first: those drawn last lie on top.

    Parameters
    ----------
    heads, queries, keys : numpy.ndarray
        Of each line.
    weights : numpy.ndarray
        Of each line; below 0 where a spec makes such.
    is_thinned : bool
        Whether there are more of them than can be drawn.
    """

    heads: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    weights: np.ndarray
    is_thinned: bool = False

    def __len__(self) -> int:
        return len(self.weights)


@dataclass(frozen=True, slots=True)
class Reading:
    """What of a run the lines are read from.

    Parameters
    ----------
    stage : str
        Whose numbers they are.
    text : int
        Which text of a batch.
    heads : range
        Those that are drawn.
    drawn : int
        How many lines of each query and head are drawn at most.
    top : int
        How many were asked for at most.
    """

    stage: str
    text: int
    heads: range
    drawn: int
    top: int
    threshold: float
    masking: Masking

    @property
    def count(self) -> int:
        """How many numbers of each row are to be known: one more tells whether any are left out."""
        return max(self.drawn, self.top) + 1


def reading_of(run: Run, view: View) -> Reading:
    """Say what the lines of a view are read from."""
    trace, look = run.trace, view.lines
    stage = "dropped" if "dropped" in shown_stages(run, view) else "weights"
    solo = _solo(run, view)
    heads = range(trace.spec.heads) if solo is None else range(solo, solo + 1)
    room = max(1, MOST_LINES // (len(heads) * trace.tokens))
    top = min(look.top or trace.tokens, trace.tokens)
    masking = Masking.of(trace.spec, stage)
    return Reading(
        stage, run.nearest(view.text), heads, min(room, top), look.top and top, look.threshold,
        masking,
    )  # fmt: skip


def _solo(run: Run, view: View) -> int | None:
    solo, last = view.lines.solo, run.trace.spec.heads - 1
    if solo == FOLLOWS:
        pinned = existing(run, view.pinned)
        return pinned.place[0] if pinned and len(pinned.place) == 3 else 0
    return None if solo is None else min(solo, last)


def largest_read(run: Run, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """Read the largest numbers of each row, and their keys: [head, query, nth]."""
    heads = slice(reading.heads.start, reading.heads.stop)
    count = min(reading.count, run.trace.tokens)
    return run.trace.read_largest(reading.stage, count, (*run.index(reading.text), heads))


def the_largest(run: Run, reading: Reading) -> Lines:
    """Choose the lines of the whole picture."""
    weights, keys = largest_read(run, reading)
    queries = np.arange(run.trace.tokens)[:, None]
    passing = _pass(weights, reading) & _allowed(run, reading)[queries, keys]
    drawn = np.nonzero(passing[..., : reading.drawn])
    beyond = passing[..., reading.drawn : reading.top or None]  # one is enough to know
    heads = drawn[0] + reading.heads.start
    chosen = Lines(heads, drawn[1], keys[drawn], weights[drawn], bool(beyond.any()))
    return _largest_last(chosen, MOST_LINES)


def of_query(run: Run, reading: Reading, query: int) -> Lines:
    """Choose the lines of one query: what it reads, in every head that is drawn."""
    heads = slice(reading.heads.start, reading.heads.stop)
    weights = run.trace.read(reading.stage, (*run.index(reading.text), heads, query))  # head key
    passing = _pass(weights, reading) & _allowed(run, reading)[query]
    if reading.top:
        keys = largest_read(run, reading)[1][:, query, : reading.top]  # head nth
        among = np.zeros_like(passing)
        np.put_along_axis(among, keys, True, axis=-1)
        passing = passing & among
    at, keys = np.nonzero(passing)
    queries = np.full(len(at), query)
    found = Lines(at + reading.heads.start, queries, keys, weights[at, keys])
    return _largest_last(found, MOST_LIT)


def of_key(run: Run, reading: Reading, key: int) -> Lines:
    """Choose the lines to one key: who reads it, in every head that is drawn."""
    heads = slice(reading.heads.start, reading.heads.stop)
    index = (*run.index(reading.text), heads, slice(None), key)
    weights = run.trace.read(reading.stage, index)  # head query
    passing = _pass(weights, reading) & _allowed(run, reading)[:, key]
    if reading.top:
        keys = largest_read(run, reading)[1][..., : reading.top]  # head query nth
        passing = passing & (keys == key).any(axis=-1)
    at, queries = np.nonzero(passing)
    keys = np.full(len(at), key)
    found = Lines(at + reading.heads.start, queries, keys, weights[at, queries])
    return _largest_last(found, MOST_LIT)


def weight_of(run: Run, reading: Reading, place: tuple[int, ...]) -> float | None:
    """Give the weight of a head, a query and a key, if there is anything to draw of it."""
    head, query, key = place
    if head not in reading.heads or not _allowed(run, reading)[query, key]:
        return None
    weight = float(run.trace.read(reading.stage, (*run.index(reading.text), *place)))
    return weight if weight and np.isfinite(weight) else None


def pairs(run: Run, reading: Reading) -> int:
    """Count the pairs of a query and a key that may have a line, over all heads that are drawn."""
    return len(reading.heads) * _allowed_count(reading.masking, run.trace.tokens, reading.text)


def reached(lines: Lines, rows: int, columns: int) -> Lines:
    """Keep the lines of cells that playback has come to: whole rows, and columns of the next."""
    there = (lines.queries < rows) | ((lines.queries == rows) & (lines.keys < columns))
    return _at(lines, np.nonzero(there)[0], lines.is_thinned)


def _pass(weights: np.ndarray, reading: Reading) -> np.ndarray:
    """A weight of 0 reads nothing and has no line; nor has what is no number."""
    sizes = np.abs(weights)
    passing: np.ndarray = np.isfinite(weights) & (sizes > 0) & (sizes >= reading.threshold)
    return passing


def _allowed(run: Run, reading: Reading) -> np.ndarray:
    allowed = allowed_by(reading.masking, run.trace.tokens)
    return allowed[reading.text, 0] if allowed.ndim > 2 else allowed


@lru_cache(maxsize=4)
def _allowed_count(masking: Masking, tokens: int, text: int) -> int:
    allowed = allowed_by(masking, tokens)
    return int((allowed[text, 0] if allowed.ndim > 2 else allowed).sum())


def _largest_last(lines: Lines, most: int) -> Lines:
    order = np.argsort(np.abs(lines.weights), kind="stable")
    return _at(lines, order[-most:], lines.is_thinned or len(order) > most)


def _at(lines: Lines, order: np.ndarray, is_thinned: bool) -> Lines:
    held = (lines.heads, lines.queries, lines.keys, lines.weights)
    return Lines(*(array[order] for array in held), is_thinned)


def no_lines() -> Lines:
    """Give no line at all."""
    nothing = np.zeros(0, dtype=np.int64)
    return Lines(nothing, nothing, nothing, np.zeros(0))
