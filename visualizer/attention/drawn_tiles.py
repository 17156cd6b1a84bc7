"""Drawings of large matrices, as tiles in which some rows may be unknown; imports no torch.

A tile is first computed from one row in each block of rows and then exactly, one band of rows at a
time. Each tile records which of its rows are exact.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from copy import deepcopy
from operator import lt
from threading import Lock

import numpy as np
from msgspec import Struct

TILE_CELLS = 256
"""Number of pooled cells along each side of a tile."""
MAX_COPY_DISTANCE_ROWS = 8
"""Maximum distance, in drawn rows, between an unknown row and the known row that fills it."""
MAX_FILL_SOURCE_CELLS = 2**21
"""Maximum number of cells in a drawing that is used to fill unknown cells of another drawing."""
FIRST_ROWS, FIRST_COLUMNS = 24, 128
"""Number of rows and columns in a coarse preview, which fits in one response of a slow server."""
MAX_CACHED_PREVIEWS = 2**10
"""Maximum number of previews that are cached per tensor."""
MAX_CACHED_TILE_BYTES = 2**26
"""Maximum size, in bytes, of a tensor's cache of tiles."""

LeadingIndices = tuple[int, ...]
"""An index along all axes that precede the rows."""
TileKey = tuple[LeadingIndices, tuple[int, int], int, int]
"""Matrix, block size, and row and column of a tile."""


class PreviewLayout(Struct, frozen=True):
    """Layout of a coarse preview, which is computed from a few rows of a matrix.

    Parameters
    ----------
    blocks : tuple of int
        Rows and columns that are pooled into one cell.
    sizes : tuple of int
        Sizes of the matrix.
    """

    blocks: tuple[int, int]
    sizes: tuple[int, int]

    @classmethod
    def from_matrix_sizes(cls, sizes: tuple[int, ...]) -> PreviewLayout:
        """Return the layout of the preview for a matrix of the given sizes."""
        rows, columns = sizes[-2:]
        blocks = math.ceil(rows / FIRST_ROWS), math.ceil(columns / FIRST_COLUMNS)
        return cls(blocks, (rows, columns))

    @property
    def rows(self) -> np.ndarray:
        """Indices of the computed rows, one per block."""
        return middle_rows(self.blocks[0], self.sizes[0])


class DrawnRegion(Struct, frozen=True):
    """A drawn part of a matrix.

    Parameters
    ----------
    place : tuple of int
        Leading index of the matrix.
    blocks : tuple of int
        Rows and columns that are pooled into one drawn cell.
    rows, columns : range
        Indices of the drawn cells.
    """

    place: LeadingIndices
    blocks: tuple[int, int]
    rows: range
    columns: range

    @property
    def tile_rows(self) -> range:
        """Rows of the tiles that overlap the region."""
        return _tile_range(self.rows)

    @property
    def tile_columns(self) -> range:
        """Columns of the tiles that overlap the region."""
        return _tile_range(self.columns)

    def whole_tile_columns(self, size: int) -> range:
        """Return which of the matrix's ``size`` columns the overlapping tiles contain."""
        tiles, across = self.tile_columns, TILE_CELLS * self.blocks[1]
        return range(tiles.start * across, min(tiles.stop * across, size))


