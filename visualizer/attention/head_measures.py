"""Summary measures of attention heads, such as entropy and mean distance; imports no torch.

Uses only methods of the given tensors, so it needs no torch and runs on their device.

Sources: Clark et al. 2019, "What Does BERT Look At?", §3 (previous token, first token, itself,
entropy); Vig and Belinkov 2019, "Analyzing the Structure of Attention in a Transformer Language
Model" (mean distance); Olsson et al. 2022, "In-context Learning and Induction Heads" (induction:
prefix matching); Wang et al. 2022, "Interpretability in the Wild" (duplicate token heads);
Kobayashi et al. 2020, "Attention is Not Only a Weight" (weights times the norms of what they
weight, as shares of a row).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from torch import Tensor

    from visualizer.attention.spec import Texts

# Rows of a matrix per step, and cells of the heads that are measured together: they bound the
# temporary memory.
ROWS, CELLS = 1024, 2**16
CACHED_ROWS = 64
"""So many rows are worked on again and again while they are near."""


class HeadMeasures(Struct, frozen=True, eq=False):
    """Measures of each head, read-only arrays [..., head] with the leading axes of the trace.

    Each is a mean over the queries with nonzero weights, without padding; left out are queries
    without allowed keys and those whose weights dropout removed. NaN where there is no such query
    and where a head has NaN weights.

    Parameters
    ----------
    entropy : numpy.ndarray
        −Σ w·log2 w over the keys, in bits; 0·log 0 counts as 0.
    distance : numpy.ndarray
        Σ w·|query − key|, in tokens.
    first, own, previous : numpy.ndarray
        Weight on the first token, on the query's own, and on the one before it. The last is a mean
        over the queries from the second on, as the first has no previous token.
    largest : numpy.ndarray
        Each query's largest weight.
    induction : numpy.ndarray
        Weight on the tokens before the query that followed earlier occurrences of its token. It is
        a mean over the queries for which there is such a token.
    duplicate : numpy.ndarray
        Weight on earlier occurrences of the query's token; a mean over the queries that have some.
    value_weighting : numpy.ndarray
        How far a row moves when its weights are value-weighted: half of Σ |s − |w|/Σ|w||, with
        the shares s = ‖w·v‖ / Σ ‖w·v‖; 0 where all values are of one length, 1 at most. A mean
        over the queries whose weighted values have a length; NaN without values.
    queries : numpy.ndarray
        Number of queries in the means.
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


# Columns of the working tensor.
(
    ENTROPY, DISTANCE, FIRST, OWN, PREVIOUS, LARGEST, INDUCTION, DUPLICATE, VALUE_WEIGHTING, READS,
) = range(10)  # fmt: skip


