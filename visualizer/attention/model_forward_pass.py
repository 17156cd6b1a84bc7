"""A model's forward pass on a text, and further analyses of the text; imports no torch."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    import numpy as np
    from torch import Tensor

    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.errors import InputError


class AnalysisKind(StrEnum):
    """Kind of analysis."""

    LENS = "lens"
    PARTS = "parts"
    ABLATIONS = "ablations"


class AnalysisRequest(Struct, frozen=True):
    """A request for one analysis of a text.

    Parameters
    ----------
    token : str
        The candidate for the next token; empty for the most likely candidate.
    is_costly : bool
        Whether to run the analysis even if it takes a long time.
    """

    kind: AnalysisKind
    token: str = ""
    is_costly: bool = False


class LogitLensResult(Struct, frozen=True, eq=False):
    """Result of the logit lens: the next tokens predicted from each layer, most likely first.

    Parameters
    ----------
    layers : tuple of int
        Indices of the layers in the model.
    words : tuple
        The tokens, [layer][query][rank].
    probabilities : ndarray
        Float32, [layer, query, rank].
    """

    layers: tuple[int, ...]
    words: tuple[tuple[tuple[str, ...], ...], ...]
    probabilities: np.ndarray


class LogitParts(Struct, frozen=True, eq=False):
    """Direct logit attribution: the parts that add up to the logit of one next token.

    The scale of the final norm is treated as a constant, so that the norm is linear.

    Parameters
    ----------
    number : int
        Id of the token in the vocabulary.
    logit : float
        Logit that the model computed.
    heads : ndarray
        Contribution of each head, [layer, head].
    rest : ndarray
        Remaining contribution of each layer, [layer], including the MLP and biases.
    embedding : float
        Contribution of the embedding of the last token.
    bias : float
        Contribution of the biases in the final norm and the unembedding.
    layers : tuple of int
        Indices of the layers in the model.

    Examples
    --------
    >>> parts = model.logit_parts(text)
    >>> bool(abs(parts.sum_of_parts - parts.logit) < 1e-3)
    True
    """

    number: int
    logit: float
    heads: np.ndarray
    rest: np.ndarray
    embedding: float
    bias: float
    layers: tuple[int, ...] = ()

    def __repr__(self) -> str:
        layers, heads = self.heads.shape
        sizes = f"{layers:,} layers × {heads:,} heads"
        return f"<LogitParts: logit {self.logit:.6g} of token number {self.number:,} · {sizes}>"

    @property
    def sum_of_parts(self) -> float:
        """The sum of all parts."""
        return float(self.heads.sum() + self.rest.sum() + self.embedding + self.bias)


class LogitAttributionResult(Struct, frozen=True, eq=False):
    """Result of logit attribution: the parts of a token's logit, its text and its probability."""

    parts: LogitParts
    token: str
    probability: float


class AblationResult(Struct, frozen=True, eq=False):
    """Result of the ablations: the effect of ablating each head.

    Parameters
    ----------
    token : str
        The candidate for the next token.
    layers : tuple of int
        Indices of the layers in the model.
    changes : ndarray
        Change in the token's log-probability, in nats, if only this head is ablated, [layer, head];
        NaN for heads that have not been measured yet.
    """

    token: str
    layers: tuple[int, ...]
    changes: np.ndarray

    @property
    def measured_heads(self) -> int:
        """Number of measured heads."""
        return int((self.changes == self.changes).sum())

    @property
    def is_complete(self) -> bool:
        """Whether all heads have been measured."""
        return self.measured_heads == self.changes.size


class DeferredResult(Struct, frozen=True):
    """Placeholder for a result that takes a long time; it is computed if requested again."""

    sentence: str


ModelAnswer: TypeAlias = (
    "LogitLensResult | LogitAttributionResult | AblationResult | DeferredResult | InputError"
)


class AnalysisResults:
    """Results of the analyses of one forward pass; modified only on the GUI thread."""

    def __init__(self) -> None:
        self.known: dict[AnalysisRequest, ModelAnswer] = {}
        self.wanted: set[AnalysisRequest] = set()
        """Costly analyses that the user has requested."""


SpecialTokens = tuple[tuple[int, str], ...]
"""Positions of the special tokens in a text, and the purpose of each token."""


