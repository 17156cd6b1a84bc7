"""Attention masks and dropout masks, which are the same on every machine; imports no torch."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.roles import Role
from visualizer.attention.spec import AttentionSpec, BooleanMatrix, MaskKind, MaskPlacement
from visualizer.errors import InputError, Remedy

if TYPE_CHECKING:
    from collections.abc import Sequence


# Stages with forbidden cells: −∞ in masked scores, 0 in weights. On the routes after normalizing,
# the mask acts on `STAGES_AFTER_MASK` only.
MASKED_SCORES = (Role.MASKED,)
STAGES_AFTER_MASK = (Role.ZEROED, Role.WEIGHTS, Role.DROPPED)
WEIGHT_STAGES = (Role.UNMASKED, *STAGES_AFTER_MASK)
MASKED_STAGES = (*MASKED_SCORES, *WEIGHT_STAGES)


class MaskingSpec(Struct, frozen=True):
    """The fields of a spec that determine which cells are allowed.

    Padding is masked before normalization, so that padding does not change the numbers of a text.
    The user's mask is applied at the step that the spec's route determines.
    """

    mask: MaskKind
    window: int
    own: BooleanMatrix | None
    lengths: tuple[int, ...]

    @classmethod
    def from_spec(cls, spec: AttentionSpec, stage: str = Role.WEIGHTS) -> MaskingSpec:
        """Return a spec's masking at a stage, with default values for fields without effect."""
        acts = stage in (MASKED_STAGES if spec.route is MaskPlacement.BEFORE else STAGES_AFTER_MASK)
        mask = spec.mask if acts else MaskKind.NONE
        window = spec.window if mask is MaskKind.WINDOW else 0
        own = spec.own_mask if mask is MaskKind.OWN else None
        return cls(mask, window, own, spec.lengths if stage in MASKED_STAGES else ())

    @property
    def can_forbid(self) -> bool:
        """Whether this masking can forbid a cell."""
        is_open = self.mask is MaskKind.NONE or (self.own is not None and self.own.is_all_true)
        return bool(self.lengths) or not is_open


def needs_mask_product(spec: AttentionSpec) -> bool:
    """Return whether sums over keys need the mask instead of being totals or running sums."""
    return bool(spec.lengths) or spec.mask not in {MaskKind.NONE, MaskKind.CAUSAL}


def allowed(spec: AttentionSpec, tokens: int, stage: str = Role.WEIGHTS) -> np.ndarray:
    """Return which cells a spec allows at a stage.

    Returns
    -------
    numpy.ndarray
        Read-only boolean array [query, key]; for a padded batch, [text, 1, query, key].

    Raises
    ------
    InputError
        If the size of a custom mask does not match the text.
    """
    return cached_allowed_cells(MaskingSpec.from_spec(spec, stage), tokens)


@lru_cache(maxsize=4)
def cached_allowed_cells(masking: MaskingSpec, tokens: int, keys: int | None = None) -> np.ndarray:
    """Return the result of `allowed`, which is cached by the fields that it depends on.

    Parameters
    ----------
    keys : int, optional
        Number of keys if it differs from the number of queries, which only custom masks support.
    """
    cells = np.ones((tokens, tokens if keys is None else keys), dtype=bool)
    if masking.own is not None and keys is not None:
        cells = masking.own.to_array()
    elif masking.own is not None:
        cells = unpack_custom_mask("own_mask", masking.own, tokens, ("mask", MaskKind.CAUSAL))
    elif masking.mask is not MaskKind.NONE:
        cells = np.tri(tokens, dtype=bool)
        if masking.mask is MaskKind.WINDOW:
            cells &= ~np.tri(tokens, k=-masking.window, dtype=bool)
    if masking.lengths:
        real = np.arange(tokens) < np.array(masking.lengths)[:, None]
        cells = cells & real[:, None, None, :]
    cells.flags.writeable = False
    return cells


def allowed_cells_of_text(
    masking: MaskingSpec, tokens: int, text: int, keys: int | None = None
) -> np.ndarray:
    """Return which cells of one text are allowed, as a read-only boolean array [query, key]."""
    cells = cached_allowed_cells(masking, tokens, keys)
    return cells[text, 0] if cells.ndim > 2 else cells


def create_cut_masks(
    cut: Sequence[tuple[int, int, int, int]], sides: tuple[int, int]
) -> dict[tuple[int, int], np.ndarray]:
    """Return read-only boolean masks [query, key] of the cut cells, by layer and head.

    Parameters
    ----------
    cut : sequence of (layer, head, query, key)
        Cells that are forbidden in individual heads.
    sides : tuple of int
        Numbers of queries and keys.
    """
    found: dict[tuple[int, int], np.ndarray] = {}
    for layer, head, query, key in cut:
        cells = found.setdefault((layer, head), np.zeros(sides, dtype=bool))
        cells[query, key] = True
    for cells in found.values():
        cells.flags.writeable = False
    return found


