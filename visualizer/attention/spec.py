"""The spec of an attention module as a single value, and its choices; imports no torch.

Sources: Vaswani et al. 2017, "Attention Is All You Need", §3.2 (scale, heads, output projection)
and §3.5 (sinusoidal positions); Press et al. 2022, "Train Short, Test Long", §3 (linear biases);
Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
Checkpoints" (grouped key-value heads); Raschka 2024, "Build a Large Language Model (From Scratch)",
chapter 3 (the other variants, under the book's names).
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Self

import numpy as np
from msgspec import Struct

from visualizer.brief_repr import brief_repr

Texts = tuple[tuple[str, ...], ...]
"""The tokens of each text of a batch."""

# The layers that project the input, in the order in which the book initializes them.
PROJECTION_LAYERS = ("W_query", "W_key", "W_value")
KEY_VALUE_LAYERS = ("W_key", "W_value")

# The other layers of a transformer block: norms and linear layers.
NORM_LAYERS = ("ln1", "ln2")
BLOCK_LAYERS = (*NORM_LAYERS, "linear1", "linear2")

# Names of custom weights, and their layers.
OWN_LAYERS = {
    **{layer: layer for layer in PROJECTION_LAYERS},
    "W_output": "out_proj",
    **{layer: layer for layer in BLOCK_LAYERS},
}

# Symbols of layers in headings and sentences; code, files and options use the names above.
LAYER_SYMBOLS = {"W_query": "W_q", "W_key": "W_k", "W_value": "W_v", "out_proj": "W_o"}


def layer_symbol(layer: str) -> str:
    """Return the symbol of a layer, or its name if it has none."""
    return LAYER_SYMBOLS.get(layer, layer)


# Default width of a feed-forward layer, as a multiple of the input width.
FEED_FORWARD_FACTOR = 4

# Names of custom biases, and their layers.
BIAS_SUFFIX = ".bias"
OWN_BIASES = {f"{name}{BIAS_SUFFIX}": layer for name, layer in OWN_LAYERS.items()}

# Fields that determine the input vectors, and those that, with the number of tokens, determine
# the weights.
INPUT_FIELDS = ("d_in", "seed", "dtype", "own_input")
WEIGHT_FIELDS = (
    *("d_in", "d_out", "heads", "arrangement", "projection", "bias", "output_projection"),
    "key_value_heads",
    *("position", "seed", "dtype", "own_weights", "block", "d_ff"),
)


class SettingChoice(StrEnum):
    """A choice of a setting, with the label that the window shows."""

    label: str

    def __new__(cls, value: str, label: str = "") -> Self:
        choice = str.__new__(cls, value)
        choice._value_, choice.label = value, label
        return choice


class Projection(SettingChoice):
    """How queries, keys and values are computed from the input."""

    NONE = "none", "None: Q = K = V = X"
    UNIFORM = "uniform", "Uniform in [0, 1)"
    LINEAR = "linear", "Linear layers"


class HeadArrangement(SettingChoice):
    """Whether the heads split d_out, or each have size d_out and are stacked."""

    SPLIT = "split", "Split: heads share the output size"
    STACKED = "stacked", "Stacked: each head has the full size"


class PositionKind(SettingChoice):
    """Positional encoding, either by vectors added to the embedding or within attention."""

    NONE = "none", "None"
    LEARNED = "learned", "Learned (untrained)"
    SINUSOIDAL = "sinusoidal", "Sinusoidal"
    ALIBI = "alibi", "Linear biases (ALiBi)"
    ROTARY = "rotary", "Rotary (RoPE)"


VECTOR_POSITIONS = (PositionKind.LEARNED, PositionKind.SINUSOIDAL)
"""Positional encodings that add vectors to the embedding; others act on queries, keys or scores."""


class TransformerBlockKind(SettingChoice):
    """Layers around the attention: none, or the other layers of a pre-norm transformer block."""

    NONE = "none", "None: attention only"
    PRE_NORM = "pre-norm", "Pre-norm transformer block"


class Activation(SettingChoice):
    """Activation function in a block's feed-forward layer."""

    RELU = "relu", "ReLU"
    GELU = "gelu", "GELU"


class ScaleKind(SettingChoice):
    """Divisor of the scores: the square root of a size, or none."""

    NONE = "none", "None"
    D_HEAD = "d_head", "√ head size"
    D_MODEL = "d_model", "√ embedding size"


