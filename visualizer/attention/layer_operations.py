"""Operations of a transformer layer around its attention, as plain values; imports no torch.

Each type of step has a tag that identifies it in JSON.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.brief_repr import brief_repr

if TYPE_CHECKING:
    from collections.abc import Callable


class EmbeddedTokens(Struct, frozen=True, tag=True):
    """Input of the first layer: the sum of rows of embedding tables.

    Parameters
    ----------
    tables : tuple of (str, tuple of int)
        Path of each table in the model, and the row of each token.
    factor : float
        Factor that multiplies the sum.
    norm : NormLayer or None
        Norm that is applied to the sum.
    """

    tables: tuple[tuple[str, tuple[int, ...]], ...]
    factor: float = 1.0
    norm: NormLayer | None = None

    __repr__ = brief_repr


class ResidualStream(Struct, frozen=True, tag=True):
    """Input of a layer: the residual stream after the previous layer.

    Parameters
    ----------
    before : tuple of int or None
        For each layer of the run, the index of the previous layer in the run; None if that layer is
        not in the run.
    embedded : EmbeddedTokens or None
        Input of the model's first layer, if it is known.
    """

    before: tuple[int | None, ...]
    embedded: EmbeddedTokens | None = None

    __repr__ = brief_repr


class NormLayer(Struct, frozen=True, tag=True):
    """Normalized vectors: each is divided by its root mean square or standard deviation.

    Parameters
    ----------
    modules : tuple of str
        Path of the norm in the model, by layer of the run.
    epsilon : float
        Number that is added to the mean square.
    is_centred : bool
        Whether the mean is subtracted first, as in layer norm but not in RMS norm.
    has_gain, has_bias : bool
        Whether each column has a gain, and whether it has a bias.
    adds_one : bool
        Whether the gain is 1 plus the model's parameter.
    is_over_heads : bool
        Whether the vectors of all heads of a token are normalized together.
    heads : tuple of int
        Head that each query head uses; empty if the stage has no heads.
    """

    modules: tuple[str, ...]
    epsilon: float
    is_centred: bool
    has_gain: bool
    has_bias: bool
    adds_one: bool = False
    is_over_heads: bool = False
    heads: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of this kind of norm."""
        return "LayerNorm" if self.is_centred else "RMSNorm"


class LinearLayer(Struct, frozen=True, tag=True):
    """Vectors multiplied by a weight matrix.

    Parameters
    ----------
    modules : tuple of str
        Path of the weight matrix in the model, by layer of the run.
    has_bias : bool
        Whether a bias is added to each column.
    is_transposed : bool
        Whether the matrix is [in, out] instead of [out, in].
    first_columns : tuple of int
        Column of the matrix product at which each head starts; a single column if there are no
        heads.
    factor : float
        Factor that multiplies the result.
    """

    modules: tuple[str, ...]
    has_bias: bool
    is_transposed: bool = False
    first_columns: tuple[int, ...] = (0,)
    factor: float = 1.0

    @property
    def name(self) -> str:
        """Name of the matrix in the model."""
        return self.modules[0].rpartition(".")[2]


class LatentKeys(LinearLayer, frozen=True, tag=True):
    """Keys for which a weight matrix computes only the first columns.

    The other columns are the same in all heads and are taken from a separate stage.

    Parameters
    ----------
    own_columns : int
        Number of columns that are computed separately for each head.
    """

    own_columns: int = 0


ROTARY_BASE = 10_000
"""Ratio of consecutive rotary wavelengths, to the power of the number of pairs."""


class RotaryPosition(Struct, frozen=True, tag=True):
    """Rotary embedding (RoPE): pairs of columns, rotated by angles proportional to the position.

    Parameters
    ----------
    angles : str
        Prefix of the names of the trace's cosines and sines [layer, token, pair]; the suffixes are
        ``.cos`` and ``.sin``. Empty if the angles are those that `angles_at` returns.
    pairs : int
        Number of rotated pairs; other columns are unchanged. 0 in a layer without positions.
    is_interleaved : bool
        Whether a pair consists of adjacent columns instead of columns at a distance of ``pairs``.
    stride : int
        Number of adjacent copies of each pair's angle in the model.
    is_backward : bool
        Whether the model rotates in the opposite direction; the trace's sines then have that sign.
    start : int
        Index of the first rotated column.
    is_regrouped : bool
        Whether pairs of adjacent columns are output as columns at a distance of ``pairs``.
    """

    angles: str
    pairs: int
    is_interleaved: bool = False
    stride: int = 1
    is_backward: bool = False
    start: int = 0
    is_regrouped: bool = False

    def angles_at(self, positions: range) -> np.ndarray:
        """Return the angles of Su et al. 2021, §3.2.2, as a float64 array [position, pair]."""
        return np.array(positions)[:, None] / ROTARY_BASE ** (np.arange(self.pairs) / self.pairs)

    def rotation_terms(self, column: int) -> tuple[int, int, int, int] | None:
        """Return how a column is computed, or None if the column is copied unchanged.

        Returns
        -------
        tuple of int
            The pair, the column that is multiplied by the cosine, the column that is multiplied by
            the sine, and the sign of the sine term.
        """
        within = column - self.start
        if not 0 <= within < 2 * self.pairs:
            return None
        if self.is_interleaved and not self.is_regrouped:
            pair, is_second = within // 2, within % 2 == 1
        else:
            pair, is_second = within % self.pairs, within >= self.pairs
        first, second = (self.start + each for each in self._pair_columns(pair))
        own, other = (second, first) if is_second else (first, second)
        return pair, own, other, 1 if is_second else -1

    def _pair_columns(self, pair: int) -> tuple[int, int]:
        return (2 * pair, 2 * pair + 1) if self.is_interleaved else (pair, pair + self.pairs)


