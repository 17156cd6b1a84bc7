"""Measures that summarize attention heads, such as entropy and mean distance; imports no torch.

Because this module uses only methods of the given tensors, it works on any device without importing
torch.

Sources: Clark et al. 2019, "What Does BERT Look At?", §3 (previous token, first token, itself,
entropy); Vig and Belinkov 2019, "Analyzing the Structure of Attention in a Transformer Language
Model" (mean distance); Olsson et al. 2022, "In-context Learning and Induction Heads" (induction:
prefix matching); Wang et al. 2022, "Interpretability in the Wild" (duplicate token heads);
Kobayashi et al. 2020, "Attention is Not Only a Weight" (weights times the norms of the vectors that
they weight, as shares of a row).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.cached_tensor import WeightBand
from visualizer.attention.masks import allowed_key_ranges
from visualizer.progress import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch import Tensor

    from visualizer.attention.blockwise_tensor import BlockwiseTensor
    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.masks import MaskingSpec
    from visualizer.attention.spec import Texts
    from visualizer.progress import Progress

BAND_ROWS, BATCH_CELLS = 1024, 2**16
"""Number of rows in a band of a matrix, and number of cells in the heads that are measured
together; these numbers limit the temporary memory."""
ROWS_PER_BATCH = 64
"""Number of rows that are processed together, so that they fit in the processor cache."""
SORTED_KEYS = 1024
"""Maximum number of value norms that are sorted together."""


class HeadMeasures(Struct, frozen=True, eq=False):
    """Measures of each head, as read-only arrays [..., head] with the leading axes of the trace.

    Each measure is a mean over the queries that have nonzero weights and are not padding. It is NaN
    if no query meets these conditions or if the head has NaN weights.

    Parameters
    ----------
    entropy : numpy.ndarray
        −Σ w·log2 w over the keys, in bits, with 0·log 0 = 0.
    distance : numpy.ndarray
        Σ w·|query − key|, in tokens.
    first, own, previous : numpy.ndarray
        Weight on the first token, on the query's own token, and on the token before the query. The
        mean for the previous token excludes the first query, which has no previous token.
    largest : numpy.ndarray
        Each query's largest weight.
    induction : numpy.ndarray
        Weight on the tokens that followed earlier occurrences of the query's token; a mean over the
        queries for which such tokens exist.
    duplicate : numpy.ndarray
        Weight on earlier occurrences of the query's token; a mean over the queries for which these
        exist.
    value_weighting : numpy.ndarray
        How much a row changes when its weights are value-weighted: half of Σ |s − |w|/Σ|w||, with
        the shares s = ‖w·v‖ / Σ ‖w·v‖. It is 0 if all values have the same norm, and at most 1. The
        mean is over the queries that have weighted values with a nonzero norm; NaN without values.
    queries : numpy.ndarray
        Number of queries that the means include.
    """

    entropy: np.ndarray
    distance: np.ndarray
    first: np.ndarray
    own: np.ndarray
    previous: np.ndarray
    largest: np.ndarray
    induction: np.ndarray
    duplicate: np.ndarray
    value_weighting: np.ndarray
    queries: np.ndarray


MEASURES = HeadMeasures.__struct_fields__
"""Names of the measures, in the column order of the arrays of means."""
ENTROPY = MEASURES.index("entropy")
DISTANCE = MEASURES.index("distance")
FIRST = MEASURES.index("first")
OWN = MEASURES.index("own")
PREVIOUS = MEASURES.index("previous")
MAXIMUM = MEASURES.index("largest")
INDUCTION = MEASURES.index("induction")
DUPLICATE = MEASURES.index("duplicate")
VALUE_WEIGHTING = MEASURES.index("value_weighting")
QUERIES = MEASURES.index("queries")
"""Column for whether a query has nonzero weights; in the means, the number of such queries."""
HAS_LENGTH = len(MEASURES)
"""Column for whether a query's weighted values have a nonzero norm."""
EQUAL_TOKEN_OFFSETS = ((INDUCTION, 1), (DUPLICATE, 0))
"""Columns of the matching-token measures, and the offset of their keys from the matching token."""
POSITION_MEASURES = (DISTANCE, OWN, PREVIOUS, INDUCTION, DUPLICATE)
"""Columns of the measures that need the positions of the queries among the keys."""


