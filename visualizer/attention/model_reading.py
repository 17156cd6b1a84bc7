"""Data about a run that comes from a model's forward pass; imports no torch."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field

from visualizer.attention.model_answers import ModelAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    import numpy as np
    from torch import Tensor

    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.errors import InputError


SpecialTokens = tuple[tuple[int, str], ...]
"""Positions of special tokens in a text, each with its purpose."""


class SecondText(StrEnum):
    """How a model uses a second text."""

    NONE = "none"
    PAIR = "pair"
    DECODER = "decoder"


class AttentionPart(StrEnum):
    """Names of the kinds of attention of an encoder–decoder model."""

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
        The most probable candidates, with or without edits.
    no_next_token : str
        Why there are no candidates, as a sentence; else empty.
    captured : CapturedAttention or None
        The run's numbers, as saved in a document; None for a long text, which is computed again.
    model : object
        The model, which stays in memory while one of its readings is shown.
    changes : ndarray or None
        Change of each head's weights relative to the model without edits, [layer of the run, head]:
        the mean over all rows of half the sum of absolute differences, from 0 to 1. None if nothing
        is edited or if it is unknown.
    largest_changes : tuple of NextToken
        Tokens whose probability the edits changed most, the largest change first.
    is_of_lab : bool
        Whether it was trained in the language lab; transformers alone cannot open such a model.
    text : str
        The text.
    answers : ModelAnswers
        Answers to further questions about the text that are available so far.
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
        encoder–decoder models have several.
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
    second: SecondText = SecondText.NONE
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
