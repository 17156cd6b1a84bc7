"""What an attention module is made of, as one value; no torch.

Sources: Vaswani et al. 2017, "Attention Is All You Need", §3.2 (scale, heads, output projection)
and §3.5 (sinusoidal positions); Raschka 2024, "Build a Large Language Model (From Scratch)",
chapter 3 (the other variants, under the book's names).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np


class InputError(ValueError):
    """Input that cannot be used, in a sentence a person can act on.

    Parameters
    ----------
    field : str
        Where it was given: a field of `AttentionSpec`, ``"text"`` or an option.
    sentence : str
        What is wrong and what to do about it.
    """

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field
        self.sentence = sentence


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
class Problem:
    """One field that cannot be used, why, and a change that would mend it."""

    field: str
    sentence: str
    remedy: tuple[str, object] | None = None


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """All that decides an attention module's numbers, apart from the text.

    A spec may be invalid while someone types; `problems` says what is wrong with it.

    Parameters
    ----------
    d_out : int
        Width of all heads together when split, of each head when stacked. Unused without
        projection, where queries, keys and values are the input.
    bias : bool
        Whether linear query, key and value layers have a bias (the book's ``qkv_bias``).
    temperature : float
        Divides the scores besides `scale`.
    window : int
        With a sliding window, how many tokens a query reads: itself and those just before.
    own_mask, own_kept : BooleanMatrix, optional
        Allowed cells [query, key]; cells that dropout keeps, instead of drawn ones.
    dropout_seed : int
        Seed of the dropout mask, which is the same on every operating system.
    lengths : tuple of int
        Tokens of each text of a padded batch; empty when nothing is padded.
    """

    d_in: int = 3
    d_out: int = 2
    heads: int = 2
    projection: Projection = Projection.LINEAR
    bias: bool = False
    arrangement: Arrangement = Arrangement.SPLIT
    output_projection: bool = True
    position: Position = Position.NONE
    scale: Scale = Scale.D_HEAD
    temperature: float = 1.0
    normalisation: Normalisation = Normalisation.SOFTMAX
    mask: Mask = Mask.CAUSAL
    window: int = 3
    own_mask: BooleanMatrix | None = None
    route: Route = Route.BEFORE
    dropout: float = 0.0
    dropout_seed: int = 0
    own_kept: BooleanMatrix | None = None
    mode: Mode = Mode.TRAIN
    seed: int = 123
    dtype: Dtype = Dtype.FLOAT32
    device: Device = Device.AUTO
    lengths: tuple[int, ...] = ()

    @property
    def d_head(self) -> int:
        """Columns of one head's queries, keys and values."""
        total = self.d_in if self.projection is Projection.NONE else self.d_out
        return total // self.heads if self.arrangement is Arrangement.SPLIT else total

    @property
    def width(self) -> int:
        """Columns of all heads side by side."""
        return self.heads * self.d_head

    @property
    def divisor(self) -> float:
        """What the scores are divided by."""
        root = {Scale.NONE: 1, Scale.D_HEAD: self.d_head, Scale.D_MODEL: self.d_in}[self.scale]
        return math.sqrt(root) * self.temperature

    @property
    def is_scaled(self) -> bool:
        """Whether the scores are divided by anything."""
        return self.scale is not Scale.NONE or self.temperature != 1

    @property
    def is_masked(self) -> bool:
        """Whether any cell may be forbidden."""
        return self.mask is not Mask.NONE or bool(self.lengths)

    @property
    def drops(self) -> bool:
        """Whether dropout acts on the weights."""
        return self.mode is Mode.TRAIN and (self.dropout > 0 or self.own_kept is not None)


def problems(spec: AttentionSpec) -> tuple[Problem, ...]:
    """Say what is wrong with a spec, field by field; empty when it can be computed."""
    found = (_sizes(spec), _heads(spec), _ranges(spec), _mask(spec))
    return tuple(problem for part in found for problem in part)


def check(spec: AttentionSpec) -> None:
    """Raise `InputError` for the first problem of a spec."""
    for problem in problems(spec):
        raise InputError(problem.field, problem.sentence)


def _sizes(spec: AttentionSpec) -> list[Problem]:
    names = {"d_in": "The embedding size", "d_out": "The output size", "heads": "The heads"}
    return [
        Problem(field, f"{name} cannot be {getattr(spec, field)}. Use 1 or more.", (field, 1))
        for field, name in names.items()
        if getattr(spec, field) < 1
    ]


def _heads(spec: AttentionSpec) -> list[Problem]:
    free = spec.projection is Projection.NONE
    field, total = ("d_in", spec.d_in) if free else ("d_out", spec.d_out)
    whole = spec.arrangement is Arrangement.STACKED or min(total, spec.heads) < 1
    if whole or total % spec.heads == 0:
        return []
    size = "embedding size" if free else "output size"
    below = next(
        heads for heads in range(min(spec.heads, total + 1) - 1, 0, -1) if total % heads == 0
    )
    near = range(spec.heads + 1, min(total, spec.heads + 100))
    above = next((heads for heads in near if total % heads == 0), total)
    above = above if above > spec.heads else 0
    nearest = f"{below} or {above} heads" if above else f"{below} head{'s' * (below > 1)}"
    wider = math.ceil(total / spec.heads) * spec.heads
    sentence = (
        f"{total} does not divide into {spec.heads} heads. Use {nearest}, or the {size} {wider}."
    )
    return [Problem("heads", sentence, (field, wider))]


def _ranges(spec: AttentionSpec) -> list[Problem]:
    found = []
    if spec.dropout == 1:
        sentence = "A rate of 1 drops every weight, and ×1/(1 − 1) has no value. Stay below 1."
        found.append(Problem("dropout", sentence, ("dropout", 0.5)))
    elif not 0 <= spec.dropout < 1:
        sentence = f"A rate of {spec.dropout:g} is not a share. Use 0 up to, but not with, 1."
        found.append(Problem("dropout", sentence, ("dropout", 0.5)))
    if not (spec.temperature > 0 and math.isfinite(spec.temperature)):
        sentence = f"A temperature of {spec.temperature:g} cannot divide. Use more than 0."
        found.append(Problem("temperature", sentence, ("temperature", 1.0)))
    found += [
        Problem(field, f"A seed is a whole number from 0 to 2⁶³ − 1, not {value}.", (field, 0))
        for field, value in (("seed", spec.seed), ("dropout_seed", spec.dropout_seed))
        if not 0 <= value < 2**63
    ]
    return found


def _mask(spec: AttentionSpec) -> list[Problem]:
    found = []
    if spec.mask is Mask.WINDOW and spec.window < 1:
        sentence = f"A window of {spec.window} tokens reads nothing. Use 1 or more."
        found.append(Problem("window", sentence, ("window", 1)))
    if spec.mask is Mask.OWN and spec.own_mask is None:
        sentence = "There is no matrix yet. Write a row of 0s and 1s for every query."
        found.append(Problem("own_mask", sentence))
    divides = spec.normalisation is Normalisation.SUM
    if divides and spec.is_masked and spec.route is Route.BEFORE:
        sentence = "A row with −∞ in it has no sum to divide by. Mask after normalising."
        remedy = ("route", Route.AFTER_RENORMALISED)
        found.append(Problem("normalisation", sentence, remedy))
    return found
