"""What there is to choose from in a spec: one enumeration a choice, and own matrices; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

# The layers that project the input, in the order in which the book draws them.
LAYERS = ("W_query", "W_key", "W_value")

# The weights that can be a user's own, and the layers they are of.
OWN_LAYERS = {**{layer: layer for layer in LAYERS}, "W_output": "out_proj"}

# The biases that can be, likewise.
BIAS = ".bias"
OWN_BIASES = {f"{name}{BIAS}": layer for name, layer in OWN_LAYERS.items()}

# All that decides the weights of a spec, with the number of tokens.
READ_FROM = ("d_in", "seed", "dtype", "own_input")
DRAWN_FROM = (
    *("d_in", "d_out", "heads", "arrangement", "projection", "bias", "output_projection"),
    *("position", "seed", "dtype", "own_weights"),
)


class Projection(StrEnum):
    """How queries, keys and values come from the input."""

    NONE = "none"
    UNIFORM = "uniform"
    LINEAR = "linear"


class Arrangement(StrEnum):
    """Heads that share d_out (split), or heads of d_out each, side by side (stacked)."""

    SPLIT = "split"
    STACKED = "stacked"


class Position(StrEnum):
    """What is added to the embedding to tell positions apart."""

    NONE = "none"
    LEARNED = "learned"
    SINUSOIDAL = "sinusoidal"


class Scale(StrEnum):
    """Whose square root divides the scores."""

    NONE = "none"
    D_HEAD = "d_head"
    D_MODEL = "d_model"


class Normalisation(StrEnum):
    """How a row of scores becomes a row of weights."""

    SOFTMAX = "softmax"
    NAIVE_SOFTMAX = "naive"
    SUM = "sum"
    UNIFORM = "uniform"


class Mask(StrEnum):
    """Which keys a query may read."""

    NONE = "none"
    CAUSAL = "causal"
    WINDOW = "window"
    OWN = "own"


class Route(StrEnum):
    """Where the mask acts: −∞ before normalising, or zeros after it."""

    BEFORE = "before"
    AFTER_RENORMALISED = "after-renormalised"
    AFTER = "after"


class Mode(StrEnum):
    """Dropout acts in training and not in evaluation."""

    TRAIN = "train"
    EVAL = "eval"


class Dtype(StrEnum):
    """The floating-point type of every stage."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


class Device(StrEnum):
    """Where the stages are computed; auto takes the best one present."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


@dataclass(frozen=True, slots=True)
class BooleanMatrix:
    """A matrix of yes and no that can be compared and hashed: eight cells a byte."""

    rows: int
    columns: int
    bits: bytes

    @classmethod
    def of(cls, array: np.ndarray) -> BooleanMatrix:
        """Pack a boolean array [rows, columns]."""
        rows, columns = array.shape
        return cls(rows, columns, np.packbits(np.asarray(array, dtype=bool)).tobytes())

    def array(self) -> np.ndarray:
        """Unpack to a boolean array [rows, columns]."""
        cells = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=self.rows * self.columns)
        return cells.reshape(self.rows, self.columns).astype(bool)


@dataclass(frozen=True, slots=True)
class NumberMatrix:
    """A matrix of float64 that can be compared and hashed: its bytes, row after row."""

    rows: int
    columns: int
    numbers: bytes

    @classmethod
    def of(cls, array: np.ndarray) -> NumberMatrix:
        """Copy an array [rows, columns] of any type of number."""
        rows, columns = array.shape
        return cls(rows, columns, np.ascontiguousarray(array, dtype="<f8").tobytes())

    def array(self) -> np.ndarray:
        """Give the numbers, read-only [rows, columns]."""
        return np.frombuffer(self.numbers, dtype="<f8").reshape(self.rows, self.columns)
