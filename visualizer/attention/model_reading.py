"""A run from a model's forward pass, and further analyses of it; imports no torch."""

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


class QuestionKind(StrEnum):
    """Kinds of analyses: logit lens, logit attribution, ablations."""

    LENS = "lens"
    PARTS = "parts"
    ABLATIONS = "ablations"


class ModelQuestion(Struct, frozen=True):
    """One analysis of a text.

    Parameters
    ----------
    token : str
        The candidate for the next token; empty for the most likely one.
    is_costly : bool
        Whether to run the analysis even if it takes long.
    """

    kind: QuestionKind
    token: str = ""
    is_costly: bool = False


class LensAnswer(Struct, frozen=True, eq=False):
    """Logit lens: the next tokens predicted from each layer, the most likely first.

    Parameters
    ----------
    layers : tuple of int
        Layer numbers in the model.
    words : tuple
        The tokens, [layer][query][rank].
    probabilities : ndarray
        Float32, [layer, query, rank].
    """

    layers: tuple[int, ...]
    words: tuple[tuple[tuple[str, ...], ...], ...]
    probabilities: np.ndarray


class LogitParts(Struct, frozen=True, eq=False):
    """Direct logit attribution: the parts of the logit of one next token, which sum to it.

    The final norm is frozen: its scale is treated as a constant, which makes it linear.

    Parameters
    ----------
    number : int
        Token id in the vocabulary.
    logit : float
        Logit computed by the model.
    heads : ndarray
        Contribution of each head, [layer, head].
    rest : ndarray
        Remaining contribution of each layer, [layer]: MLP, biases, layers without attention.
    embedding : float
        Contribution of the last token's embedding.
    bias : float
        Contribution of the biases of the final norm and of the unembedding.
    layers : tuple of int
        The layers' numbers in the model.
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
    def sum(self) -> float:
        """The sum of all parts."""
        return float(self.heads.sum() + self.rest.sum() + self.embedding + self.bias)


class LogitPartsAnswer(Struct, frozen=True, eq=False):
    """The parts of a token's logit, with the token as text and its probability."""

    parts: LogitParts
    token: str
    probability: float


class AblationAnswer(Struct, frozen=True, eq=False):
    """Effect of ablating each head.

    Parameters
    ----------
    token : str
        The candidate for the next token.
    layers : tuple of int
        Layer numbers in the model.
    changes : ndarray
        Change of the token's log-probability, in nats, when only this head is ablated,
        [layer, head]; NaN for heads that have not been measured yet.
    """

    token: str
    layers: tuple[int, ...]
    changes: np.ndarray

    @property
    def done(self) -> int:
        """Number of measured heads."""
        return int((self.changes == self.changes).sum())

    @property
    def is_complete(self) -> bool:
        """Whether all heads have been measured."""
        return self.done == self.changes.size


class DeferredAnswer(Struct, frozen=True):
    """A result that takes long to compute; it is computed when it is requested again."""

    sentence: str


ModelAnswer: TypeAlias = (
    "LensAnswer | LogitPartsAnswer | AblationAnswer | DeferredAnswer | InputError"
)


class ModelAnswers:
    """Results of the analyses of one forward pass; written on the window's thread only."""

    def __init__(self) -> None:
        self.known: dict[ModelQuestion, ModelAnswer] = {}
        self.wanted: set[ModelQuestion] = set()
        """Costly analyses that the user has requested."""


SpecialTokens = tuple[tuple[int, str], ...]
"""Positions of special tokens in a text, each with its purpose."""


class SecondTextUse(StrEnum):
    """How a model uses a second text."""

    NONE = "none"
    PAIR = "pair"
    DECODER = "decoder"


class AttentionKind(StrEnum):
    """Names of the kinds of attention of an encoder-decoder model."""

    ENCODER = "Encoder"
    DECODER = "Decoder"
    CROSS = "Decoder to encoder (cross)"


class NextToken(Struct, frozen=True):
    """A candidate for the next token.

    Parameters
    ----------
    probability : float
        With the current edits of the model.
    probability_of_all_heads : float
        Without edits; the same number if nothing is edited.
    """

    token: str
    probability: float
    probability_of_all_heads: float


class ModelReading(Struct, frozen=True, eq=False):
    """A model's forward pass on a text.

    Parameters
    ----------
    made_of : hashable
        Cache key: the model, its edits, and the text.
    layers : tuple of int
        The layer number in the model of each layer of the run.
    edits : mapping
        Description of each edited head, by layer number in the model and head.
    cuts : mapping
        The (query, key) pairs of cut attention edges, by the same keys.
    are_heads_switchable : bool
        Whether heads of this model can be edited.
    next_tokens : tuple of NextToken
        The most likely candidates, with or without edits.
    no_next_token : str
        Why there are no candidates, as a sentence; else empty.
    captured : CapturedAttention or None
        The run's numbers, as saved in a document; None for a long text, whose numbers are computed
        again.
    model : object
        The model, which stays in memory while one of its runs is shown.
    changes : ndarray or None
        Change of each head's weights relative to the model without edits, [layer of the run, head]:
        the mean over all rows of half the sum of absolute differences, from 0 to 1. None if nothing
        is edited or the change is unknown.
    largest_changes : tuple of NextToken
        Tokens whose probability the edits change most, largest change first.
    is_of_lab : bool
        Whether it was trained in the language lab; transformers cannot open such a model by itself.
    text : str
        The text.
    answers : ModelAnswers
        Results of further analyses of the text that are available so far.
    special : SpecialTokens
        The special tokens among the query tokens.
    has_chat_template : bool
        Whether the text can be passed as a user's message in a chat template.
    is_text_alone : bool
        Whether the text was passed unchanged and without a second text.
    second : SecondText
        How the model uses a second text.
    parts : tuple of (name, words)
        The kinds of attention of the model, each by its path in the model and its display name;
        encoder-decoder models have several.
    part : str
        Path of the kind of attention in the run.
    number : int
        Number that identifies the run on the server of a served model.
    context_edits : mapping
        Edits of the context vectors, by the same keys as `edits`: a factor, or replacement vectors.
    refusal : callable or None
        Returns why remote numbers are not available, or None; None if all numbers are local.
    training_step : int or None
        Number of training steps of a language lab model, if known.
    fetch_captured : callable or None
        Returns the run's remote numbers, or None if they are not available, or not without
        waiting; None if all numbers are local.
    """

    made_of: Hashable
    layers: tuple[int, ...]
    edits: Mapping[tuple[int, int], str]
    cuts: Mapping[tuple[int, int], tuple[tuple[int, int], ...]]
    are_heads_switchable: bool
    next_tokens: tuple[NextToken, ...]
    no_next_token: str
    captured: CapturedAttention | None
    model: object
    changes: np.ndarray | None = None
    largest_changes: tuple[NextToken, ...] = ()
    is_of_lab: bool = False
    text: str = ""
    answers: ModelAnswers = field(default_factory=ModelAnswers)
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
    training_step: int | None = None

    @property
    def is_edited(self) -> bool:
        """Whether anything was changed in the model."""
        return bool(self.edits or self.cuts)
