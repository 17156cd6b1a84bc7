"""How a layer of a model computes a stage around its attention, as values; no torch.

Each kind has a tag, by which it is told from the others where it is sent as JSON.
"""

from __future__ import annotations

from msgspec import Struct

from visualizer.brief_repr import brief_repr


class EmbeddedTokens(Struct, frozen=True, tag=True):
    """What the residual stream of the first layer is: rows of tables, added up.

    Parameters
    ----------
    tables : tuple of (str, tuple of int)
        The path of each table of the model, and the row of it that each token has.
    factor : float
        Multiplies the sum.
    norm : NormLayer or None
        What makes the product of one size.
    """

    tables: tuple[tuple[str, tuple[int, ...]], ...]
    factor: float = 1.0
    norm: NormLayer | None = None

    __repr__ = brief_repr


class ResidualStream(Struct, frozen=True, tag=True):
    """What enters a layer: the stream that leaves the one before.

    Parameters
    ----------
    before : tuple of int or None
        For each layer of the run, the place in it of the layer before; None where that is not in
        the run.
    embedded : EmbeddedTokens or None
        What enters the model's first layer, where it is known.
    """

    before: tuple[int | None, ...]
    embedded: EmbeddedTokens | None = None

    __repr__ = brief_repr


class NormLayer(Struct, frozen=True, tag=True):
    """Vectors made of one size: divided by their root mean square, or by their deviation.

    Parameters
    ----------
    modules : tuple of str
        The path of the norm in the model, for each layer of the run.
    epsilon : float
        Added to the mean square.
    is_centred : bool
        Whether the mean is subtracted before (layer norm, and not RMS norm).
    has_gain, has_bias : bool
        Whether each column has a factor, and what is added to it.
    adds_one : bool
        Whether the factor is 1 more than the number in the model.
    is_over_heads : bool
        Whether the vectors of all heads of a token are made of one size together.
    heads : tuple of int
        For each head of the queries, which one's numbers it has; empty where there are no heads.
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
        """What such a norm is called."""
        return "LayerNorm" if self.is_centred else "RMSNorm"


class LinearLayer(Struct, frozen=True, tag=True):
    """Vectors times a matrix.

    Parameters
    ----------
    modules : tuple of str
        The path of the matrix in the model, for each layer of the run.
    has_bias : bool
        Whether something is added to each column.
    is_transposed : bool
        Whether the matrix is [in, out], and not [out, in].
    first_columns : tuple of int
        Which of the matrix's results is the first of each head, or of the stage.
    factor : float
        Multiplies what comes of it.
    """

    modules: tuple[str, ...]
    has_bias: bool
    is_transposed: bool = False
    first_columns: tuple[int, ...] = (0,)
    factor: float = 1.0

    @property
    def name(self) -> str:
        """The matrix's own name in the model."""
        return self.modules[0].rpartition(".")[2]


class LatentKeys(LinearLayer, frozen=True, tag=True):
    """Keys of which the first columns are a vector times a matrix, and the others are shared.

    The others are the same in all heads, and are read from a stage of their own.

    Parameters
    ----------
    own_columns : int
        How many columns of each head are its own.
    """

    own_columns: int = 0