class SecondTextUse(StrEnum):
    """How a model uses a second text."""

    NONE = "none"
    PAIR = "pair"
    DECODER = "decoder"


class AttentionKind(StrEnum):
    """Kind of attention in an encoder-decoder model, with its name."""

    ENCODER = "Encoder"
    DECODER = "Decoder"
    CROSS = "Decoder to encoder (cross)"


class NextTokenCandidate(Struct, frozen=True):
    """A candidate for the next token.

    Parameters
    ----------
    probability : float
        Probability with the current edits of the model.
    probability_of_all_heads : float
        Probability without edits; the same number if nothing is edited.
    """

    token: str
    probability: float
    probability_of_all_heads: float


class ModelForwardPass(Struct, frozen=True, eq=False):
    """A model's forward pass on a text.

    Parameters
    ----------
    made_of : hashable
        Cache key that consists of the model, its edits and the text.
    layers : tuple of int
        Number in the model of each layer of the run.
    edits : mapping
        Description of each edited head, by the number of the layer in the model and the head.
    cuts : mapping
        The (query, key) pairs of the cut attention edges, by layer and head as in `edits`.
    are_heads_switchable : bool
        Whether the heads of this model can be edited.
    next_tokens : tuple of NextTokenCandidate
        The most likely candidates for the next token, with or without edits.
    no_next_token : str
        Sentence that states why candidates are not available; empty if they are available.
    captured : CapturedAttention or None
        The run's numbers as saved in a document; None for a long text, which is read again.
    model : object
        The model, which stays in memory while one of its runs is shown.
    changes : ndarray or None
        How much the edits change each head's weights, from 0 to 1, [layer of the run, head]: half
        the sum of the absolute differences in a row, averaged over all rows. None if nothing is
        edited or the change is unknown.
    largest_changes : tuple of NextTokenCandidate
        Tokens with the largest changes in probability due to the edits, in descending order.
    is_of_lab : bool
        Whether the model was trained in the language lab; only this program can open such a model.
    text : str
        The text that was passed to the model.
    answers : AnalysisResults
        Results of further analyses that are available so far.
    special : SpecialTokens
        Special tokens among the query tokens.
    has_chat_template : bool
        Whether the text can be used as a user message in a chat template.
    is_text_alone : bool
        Whether the text was passed unchanged and without a second text.
    second : SecondText
        How the model uses a second text.
    parts : tuple of (name, words)
        Path and display name of each kind of attention in the model; encoder-decoder models have
        several kinds.
    part : str
        Path of the kind of attention that the run shows.
    number : int
        Number that identifies the run on a model server.
    context_edits : mapping
        Edits of context vectors, by layer and head as in `edits`: a factor or the new vectors.
    refusal : callable or None
        Returns the reason why remote numbers are unavailable, or None if they are available; None
        if all numbers are local.
    computed_in : str
        The 16-bit type in which the model computed; empty for the type of the stages.
    training_step : int or None
        Number of training steps of a model from the language lab, if known.
    fetch_captured : callable or None
        Returns the run's remote numbers, or None if they are unavailable or have not arrived yet;
        None if all numbers are local.
    """

    made_of: Hashable
    layers: tuple[int, ...]
    edits: Mapping[tuple[int, int], str]
    cuts: Mapping[tuple[int, int], tuple[tuple[int, int], ...]]
    are_heads_switchable: bool
    next_tokens: tuple[NextTokenCandidate, ...]
    no_next_token: str
    captured: CapturedAttention | None
    model: object
    changes: np.ndarray | None = None
    largest_changes: tuple[NextTokenCandidate, ...] = ()
    is_of_lab: bool = False
    text: str = ""
    answers: AnalysisResults = field(default_factory=AnalysisResults)
    special: SpecialTokens = ()
    has_chat_template: bool = False
    second: SecondTextUse = SecondTextUse.NONE
    is_text_alone: bool = True
    parts: tuple[tuple[str, str], ...] = ()
    part: str = ""
    number: int = 0
    context_edits: Mapping[tuple[int, int], float | Tensor] = {}
    refusal: Callable[[], InputError | None] | None = None
    fetch_captured: Callable[[], CapturedAttention | None] | None = None
    computed_in: str = ""
    training_step: int | None = None

    @property
    def is_edited(self) -> bool:
        """Whether any head or attention edge of the model was edited."""
        return bool(self.edits or self.cuts)
