"""The next-token probabilities as bars: the model's, and those that are drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from visualizer.language.sampling import DIVERGED_ERROR, Sampling, probabilities
from visualizer.language.tokenizers import visible
from visualizer.number_format import format_count, format_share, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TOKENS = 12
ENDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The possible ends of the bars' axis."""


class NextTokenBar(Struct, frozen=True):
    """The bar of a token, or of all that have no bar of their own.

    Parameters
    ----------
    token : int or None
        Its number in the vocabulary; None for all others.
    expected : float
        The model's probability.
    chosen : float
        The probability after temperature, top-k and top-p; 0 where it is excluded.
    """

    token: int | None
    label: str
    expected: float
    chosen: float

    @property
    def is_left_out(self) -> bool:
        """Whether sampling excludes it."""
        return self.chosen == 0

    @property
    def words(self) -> str:
        name = self.label if self.token is None else f"“{self.label}”"
        if self.is_left_out:
            return f"{name}: {format_share(self.expected)}, left out"
        if abs(self.chosen - self.expected) < SAME:
            return f"{name}: {format_share(self.expected)}"
        return f"{name}: {format_share(self.expected)}, chosen with {format_share(self.chosen)}"

    @property
    def shares(self) -> str:
        """Its sampling probability and the model's, abbreviated."""
        return f"{_short(self.chosen)} (model {_short(self.expected)})"


def _short(value: float) -> str:
    return format_share(value).replace("less than ", "< ")


SAME = 5e-4
"""Probabilities that differ by less look the same when written."""


class NextTokensPanel(Struct, frozen=True):
    """The most likely tokens in descending order, and the others together.

    Parameters
    ----------
    end : float
        The probability at the end of the axis, which begins at 0.
    heading : str
        Names the token that they follow.
    legend : str
        Explains outline and fill, where they differ.
    vocabulary : int
        The size of the vocabulary.
    taken : int or None
        The token that follows on the branch that was taken, if one was.
    """

    bars: tuple[NextTokenBar, ...] = ()
    end: float = 1.0
    heading: str = ""
    legend: str = ""
    sampling: Sampling = field(default_factory=Sampling)
    vocabulary: int = 0
    taken: int | None = None

    @property
    def words(self) -> str:
        return "; ".join((self.heading, *map(self.words_of, self.bars))) if self.bars else ""

    def words_of(self, bar: NextTokenBar) -> str:
        """Describe one of its bars."""
        if not self.is_taken(bar):
            return bar.words
        return f"{bar.words}, {'one of them ' if bar.token is None else ''}taken"

    def is_taken(self, bar: NextTokenBar) -> bool:
        """Whether a bar is that of the token that was taken."""
        if self.taken is None:
            return False
        if bar.token is None:
            return all(other.token != self.taken for other in self.bars)
        return bar.token == self.taken


def present_bars(
    tokens: Sequence[str],
    logits: np.ndarray,
    vocabulary: Sequence[str],
    sampling: Sampling,
    most: int = MAX_TOKENS,
) -> NextTokensPanel:
    """Present the next tokens of a text.

    Parameters
    ----------
    tokens : sequence of str
        The tokens of the text.
    logits : numpy.ndarray
        [token, vocabulary]; the last token's are used.
    vocabulary : sequence of str
        All tokens.
    most : int
        How many have a bar of their own.
    """
    if not len(logits):
        return NextTokensPanel(sampling=sampling, vocabulary=len(vocabulary))
    if not np.isfinite(logits[-1].max()):
        return NextTokensPanel(legend=DIVERGED_ERROR, sampling=sampling, vocabulary=len(vocabulary))
    expected = probabilities(logits[-1])
    chosen = probabilities(logits[-1], sampling.temperature, sampling.top_k, sampling.top_p)
    bars = _bars(expected, chosen, vocabulary, most)
    largest = max(max(bar.expected, bar.chosen) for bar in bars)
    end = next((end for end in ENDS if end >= largest), 1.0)
    legend = (
        "" if np.allclose(expected, chosen, atol=SAME) else _legend(logits[-1], chosen, sampling)
    )
    heading = f"After “{_named(tokens[-1])}”" if tokens else "Next"
    return NextTokensPanel(bars, end, heading, legend, sampling, len(vocabulary))


def _bars(
    expected: np.ndarray, chosen: np.ndarray, vocabulary: Sequence[str], most: int
) -> tuple[NextTokenBar, ...]:
    """Make a bar for each of the likeliest, and one for all others."""
    order = np.argsort(-expected, kind="stable")
    own = order if len(order) <= most + 1 else order[:most]
    bars = [
        NextTokenBar(token, _named(vocabulary[token]), float(expected[token]), float(chosen[token]))
        for token in own.tolist()
    ]
    others = order[len(own) :]
    if len(others):
        sums = (min(1.0, float(each[others].sum())) for each in (expected, chosen))
        bars.append(NextTokenBar(None, format_count(len(others), "other"), *sums))
    return tuple(bars)


def _named(token: str) -> str:
    return shorten(visible(token))


def _legend(logits: np.ndarray, chosen: np.ndarray, sampling: Sampling) -> str:
    """Explain fill and outline, and what share top-k and top-p exclude."""
    said = "Outlined is what the model expects, filled is what is drawn from."
    if sampling.temperature == 0:
        return f"{said} At temperature 0, the likeliest is always drawn."
    made = probabilities(logits, sampling.temperature)
    left = chosen == 0
    if not left.any():
        return said
    lost, tokens = format_share(float(made[left].sum())), format_count(int(left.sum()), "token")
    after = "" if sampling.temperature == 1 else f" at temperature {sampling.temperature:g}"
    return f"{said} Left out: {tokens} with {lost} of the probability{after}."
