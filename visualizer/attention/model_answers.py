"""What can be asked of a model about a text that it has read, and its answers; no torch here."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np

    from visualizer.errors import InputError


class QuestionKind(StrEnum):
    """Which numbers are asked for."""

    LENS = "lens"
    PARTS = "parts"
    ABLATIONS = "ablations"


class ModelQuestion(Struct, frozen=True):
    """One question about a text.

    Parameters
    ----------
    token : str
        The token that may come next whose logit is asked about; empty for the likeliest.
    is_costly : bool
        Whether it is answered even where that takes long.
    """

    kind: QuestionKind
    token: str = ""
    is_costly: bool = False


class LensAnswer(Struct, frozen=True, eq=False):
    """The tokens that each layer would say next if it were the last, the likeliest first.

    Parameters
    ----------
    layers : tuple of int
        The layers' numbers in the model.
    words : tuple
        The tokens, [layer][query][rank].
    probabilities : ndarray
        Float32, [layer, query, rank].
    """

    layers: tuple[int, ...]
    words: tuple[tuple[tuple[str, ...], ...], ...]
    probabilities: np.ndarray


class LogitParts(Struct, frozen=True, eq=False):
    """The parts of the logit of one token as the next one; they sum to it.

    The last norm is frozen: its scale is taken as a constant, so that it is linear.

    Parameters
    ----------
    number : int
        The token's number in the vocabulary.
    logit : float
        As the model gives it.
    heads : ndarray
        What each head adds, [layer, head].
    rest : ndarray
        What else each layer adds, [layer]: feed-forward, biases, layers without attention.
    embedding : float
        What the last token's own embedding adds.
    bias : float
        What the biases of the last norm and of the last matrix add.
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
    """The parts of the logit of a token, with the token as text and its probability."""

    parts: LogitParts
    token: str
    probability: float


class AblationAnswer(Struct, frozen=True, eq=False):
    """What is lost without each head.

    Parameters
    ----------
    token : str
        The token that may come next.
    layers : tuple of int
        The layers' numbers in the model.
    changes : ndarray
        The change of the token's log-probability, in nats, where the head alone is switched off,
        [layer, head]; NaN of heads that have not been tried yet.
    """

    token: str
    layers: tuple[int, ...]
    changes: np.ndarray

    @property
    def done(self) -> int:
        """How many heads were tried."""
        return int((self.changes == self.changes).sum())

    @property
    def is_complete(self) -> bool:
        """Whether all heads were tried."""
        return self.done == self.changes.size


class CostlyAnswer(Struct, frozen=True):
    """An answer that would take long: it is computed when it is asked for again."""

    sentence: str


ModelAnswer: TypeAlias = "LensAnswer | PartsAnswer | AblationAnswer | CostlyAnswer | InputError"


class ModelAnswers:
    """The answers about one reading of a text; written on the thread of the window alone."""

    def __init__(self) -> None:
        self.known: dict[ModelQuestion, ModelAnswer] = {}
        self.wanted: set[ModelQuestion] = set()
        """Questions that are answered on demand only, and have been asked."""