class NormalisationKind(SettingChoice):
    """How a row of scores becomes a row of weights."""

    SOFTMAX = "softmax", "Softmax"
    NAIVE_SOFTMAX = "naive", "Naive softmax"
    SUM = "sum", "Divide by the sum"
    UNIFORM = "uniform", "Uniform average"
    LINEAR = "linear", "None: linear attention, elu(x) + 1"


class MaskKind(SettingChoice):
    """Which keys a query may attend to."""

    NONE = "none", "None"
    CAUSAL = "causal", "Causal"
    WINDOW = "window", "Sliding window"
    OWN = "own", "Custom matrix"


class MaskPlacement(SettingChoice):
    """Whether the mask sets scores to −∞ before normalization or weights to 0 after it."""

    BEFORE = "before", "−∞ before normalizing"
    AFTER_RENORMALISED = "after-renormalised", "0 after normalizing, renormalized"
    AFTER = "after", "0 after normalizing, not renormalized"


class DropoutMode(SettingChoice):
    """Training mode, which applies dropout, or evaluation mode, which does not."""

    TRAIN = "train", "Training"
    EVAL = "eval", "Evaluation (off)"


class Dtype(SettingChoice):
    """Floating-point type of every stage."""

    FLOAT32 = "float32", "float32"
    FLOAT64 = "float64", "float64"


class ModelDtype(SettingChoice):
    """Floating-point type in which a Transformers model computes.

    `AUTO` stands for float32 or, if the weights are stored in 16 bits and do not fit in the memory
    as float32, for their own type.
    """

    AUTO = "auto", "Automatic"
    FLOAT32 = "float32", "float32"
    FLOAT64 = "float64", "float64"
    BFLOAT16 = "bfloat16", "bfloat16"
    FLOAT16 = "float16", "float16"

    @classmethod
    def for_document(cls, dtype: Dtype) -> ModelDtype:
        """Return the type in which to open a model for a document with a data type."""
        return cls.FLOAT64 if dtype is Dtype.FLOAT64 else cls.AUTO

    @property
    def document_dtype(self) -> Dtype:
        """The data type of a document with a model that computes in this type."""
        return Dtype.FLOAT64 if self is ModelDtype.FLOAT64 else Dtype.FLOAT32

    @property
    def is_half(self) -> bool:
        """Whether the type has 16 bits."""
        return self in {ModelDtype.BFLOAT16, ModelDtype.FLOAT16}

    @property
    def itemsize(self) -> int:
        """Number of bytes per value; that of float32 for `AUTO`."""
        if self.is_half:
            return 2
        return 8 if self is ModelDtype.FLOAT64 else 4


class Device(SettingChoice):
    """Compute device; `AUTO` stands for the fastest one available."""

    AUTO = "auto", "Best available"
    CPU = "cpu", "CPU"
    CUDA = "cuda", "CUDA GPU"
    MPS = "mps", "Apple GPU (MPS)"


class BooleanMatrix(Struct, frozen=True):
    """A boolean matrix, packed to eight cells per byte; comparable and hashable."""

    rows: int
    columns: int
    bits: bytes

    __repr__ = brief_repr

    @classmethod
    def from_array(cls, array: np.ndarray) -> BooleanMatrix:
        """Pack a boolean array [rows, columns]."""
        rows, columns = array.shape
        return cls(rows, columns, np.packbits(np.asarray(array, dtype=bool)).tobytes())

    @property
    def is_all_true(self) -> bool:
        """Whether all cells are true."""
        return int.from_bytes(self.bits).bit_count() == self.rows * self.columns

    def to_array(self) -> np.ndarray:
        """Unpack to a boolean array [rows, columns]."""
        cells = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=self.rows * self.columns)
        return cells.reshape(self.rows, self.columns).astype(bool)


class NumberMatrix(Struct, frozen=True):
    """A float64 matrix, stored as bytes in row-major order; comparable and hashable."""

    rows: int
    columns: int
    numbers: bytes

    __repr__ = brief_repr

    @classmethod
    def from_array(cls, array: np.ndarray) -> NumberMatrix:
        """Create a matrix from an array [rows, columns] of any numeric type."""
        rows, columns = array.shape
        return cls(rows, columns, np.ascontiguousarray(array, dtype="<f8").tobytes())

    def to_array(self) -> np.ndarray:
        """Return the numbers as a read-only array [rows, columns]."""
        return np.frombuffer(self.numbers, dtype="<f8").reshape(self.rows, self.columns)


