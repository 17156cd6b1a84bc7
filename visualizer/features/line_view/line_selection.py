"""Selection of the weights that are drawn as lines: the largest weights per query and head.

Captured attention may have no lines at all; `no_lines_reason` returns the reason. A `LineRequest`
states which part of a large tensor is needed; the worker reads that part before it is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.masks import MaskingSpec, allowed_cells_of_text
from visualizer.attention.roles import Role
from visualizer.heatmap.colour_range import find_cached_range
from visualizer.session.view_options import FOLLOW_PINNED, ColourLimits, LineViewSide, LineViewToken

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.resolved_view import ResolvedView


def no_lines_reason(run: Run) -> str:
    """Return the reason why a run has no lines, or an empty string if it has lines."""
    if Role.WEIGHTS not in run.trace:
        return "This file contains scores only; lines need attention weights."
    if not run.has_same_keys:
        if run.is_continuation:
            return "Lines need a query for each token. Here, only the last tokens have a query."
        return "Lines need a single text. Here, queries and keys come from different texts."
    return ""


MAX_LINES = 3000
"""Maximum number of lines in the whole picture."""
MAX_HIGHLIGHTED_LINES = 100


class SelectedLines(Struct, frozen=True, eq=False):
    """Lines in order of weight, smallest first, so that the largest are drawn on top.

    Parameters
    ----------
    heads, queries, keys : numpy.ndarray
        The head, query and key of each line.
    weights : numpy.ndarray
        The weight of each line; negative if the spec allows it.
    line_strengths : numpy.ndarray
        The drawn strength of each line, from 0 to 1.
    max_strength : float
        The largest strength in the whole picture, even if these lines are only a part of it.
    is_thinned : bool
        Whether lines were left out because there are too many.
    """

    heads: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    weights: np.ndarray
    line_strengths: np.ndarray
    is_thinned: bool = False
    max_strength: float = 1.0

    def __len__(self) -> int:
        return len(self.weights)

    def subset(self, which: np.ndarray | slice, is_thinned: bool) -> SelectedLines:
        """Return the given lines, in their current order."""
        return replace(
            self,
            heads=self.heads[which],
            queries=self.queries[which],
            keys=self.keys[which],
            weights=self.weights[which],
            line_strengths=self.line_strengths[which],
            is_thinned=is_thinned,
        )


class LineRequest(Struct, frozen=True):
    """The part of a run from which lines are read, and the criteria for drawing a line.

    Parameters
    ----------
    stage : str
        The stage that contains the drawn weights.
    leading : tuple of int
        The layer and text, as indices along the leading axes of the run.
    lens : WeightTransform
        The transform of the weights.
    heads : tuple of int
        The drawn heads.
    drawn : int
        The maximum number of lines drawn per query and head.
    top : int
        The maximum number of lines requested per query and head; 0 for all.
    limits : ColourLimits
        Whether strength is relative to the automatic range, to the query's largest weight, or to 1.
    """

    stage: str
    lens: WeightTransform
    leading: LeadingIndex
    heads: tuple[int, ...]
    drawn: int
    top: int
    threshold: float
    masking: MaskingSpec
    limits: ColourLimits

    @property
    def values_per_row(self) -> int:
        """Number of values to read per row: one more than drawn, to detect omitted lines."""
        return max(self.drawn, self.top) + 1


def create_line_request(resolved: ResolvedView) -> LineRequest:
    """Return the request for the lines of a view."""
    view, trace = resolved.view, resolved.run.trace
    options, colouring, solo = view.lines, view.colouring, _solo_head(resolved)
    stage = resolved.weights_stage(resolved.pinned)
    heads = resolved.drawn_heads if solo is None else (solo,)
    top = options.top if options.top < trace.query_count else 0
    room = max(1, MAX_LINES // (len(heads) * trace.query_count))
    return LineRequest(
        stage=stage,
        lens=trace.supported_transform(view.lens),
        leading=resolved.leading,
        heads=heads,
        drawn=min(room, top or trace.query_count),
        top=top,
        threshold=options.threshold,
        masking=MaskingSpec.from_spec(trace.spec_at(resolved.leading), stage),
        limits=colouring.limits,
    )


def prefetch_key(resolved: ResolvedView) -> Hashable:
    """Return a key for the data that `present_lines` needs, or None if there is nothing to read.

    The weights of a long text are read later, in the background.
    """
    if resolved.run.trace.is_blockwise or no_lines_reason(resolved.run):
        return None
    request = create_line_request(resolved)
    return request.stage, request.lens, request.values_per_row


def prefetch(resolved: ResolvedView) -> None:
    """Read the largest weights for `present_lines`; called on the worker."""
    if prefetch_key(resolved) is not None:
        request = create_line_request(resolved)
        _read_largest_weights(resolved.run, request)
        automatic_range_end(resolved.run, request)


def line_tensor(run: Run, request: LineRequest) -> CachedTensor:
    """Return the cached tensor from which lines are read."""
    return run.trace.displayed_tensor(request.stage, request.lens)


def _solo_head(resolved: ResolvedView) -> int | None:
    solo, last = resolved.view.lines.solo, resolved.run.trace.spec.heads - 1
    if solo == FOLLOW_PINNED:
        pinned = resolved.pinned
        return (pinned.head or 0) if pinned else 0
    return None if solo is None else min(solo, last)


def _read_largest_weights(run: Run, request: LineRequest) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest values of each row and their keys, both [head, query, nth]."""
    count = min(request.values_per_row, run.trace.query_count)
    numbers, keys = line_tensor(run, request).read_largest(count, request.leading)
    return numbers[list(request.heads)], keys[list(request.heads)]