def measure(
    weights: Tensor, lengths: tuple[int, ...], texts: Texts = (), values: Tensor | None = None
) -> HeadMeasures:
    """Measure every head of every text, as many at a time as take little memory.

    Parameters
    ----------
    weights : Tensor
        [..., head, query, key]; of a padded batch [..., text, head, query, key].
    lengths : tuple of int
        Tokens of each text without padding; empty where nothing is padded.
    texts : tuple of tuple of str
        The tokens of each text, for induction and duplicates; empty where they are not known.
    values : Tensor, optional
        [..., head, key, d_value], of the same leading axes as the weights.
    """
    *leading, heads, queries, keys = weights.shape
    norms = None if values is None else values.norm(dim=-1)  # … head key
    is_square = queries == keys
    numbered = [_numbered(text) for text in texts] if is_square else []
    means = weights.new_empty((*leading, heads, READS + 1))  # … text head measure
    several = max(1, CELLS // (queries * keys))
    for place in np.ndindex(*leading):
        real = lengths[place[-1]] if lengths else queries
        numbers = numbered[place[-1] if len(numbered) > 1 else 0] if numbered else None
        for start in range(0, heads, several):
            own = weights[place][start : start + several, :real]
            part = means[place][start : start + several]
            found = _of_queries(own, is_square=is_square)
            part[:] = _means(found)
            part[:, [INDUCTION, DUPLICATE, VALUE_WEIGHTING]] = math.nan
            if norms is not None:
                part[:, VALUE_WEIGHTING] = _value_weighting(
                    own, norms[place][start : start + several]
                )
            if numbers is not None:
                part[:, INDUCTION] = _after_equal(own, numbers, found[..., READS], 1)
                part[:, DUPLICATE] = _after_equal(own, numbers, found[..., READS], 0)
    array = means.cpu().numpy().astype(np.float64)
    array.flags.writeable = False
    return HeadMeasures(*(array[..., column] for column in range(READS + 1)))


def keys_read(weights: Tensor) -> np.ndarray:
    """Return which keys any head of any layer reads, boolean [query, key]; NaN counts as read."""
    read = weights.new_zeros(weights.shape[-2:]).ne(0)
    for place in np.ndindex(weights.shape[:-2]):
        read |= weights[place].ne(0)
    found: np.ndarray = read.cpu().numpy()
    return found


def measure_uniform(
    allowed: np.ndarray,
    queries: int,
    text: tuple[str, ...] = (),
    norms: np.ndarray | None = None,
) -> HeadMeasures:
    """Return the measures of one head that reads every allowed key alike.

    Parameters
    ----------
    allowed : numpy.ndarray
        Boolean [query, key] of one text.
    queries : int
        Number of queries without padding.
    text : tuple of str
        The tokens, for induction and duplicates; empty where they are not known.
    norms : numpy.ndarray, optional
        The lengths of the values of some heads, [head, key]. The measure that needs them is the
        mean over these heads, each with its own values.

    Returns
    -------
    HeadMeasures
        Arrays [1] in float64: the head. Its queries are those with allowed keys.
    """
    reads = np.flatnonzero(allowed[:queries].any(-1))  # the queries with allowed keys
    counts = allowed.sum(-1)[reads]
    found = np.full((READS + 1, len(reads)), math.nan)  # measure query
    found[ENTROPY] = np.log2(counts)
    found[FIRST] = allowed[reads, 0] / counts
    found[LARGEST] = 1 / counts
    if allowed.shape[0] == allowed.shape[1]:
        found[DISTANCE] = [_distances(allowed[query], query) for query in reads.tolist()] / counts
        found[OWN] = allowed[reads, reads] / counts
        found[PREVIOUS] = np.where(reads > 0, allowed[reads, reads - 1] / counts, math.nan)
        numbers = _numbered(text)
        if numbers is not None:
            for column, after in ((INDUCTION, 1), (DUPLICATE, 0)):
                found[column] = [
                    _allowed_after_equal(allowed[one], numbers, one, after)
                    for one in reads.tolist()
                ]
                found[column] /= counts
    means = [_mean(row[~np.isnan(row)]) for row in found[:READS]]
    if norms is not None and len(reads):
        means[VALUE_WEIGHTING] = _uniform_value_weighting(allowed[reads], norms)
    return HeadMeasures(*(np.array([one]) for one in (*means, len(reads))))


def _uniform_value_weighting(allowed: np.ndarray, norms: np.ndarray) -> float:
    """Return how far the rows of uniform attention move by the lengths of values, over all heads.

    Parameters
    ----------
    allowed : numpy.ndarray
        Boolean [query, key], of queries with allowed keys.
    norms : numpy.ndarray
        [head, key].
    """
    moved = []
    for start in range(0, len(allowed), CACHED_ROWS):
        read = allowed[start : start + CACHED_ROWS].astype(norms.dtype)
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
    return _mean(np.concatenate(moved).astype(np.float64))


def _distances(allowed: np.ndarray, query: int) -> int:
    """Return the sum of the distances of a query's allowed keys."""
    return int(np.abs(np.flatnonzero(allowed) - query).sum())


def _numbered(text: tuple[str, ...]) -> np.ndarray | None:
    """Number the tokens of a text, equal ones alike; None where none stands twice."""
    distinct, numbers = np.unique(np.array(text, dtype=object), return_inverse=True)
    return numbers if len(distinct) < len(text) else None


def _allowed_after_equal(allowed: np.ndarray, numbers: np.ndarray, query: int, after: int) -> float:
    """Count the allowed keys so far after a query's token where it stood before; NaN of none."""
    keys = np.flatnonzero(numbers[: max(0, query - after)] == numbers[query]) + after
    return float(allowed[keys].sum()) if keys.size else math.nan


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def _of_queries(weights: Tensor, *, is_square: bool) -> Tensor:
    """Measure each query of some heads, except by equal tokens; the input has no padding."""
    found = weights.new_zeros((*weights.shape[:2], READS + 1))  # head query measure
    places = weights.new_ones(max(weights.shape[1:])).cumsum(0)
    for start in range(0, weights.shape[1], ROWS):
        block, rows = weights[:, start : start + ROWS], found[:, start : start + ROWS]
        queries, keys = places[start : start + block.shape[1]], places[: block.shape[2]]
        rows[..., ENTROPY] = block.xlogy(block).sum(-1) / -math.log(2)
        rows[..., DISTANCE] = ((queries[:, None] - keys).abs() * block).sum(-1)
        rows[..., LARGEST] = block.amax(-1)
        rows[..., READS] = block.ne(0).any(-1)
    found[..., FIRST] = weights[..., 0]
    if is_square:
        found[..., OWN] = weights.diagonal(dim1=-2, dim2=-1)
        found[:, 1:, PREVIOUS] = weights.diagonal(-1, -2, -1)
    else:  # queries and keys are not the same tokens
        found[..., [DISTANCE, OWN, PREVIOUS]] = math.nan
    return found


def _value_weighting(weights: Tensor, norms: Tensor) -> Tensor:
    """Return how far the rows of some heads move when weights are times the lengths of values.

    Parameters
    ----------
    norms : Tensor
        [head, key].

    Returns
    -------
    Tensor
        [head]; NaN where no query has a length of what it reads.
    """
    total, count = weights.new_zeros(len(weights)), weights.new_zeros(len(weights))
    for start in range(0, weights.shape[1], ROWS):
        block = weights[:, start : start + ROWS].abs()
        sums, weighted = block.sum(-1), (block @ norms[..., None])[..., 0]
        # |w|·|‖v‖ / Σ ‖w·v‖ − 1 / Σ |w||, without a matrix of shares
        ratios = norms[:, None] / weighted[..., None]
        ratios -= 1 / sums[..., None]
        moved = ratios.abs_().mul_(block).sum(-1) / 2
        has_length = weighted.ne(0)
        total += moved.where(has_length, 0).sum(-1)
        count += has_length.sum(-1)
    return total / count


def _after_equal(weights: Tensor, numbers: np.ndarray, reads: Tensor, after: int) -> Tensor:
    """Return the mean weight of each head on keys so far after earlier occurrences of a token.

    Parameters
    ----------
    reads : Tensor
        1 for queries with nonzero weights, else 0, [head, query]. The mean is over those of them
        for which there is such a key; NaN where there is none.
    after : int
        0 for the occurrences of the query's token themselves, 1 for what followed them.
    """
    count = weights.shape[1]
    whole = weights.new_zeros(()).long()
    tokens, places = whole.new_tensor(numbers.tolist()), whole.new_ones(len(numbers)).cumsum(0)
    found, has_any = weights.new_zeros(weights.shape[:2]), weights.new_zeros(count).bool()
    for start in range(0, count, ROWS):
        block = weights[:, start : start + ROWS, after : len(numbers)]  # what follows is padding
        queries = slice(start, start + block.shape[1])
        read = tokens[queries, None] == tokens[: len(numbers) - after]
        read &= places[queries, None] > places[after:]
        found[:, queries] = block.where(read, 0).sum(-1)
        has_any[queries] = read.any(-1)
    counts = has_any & reads.bool()
    return found.where(counts, 0).sum(-1) / counts.sum(-1)


def _means(found: Tensor) -> Tensor:
    """Return the means over the queries with nonzero weights, and the number of these."""
    reads = found[..., READS]
    sums = (found * reads[..., None]).sum(-2)  # a row without weights is all zeros
    means = sums / reads.sum(-1, keepdim=True)
    means[:, PREVIOUS] = sums[:, PREVIOUS] / reads[:, 1:].sum(-1)
    means[:, READS] = sums[:, READS]
    return means