def measure_heads(
    weights: Tensor,
    lengths: tuple[int, ...],
    texts: Texts | None = None,
    values: Tensor | None = None,
) -> HeadMeasures:
    """Measure every head of every text, with several heads at a time to limit the memory use.

    Parameters
    ----------
    weights : Tensor
        [..., head, query, key]; for a padded batch [..., text, head, query, key].
    lengths : tuple of int
        Number of tokens in each text, not counting padding; empty without padding.
    texts : tuple of tuple of str, optional
        The tokens of each text's keys, for induction and duplicates; the queries are the last of
        these tokens. Empty if the keys are from another text, None if the tokens are unknown.
    values : Tensor, optional
        [..., head, key, d_value], with the same leading axes as the weights.
    """
    *leading, heads, queries, keys = weights.shape
    norms = None if values is None else values.norm(dim=-1)  # … head key
    first = first_query_position((queries, keys), texts)
    ids = [_token_ids(text) for text in texts or ((),)]
    means = weights.new_empty((*leading, heads, len(MEASURES)))  # … text head measure
    several = max(1, BATCH_CELLS // (queries * keys))
    for place in np.ndindex(*leading):
        real = lengths[place[-1]] if lengths else queries
        for start in range(0, heads, several):
            some = slice(start, start + several)
            own = weights[place][some, :real]
            means[place][some] = _measure_heads(
                _split_into_bands(own),
                own.new_zeros((len(own), real, HAS_LENGTH + 1)),
                ids[place[-1] if len(ids) > 1 else 0],
                None if norms is None else norms[place][some],
                first,
            )
    return _to_measures(means)


def first_query_position(sides: tuple[int, int], texts: Texts | None) -> int | None:
    """Return the first query's position among the keys, or None for the keys of another text.

    Parameters
    ----------
    sides : tuple of int
        Numbers of queries and keys.
    texts : tuple of tuple of str, optional
        As in `measure_heads`.
    """
    queries, keys = sides
    if texts is None:
        return 0 if queries == keys else None
    return keys - queries if texts and queries <= keys else None


def measure_layerwise(
    held: CachedTensor,
    values: CachedTensor | None,
    lengths: tuple[int, ...],
    texts: Texts | None,
) -> HeadMeasures:
    """Measure every head of a tensor with layers that may be computed when read."""
    if not (held.is_computed and len(held.shape) > 3):
        vectors = None if values is None else values.tensor.detach()
        return measure_heads(held.tensor.detach(), lengths, texts, vectors)
    layers = held.split_by_layer()
    vectors_by_layer = [None] * len(layers) if values is None else values.split_by_layer()
    by_layer = [
        measure_layerwise(own, vectors, lengths, texts)
        for own, vectors in zip(layers, vectors_by_layer, strict=True)
    ]
    stacked = {name: np.stack([getattr(one, name) for one in by_layer]) for name in MEASURES}
    return _read_only_measures(stacked)


def measure_by_bands(
    held: BlockwiseTensor,
    lengths: tuple[int, ...],
    texts: Texts | None = None,
    norms: Tensor | None = None,
    progress: Progress = ignore_progress,
) -> HeadMeasures:
    """Measure every head of a tensor that is computed when read, band by band.

    Parameters
    ----------
    norms : Tensor, optional
        Norms of the values, [..., head, key].
    progress : callable
        Called with the number of measured rows and the total number of rows.
    """
    *leading, heads, queries, keys = held.shape
    first = first_query_position((queries, keys), texts)
    ids = [_token_ids(text) for text in texts or ((),)]
    of_place = [lengths[place[-1]] if lengths else queries for place in np.ndindex(*leading)]
    done, rows = 0, heads * sum(of_place)
    means = held.new_zeros((*leading, heads, len(MEASURES)))
    for place, real in zip(np.ndindex(*leading), of_place, strict=True):
        for head in range(heads):
            own = (*place, head)
            means[own] = _measure_heads(
                _iterate_with_progress(held.iterate_bands(own, real), progress, (done, rows)),
                held.new_zeros((1, real, HAS_LENGTH + 1)),
                ids[place[-1] if len(ids) > 1 else 0],
                None if norms is None else norms[own][None],
                first,
            )[0]
            done += real
    progress(rows, rows)
    return _to_measures(means)


def _to_measures(means: Tensor) -> HeadMeasures:
    array = means.cpu().numpy().astype(np.float64)
    array.flags.writeable = False
    return HeadMeasures(*np.moveaxis(array, -1, 0))


def _split_into_bands(weights: Tensor) -> Iterator[WeightBand]:
    """Split the rows of heads, [head, query, key], into bands."""
    for start in range(0, weights.shape[1], BAND_ROWS):
        rows = weights[:, start : start + BAND_ROWS]
        yield WeightBand(rows, range(start, start + rows.shape[1]), range(weights.shape[2]))


def _iterate_with_progress(
    bands: Iterable[WeightBand], progress: Progress, so_far: tuple[int, int]
) -> Iterator[WeightBand]:
    """Yield the bands, and report the numbers of measured rows and of all rows before each band."""
    done, rows = so_far
    for band in bands:
        progress(done + band.queries.start, rows)
        yield band


def attended_cells(weights: Tensor) -> np.ndarray:
    """Return where any head or layer has a nonzero or NaN weight, as booleans [query, key]."""
    read = weights.new_zeros(weights.shape[-2:]).ne(0)
    for place in np.ndindex(weights.shape[:-2]):
        read |= weights[place].ne(0)
    found: np.ndarray = read.cpu().numpy()
    return found


def measure_uniform_attention(
    allowed: np.ndarray,
    queries: int,
    text: tuple[str, ...] = (),
    norms: np.ndarray | None = None,
    first: int | None = 0,
) -> HeadMeasures:
    """Return the measures of a single head that attends equally to all allowed keys.

    Parameters
    ----------
    allowed : numpy.ndarray
        Allowed cells of one text, a boolean array [query, key].
    queries : int
        Number of queries, not counting padding.
    text : tuple of str
        The tokens, for induction and duplicates; empty if they are unknown.
    norms : numpy.ndarray, optional
        Norms of the values in some heads, [head, key]. The measure that needs the norms is averaged
        over these heads.
    first : int or None
        Position of the first query among the keys; None if the keys are from another text.

    Returns
    -------
    HeadMeasures
        Arrays of shape [1] in float64. `queries` is the number of queries with allowed keys.
    """
    reads = np.flatnonzero(allowed[:queries].any(-1))  # the queries with allowed keys
    counts = allowed.sum(-1)[reads]
    found = np.full((len(MEASURES), len(reads)), math.nan)  # measure query
    found[ENTROPY] = np.log2(counts)
    found[FIRST] = allowed[reads, 0] / counts
    found[MAXIMUM] = 1 / counts
    if first is not None:
        own = reads + first  # positions among the keys
        places = [*zip(reads.tolist(), own.tolist(), strict=True)]
        found[DISTANCE] = [_sum_distances(allowed[row], query) for row, query in places] / counts
        found[OWN] = allowed[reads, own] / counts
        found[PREVIOUS] = np.where(own > 0, allowed[reads, own - 1] / counts, math.nan)
        numbers = _token_ids(text)
        if numbers is not None:
            for column, after in EQUAL_TOKEN_OFFSETS:
                found[column] = [
                    _count_allowed_after_equal_token(allowed[row], numbers, query, after)
                    for row, query in places
                ]
                found[column] /= counts
    moved = math.nan
    if norms is not None and len(reads):
        moved = _uniform_value_weighting(allowed[reads], norms)
    return _uniform_means(found, moved)


def measure_uniform_attention_in_ranges(
    ranges: tuple[np.ndarray, np.ndarray],
    text: tuple[str, ...] = (),
    norms: np.ndarray | None = None,
    progress: Progress = ignore_progress,
    first: int | None = 0,
) -> HeadMeasures:
    """Return the result of `measure_uniform_attention` if each query attends to a range of keys.

    No query–key matrix is allocated. The numbers of queries and keys must be equal.

    Parameters
    ----------
    ranges : tuple of numpy.ndarray
        First allowed key of each query, and the key after the last; without padding.
    text, norms
        As in `measure_uniform_attention`.
    progress : callable
        Called without progress before each head, so that the caller can cancel the computation.
    first : int or None
        0, or None if the keys are from another text.
    """
    reads = np.flatnonzero(ranges[0] < ranges[1])
    starts, stops = (ends[reads].astype(np.int64) for ends in ranges)
    counts = stops - starts
    found = np.full((len(MEASURES), len(reads)), math.nan)  # measure query
    found[ENTROPY] = np.log2(counts)
    found[MAXIMUM] = 1 / counts
    before = _triangular_numbers(reads - np.minimum(starts, reads)) - _triangular_numbers(
        reads - np.minimum(stops, reads)
    )
    behind = np.maximum(stops, reads), np.maximum(starts, reads)
    after = _triangular_numbers(behind[0] - 1 - reads) - _triangular_numbers(behind[1] - 1 - reads)
    found[DISTANCE] = (before + after) / counts
    found[FIRST] = (starts == 0) / counts
    found[OWN] = ((starts <= reads) & (reads < stops)) / counts
    is_read = (starts < reads) & (reads <= stops)
    found[PREVIOUS] = np.where(reads > 0, is_read / counts, math.nan)
    numbers = _token_ids(text)
    if numbers is not None:
        for column, behind_equal in EQUAL_TOKEN_OFFSETS:
            found[column] = _count_in_ranges_after_equal(
                numbers, reads, starts, stops, behind_equal
            )
            found[column] /= counts
    if first is None:
        found[[*POSITION_MEASURES]] = math.nan
    moved = math.nan
    if norms is not None and len(reads):
        moved = _uniform_value_weighting_in_ranges(starts, stops, norms, progress)
    return _uniform_means(found, moved)


def _uniform_means(found: np.ndarray, value_weighting: float) -> HeadMeasures:
    """Average the values of each query [measure, query] into the measures of one head."""
    means = np.array([_mean_or_nan(row[~np.isnan(row)]) for row in found])
    means[VALUE_WEIGHTING], means[QUERIES] = value_weighting, found.shape[1]
    return HeadMeasures(*means[:, None])


def _triangular_numbers(numbers: np.ndarray) -> np.ndarray:
    """Return 1 + 2 + … + n for each number n."""
    sums: np.ndarray = numbers * (numbers + 1) // 2
    return sums


def _count_in_ranges_after_equal(
    numbers: np.ndarray, reads: np.ndarray, starts: np.ndarray, stops: np.ndarray, after: int
) -> np.ndarray:
    """Count the keys at an offset after earlier occurrences of a token, or return NaN."""
    size = len(numbers) + 1
    known = np.sort(numbers * size + np.arange(len(numbers)))  # by token, then by position

    def below(places: np.ndarray) -> np.ndarray:
        """Return how many equal tokens precede each position."""
        own = numbers[reads] * size
        upto = np.searchsorted(known, own + np.maximum(places, 0))
        return np.asarray(upto - np.searchsorted(known, own))

    earlier = below(reads - after)
    ends = np.minimum(stops, reads) - after
    counts = np.maximum(0, below(ends) - below(starts - after))
    return np.where(earlier > 0, counts, math.nan)


def _uniform_value_weighting_in_ranges(
    starts: np.ndarray, stops: np.ndarray, norms: np.ndarray, progress: Progress
) -> float:
    """Return the result of `_uniform_value_weighting` for ranges of allowed keys.

    For norms n with mean m, half of Σ |n/m − 1| is Σ (1 − n/m) over the norms below m.
    """
    moved = []
    for own in norms.astype(np.float64):
        progress(0, len(norms))
        sums = np.concatenate([[0], np.cumsum(own)])
        means = (sums[stops] - sums[starts]) / (stops - starts)
        has_length = means > 0
        ends = [ends[has_length] for ends in (starts, stops)]
        level = means[has_length]
        first, last = (_count_norms_below(own, level, each) for each in ends)
        counts, lengths = (after - before for before, after in zip(first, last, strict=True))
        moved.append((counts - lengths / level) / (ends[1] - ends[0]))
    return _mean_or_nan(np.concatenate(moved))


def _count_norms_below(
    lengths: np.ndarray, levels: np.ndarray, stops: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Count and sum the norms that are below each level and precede its stop."""
    counts, sums = np.zeros(len(levels), np.int64), np.zeros(len(levels))
    for start in range(0, len(lengths), SORTED_KEYS):
        block = lengths[start : start + SORTED_KEYS]
        in_order = np.sort(block)
        upto = np.concatenate([[0], np.cumsum(in_order)])
        whole = stops >= start + len(block)
        found = np.searchsorted(in_order, levels[whole])
        counts[whole] += found
        sums[whole] += upto[found]
        part = np.flatnonzero(~whole & (stops > start))
        for at in range(0, len(part), SORTED_KEYS):
            few = part[at : at + SORTED_KEYS]
            is_below = block < levels[few, None]
            is_below &= np.arange(start, start + len(block)) < stops[few, None]
            counts[few] += is_below.sum(-1)
            sums[few] += is_below @ block
    return counts, sums


def _uniform_value_weighting(allowed: np.ndarray, norms: np.ndarray) -> float:
    """Return the value weighting for uniform attention, averaged over all heads.

    Parameters
    ----------
    allowed : numpy.ndarray
        Allowed cells of the queries that have allowed keys, a boolean array [query, key].
    norms : numpy.ndarray
        [head, key].
    """
    moved = []
    for start in range(0, len(allowed), ROWS_PER_BATCH):
        read = allowed[start : start + ROWS_PER_BATCH].astype(norms.dtype)
        counts = read.sum(-1)
        buffer = np.empty_like(read)
        for own in norms:
            means = read @ own / counts
            has_length = means > 0
            np.multiply(own, (1 / np.where(has_length, means, 1))[:, None], out=buffer)
            np.subtract(buffer, 1, out=buffer)
            np.abs(buffer, out=buffer)
            rows = np.einsum("qk,qk->q", buffer, read) / (2 * counts)
            moved.append(rows[has_length])
    return _mean_or_nan(np.concatenate(moved).astype(np.float64))


def _sum_distances(allowed: np.ndarray, query: int) -> int:
    """Return the sum of the distances between each query and its allowed keys."""
    return int(np.abs(np.flatnonzero(allowed) - query).sum())


def _token_ids(text: tuple[str, ...]) -> np.ndarray | None:
    """Return ids that are equal for equal tokens of a text, or None if no token is repeated."""
    distinct: dict[str, int] = {}
    numbers = np.array([distinct.setdefault(token, len(distinct)) for token in text], np.int64)
    return numbers if len(distinct) < len(text) else None


def _count_allowed_after_equal_token(
    allowed: np.ndarray, numbers: np.ndarray, query: int, after: int
) -> float:
    """Count the allowed keys at an offset after earlier equal tokens, or return NaN."""
    keys = np.flatnonzero(numbers[: max(0, query - after)] == numbers[query]) + after
    return float(allowed[keys].sum()) if keys.size else math.nan


def _mean_or_nan(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def _measure_heads(
    bands: Iterable[WeightBand],
    found: Tensor,
    numbers: np.ndarray | None,
    norms: Tensor | None,
    first: int | None,
) -> Tensor:
    """Measure heads band by band.

    Parameters
    ----------
    found : Tensor
        Tensor of zeros for the result, [head, query, measure], without padding.
    numbers : numpy.ndarray or None
        Ids of the tokens, which are equal for equal tokens.
    norms : Tensor or None
        The norms of the values, [head, key].
    first : int or None
        Position of the first query among the keys; None if the keys are from another text.

    Returns
    -------
    Tensor
        [head, measure].
    """
    tokens = None if numbers is None else found.new_tensor(numbers.tolist()).int()
    for band in bands:
        rows = found[:, band.queries.start : band.queries.stop]
        _measure_band(band, rows, first)
        if norms is not None:
            _measure_value_weighting(band, norms, rows)
        if tokens is not None:
            for column, after in EQUAL_TOKEN_OFFSETS:
                rows[..., column] = _weights_after_equal_token(band, tokens, after, first or 0)
    means = _mean_over_queries(found, first or 0)
    if first is None:
        means[:, [*POSITION_MEASURES]] = math.nan
    for column, after in EQUAL_TOKEN_OFFSETS:
        if numbers is None or first is None:
            means[:, column] = math.nan
            continue
        of_queries = slice(first, first + found.shape[1])
        has_any = found.new_tensor(_has_earlier_equal_token(numbers, after)[of_queries].tolist())
        means[:, column] = _mean_where(found[..., column], has_any * found[..., QUERIES])
    means[:, VALUE_WEIGHTING] = _mean_where(found[..., VALUE_WEIGHTING], found[..., HAS_LENGTH])
    return means


def _measure_band(band: WeightBand, found: Tensor, first_query: int | None) -> None:
    """Compute, for each query in a band, the measures that need neither tokens nor values."""
    weights, queries, keys = band.weights, band.queries, band.keys
    is_zero = weights.eq(0)
    # Equivalent to xlogy, which takes ten times as long.
    bits = weights.masked_fill(is_zero, 1).log_().mul_(weights).sum(-1) / -math.log(2)
    found[..., ENTROPY] = bits
    largest = weights.amax(-1)
    found[..., MAXIMUM] = largest.clamp(min=0) if band.has_others else largest
    found[..., QUERIES] = is_zero.all(-1).logical_not()
    if keys.start == 0:
        found[..., FIRST] = weights[..., 0]
    if first_query is not None:
        start, stop = queries.start + first_query, queries.stop + first_query
        places = weights.new_ones(max(stop, keys.stop)).cumsum(0)
        rows, columns = places[start:stop], places[keys.start : keys.stop]
        found[..., DISTANCE] = (rows[:, None] - columns).abs_().mul(weights).sum(-1)
        for column, before in ((OWN, 0), (PREVIOUS, 1)):
            offset = start - keys.start - before
            cells = weights.diagonal(offset, -2, -1)
            first = max(0, -offset)
            found[:, first : first + cells.shape[1], column] = cells


def _measure_value_weighting(band: WeightBand, norms: Tensor, found: Tensor) -> None:
    """Compute how much each row in a band changes when its weights are value-weighted."""
    block, lengths = band.weights.abs(), norms[:, band.keys.start : band.keys.stop]
    sums, weighted = block.sum(-1), (block @ lengths[..., None])[..., 0]
    # |w|·|‖v‖ / Σ ‖w·v‖ − 1 / Σ |w||, without a matrix of shares
    ratios = lengths[:, None] / weighted[..., None]
    ratios -= 1 / sums[..., None]
    has_length = weighted.ne(0)
    found[..., VALUE_WEIGHTING] = (ratios.abs_().mul_(block).sum(-1) / 2).where(has_length, 0)
    found[..., HAS_LENGTH] = has_length


def _weights_after_equal_token(
    band: WeightBand, tokens: Tensor, after: int, first_query: int
) -> Tensor:
    """Return each query's weight on the keys at an offset after earlier occurrences of its token.

    Parameters
    ----------
    after : int
        0 for the occurrences of the query's token, 1 for the tokens that follow them.
    first_query : int
        Position of the text's first query among the keys.
    """
    queries = range(band.queries.start + first_query, band.queries.stop + first_query)
    first = max(band.keys.start, after)
    stop = min(band.keys.stop, queries.stop)  # later keys are later than all queries of the band
    keys = range(first, max(first, stop))
    block = band.weights[..., keys.start - band.keys.start : keys.stop - band.keys.start]
    own = tokens[queries.start : queries.stop]
    others = own[:, None] != tokens[keys.start - after : keys.stop - after]
    late = max(keys.start, queries.start)  # earlier than only some of the queries
    places = own.new_ones(max(0, queries.stop - late)).cumsum(0) + late - 1
    rows = own.new_ones(len(queries)).cumsum(0) + queries.start - 1
    others[:, late - keys.start :] |= rows[:, None] <= places[: max(0, keys.stop - late)]
    return block.masked_fill(others, 0).sum(-1)


def _has_earlier_equal_token(numbers: np.ndarray, after: int) -> np.ndarray:
    """Return which queries have a key at an offset after earlier occurrences of their token."""
    _, firsts, which = np.unique(numbers, return_index=True, return_inverse=True)
    found: np.ndarray = firsts[which] + after < np.arange(len(numbers))
    return found


def _mean_where(values: Tensor, counts: Tensor) -> Tensor:
    """Return the mean over the counted queries [head], or NaN if there are none."""
    is_counted = counts.ne(0)
    return values.where(is_counted, 0).sum(-1) / is_counted.sum(-1)


def _mean_over_queries(found: Tensor, first_query: int) -> Tensor:
    """Return the means over the queries with nonzero weights, with the number of these queries."""
    found, reads = found[..., : len(MEASURES)], found[..., QUERIES]
    sums = (found * reads[..., None]).sum(-2)  # a row without weights is all zeros
    means = sums / reads.sum(-1, keepdim=True)
    have_previous = reads if first_query else reads[:, 1:]
    means[:, PREVIOUS] = sums[:, PREVIOUS] / have_previous.sum(-1)
    means[:, QUERIES] = sums[:, QUERIES]
    return means


@dataclass(slots=True, eq=False)
class HeadMeasurementState:
    """A requested, running or failed measurement; modified only on one thread.

    Parameters
    ----------
    is_wanted : bool
        Whether the measurement is requested or running.
    done, of : int
        Numbers of measured rows and of all rows.
    problem : str
        Reason for a failure, as a sentence; empty if the measurement has not failed.
    """

    is_wanted: bool = False
    done: int = 0
    of: int = 0
    problem: str = ""


Pattern = tuple["np.ndarray", "np.ndarray"]
"""Queries, and one key per query."""


def find_pattern_cells(words: tuple[str, ...]) -> dict[str, Pattern]:
    """Return the patterns of a text, by the field names of `HeadMeasures`.

    For duplicates and induction, only the most recent occurrence of the token is used.
    """
    every = np.arange(len(words))
    found = {
        "previous": (every[1:], every[:-1]),
        "first": (every, np.zeros_like(every)),
        "own": (every, every),
    }
    earlier: dict[str, tuple[int, int]] = {}
    same, after = [], []
    for query, word in enumerate(words):
        last, before = earlier.get(word, (-1, -1))
        if last >= 0:
            same.append((query, last))
        followed = last if last + 1 < query else before  # the query itself does not count
        if followed >= 0:
            after.append((query, followed + 1))
        earlier[word] = (query, last)
    for name, pairs in (("duplicate", same), ("induction", after)):
        both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        found[name] = (np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1]))
    return found


def measure_patterns(weights: BlockwiseTensor, words: tuple[str, ...]) -> HeadMeasures:
    """Measure only how strongly each head follows the patterns; other measures are NaN.

    Parameters
    ----------
    weights : BlockwiseTensor
        A tensor with the property `can_compute_single_values`.
    words : tuple of str
        The tokens of the text.
    """
    leading, means = weights.shape[:-2], {}
    for name, (queries, keys) in find_pattern_cells(words).items():
        means[name] = np.full(leading, math.nan)
        for place in np.ndindex(leading) if len(queries) else ():
            means[name][place] = weights.values_at_keys(place, queries, keys).mean(dtype=np.float64)
    return _pattern_measures(means, leading, len(words))


def measure_uniform_patterns(masking: MaskingSpec, words: tuple[str, ...]) -> HeadMeasures:
    """Return the measures of `measure_patterns`, of shape [1], for equal weights on all keys."""
    ranges = allowed_key_ranges(masking, len(words), 0)
    assert ranges is not None  # long texts have no custom masks
    starts, stops = ranges
    means = {}
    for name, (queries, keys) in find_pattern_cells(words).items():
        start, stop = starts[queries], stops[queries]
        is_read = (keys >= start) & (keys < stop)
        means[name] = np.array([_mean_or_nan(is_read / np.maximum(1, stop - start))])
    return _pattern_measures(means, (1,), len(words))


def _pattern_measures(
    means: Mapping[str, np.ndarray], sizes: tuple[int, ...], queries: int
) -> HeadMeasures:
    """Return measures with the given means; all other measures are NaN."""
    unknown = dict.fromkeys(MEASURES, np.full(sizes, math.nan))
    return _read_only_measures({**unknown, **means, "queries": np.full(sizes, float(queries))})


def _read_only_measures(arrays: Mapping[str, np.ndarray]) -> HeadMeasures:
    for array in arrays.values():
        array.flags.writeable = False
    return HeadMeasures(**arrays)
