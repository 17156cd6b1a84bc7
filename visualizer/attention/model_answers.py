"""Questions about a model's forward pass on a text, and their answers; imports no torch."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np

    from visualizer.errors import InputError


class QuestionKind(StrEnum):
    """Kinds of questions: logit lens, logit attribution, ablations."""

    LENS = "lens"
    PARTS = "parts"
    ABLATIONS = "ablations"


class ModelQuestion(Struct, frozen=True):
    """One question about a text.

    Parameters
    ----------
    token : str
        The candidate for the next token; empty for the most probable one.
    is_costly : bool
        Whether to answer even if it takes long.
    """

    kind: QuestionKind
    token: str = ""
    is_costly: bool = False


class LensAnswer(Struct, frozen=True, eq=False):
    """Logit lens: the next tokens predicted from each layer, the most probable first.

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


class PartsAnswer(Struct, frozen=True, eq=False):
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
        Change of the token's log-probability, in nats, when only this head is switched off,
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


class CostlyAnswer(Struct, frozen=True):
    """An answer that takes long; it is computed when it is requested again."""

    sentence: str


ModelAnswer: TypeAlias = "LensAnswer | PartsAnswer | AblationAnswer | CostlyAnswer | InputError"


class ModelAnswers:
    """Answers for one forward pass on a text; written on the window's thread only."""

    def __init__(self) -> None:
        self.known: dict[ModelQuestion, ModelAnswer] = {}
        self.wanted: set[ModelQuestion] = set()
        """Costly questions that the user has requested."""