def select_largest_lines(run: Run, request: LineRequest) -> SelectedLines:
    """Select the lines of the whole picture.

    If one line per query and head would be too many, each query keeps only the lines of its
    `max_heads_per_query` strongest heads.
    """
    weights, keys = _read_largest_weights(run, request)
    queries = np.arange(run.trace.query_count)[:, None]
    passing = (
        mask_of_drawn_lines(weights, request) & _allowed_pairs_mask(run, request)[queries, keys]
    )
    is_thinned = bool(passing[..., request.drawn : request.top or None].any())
    passing = passing[..., : request.drawn]
    if heads := max_heads_per_query(run, request):
        sizes = np.where(passing[..., 0], np.abs(weights[..., 0]), -1)  # head query
        rank = np.argsort(np.argsort(-sizes, axis=0, kind="stable"), axis=0, kind="stable")
        is_thinned |= bool(passing[rank >= heads].any())
        passing = passing & (rank < heads)[..., None]
    at = np.nonzero(passing)
    return _create_selected_lines(run, request, (at[0], at[1], keys[at]), weights[at], is_thinned)


def max_heads_per_query(run: Run, request: LineRequest) -> int:
    """Return the number of heads per query that can have a line, or 0 if all can."""
    most = max(1, MAX_LINES // run.trace.query_count)
    return most if most < len(request.heads) else 0


def select_lines_of_token(run: Run, request: LineRequest, token: LineViewToken) -> SelectedLines:
    """Select the lines from a query or to a key, for all drawn heads."""
    is_query = token.side is LineViewSide.QUERY
    cells = (token.at, slice(None)) if is_query else (slice(None), token.at)
    numbers = line_tensor(run, request).read((*request.leading, slice(None), *cells))
    weights = numbers[list(request.heads)]  # head key, or head query
    passing = mask_of_drawn_lines(weights, request) & _allowed_pairs_mask(run, request)[cells]
    if request.top:
        largest = _read_largest_weights(run, request)[1][..., : request.top]  # head query nth
        if is_query:
            is_largest = np.zeros_like(passing)
            np.put_along_axis(is_largest, largest[:, token.at], True, axis=-1)
        else:
            is_largest = (largest == token.at).any(axis=-1)
        passing = passing & is_largest
    heads, others = np.nonzero(passing)
    tokens = np.full(len(others), token.at)
    place = (heads, tokens, others) if is_query else (heads, others, tokens)
    lines = _create_selected_lines(run, request, place, weights[heads, others])
    return lines.subset(slice(-MAX_HIGHLIGHTED_LINES, None), len(lines) > MAX_HIGHLIGHTED_LINES)


def line_weight(run: Run, request: LineRequest, place: tuple[int, ...]) -> float | None:
    """Return the weight at a head, query and key, or None if it has no line."""
    head, query, key = place
    if head not in request.heads or not _allowed_pairs_mask(run, request)[query, key]:
        return None
    weight = float(line_tensor(run, request).read((*request.leading, *place)))
    return weight if weight and np.isfinite(weight) else None


def line_strength(run: Run, request: LineRequest, query: int, weight: float) -> float:
    """Return the strength, from 0 to 1, at which a weight of a query is drawn."""
    largest, end = _largest_weight_per_query(run, request), automatic_range_end(run, request)
    full, _ = full_strength_weights(request, largest, end)
    return min(1.0, abs(weight) / float(full[query]))


def count_allowed_pairs(run: Run, request: LineRequest) -> int:
    """Return the number of allowed query-key pairs, over all drawn heads."""
    return len(request.heads) * int(np.count_nonzero(_allowed_pairs_mask(run, request)))


def filter_reached_lines(lines: SelectedLines, rows: int, columns: int) -> SelectedLines:
    """Return the lines of cells that playback has reached: whole rows, and part of the next."""
    is_reached = (lines.queries < rows) | ((lines.queries == rows) & (lines.keys < columns))
    return lines.subset(is_reached, lines.is_thinned)


def mask_of_drawn_lines(weights: np.ndarray, request: LineRequest) -> np.ndarray:
    """Return whether each weight has a line: it is finite, not 0, and not below the threshold."""
    sizes = np.abs(weights)
    passing: np.ndarray = np.isfinite(weights) & (sizes > 0) & (sizes >= request.threshold)
    return passing


def _allowed_pairs_mask(run: Run, request: LineRequest) -> np.ndarray:
    queries, keys = run.trace.query_key_counts
    text = run.trace.axis_position("text", request.leading)
    return allowed_cells_of_text(request.masking, queries, text, None if keys == queries else keys)


def _create_selected_lines(
    run: Run,
    request: LineRequest,
    place: tuple[np.ndarray, np.ndarray, np.ndarray],
    weights: np.ndarray,
    is_thinned: bool = False,
) -> SelectedLines:
    """Build a selection sorted by weight; heads in `place` are indices into the drawn heads."""
    heads, queries, keys = place
    largest, end = _largest_weight_per_query(run, request), automatic_range_end(run, request)
    full, strongest = full_strength_weights(request, largest, end)
    drawn = np.array(request.heads)[heads], queries, keys
    return create_sorted_lines(drawn, weights, full[queries], strongest, is_thinned)


def create_sorted_lines(
    place: tuple[np.ndarray, np.ndarray, np.ndarray],
    weights: np.ndarray,
    full: np.ndarray,
    strongest: float,
    is_thinned: bool = False,
) -> SelectedLines:
    """Return a selection of lines, sorted by weight with the smallest weight first.

    Parameters
    ----------
    place : tuple of numpy.ndarray
        The head, query and key of each line.
    full : numpy.ndarray
        For each line, the weight that would be drawn at full strength.
    """
    heads, queries, keys = place
    sizes = np.abs(weights)
    order = np.argsort(sizes, kind="stable")
    found = heads, queries, keys, weights, (sizes / full).clip(0, 1)
    heads, queries, keys, weights, strengths = (array[order] for array in found)
    return SelectedLines(heads, queries, keys, weights, strengths, is_thinned, strongest)


def _largest_weight_per_query(run: Run, request: LineRequest) -> np.ndarray:
    """Return the largest weight of each query over all drawn heads."""
    sizes = np.nan_to_num(np.abs(_read_largest_weights(run, request)[0][..., 0]), posinf=0)
    largest: np.ndarray = sizes.max(axis=0)  # query
    return largest


def automatic_range_end(run: Run, request: LineRequest) -> float | None:
    """Return the end of the automatic range, or None if other limits are chosen."""
    if request.limits is not ColourLimits.AUTO:
        return None
    shown = [(run.trace, line_tensor(run, request))]
    is_share = request.lens is not WeightTransform.TIMES_VALUE
    return find_cached_range(shown, [request.leading], request.stage, is_share).end


def full_strength_weights(
    request: LineRequest, largest: np.ndarray, end: float | None
) -> tuple[np.ndarray, float]:
    """Return the weight drawn at full strength for each query, and the largest strength.

    Parameters
    ----------
    largest : numpy.ndarray
        The largest weight of each query.
    end : float or None
        The result of `automatic_range_end`.
    """
    if request.limits is not ColourLimits.ROW:
        full = np.full_like(largest, end or max(1.0, float(largest.max(initial=0))))
    else:
        full = np.where(largest > 0, largest, 1)
    return full, min(1.0, float((largest / full).max(initial=0))) or 1.0


def create_empty_selected_lines() -> SelectedLines:
    """Return an empty selection."""
    nothing = np.zeros(0, dtype=np.int64)
    return SelectedLines(nothing, nothing, nothing, np.zeros(0), np.zeros(0))
