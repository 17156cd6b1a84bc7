"""Attention computed by another program, as an immutable value; imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.spec import AttentionSpec, Dtype, Mask, Mode, Normalisation, Projection
from visualizer.attention.stages import CELLS, Operation, Stage, stages

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

MOST_LAYERS = 1_000
MOST_TOKENS = 100_000
"""Limit of queries and of keys."""
LONGEST_NAME = 28
HALF = 13


class CapturedAttention(Struct, frozen=True):
    """Numbers [layer, head, query, key] with their tokens, comparable and hashable.

    Parameters
    ----------
    name : str
        Name of the file that they were read from.
    dtype : Dtype
        Type of the numbers; types of fewer bits are converted to float32.
    numbers : bytes
        In the machine's byte order and C order (last axis fastest).
    query_tokens, key_tokens : tuple of str
        One per query and one per key; empty where the file has none.
    """

    name: str
    layers: int
    heads: int
    queries: int
    keys: int
    dtype: Dtype
    numbers: bytes
    query_tokens: tuple[str, ...] = ()
    key_tokens: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        array: np.ndarray,
        query_tokens: tuple[str, ...] = (),
        key_tokens: tuple[str, ...] = (),
    ) -> CapturedAttention:
        """Copy an array [layer, head, query, key] of floating-point numbers."""
        dtype = Dtype.FLOAT64 if array.dtype == np.float64 else Dtype.FLOAT32
        layers, heads, queries, keys = array.shape
        numbers = np.ascontiguousarray(array, dtype=dtype.value).tobytes()
        return cls(
            name, layers, heads, queries, keys, dtype, numbers, query_tokens, key_tokens or ()
        )

    def array(self) -> np.ndarray:
        """Return the numbers, read-only [layer, head, query, key]."""
        sizes = (self.layers, self.heads, self.queries, self.keys)
        return np.frombuffer(self.numbers, dtype=self.dtype.value).reshape(sizes)

    @property
    def is_square(self) -> bool:
        """Whether there are as many queries as keys."""
        return self.queries == self.keys

    @property
    def called(self) -> str:
        """The file's name for messages: printable, and shortened in the middle."""
        seen = "".join(letter if letter.isprintable() else "�" for letter in self.name)
        return seen if len(seen) <= LONGEST_NAME else f"{seen[:HALF]}…{seen[-HALF:]}"

    @property
    def size(self) -> str:
        """The sizes as text: layers × heads × queries × keys."""
        layers = f"{self.layers:,} layer{'s' * (self.layers != 1)}"
        heads = f"{self.heads:,} head{'s' * (self.heads != 1)}"
        return f"{layers} × {heads} × {self.queries:,} × {self.keys:,}"

    @property
    def spec(self) -> AttentionSpec:
        """A spec for its trace, of which only the number of heads and the type are known."""
        return AttentionSpec(
            d_in=self.heads,
            d_out=self.heads,
            heads=self.heads,
            projection=Projection.NONE,
            output_projection=False,
            normalisation=Normalisation.UNIFORM,
            mask=Mask.NONE,
            mode=Mode.EVAL,
            dtype=self.dtype,
        )


def captured_stages(
    spec: AttentionSpec, names: Iterable[str], given: Collection[str]
) -> tuple[Stage, ...]:
    """List the stages of captured attention.

    Parameters
    ----------
    names : iterable of str
        All of them, in order of computation.
    given : collection of str
        Those that were computed elsewhere; the others follow from them as the spec's stages do.
    """
    rows = {row.name: row for row in stages(spec)}
    return tuple(_given(name, rows.get(name)) if name in given else rows[name] for name in names)


def _given(name: str, row: Stage | None) -> Stage:
    says = f"{name} that were computed elsewhere and read from a file"
    dims, symbol = row.dims if row else CELLS, row.symbol if row and "key" not in row.dims else ""
    return Stage(
        name,
        name.capitalize(),
        symbol or "given",
        dims,
        Operation.CAPTURED,
        (),
        (),
        (),
        says,
        _always,
    )


def position_labels(count: int) -> tuple[str, ...]:
    """Return labels for positions without tokens: their numbers from 1."""
    return tuple(str(place) for place in range(1, count + 1))


def _always(spec: AttentionSpec) -> bool:
    return True
