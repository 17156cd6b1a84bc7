"""The spec of an attention module as one value, its options and its validation; imports no torch.

Sources: Vaswani et al. 2017, "Attention Is All You Need", §3.2 (scale, heads, output projection)
and §3.5 (sinusoidal positions); Raschka 2024, "Build a Large Language Model (From Scratch)",
chapter 3 (the other variants, under the book's names).
"""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
from msgspec import Struct

from visualizer.brief_repr import brief_repr
from visualizer.errors import InputError, Problem, Remedy

Texts = tuple[tuple[str, ...], ...]
"""The tokens of each text of a batch."""

# The layers that project the input, in the order in which the book initializes them.
LAYERS = ("W_query", "W_key", "W_value")

# The other layers of a transformer block: norms and linear layers.
NORMS = ("ln1", "ln2")
BLOCK_LAYERS = (*NORMS, "linear1", "linear2")

# Names of custom weights, and their layers.
OWN_LAYERS = {
    **{layer: layer for layer in LAYERS},
    "W_output": "out_proj",
    **{layer: layer for layer in BLOCK_LAYERS},
}

# Default width of a feed-forward layer, as a multiple of the input width.
WIDENING = 4

# Names of custom biases, and their layers.
BIAS = ".bias"
OWN_BIASES = {f"{name}{BIAS}": layer for name, layer in OWN_LAYERS.items()}

# Fields that determine the input vectors, and those that, with the number of tokens, determine
# the weights.
READ_FROM = ("d_in", "seed", "dtype", "own_input")
DRAWN_FROM = (
    *("d_in", "d_out", "heads", "arrangement", "projection", "bias", "output_projection"),
    *("position", "seed", "dtype", "own_weights", "block", "d_ff"),
)


class Projection(StrEnum):
    """How queries, keys and values come from the input."""

    NONE = "none"
    UNIFORM = "uniform"
    LINEAR = "linear"


class Arrangement(StrEnum):
    """Whether heads split d_out, or have size d_out each and are concatenated (stacked)."""

    SPLIT = "split"
    STACKED = "stacked"


class Position(StrEnum):
    """Position vectors added to the embedding."""

    NONE = "none"
    LEARNED = "learned"
    SINUSOIDAL = "sinusoidal"


class Block(StrEnum):
    """Layers around the attention: none, or a pre-norm transformer block."""

    NONE = "none"
    PRE_NORM = "pre-norm"


class Activation(StrEnum):
    """Activation function of a block's feed-forward layer."""

    RELU = "relu"
    GELU = "gelu"


class Scale(StrEnum):
    """Size under the square root in the scaling of the scores."""

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
    """Which keys a query may attend to."""

    NONE = "none"
    CAUSAL = "causal"
    WINDOW = "window"
    OWN = "own"