def allowed_cells(
    masking: MaskingSpec,
    sides: tuple[int, int],
    text: int,
    rows: np.ndarray | slice = slice(None),
    keys: slice = slice(None),
) -> np.ndarray:
    """Return which cells are allowed for the given queries, as a boolean array [query, key].

    Only these cells are computed, so a long text needs little memory.

    Parameters
    ----------
    sides : tuple of int
        Numbers of queries and keys.
    rows : numpy.ndarray or slice
        Indices of the queries.
    """
    queries, count = sides
    is_whole = isinstance(rows, slice) and rows == keys == slice(None)
    if masking.own is not None or queries != count or is_whole:
        others = None if queries == count else count
        return allowed_cells_of_text(masking, queries, text, others)[rows, keys]
    asked = np.arange(*rows.indices(queries)) if isinstance(rows, slice) else rows
    return _are_positions_allowed(masking, text, asked[:, None], np.arange(*keys.indices(count)))


def are_pairs_allowed(
    masking: MaskingSpec, sides: tuple[int, int], text: int, queries: np.ndarray, keys: np.ndarray
) -> np.ndarray:
    """Return whether each given (query, key) pair is allowed, as a boolean array [pair]."""
    if masking.own is not None or sides[0] != sides[1]:
        others = None if sides[0] == sides[1] else sides[1]
        own: np.ndarray = allowed_cells_of_text(masking, sides[0], text, others)[queries, keys]
        return own
    return _are_positions_allowed(masking, text, queries, keys)


def _are_positions_allowed(
    masking: MaskingSpec, text: int, queries: np.ndarray, keys: np.ndarray
) -> np.ndarray:
    """Return which cells are allowed for query and key positions, which are broadcast.

    This supports every mask except custom masks.
    """
    found = np.ones(np.broadcast_shapes(queries.shape, keys.shape), dtype=bool)
    if masking.mask is not MaskKind.NONE:
        found &= keys <= queries
        if masking.mask is MaskKind.WINDOW:
            found &= keys > queries - masking.window
    if masking.lengths:
        found &= keys < masking.lengths[text]
    return found


def blocks_with_allowed_cells(
    masking: MaskingSpec,
    sides: tuple[int, int],
    text: int,
    blocks: tuple[int, int],
    part: tuple[slice, slice] = (slice(None), slice(None)),
) -> np.ndarray:
    """Return which blocks contain an allowed cell, as a boolean array [block, block].

    Only a custom mask is computed in full. The last blocks along an axis may be smaller.

    Parameters
    ----------
    part : tuple of slice
        The blocks to return.
    """
    queries, keys = sides
    if masking.own is not None or queries != keys:
        others = None if queries == keys else keys
        cells = allowed_cells_of_text(masking, queries, text, others)
        if blocks != (1, 1):
            cells = np.maximum.reduceat(cells, np.arange(0, queries, blocks[0]), axis=0)
            cells = np.maximum.reduceat(cells, np.arange(0, keys, blocks[1]), axis=1)
        return cells[part]
    top = np.arange(0, queries, blocks[0])[part[0], None]
    bottom = np.minimum(top + blocks[0], queries) - 1
    left = np.arange(0, keys, blocks[1])[part[1]]
    stop = masking.lengths[text] if masking.lengths else keys
    right = np.minimum(left + blocks[1], stop) - 1
    found = np.ones((len(top), len(left)), dtype=bool) & (left < stop)
    if masking.mask is not MaskKind.NONE:  # Distances in a block range from top - right to
        found &= bottom >= left  # bottom - left
        if masking.mask is MaskKind.WINDOW:
            found &= top - right < masking.window
    return found


def are_all_keys_allowed(
    masking: MaskingSpec, sides: tuple[int, int], text: int, rows: tuple[int, int], keys: range
) -> bool:
    """Return whether the queries from first to last may attend to all keys of a range.

    Only the bounds are checked. Returns False for a custom mask, because all its cells would have
    to be checked.
    """
    if masking.own is not None or sides[0] != sides[1]:
        return not masking.can_forbid
    if masking.lengths and keys.stop > masking.lengths[text]:
        return False
    if masking.mask is MaskKind.NONE:
        return True
    is_past = keys.stop - 1 <= rows[0]
    return is_past and (
        masking.mask is not MaskKind.WINDOW or keys.start > rows[1] - masking.window
    )