class HiddenActivation(Struct, frozen=True, tag=True):
    """An activation function of each number, multiplied by another number in a gated layer.

    Parameters
    ----------
    function : str
        Name of the function in `ACTIVATIONS`.
    """

    function: str


class ExpertMixture(Struct, frozen=True, tag=True):
    """Sum of the outputs of the experts that the router selects, weighted by the router.

    The trace holds these numbers under the path of the experts: ``.numbers``, ``.router_weights``
    [token, expert], ``.results`` [token, expert, column] and, for the shared expert, ``.shared``
    [token, column].

    Parameters
    ----------
    modules : tuple of str
        Path of the experts in the model, by layer of the run.
    has_shared : bool
        Whether there is a shared expert, which processes all tokens.
    """

    modules: tuple[str, ...]
    has_shared: bool = False


class JoinedHeads(Struct, frozen=True, tag=True):
    """Concatenated context vectors, with edits of individual heads.

    Parameters
    ----------
    edits : frozenset of (layer, head, factor)
        The edited heads, each with the index of its layer in the run and the factor for its
        vectors, which is 0 for ablated heads and None for replaced vectors.
    """

    edits: frozenset[tuple[int, int, float | None]]


class ScoreCap(Struct, frozen=True, tag=True):
    """Soft-capped scores: limit·tanh(score/limit).

    Parameters
    ----------
    limit : float
        Limit of the absolute values of the scores.
    """

    limit: float


class ScoreBias(Struct, frozen=True, tag=True):
    """A bias added to each score, often a function of the query and key positions."""


class SinkSoftmax(Struct, frozen=True, tag=True):
    """A softmax over each row and one extra logit per head, the attention sink.

    Parameters
    ----------
    logits : str
        Name of the sink logits [layer, head] in the trace.
    """

    logits: str


class ScaledVector(Struct, frozen=True, tag=True):
    """A vector multiplied by one factor per column (LayerScale) or by a single factor.

    Parameters
    ----------
    modules : tuple of str
        Name of the factors in the model, by layer of the run; empty for a single factor.
    factor : float
        The single factor; unused if there is one factor per column.
    """

    modules: tuple[str, ...]
    factor: float = 1.0

    @property
    def is_by_column(self) -> bool:
        return bool(self.modules[0])

    @property
    def name(self) -> str:
        """Name of the factors in the model."""
        return self.modules[0].rpartition(".")[2]


class LateSink(Struct, frozen=True, tag=True):
    """Context vectors times the fraction of their row's weight that does not go to the sink.

    Parameters
    ----------
    kept : str
        Name of these fractions [layer, head, query] in the trace.
    """

    kept: str


class ResidualAddition(Struct, frozen=True, tag=True):
    """Addition of a sublayer's output to the residual stream."""


LayerStep = (
    ResidualStream
    | NormLayer
    | LinearLayer
    | LatentKeys
    | RotaryPosition
    | HiddenActivation
    | ExpertMixture
    | JoinedHeads
    | ResidualAddition
    | ScoreCap
    | ScoreBias
    | SinkSoftmax
    | LateSink
    | ScaledVector
)


def weight_names(step: LayerStep) -> tuple[str, ...]:
    """Return the names of the model weights and extra numbers that a trace needs for a step.

    The tables of `ResidualStream` are omitted because the stream is known without them.
    """
    names: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    if isinstance(step, NormLayer | LinearLayer):
        has_factors = isinstance(step, LinearLayer) or step.has_gain
        parts = (".weight",) * has_factors + (".bias",) * step.has_bias
    elif isinstance(step, ExpertMixture):
        parts = (".numbers", ".router_weights", ".results") + (".shared",) * step.has_shared
    elif isinstance(step, ScaledVector):
        parts = ("",)
    elif isinstance(step, RotaryPosition) and step.pairs:
        names = (f"{step.angles}.cos", f"{step.angles}.sin")
    elif isinstance(step, SinkSoftmax):
        names = (step.logits,)
    elif isinstance(step, LateSink):
        names = (step.kept,)
    modules = [path for path in getattr(step, "modules", ()) if path]
    return (*names, *(path + part for path in modules for part in parts))


def _apply_sigmoid(number: float) -> float:
    if number >= 0:
        return 1 / (1 + math.exp(-number))
    grown = math.exp(number)  # does not overflow for large negative numbers
    return grown / (1 + grown)


def _apply_gelu(number: float) -> float:
    return number * (1 + math.erf(number / math.sqrt(2))) / 2


def _apply_gelu_by_tanh(number: float) -> float:
    inner = math.sqrt(2 / math.pi) * (number + 0.044715 * number**3)
    return number * (1 + math.tanh(inner)) / 2


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "SiLU": lambda number: number * _apply_sigmoid(number),
    "GELU": _apply_gelu,
    "GELU by tanh": _apply_gelu_by_tanh,
    "quick GELU": lambda number: number * _apply_sigmoid(1.702 * number),
    "ReLU": lambda number: max(number, 0.0),
    "squared ReLU": lambda number: max(number, 0.0) ** 2,
    "tanh": math.tanh,
    "sigmoid": _apply_sigmoid,
}
"""Activation functions, by display name."""
