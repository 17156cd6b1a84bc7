"""Presenter of the next-token bars, which show the model's and the sampling probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from visualizer.format import format_count, format_percentage, shorten
from visualizer.language.sampling import DIVERGED_ERROR, SamplingSettings, sampling_probabilities
from visualizer.language.tokenizers import visible_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.attention.model_forward_pass import NextTokenCandidate

MAX_TOKEN_BARS = 12
AXIS_LIMITS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Possible upper limits of the axis of the bars."""


class NextTokenBar(Struct, frozen=True):
    """The bar of one token, or of all remaining tokens together.

    Parameters
    ----------
    token : int or None
        The token's id in the vocabulary; None for the remaining tokens.
    model_probability : float
        The model's probability.
    sampling_probability : float
        The sampling probability, after temperature, top-k and top-p; 0 if the token is excluded.
    """

    token: int | None
    label: str
    model_probability: float
    sampling_probability: float

    @property
    def is_excluded(self) -> bool:
        """Whether sampling excludes the token."""
        return self.sampling_probability == 0

    @property
    def description(self) -> str:
        name = self.label if self.token is None else f"“{self.label}”"
        probability = f"{name}: {format_percentage(self.model_probability)}"
        if self.is_excluded:
            return f"{probability}, excluded"
        if abs(self.sampling_probability - self.model_probability) < DISPLAY_TOLERANCE:
            return probability
        return f"{probability}, sampling probability {format_percentage(self.sampling_probability)}"

    @property
    def probabilities_text(self) -> str:
        """The sampling probability and the model's probability, in short form."""
        model = format_short_percentage(self.model_probability)
        return f"{format_short_percentage(self.sampling_probability)} (model {model})"


def describe_next_tokens(rows: Sequence[NextTokenCandidate], is_edited: bool) -> str:
    """List the most likely tokens and, if edited, their probabilities in the unedited model."""
    sentences = []
    for row in rows:
        before = f", without edits {format_percentage(row.probability_of_all_heads)}" * is_edited
        sentences.append(f"“{row.token}” {format_percentage(row.probability)}{before}")
    return "; ".join(sentences) + "." * bool(sentences)


def format_short_percentage(share: float) -> str:
    """Format a share as a short percentage."""
    return format_percentage(share).replace("less than", "<").replace("more than", ">")


DISPLAY_TOLERANCE = 5e-4
"""Maximum difference between probabilities that look the same when formatted."""


class NextTokenChoicePanel(Struct, frozen=True):
    """The most likely tokens in descending order, and all remaining tokens together.

    Parameters
    ----------
    end : float
        Probability at the end of the axis, which starts at 0.
    heading : str
        Heading that names the preceding token.
    legend : str
        Explanation of outline and fill; empty if both show the same probabilities.
    vocabulary : int
        Size of the vocabulary.
    next_on_branch : int or None
        The id of the next token on the current branch, if there is one.
    """

    bars: tuple[NextTokenBar, ...] = ()
    end: float = 1.0
    heading: str = ""
    legend: str = ""
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    vocabulary: int = 0
    next_on_branch: int | None = None

    @property
    def description(self) -> str:
        return "; ".join((self.heading, *map(self.describe_bar, self.bars))) if self.bars else ""

    def describe_bar(self, bar: NextTokenBar) -> str:
        """Describe a bar, and state whether it is the next token on the current branch."""
        if not self.is_on_branch(bar):
            return bar.description
        next_token = (
            "next on this branch"
            if bar.token is not None
            else "includes the next token on this branch"
        )
        return f"{bar.description}, {next_token}"

    def is_on_branch(self, bar: NextTokenBar) -> bool:
        """Return whether a bar includes the next token on the current branch."""
        if self.next_on_branch is None:
            return False
        if bar.token is None:
            return all(other.token != self.next_on_branch for other in self.bars)
        return bar.token == self.next_on_branch


def present_next_tokens(
    tokens: Sequence[str],
    logits: np.ndarray,
    vocabulary: Sequence[str],
    sampling: SamplingSettings,
    max_bars: int = MAX_TOKEN_BARS,
) -> NextTokenChoicePanel:
    """Return the next-token bars for a text.

    Parameters
    ----------
    tokens : sequence of str
        The tokens of the text.
    logits : numpy.ndarray
        The logits, [token, vocabulary]; only those of the last token are used.
    vocabulary : sequence of str
        The texts of all tokens.
    max_bars : int
        Maximum number of tokens with their own bar.
    """
    if not len(logits):
        return NextTokenChoicePanel(sampling=sampling, vocabulary=len(vocabulary))
    if not np.isfinite(logits[-1].max()):
        return NextTokenChoicePanel(
            legend=DIVERGED_ERROR, sampling=sampling, vocabulary=len(vocabulary)
        )
    expected = sampling_probabilities(logits[-1])
    chosen = sampling_probabilities(logits[-1], sampling)
    bars = _build_bars(expected, chosen, vocabulary, max_bars)
    largest = max(max(bar.model_probability, bar.sampling_probability) for bar in bars)
    end = next((end for end in AXIS_LIMITS if end >= largest), 1.0)
    legend = (
        ""
        if np.allclose(expected, chosen, atol=DISPLAY_TOLERANCE)
        else _build_legend(logits[-1], chosen, sampling)
    )
    heading = f"After “{_format_token(tokens[-1])}”" if tokens else "Next"
    return NextTokenChoicePanel(bars, end, heading, legend, sampling, len(vocabulary))


def _build_bars(
    expected: np.ndarray, chosen: np.ndarray, vocabulary: Sequence[str], max_bars: int
) -> tuple[NextTokenBar, ...]:
    """Build a bar for each of the most likely tokens, and one for all remaining tokens."""
    order = np.argsort(-expected, kind="stable")
    own = order if len(order) <= max_bars + 1 else order[:max_bars]
    bars = [
        NextTokenBar(
            token, _format_token(vocabulary[token]), float(expected[token]), float(chosen[token])
        )
        for token in own.tolist()
    ]
    others = order[len(own) :]
    if len(others):
        sums = (min(1.0, float(each[others].sum())) for each in (expected, chosen))
        bars.append(NextTokenBar(None, format_count(len(others), "other"), *sums))
    return tuple(bars)


def _format_token(token: str) -> str:
    return shorten(visible_token(token))


def _build_legend(logits: np.ndarray, chosen: np.ndarray, sampling: SamplingSettings) -> str:
    """Explain fill and outline, and state the share that top-k and top-p exclude."""
    text = "Outline: model probability. Fill: sampling probability."
    if sampling.temperature == 0:
        return f"{text} At temperature 0, the most likely token is always selected."
    unrestricted = sampling_probabilities(logits, SamplingSettings(sampling.temperature))
    excluded = chosen == 0
    if not excluded.any():
        return text
    share = format_percentage(float(unrestricted[excluded].sum()))
    tokens = format_count(int(excluded.sum()), "token")
    after = "" if sampling.temperature == 1 else f" at temperature {sampling.temperature:g}"
    return f"{text} Excluded: {tokens} with {share} of the probability{after}."