def allowed_key_range(masking: MaskingSpec, keys: int, text: int, first: int, last: int) -> range:
    """Return a range that contains all keys that the queries from first to last may attend to."""
    stop = masking.lengths[text] if masking.lengths else keys
    if masking.mask in {MaskKind.CAUSAL, MaskKind.WINDOW}:
        stop = min(stop, last + 1)
    start = max(0, first - masking.window + 1) if masking.mask is MaskKind.WINDOW else 0
    return range(min(start, stop), stop)


def allowed_key_ranges(
    masking: MaskingSpec, tokens: int, text: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the first allowed key of each query in a text, and the key after the last.

    Returns None for a custom mask, because its allowed keys need not be consecutive.
    """
    if masking.own is not None:
        return None
    places = np.arange(tokens)
    starts, stops = np.zeros(tokens, np.int64), np.full(tokens, tokens)
    if masking.mask is not MaskKind.NONE:
        stops = places + 1
        if masking.mask is MaskKind.WINDOW:
            starts = np.maximum(0, places - masking.window + 1)
    if masking.lengths:
        stops = np.minimum(stops, masking.lengths[text])
    return starts, stops


def unpack_custom_mask(
    field: str, own: BooleanMatrix, tokens: int, remedy: Remedy | None = None
) -> np.ndarray:
    """Unpack the custom matrix in a field of a spec to a boolean array [query, key].

    Raises
    ------
    InputError
        If the size of the matrix does not match the text.
    """
    if (own.rows, own.columns) == (tokens, tokens):
        return own.to_array()
    wanted = f"{tokens} × {tokens}"
    sentence = f"The matrix is {own.rows} × {own.columns}, but the text needs {wanted}."
    raise InputError(field, sentence, remedy)


def classify_mask(allowed: np.ndarray) -> tuple[MaskKind, int]:
    """Return the kind of a mask [query, key], and the size of its sliding window or 0."""
    causal = np.tri(len(allowed), dtype=bool)
    if np.array_equal(allowed, causal):
        return MaskKind.CAUSAL, 0
    if allowed.all():
        return MaskKind.NONE, 0
    window = int(allowed[-1].sum())
    if window and np.array_equal(allowed, causal & ~np.tri(len(allowed), k=-window, dtype=bool)):
        return MaskKind.WINDOW, window
    return MaskKind.OWN, 0


def parse_mask(text: str) -> BooleanMatrix:
    """Parse a matrix from rows of 0s and 1s, which may be separated by spaces or commas.

    Raises
    ------
    InputError
        If a row is invalid; the message names the first invalid row.
    """
    rows = [line.replace(",", " ").split() for line in text.splitlines() if line.strip()]
    cells = [list("".join(row)) for row in rows]
    for number, row in enumerate(cells, 1):
        if other := [cell for cell in row if cell not in "01"]:
            sentence = f"Row {number} contains “{other[0]}”. Use only 0 and 1."
            raise InputError("own_mask", sentence)
        if len(row) != len(cells[0]):
            sentence = f"Row {number} has {len(row)} cells, but row 1 has {len(cells[0])}."
            raise InputError("own_mask", sentence)
    if not cells:
        sentence = "The matrix is empty. Enter one row of 0s and 1s for each query."
        raise InputError("own_mask", sentence)
    return BooleanMatrix.from_array(np.array(cells) == "1")


NUMBERS_PER_COUNTER = 8
"""Number of 32-bit integers that the generator produces for each value of its counter."""


def draw_keep_mask(rate: float, seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Draw the cells that dropout keeps.

    The output of a counter-based generator (Philox 4×64, Salmon et al. 2011) is compared as
    integers. Unlike torch's dropout, a seed therefore gives the same cells on every operating
    system.

    Parameters
    ----------
    rate : float
        Share of the cells to drop, in [0, 1).

    Returns
    -------
    numpy.ndarray
        Boolean array of the given shape.
    """
    return sample_dropout_keep_mask_range(rate, seed, 0, int(np.prod(shape))).reshape(shape)


def sample_dropout_keep_mask_range(rate: float, seed: int, start: int, count: int) -> np.ndarray:
    """Draw ``count`` cells of `draw_keep_mask`'s flattened mask, beginning at ``start``."""
    skipped = start % NUMBERS_PER_COUNTER
    generator = np.random.Philox(key=seed)
    generator.advance(start // NUMBERS_PER_COUNTER)
    words = generator.random_raw((skipped + count + 1) // 2)
    draws = words.astype("<u8", copy=False).view("<u4")[skipped : skipped + count]
    kept: np.ndarray = draws >= np.uint32(min(round(rate * 2**32), 2**32 - 1))
    return kept