class Route(StrEnum):
    """When the mask is applied: −∞ before normalising, or zeros after it."""

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
    """Compute device; auto selects the fastest one available."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


class BooleanMatrix(Struct, frozen=True):
    """A boolean matrix, comparable and hashable, packed to eight cells per byte."""

    rows: int
    columns: int
    bits: bytes

    __repr__ = brief_repr

    @classmethod
    def of(cls, array: np.ndarray) -> BooleanMatrix:
        """Pack a boolean array [rows, columns]."""
        rows, columns = array.shape
        return cls(rows, columns, np.packbits(np.asarray(array, dtype=bool)).tobytes())

    @property
    def is_all_true(self) -> bool:
        """Whether no cell is false."""
        return int.from_bytes(self.bits).bit_count() == self.rows * self.columns

    def array(self) -> np.ndarray:
        """Unpack to a boolean array [rows, columns]."""
        cells = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=self.rows * self.columns)
        return cells.reshape(self.rows, self.columns).astype(bool)


class NumberMatrix(Struct, frozen=True):
    """A float64 matrix, comparable and hashable, as bytes in row-major order."""

    rows: int
    columns: int
    numbers: bytes

    __repr__ = brief_repr

    @classmethod
    def of(cls, array: np.ndarray) -> NumberMatrix:
        """Copy an array [rows, columns] of any type of number."""
        rows, columns = array.shape
        return cls(rows, columns, np.ascontiguousarray(array, dtype="<f8").tobytes())

    def array(self) -> np.ndarray:
        """Return the numbers, read-only [rows, columns]."""
        return np.frombuffer(self.numbers, dtype="<f8").reshape(self.rows, self.columns)


__all__ = [
    "MAX_SEED",
    "MAX_VALUES",
    "Activation",
    "Arrangement",
    "AttentionSpec",
    "Block",
    "BooleanMatrix",
    "Device",
    "Dtype",
    "InputError",
    "Mask",
    "Mode",
    "Normalisation",
    "NumberMatrix",
    "Position",
    "Problem",
    "Projection",
    "Remedy",
    "Route",
    "Scale",
    "check",
    "problems",
]

MAX_VALUES = {
    **{"d_in": 1_000_000, "d_out": 1_000_000, "d_ff": 4_000_000},
    **{"heads": 1_000, "window": 1_000_000},
}
MAX_SEED = 2**31 - 1


class AttentionSpec(Struct, frozen=True):
    """Everything that determines an attention module's numbers, apart from the text.

    A spec may be invalid while the user types; `problems` lists what is wrong with it.

    Parameters
    ----------
    d_out : int
        Width of all heads together if split, of each head if stacked. Unused without projection,
        where queries, keys and values are the input.
    bias : bool
        Whether linear query, key and value layers have a bias (the book's ``qkv_bias``).
    temperature : float
        Divides the scores in addition to `scale`.
    window : int
        Size of the sliding window: a query attends to itself and the window − 1 tokens before it.
    own_mask, own_kept : BooleanMatrix, optional
        Allowed cells [query, key]; cells that dropout keeps, instead of random ones.
    dropout_seed : int
        Seed of the dropout mask, which is the same on every operating system.
    own_input : NumberMatrix, optional
        The text's vectors [token, d_in], instead of those of its tokens; for a single text.
    own_weights : tuple of (name, NumberMatrix)
        Weights named in `OWN_LAYERS` [d_in, width], all heads concatenated, so that queries are
        ``x @ W``; W_output is [width, width], a block's linear layers are [in, out], its norms
        [1, d_in]; biases named in `OWN_BIASES` are [1, width]. Other weights are random.
    block : Block
        A pre-norm block is x + out_proj(heads(ln1(x))), and then, of that sum, x +
        linear2(activation(linear1(ln2(x)))). Its width is d_in. Without `output_projection`, the
        concatenated heads are added directly.
    d_ff : int
        Hidden size of the block's feed-forward layer; 0 for `WIDENING` times d_in.
    lengths : tuple of int
        Tokens of each text of a padded batch; empty if nothing is padded.
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
    own_input: NumberMatrix | None = None
    own_weights: tuple[tuple[str, NumberMatrix], ...] = ()
    dtype: Dtype = Dtype.FLOAT32
    device: Device = Device.AUTO
    block: Block = Block.NONE
    d_ff: int = 0
    activation: Activation = Activation.RELU
    lengths: tuple[int, ...] = ()

    __repr__ = brief_repr

    @property
    def d_head(self) -> int:
        """Columns of one head's queries, keys and values."""
        total = self.d_in if self.projection is Projection.NONE else self.d_out
        return total // max(1, self.heads) if self.arrangement is Arrangement.SPLIT else total

    @property
    def width(self) -> int:
        """Columns of all heads concatenated."""
        return self.heads * self.d_head

    @property
    def has_block(self) -> bool:
        """Whether the attention is part of a transformer block."""
        return self.block is not Block.NONE

    @property
    def hidden_width(self) -> int:
        """Hidden size of the block's feed-forward layer."""
        return self.d_ff or WIDENING * self.d_in

    @property
    def block_sizes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the block's weights and biases, by their names in a ``state_dict``."""
        if not self.has_block:
            return {}
        found: dict[str, tuple[int, ...]] = {}
        for layer in BLOCK_LAYERS:
            rows, columns = self.weight_sizes[layer]
            found[f"{layer}.weight"] = (columns,) if layer in NORMS else (columns, rows)
            found[f"{layer}{BIAS}"] = (columns,)
        return found

    @property
    def divisor(self) -> float:
        """The divisor of the scores: √size · temperature."""
        root = {Scale.NONE: 1, Scale.D_HEAD: self.d_head, Scale.D_MODEL: self.d_in}[self.scale]
        return math.sqrt(root) * self.temperature

    @property
    def is_masked(self) -> bool:
        """Whether any cell may be forbidden."""
        return self.mask is not Mask.NONE or bool(self.lengths)

    @property
    def drops(self) -> bool:
        """Whether dropout acts on the weights."""
        return self.mode is Mode.TRAIN and (self.dropout > 0 or self.own_kept is not None)

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of its weights, as in `OWN_LAYERS`."""
        layers = () if self.projection is Projection.NONE else LAYERS
        output = ("W_output",) if self.output_projection else ()
        return (*layers, *output, *(BLOCK_LAYERS if self.has_block else ()))

    @property
    def weight_sizes(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of its weights; the weights of a norm are a single row."""
        sizes = {"W_output": (self.width, self.width)}
        if self.has_block:
            sizes |= dict.fromkeys(NORMS, (1, self.d_in))
            sizes["linear1"] = (self.d_in, self.hidden_width)
            sizes["linear2"] = (self.hidden_width, self.d_in)
        return {name: sizes.get(name, (self.d_in, self.width)) for name in self.weight_names}

    @property
    def own_sizes(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of all weights and biases that can be custom."""
        has_bias = self.bias and self.projection is Projection.LINEAR
        sizes = self.weight_sizes
        biased = [name for name in sizes if has_bias or name not in LAYERS]
        return sizes | {f"{name}{BIAS}": (1, sizes[name][1]) for name in biased}

    @property
    def counting_weights(self) -> tuple[tuple[str, NumberMatrix], ...]:
        """The custom weights and biases that the computation uses."""
        return tuple(own for own in self.own_weights if own[0] in self.own_sizes)


def problems(spec: AttentionSpec) -> tuple[Problem, ...]:
    """Return the problems of a spec, field by field; empty if it can be computed."""
    sizes = _size_problems(spec) + _head_problems(spec)
    own = [] if sizes else _own_weight_problems(spec)
    block = _block_problems(spec) if spec.has_block and not sizes else []
    return tuple(sizes + _range_problems(spec) + _mask_problems(spec) + own + block)


def check(spec: AttentionSpec) -> None:
    """Raise `InputError` for the first problem of a spec."""
    for problem in problems(spec):
        raise InputError(problem.field, problem.sentence, problem.remedy)


def _size_problems(spec: AttentionSpec) -> list[Problem]:
    names = {"d_in": "The embedding size", "d_out": "The output size", "heads": "The heads"}
    found = []
    for field, name in names.items():
        size, largest = getattr(spec, field), MAX_VALUES[field]
        if size < 1:
            sentence = f"{name} cannot be {size}. Use 1 or more."
            found.append(Problem(field, sentence, (field, 1)))
        elif size > largest:
            sentence = f"{name} cannot be more than {largest:,}. Use {largest:,} or less."
            mended = _divisor_problem(spec, largest) if field == "heads" else largest
            found.append(Problem(field, sentence, (field, mended)))
    return found


def _block_problems(spec: AttentionSpec) -> list[Problem]:
    found = []
    largest = MAX_VALUES["d_ff"]
    if not 0 <= spec.d_ff <= largest:
        sentence = f"The feed-forward size cannot be {spec.d_ff:,}. Use 1 to {largest:,}."
        found.append(Problem("d_ff", sentence, ("d_ff", 0 if spec.d_ff < 0 else largest)))
    if spec.width != spec.d_in:
        sentence = "A block adds what attention gives to its input, so both need one size: "
        sentence += f"{spec.d_in:,}, not {spec.width:,}."
        parts = spec.heads if spec.arrangement is Arrangement.STACKED else 1
        if spec.projection is Projection.NONE or spec.d_in % parts:
            remedy: Remedy = ("arrangement", Arrangement.SPLIT)
            found.append(Problem("arrangement", sentence, remedy))
        else:
            found.append(Problem("d_out", sentence, ("d_out", spec.d_in // parts)))
    return found


def _division_problem(spec: AttentionSpec) -> str:
    return "d_in" if spec.projection is Projection.NONE else "d_out"


def _divisor_problem(spec: AttentionSpec, most: int) -> int:
    """Return the largest number of heads, at most ``most``, that divides the size."""
    total = 0 if spec.arrangement is Arrangement.STACKED else getattr(spec, _division_problem(spec))
    return next(heads for heads in range(most, 0, -1) if total % heads == 0)


def _head_problems(spec: AttentionSpec) -> list[Problem]:
    field, heads = _division_problem(spec), spec.heads
    if spec.has_block and spec.d_in == spec.d_out:  # a block's output size goes with it
        field = "d_in"
    total = getattr(spec, field)
    usable = 0 < total <= MAX_VALUES[field] and 0 < heads <= MAX_VALUES["heads"]
    if spec.arrangement is Arrangement.STACKED or not usable or total % heads == 0:
        return []
    size = "embedding size" if field == "d_in" else "output size"
    below = _divisor_problem(spec, min(heads, total))
    near = range(heads + 1, min(total, MAX_VALUES["heads"]) + 1)
    above = next((more for more in near if total % more == 0), 0)
    nearest = f"{below} or {above} heads" if above else f"{below} head{'s' * (below > 1)}"
    wider = min(math.ceil(total / heads), MAX_VALUES[field] // heads) * heads
    if spec.own_weights or (field == "d_in" and spec.own_input):  # they have the size they have
        sentence = f"{total} does not divide into {heads} heads. Use {nearest}."
        return [Problem("heads", sentence, ("heads", above or below))]
    sentence = f"{total} does not divide into {heads} heads. Use {nearest}, or the {size} {wider}."
    return [Problem("heads", sentence, (field, wider))]


def _range_problems(spec: AttentionSpec) -> list[Problem]:
    found = []
    if not 0 <= spec.dropout < 1:
        sentence = f"A rate of {spec.dropout:g} is not a share. Use 0 up to, but not with, 1."
        if spec.dropout == 1:
            sentence = "A rate of 1 drops every weight, and ×1/(1 − 1) has no value. Stay below 1."
        if math.isnan(spec.dropout):
            sentence = "The rate is not a number. Use 0 up to, but not with, 1."
        found.append(Problem("dropout", sentence, ("dropout", 0.5)))
    if not (spec.temperature > 0 and math.isfinite(spec.temperature)):
        sentence = f"A temperature of {spec.temperature:g} cannot divide. Use more than 0."
        found.append(Problem("temperature", sentence, ("temperature", 1.0)))
    found += [
        Problem(field, f"A seed is a whole number from 0 to 2³¹ − 1, not {value}.", (field, 0))
        for field, value in (("seed", spec.seed), ("dropout_seed", spec.dropout_seed))
        if not 0 <= value <= MAX_SEED
    ]
    return found


def _mask_problems(spec: AttentionSpec) -> list[Problem]:
    found, widest = [], MAX_VALUES["window"]
    if spec.window < 1:
        sentence = f"A window of {spec.window} tokens reads nothing. Use 1 or more."
        found.append(Problem("window", sentence, ("window", 1)))
    if spec.window > widest:
        sentence = f"A window cannot be more than {widest:,} tokens. Use {widest:,} or less."
        found.append(Problem("window", sentence, ("window", widest)))
    if spec.mask is Mask.OWN and spec.own_mask is None:
        sentence = "There is no matrix yet. Write a row of 0s and 1s for every query."
        found.append(Problem("own_mask", sentence))
    if spec.normalisation is Normalisation.SUM and spec.lengths:
        sentence = "Padding puts −∞ in a row, which then has no sum to divide by. Use softmax."
        remedy: Remedy = ("normalisation", Normalisation.SOFTMAX)
        found.append(Problem("normalisation", sentence, remedy))
    elif spec.normalisation is Normalisation.SUM and spec.is_masked and spec.route is Route.BEFORE:
        sentence = "A row with −∞ in it has no sum to divide by. Mask after normalising."
        remedy = ("route", Route.AFTER_RENORMALISED)
        found.append(Problem("normalisation", sentence, remedy))
    return found


def _own_weight_problems(spec: AttentionSpec) -> list[Problem]:
    found, given = [], spec.own_input
    if given and given.columns != spec.d_in:
        sentence = f"The vectors are {given.rows} × {given.columns} and the embedding size is "
        found.append(Problem("own_input", f"{sentence}{spec.d_in}.", ("own_input", None)))
    fitting = tuple(own for own in spec.own_weights if not _misfit_message(spec, *own))
    wrong = [own for own in spec.own_weights if own not in fitting][:1]
    remedy = ("own_weights", fitting)
    return found + [Problem("own_weights", _misfit_message(spec, *own), remedy) for own in wrong]


def _misfit_message(spec: AttentionSpec, name: str, own: NumberMatrix) -> str:
    """Return why custom weights do not fit; empty if they fit or are unused."""
    if name not in OWN_LAYERS and name not in OWN_BIASES:
        return f"There are no weights “{name}”, only {', '.join(OWN_LAYERS)}."
    rows, columns = spec.own_sizes.get(name, (own.rows, own.columns))
    sentence = f"{name} is {own.rows} × {own.columns} and the sizes need {rows} × {columns}."
    return "" if (own.rows, own.columns) == (rows, columns) else sentence