class RotaryPosition(Struct, frozen=True, tag=True):
    """Pairs of columns turned by angles that grow with the place in the text (RoPE).

    Parameters
    ----------
    angles : str
        The name of the trace's numbers [layer, token, pair] of which ``.cos`` and ``.sin`` are
        there.
    pairs : int
        How many pairs are turned; other columns stay. None in a layer without positions.
    is_interleaved : bool
        Whether neighbours are a pair, and not the columns ``pairs`` apart.
    stride : int
        The model gives the angle of each pair so many times, side by side.
    is_backward : bool
        Whether the model turns the other way round; the numbers of the trace have its sign.
    start : int
        The first column that is turned.
    is_regrouped : bool
        Whether of neighbours that were a pair, the columns come out ``pairs`` apart.
    """

    angles: str
    pairs: int
    is_interleaved: bool = False
    stride: int = 1
    is_backward: bool = False
    start: int = 0
    is_regrouped: bool = False

    def turned(self, column: int) -> tuple[int, int, int, int] | None:
        """Say what a column is made of; None where it is taken over.

        Returns
        -------
        tuple of int
            The pair, the column that is times the cosine, the one that is times the sine, and the
            sign of what that adds.
        """
        within = column - self.start
        if not 0 <= within < 2 * self.pairs:
            return None
        if self.is_interleaved and not self.is_regrouped:
            pair, is_second = within // 2, within % 2 == 1
        else:
            pair, is_second = within % self.pairs, within >= self.pairs
        first, second = (self.start + each for each in self._columns(pair))
        own, other = (second, first) if is_second else (first, second)
        return pair, own, other, 1 if is_second else -1

    def _columns(self, pair: int) -> tuple[int, int]:
        return (2 * pair, 2 * pair + 1) if self.is_interleaved else (pair, pair + self.pairs)


class HiddenActivation(Struct, frozen=True, tag=True):
    """A function of each number, times another number where it is a gate of that.

    Parameters
    ----------
    function : str
        Its name in `activation_functions`.
    """

    function: str


class ExpertMixture(Struct, frozen=True, tag=True):
    """The results of the experts that a router has chosen for a token, times its weights for them.

    The trace has what they are made of, by the path of the experts: ``.numbers``,
    ``.router_weights`` [token, expert], ``.results`` [token, expert, column] and, of what all
    tokens share, ``.shared`` [token, column].

    Parameters
    ----------
    modules : tuple of str
        The path of the experts in the model, for each layer of the run.
    has_shared : bool
        Whether something is added that is not routed.
    """

    modules: tuple[str, ...]
    has_shared: bool = False


class JoinedHeads(Struct, frozen=True, tag=True):
    """Context vectors side by side, those of some heads edited.

    Parameters
    ----------
    edits : frozenset of (layer, head, factor)
        The heads that are edited, by the layer's place in the run, and what they are multiplied
        with: 0 of those that are off. Without a factor other vectors stand in their place.
    """

    edits: frozenset[tuple[int, int, float | None]]


class ScoreCap(Struct, frozen=True, tag=True):
    """Scores kept within limits: limit·tanh(score/limit).

    Parameters
    ----------
    limit : float
        No score is larger, or smaller than its negative.
    """

    limit: float


class ScoreBias(Struct, frozen=True, tag=True):
    """A number added to each score, of which the places of query and key often decide."""


class SinkSoftmax(Struct, frozen=True, tag=True):
    """A softmax of each row and of one logit more, that of the head's sink, which has no key.

    Parameters
    ----------
    logits : str
        The name of the trace's numbers [layer, head].
    """

    logits: str


class ScaledVector(Struct, frozen=True, tag=True):
    """A vector times a factor of each column (LayerScale), or times one number.

    Parameters
    ----------
    modules : tuple of str
        The name of the factors in the model, for each layer of the run; empty names of one number.
    factor : float
        The number, where there is one.
    """

    modules: tuple[str, ...]
    factor: float = 1.0

    @property
    def is_by_column(self) -> bool:
        return bool(self.modules[0])

    @property
    def name(self) -> str:
        """The factors' own name in the model."""
        return self.modules[0].rpartition(".")[2]


class LateSink(Struct, frozen=True, tag=True):
    """Context vectors times the share of its row that a head's sink leaves, after the softmax.

    Parameters
    ----------
    kept : str
        The name of the trace's numbers [layer, head, query].
    """

    kept: str


class ResidualAddition(Struct, frozen=True, tag=True):
    """The sum of vectors: what a part of the layer made is added to the stream."""


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
    """Return what a trace needs to explain a stage: weights of the model, and numbers beside them.

    Those of `ResidualStream` are left out: the stream is known without its tables.
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