def _tile_range(cells: range) -> range:
    return range(cells.start // TILE_CELLS, -(-cells.stop // TILE_CELLS))


def middle_rows(block: int, size: int) -> np.ndarray:
    """Return the middle row of each block, or the last row of an incomplete block."""
    return np.minimum(np.arange(block // 2, size + block // 2, block), size - 1)


def largest_magnitude(high: np.ndarray, low: np.ndarray | None) -> np.ndarray:
    """Return the numbers with the largest absolute values, positive if there is a tie."""
    if low is None:
        return high
    with np.errstate(invalid="ignore"):  # ∞ and −∞ if a block has no finite numbers
        return np.where(low + high < 0, low, high)


class _Tile:
    """Pooled cells [row, column], and the number of rows read from each block."""

    def __init__(self, is_signed: bool, dtype: np.dtype) -> None:
        self.high = np.full((TILE_CELLS, TILE_CELLS), -np.inf, dtype)
        self.low = np.full((TILE_CELLS, TILE_CELLS), np.inf, dtype) if is_signed else None
        self.read = np.zeros(TILE_CELLS, np.int64)
        """Number of rows read in order; `has_preview` also includes rows read out of order."""
        self.has_preview = np.zeros(TILE_CELLS, bool)

    @property
    def bytes(self) -> int:
        return self.high.nbytes * (1 if self.low is None else 2)

    def merge_rows(self, rows: np.ndarray, high: np.ndarray, low: np.ndarray | None) -> None:
        """Merge the numbers [row, column] of the given rows, starting at the first column."""
        width = high.shape[1]
        self.high[rows, :width] = np.maximum(self.high[rows, :width], high)
        if self.low is not None and low is not None:
            self.low[rows, :width] = np.minimum(self.low[rows, :width], low)
        self.has_preview[rows] = True


class DrawnTiles:
    """The tiles and coarse previews of a tensor's matrices; can be used on any thread.

    Parameters
    ----------
    sizes : tuple of int
        Numbers of rows and columns of each matrix.
    is_signed : bool
        Whether numbers may be negative.
    keeps_all : bool
        Whether tiles are kept until `discard` is called, instead of up to `MAX_CACHED_TILE_BYTES`.
    """

    def __init__(
        self, sizes: tuple[int, int], dtype: np.dtype, *, is_signed: bool, keeps_all: bool
    ) -> None:
        self._sizes, self._dtype = sizes, dtype
        self._is_signed, self._keeps_all = is_signed, keeps_all
        self._tiles: OrderedDict[TileKey, _Tile] = OrderedDict()
        self.previews: OrderedDict[LeadingIndices, np.ndarray] = OrderedDict()
        """Cells of the coarse previews, by matrix."""
        self.version = 0
        """Number that is incremented whenever more of a drawing becomes known."""
        self._lock = Lock()

    def copy_from(self, other: DrawnTiles) -> None:
        """Add independent copies of another tensor's tiles."""
        with other._lock:
            self._tiles.update((key, deepcopy(tile)) for key, tile in other._tiles.items())
            self.previews.update(other.previews)

    def discard_drawings(self, blocks: tuple[int, int]) -> None:
        """Discard the drawings with this block size."""
        with self._lock:
            for key in [key for key in self._tiles if key[1] == blocks]:
                del self._tiles[key]

    @property
    def bytes(self) -> int:
        """Size in bytes of the tiles and the previews."""
        tiles = sum(tile.bytes for tile in [*self._tiles.values()])
        return tiles + sum(cells.nbytes for cells in [*self.previews.values()])

    def is_drawn(self, place: LeadingIndices) -> bool:
        """Return whether anything is known about a matrix."""
        with self._lock:
            return place in self.previews or any(key[0] == place for key in self._tiles)

    # ------------------------------------------------------------------ reading

    def read_region(self, part: DrawnRegion) -> np.ndarray:
        """Return the known numbers of a region as a read-only array.

        Unknown rows are filled from nearby rows, from a coarser drawing, or from the nearest known
        row. If there is no known row, they are NaN.
        """
        with self._lock:
            drawn, is_known = self._assemble_region(part)
            if not is_known.all():
                _repeat_known_rows(part, drawn, is_known, within=MAX_COPY_DISTANCE_ROWS)
                self._fill_unknown_cells(part, drawn, is_known)
                _repeat_known_rows(part, drawn, is_known, within=len(part.rows))
        drawn.flags.writeable = False
        return drawn

    def row_progress(self, part: DrawnRegion) -> tuple[np.ndarray, np.ndarray]:
        """Return which drawn rows are partly computed, and the number of rows read per block."""
        is_begun = np.ones(len(part.rows), bool)
        read = np.full(len(part.rows), part.blocks[0])
        with self._lock:
            for down, right in itertools.product(part.tile_rows, part.tile_columns):
                (rows, _), (to, _) = _tile_overlaps(part, down, right)
                tile = self._tiles.get((part.place, part.blocks, down, right))
                is_begun[to] &= False if tile is None else tile.has_preview[rows]
                read[to] = np.minimum(read[to], 0 if tile is None else tile.read[rows])
        return is_begun, read

    def rows_represented(self, place: LeadingIndices, block: tuple[int, int], row: int) -> range:
        """Return the rows that a pooled row represents so far: all of its rows, or a single row."""
        rows, size = block[0], self._sizes[0]
        has_preview = place in self.previews
        for (where, blocks, down, _), tile in [*self._tiles.items()]:
            if (where, blocks, down) != (place, block, row // TILE_CELLS):
                continue
            if tile.read[row % TILE_CELLS] >= rows:
                return range(row * rows, min((row + 1) * rows, size))
            begun = np.flatnonzero(tile.has_preview)
            if len(begun):  # the row shown until the pooled row's own rows are read
                row += int(begun[np.abs(begun - row % TILE_CELLS).argmin()]) - row % TILE_CELLS
                has_preview = False
                break
        middle = min(row * rows + rows // 2, size - 1)
        if has_preview:
            first = PreviewLayout.from_matrix_sizes(self._sizes)
            middle = int(first.rows[middle // first.blocks[0]])
        return range(middle, middle + 1)

    def _assemble_region(self, part: DrawnRegion) -> tuple[np.ndarray, np.ndarray]:
        """Return the cells of a region, with NaN for unknown cells, and which cells are known."""
        drawn = np.full((len(part.rows), len(part.columns)), np.nan, self._dtype)
        is_known = np.zeros(drawn.shape, bool)
        for down, right in itertools.product(part.tile_rows, part.tile_columns):
            tile = self._tiles.get((part.place, part.blocks, down, right))
            if tile is None:
                continue
            self._tiles.move_to_end((part.place, part.blocks, down, right))
            inside, to = _tile_overlaps(part, down, right)
            begun = tile.has_preview[inside[0]]
            low = None if tile.low is None else tile.low[inside]
            drawn[to][begun] = largest_magnitude(tile.high[inside], low)[begun]
            is_known[to][begun] = True
        return drawn, is_known

    def _fill_unknown_cells(
        self, part: DrawnRegion, drawn: np.ndarray, is_known: np.ndarray
    ) -> None:
        """Fill unknown cells in place from other drawings of the same matrix.

        Coarser drawings are used first, starting with the finest of these, then finer drawings, and
        then the preview. From a finer drawing, the cell at the centre of each unknown cell is used.
        Only rows from the first to the last unknown one are read, because often only a few are left
        for all of the finer drawings; a turn of the wheel spends 2.5 ms here instead of 4.1 ms.
        """
        of_it = {key[1] for key in self._tiles if key[0] == part.place} - {part.blocks}
        finer = {blocks for blocks in of_it if any(map(lt, blocks, part.blocks))}
        for blocks in (*sorted(of_it - finer), *sorted(finer, reverse=True)):
            down, right = self._cells_in_other_drawing(part, blocks)
            if (np.ptp(down) + 1) * (np.ptp(right) + 1) > MAX_FILL_SOURCE_CELLS:
                break  # much finer drawings cover only small parts
            unknown = np.flatnonzero(~is_known.all(1))
            if not len(unknown):
                return
            rest = slice(int(unknown[0]), int(unknown[-1]) + 1)
            down = down[rest]
            rows, columns = (range(int(at[0]), int(at[-1]) + 1) for at in (down, right))
            coarse, has = self._assemble_region(DrawnRegion(part.place, blocks, rows, columns))
            at = np.ix_(down - rows.start, right - columns.start)
            wanted = has[at] & ~is_known[rest]
            np.copyto(drawn[rest], coarse[at], where=wanted)
            is_known[rest] |= wanted
        if part.place in self.previews:
            at = np.ix_(
                *self._cells_in_other_drawing(
                    part, PreviewLayout.from_matrix_sizes(self._sizes).blocks
                )
            )
            np.copyto(drawn, self.previews[part.place][at], where=~is_known)
            is_known[:] = True

    def _cells_in_other_drawing(
        self, part: DrawnRegion, blocks: tuple[int, int]
    ) -> list[np.ndarray]:
        """Return the rows and columns in another drawing at the centres of a region's cells."""
        sides = (part.rows, part.columns), part.blocks, blocks, self._sizes
        return [
            np.minimum(np.array(cells) * a + a // 2, size - 1) // b
            for cells, a, b, size in zip(*sides, strict=True)
        ]

    # ------------------------------------------------------------------ drawing

    def store_rows(
        self, part: DrawnRegion, rows: np.ndarray, high: np.ndarray, low: np.ndarray | None
    ) -> None:
        """Merge rows, in ascending order, into the tiles of a region.

        Parameters
        ----------
        high, low : numpy.ndarray
            Extremes of each row's blocks of columns, [row, block], in all tiles of the region.
        """
        drawn = rows // part.blocks[0]
        starts = np.flatnonzero(np.diff(drawn, prepend=-1))
        highs = np.maximum.reduceat(high, starts, axis=0)
        lows = None if low is None else np.minimum.reduceat(low, starts, axis=0)
        drawn = drawn[starts]
        with self._lock:
            for down in np.unique(drawn // TILE_CELLS).tolist():
                those = drawn // TILE_CELLS == down
                for number, right in enumerate(part.tile_columns):
                    across = slice(number * TILE_CELLS, (number + 1) * TILE_CELLS)
                    below = None if lows is None else lows[those, across]
                    tile = self._get_or_create_tile((part.place, part.blocks, down, right))
                    tile.merge_rows(drawn[those] % TILE_CELLS, highs[those, across], below)
            self.version += 1

    def store_preview(self, place: LeadingIndices, cells: np.ndarray) -> None:
        """Store the preview of a matrix, and discard the oldest if there are too many."""
        with self._lock:
            self.previews[place] = cells
            while len(self.previews) > MAX_CACHED_PREVIEWS:
                self.previews.popitem(last=False)
            self.version += 1

    def record_read_rows(self, part: DrawnRegion, drawn: np.ndarray, count: int) -> None:
        """Record that the first ``count`` rows of each given drawn row have been stored."""
        with self._lock:
            for down in np.unique(drawn // TILE_CELLS).tolist():
                rows = drawn[drawn // TILE_CELLS == down] % TILE_CELLS
                for right in part.tile_columns:
                    tile = self._tiles.get((part.place, part.blocks, down, right))
                    if tile:
                        tile.read[rows] = np.maximum(tile.read[rows], count)

    def _get_or_create_tile(self, key: TileKey) -> _Tile:
        tile = self._tiles.get(key)
        if tile is None:
            tile = self._tiles[key] = _Tile(self._is_signed, self._dtype)
            self._discard_oldest_tiles()
        return tile

    def _discard_oldest_tiles(self) -> None:
        """Discard the least recently used tiles, except the tiles of the coarsest drawing."""
        if self._keeps_all:
            return
        coarsest = max(blocks for _, blocks, *_ in self._tiles)
        held = sum(tile.bytes for tile in self._tiles.values())
        for key in [*self._tiles][:-1]:
            if held <= MAX_CACHED_TILE_BYTES:
                return
            if key[1] != coarsest:
                held -= self._tiles.pop(key).bytes


def _repeat_known_rows(
    part: DrawnRegion, drawn: np.ndarray, is_known: np.ndarray, within: int
) -> None:
    """Fill unknown rows with the nearest known row within the given distance."""
    for right in part.tile_columns:
        across = _tile_overlaps(part, part.rows.start // TILE_CELLS, right)[1][1]
        has_all = is_known[:, across].all(1)
        known, rest = np.flatnonzero(has_all), np.flatnonzero(~has_all)
        if not len(known) or not len(rest):
            continue
        at = np.searchsorted(known, rest)
        above, below = known[np.maximum(at - 1, 0)], known[np.minimum(at, len(known) - 1)]
        nearest = np.where(abs(rest - above) <= abs(below - rest), above, below)
        is_near = abs(nearest - rest) <= within
        rest, nearest = rest[is_near], nearest[is_near]
        drawn[rest, across] = np.where(
            is_known[rest, across], drawn[rest, across], drawn[nearest, across]
        )
        is_known[rest, across] = True


def _tile_overlaps(
    part: DrawnRegion, down: int, right: int
) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Return the overlap of a tile and a region, as indices in the tile and in the region."""
    inside, to = [], []
    for cells, tile in ((part.rows, down), (part.columns, right)):
        start, stop = max(cells.start, tile * TILE_CELLS), min(cells.stop, (tile + 1) * TILE_CELLS)
        inside.append(slice(start - tile * TILE_CELLS, stop - tile * TILE_CELLS))
        to.append(slice(start - cells.start, stop - cells.start))
    return (inside[0], inside[1]), (to[0], to[1])
