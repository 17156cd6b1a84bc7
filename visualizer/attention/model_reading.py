"""What else is known of a run whose numbers a model computed as it read a text; no torch here."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field

from visualizer.attention.model_answers import ModelAnswers

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.captured_attention import CapturedAttention


SpecialTokens = tuple[tuple[int, str], ...]
"""The places of special tokens in a text, each with what it is for."""


class SecondText(StrEnum):
    """What a second text is to a model."""

    NONE = "none"
    PAIR = "pair"
    DECODER = "decoder"


class NextToken(Struct, frozen=True):
    """A token that may come next.

    Parameters
    ----------
    probability : float
        With the heads that are switched off now.
    probability_of_all_heads : float
        With all heads; the same number where none is switched off.
    """

    token: str
    probability: float
    probability_of_all_heads: float


class ModelReading(Struct, frozen=True, eq=False):
    """One reading of a text by a model.

    Parameters
    ----------
    made_of : hashable
        The model, what is changed in it, and the text.
    layers : tuple of int
        The number in the model of each layer of the run.
    heads_off : frozenset of (layer, head)
        Heads that were switched off, by the layer's number in the model.
    are_heads_switchable : bool
        Whether heads of this model can be switched off.
    next_tokens : tuple of NextToken
        The most probable ones, with all heads or without those that are off.
    no_next_token : str
        Why there are none, as a sentence; empty where there are.
    captured : CapturedAttention
        The run's numbers, as a document holds them.
    model : object
        The model, which stays in memory as long as one of its readings is shown.
    is_of_lab : bool
        Whether it was trained in the language lab, so that transformers alone does not open it.
    text : str
        What it read.
    answers : ModelAnswers
        What else was asked about it, as far as it is answered.
    special : SpecialTokens
        The special tokens among those that read.
    has_chat_template : bool
        Whether a text can be given as a user's message.
    is_text_alone : bool
        Whether the text was given as it is, and no second one with it.
    second : SecondText
        What a second text is to the model.
    """

    made_of: Hashable
    layers: tuple[int, ...]
    heads_off: frozenset[tuple[int, int]]
    are_heads_switchable: bool
    next_tokens: tuple[NextToken, ...]
    no_next_token: str
    captured: CapturedAttention
    model: object
    is_of_lab: bool = False
    text: str = ""
    answers: ModelAnswers = field(default_factory=ModelAnswers)
    special: SpecialTokens = ()
    has_chat_template: bool = False
    second: SecondText = SecondText.NONE
    is_text_alone: bool = True
