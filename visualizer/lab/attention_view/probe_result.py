"""The result of running a language model on the probe text at a training step."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.roles import Role

if TYPE_CHECKING:
    from visualizer.language.wire_format import Message

MIN_CLEAR_WEIGHT = 0.25


class ProbeResult(Struct, frozen=True, eq=False, dict=True):
    """The attention of all layers and heads for a text, and its next-token logits.

    Parameters
    ----------
    step : int
        Number of completed training steps.
    tokens : tuple of str
        The tokens on which the model was run.
    logits : numpy.ndarray
        The logits of the token after each token, [token, vocabulary]; [token, 0] if only the
        attention was recorded.
    weights : numpy.ndarray or None
        The attention weights, [layer, head, query, key], or None for a model without attention.
    partner_weights : numpy.ndarray or None
        The mean weights on the target keys, [layer, head], if these keys are known.
    cut : int
        Number of tokens that were removed from the beginning because the text exceeds the block.
    reference_step : int or None
        The step whose weights were subtracted from the weights, if any.
    """

    step: int
    tokens: tuple[str, ...]
    logits: np.ndarray
    weights: np.ndarray | None = None
    partner_weights: np.ndarray | None = None
    cut: int = 0
    reference_step: int | None = None

    @classmethod
    def of(cls, message: Message) -> ProbeResult:
        """Create a result from a training process's response to "read"."""
        values, arrays = message.values, message.arrays
        return cls(
            int(values["step"]),
            tuple(values["tokens"]),
            arrays.get("logits", np.empty((len(values["tokens"]), 0))),
            arrays.get(Role.WEIGHTS),
            arrays.get("mean_partner_weight"),
            int(values.get("cut", 0)),
        )

    def change_since(self, reference: ProbeResult) -> ProbeResult | None:
        """Return the change of the weights since another step, or None if the texts differ."""
        if self.weights is None or reference.weights is None or self.tokens != reference.tokens:
            return None
        change = self.weights - reference.weights
        return replace(self, weights=change, partner_weights=None, reference_step=reference.step)

    @property
    def is_change(self) -> bool:
        """Whether the weights are differences between two steps."""
        return self.reference_step is not None

    @property
    def nbytes(self) -> int:
        """Total size of the arrays, in bytes."""
        arrays = (self.logits, self.weights, self.partner_weights)
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def layers(self) -> int:
        """Number of layers with weights."""
        return 0 if self.weights is None else self.weights.shape[0]

    @property
    def heads(self) -> int:
        """Number of heads per layer."""
        return 0 if self.weights is None else self.weights.shape[1]

    @cached_property
    def is_causal(self) -> bool:
        """Whether no query has a weight on a later key; a change of a weight may be negative."""
        return self.weights is None or not bool(np.triu(self.weights, 1).any())

    @property
    def has_scores(self) -> bool:
        """Whether the target keys are known."""
        return self.partner_weights is not None and bool(np.isfinite(self.partner_weights).any())

    @cached_property
    def best_head(self) -> tuple[int, int] | None:
        """The layer and head with the highest score, if this score is clearly above chance.

        Otherwise, it is None. The chance score is the score of queries that attend uniformly
        to all tokens up to their own: the mean of 1/1, 1/2, … 1/n for n tokens. A score is clearly
        above chance if it exceeds chance by at least the fraction `MIN_CLEAR_WEIGHT` of the
        difference to 1; without this margin, noise would be marked.
        """
        if self.partner_weights is None or not self.has_scores:
            return None
        layer, head = np.unravel_index(
            np.nanargmax(self.partner_weights), self.partner_weights.shape
        )
        chance = float(np.mean(1 / np.arange(1, len(self.tokens) + 1)))
        is_clear = self.partner_weights[layer, head] >= chance + MIN_CLEAR_WEIGHT * (1 - chance)
        return (int(layer), int(head)) if is_clear else None

    def score(self, layer: int, head: int) -> float | None:
        """Return the mean weight of a head on the target keys, or None if it is unknown."""
        score = np.nan if self.partner_weights is None else float(self.partner_weights[layer, head])
        return None if np.isnan(score) else score
