"""Sampling of the next token from a model's logits. This module does not import torch.

The temperature is applied first. Then only the `top_k` most likely tokens are kept and, of these,
the smallest set whose total probability reaches `top_p`.

Sources: Ackley et al. 1985 (temperature); Fan et al. 2018, "Hierarchical Neural Story Generation",
§5.4 (top-k); Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", §3.1 (top-p,
nucleus sampling).
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from visualizer.errors import InputError

MAX_TEMPERATURE = 100.0
DIVERGED_ERROR = (
    "The model’s probabilities are not valid numbers because training diverged. "
    "Select an earlier snapshot."
)


class SamplingSettings(Struct, frozen=True):
    """Sampling settings.

    Parameters
    ----------
    temperature : float
        Divisor of the logits; at 0, only the tokens with the largest logit are kept.
    top_k : int or None
        Number of tokens to keep; None to keep all.
    top_p : float
        Total probability that the kept tokens must reach.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0


def check_sampling_settings(sampling: SamplingSettings) -> None:
    """Raise an `InputError` if the sampling settings are invalid."""
    if not 0 <= sampling.temperature <= MAX_TEMPERATURE:
        sentence = (
            f"The temperature must be at least 0 and at most {MAX_TEMPERATURE:g}. The default is 1."
        )
        raise InputError("temperature", sentence, ("temperature", 1.0))
    if sampling.top_k is not None and sampling.top_k < 1:
        sentence = "Top-k must be at least 1. Leave it empty to keep all tokens."
        raise InputError("top_k", sentence, ("top_k", None))
    if not 0 < sampling.top_p <= 1:
        sentence = "Top-p must be greater than 0 and at most 1. Use 1 to keep all tokens."
        raise InputError("top_p", sentence, ("top_p", 1.0))


MODEL_SAMPLING = SamplingSettings()
"""Settings that leave the model's probabilities unchanged."""


def sampling_probabilities(
    logits: np.ndarray, sampling: SamplingSettings = MODEL_SAMPLING
) -> np.ndarray:
    """Return the probability of sampling each token.

    Parameters
    ----------
    logits : numpy.ndarray
        Logits of the next token, [vocabulary].
    sampling : SamplingSettings
        Among tokens with equal logits, the first ones are kept.

    Returns
    -------
    numpy.ndarray
        The probabilities, float64 [vocabulary]; their sum is 1, and tokens that are not kept have
        probability 0.

    Raises
    ------
    InputError
        If the settings are invalid or the largest logit is not finite.
    """
    check_sampling_settings(sampling)
    if not np.isfinite(np.max(logits)):  # individual logits may be −∞
        raise InputError("logits", DIVERGED_ERROR)
    shares = _apply_temperature(np.asarray(logits, dtype=np.float64), sampling.temperature)
    order = np.argsort(-shares, kind="stable")
    kept = min(sampling.top_k or len(shares), len(shares))
    reached = np.cumsum(shares[order[:kept]])
    if sampling.top_p < 1:
        # A tolerance for rounding errors in the cumulative sum.
        tolerance = 4 * len(shares) * np.finfo(np.float64).eps
        enough = sampling.top_p * reached[-1] * (1 - tolerance)
        kept = int(np.searchsorted(reached, enough)) + 1
    shares[order[kept:]] = 0
    chosen: np.ndarray = shares / shares.sum()
    return chosen


def _apply_temperature(logits: np.ndarray, temperature: float) -> np.ndarray:
    below = logits - logits.max()
    if temperature == 0 or not math.isfinite(1 / temperature):
        # This is the limit for temperature 0; tokens with equal logits share the probability.
        largest = (below == 0).astype(np.float64)
        return np.asarray(largest / largest.sum())
    with np.errstate(over="ignore", under="ignore"):
        powers = np.exp(below / temperature)
    return np.asarray(powers / powers.sum())


def sample_token_with_seed(probabilities: np.ndarray, seed: int, draws: int) -> int:
    """Sample the token after `draws` sampled tokens; the same seed always gives the same token."""
    return sample_token(probabilities, np.random.default_rng([seed, draws]))


def sample_token(probabilities: np.ndarray, generator: np.random.Generator) -> int:
    """Sample a token with the given probabilities; a token with probability 0 is never sampled."""
    reached = np.cumsum(probabilities)
    at = int(np.searchsorted(reached, generator.random() * reached[-1], side="right"))
    return min(at, int(np.flatnonzero(probabilities)[-1]))