MAX_VALUES = {
    **{"d_in": 1_000_000, "d_out": 1_000_000, "d_ff": 4_000_000},
    **{"heads": 1_000, "key_value_heads": 1_000, "window": 1_000_000},
}
MAX_SEED = 2**31 - 1


class AttentionSpec(Struct, frozen=True):
    """Everything that determines the numbers of an attention module, except the text.

    A spec may be invalid while the user edits it; `spec_validation` lists its problems.

    Parameters
    ----------
    d_out : int
        Total width of split heads, or the width of each stacked head. Unused without a projection,
        because queries, keys and values are then equal to the input.
    bias : bool
        Whether the linear query, key and value layers have a bias (the book's ``qkv_bias``).
    temperature : float
        Additional divisor of the scores.
    window : int
        Size of the sliding window: a query attends to itself and the window − 1 tokens before it.
    own_mask, own_kept : BooleanMatrix, optional
        Custom mask of allowed cells, and custom mask of cells that dropout keeps, [query, key].
    dropout_seed : int
        Seed of the dropout mask, which does not depend on the operating system.
    own_input : NumberMatrix, optional
        Custom vectors of a single text [token, d_in], which replace the token embeddings.
    own_weights : tuple of (name, NumberMatrix)
        Custom weights; all other weights are random. The matrices named in `OWN_LAYERS` have the
        shape [d_in, width], with all heads concatenated, so that queries are ``x @ W``. W_output is
        [width, width], a block's linear layers are [in, out] and its norms are [1, d_in]. The
        biases named in `OWN_BIASES` are [1, width].
    block : TransformerBlockKind
        A pre-norm block computes y = x + out_proj(heads(ln1(x))) and then
        y + linear2(activation(linear1(ln2(y)))). Its width is d_in. Without `output_projection`,
        the concatenated heads are added directly.
    d_ff : int
        Hidden size of the block's feed-forward layer; 0 for `FEED_FORWARD_FACTOR` times d_in.
    lengths : tuple of int
        Number of tokens in each text of a padded batch; empty without padding.
    key_value_heads : int
        Number of key-value heads, which groups of split query heads share; 0 for one per query
        head.
    """

    d_in: int = 3
    d_out: int = 2
    heads: int = 2
    projection: Projection = Projection.LINEAR
    bias: bool = False
    arrangement: HeadArrangement = HeadArrangement.SPLIT
    output_projection: bool = True
    position: PositionKind = PositionKind.NONE
    scale: ScaleKind = ScaleKind.D_HEAD
    temperature: float = 1.0
    normalisation: NormalisationKind = NormalisationKind.SOFTMAX
    mask: MaskKind = MaskKind.CAUSAL
    window: int = 3
    own_mask: BooleanMatrix | None = None
    route: MaskPlacement = MaskPlacement.BEFORE
    dropout: float = 0.0
    dropout_seed: int = 0
    own_kept: BooleanMatrix | None = None
    mode: DropoutMode = DropoutMode.TRAIN
    seed: int = 123
    own_input: NumberMatrix | None = None
    own_weights: tuple[tuple[str, NumberMatrix], ...] = ()
    dtype: Dtype = Dtype.FLOAT32
    device: Device = Device.AUTO
    block: TransformerBlockKind = TransformerBlockKind.NONE
    d_ff: int = 0
    activation: Activation = Activation.RELU
    lengths: tuple[int, ...] = ()
    key_value_heads: int = 0

    __repr__ = brief_repr

    @property
    def d_head(self) -> int:
        """Number of columns in one head's queries, keys and values."""
        total = self.d_out if self.has_projection else self.d_in
        return total // max(1, self.heads) if self.arrangement is HeadArrangement.SPLIT else total

    @property
    def concatenated_head_width(self) -> int:
        """Number of columns of the concatenated heads."""
        return self.heads * self.d_head

    @property
    def has_projection(self) -> bool:
        """Whether queries, keys and values are projections of the input."""
        return self.projection is not Projection.NONE

    @property
    def has_grouped_heads(self) -> bool:
        """Whether there are fewer key-value heads than query heads."""
        is_split = self.arrangement is HeadArrangement.SPLIT and self.has_projection
        return is_split and 0 < self.key_value_heads < self.heads

    def projection_head_count(self, layer: str) -> int:
        """Return the number of heads of a projection layer."""
        is_shared = self.has_grouped_heads and layer in KEY_VALUE_LAYERS
        return self.key_value_heads if is_shared else self.heads

    def projection_head_index(self, layer: str, head: int) -> int:
        """Return the index of the head in a projection layer that a query head uses."""
        return head * self.projection_head_count(layer) // self.heads

    @property
    def has_transformer_block(self) -> bool:
        """Whether the attention is part of a transformer block."""
        return self.block is not TransformerBlockKind.NONE

    @property
    def hidden_width(self) -> int:
        """Hidden size of a block's feed-forward layer."""
        return self.d_ff or FEED_FORWARD_FACTOR * self.d_in

    @property
    def block_parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of a block's weights and biases, by their names in a ``state_dict``."""
        if not self.has_transformer_block:
            return {}
        found: dict[str, tuple[int, ...]] = {}
        for layer in BLOCK_LAYERS:
            rows, columns = self.weight_sizes[layer]
            found[f"{layer}.weight"] = (columns,) if layer in NORM_LAYERS else (columns, rows)
            found[f"{layer}{BIAS_SUFFIX}"] = (columns,)
        return found

    @property
    def divisor(self) -> float:
        """Divisor of the scores: √size · temperature."""
        root = {ScaleKind.NONE: 1, ScaleKind.D_HEAD: self.d_head, ScaleKind.D_MODEL: self.d_in}[
            self.scale
        ]
        return math.sqrt(root) * self.temperature

    @property
    def alibi_slopes(self) -> tuple[float, ...]:
        """Slope of each head's linear bias (ALiBi; Press et al. 2022, §3).

        The slopes form a geometric sequence. If the number of heads is not a power of two, the
        slopes of the next smaller power are followed by every other slope of the next larger one.
        """
        power = 2 ** int(math.log2(self.heads))
        slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
        between = [2 ** (-4 * (2 * head + 1) / power) for head in range(self.heads - power)]
        return (*slopes, *between)

    @property
    def is_masked(self) -> bool:
        """Whether the mask or padding can forbid a cell."""
        return self.mask is not MaskKind.NONE or bool(self.lengths)

    @property
    def is_dropout_active(self) -> bool:
        """Whether dropout acts on the weights."""
        is_on = self.mode is DropoutMode.TRAIN and (self.dropout > 0 or self.own_kept is not None)
        return is_on and self.normalisation is not NormalisationKind.LINEAR

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the spec's weights, as in `OWN_LAYERS`."""
        layers = PROJECTION_LAYERS if self.has_projection else ()
        output = ("W_output",) if self.output_projection else ()
        return (*layers, *output, *(BLOCK_LAYERS if self.has_transformer_block else ()))

    @property
    def weight_sizes(self) -> dict[str, tuple[int, int]]:
        """Numbers of rows and columns of each weight matrix; a norm has a single row."""
        sizes = {"W_output": (self.concatenated_head_width, self.concatenated_head_width)}
        if self.has_transformer_block:
            sizes |= dict.fromkeys(NORM_LAYERS, (1, self.d_in))
            sizes["linear1"] = (self.d_in, self.hidden_width)
            sizes["linear2"] = (self.hidden_width, self.d_in)
        for layer in PROJECTION_LAYERS:
            sizes[layer] = (self.d_in, self.projection_head_count(layer) * self.d_head)
        return {name: sizes[name] for name in self.weight_names}

    @property
    def custom_weight_sizes(self) -> dict[str, tuple[int, int]]:
        """Numbers of rows and columns of all weights and biases that can be custom."""
        has_bias = self.bias and self.projection is Projection.LINEAR
        sizes = self.weight_sizes
        biased = [name for name in sizes if has_bias or name not in PROJECTION_LAYERS]
        return sizes | {f"{name}{BIAS_SUFFIX}": (1, sizes[name][1]) for name in biased}

    @property
    def used_custom_weights(self) -> tuple[tuple[str, NumberMatrix], ...]:
        """Custom weights and biases that the computation uses."""
        return tuple(own for own in self.own_weights if own[0] in self.custom_weight_sizes)
