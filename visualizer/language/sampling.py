"""How a next token is chosen from what a model expects; no torch.

First the temperature, then the `top_k` largest, then of what these leave the smallest set that
reaches `top_p`: Ackley et al. 1985 (temperature); Fan et al. 2018, "Hierarchical Neural Story
Generation", §5.4 (top-k); Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration",
§3.1 (top-p, the nucleus).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from visualizer.errors import InputError

HOTTEST = 100.0
NO_NUMBERS = (
    "What the model expects are no numbers any more: its training diverged. "
    "Look at an earlier moment of it."
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a next token is chosen.

    Parameters
    ----------
    temperature : float
        Logits are divided by it; at 0, only the largest is left.
    top_k : int or None
        How many tokens may be chosen; None for all.
    top_p : float
        How much of the probability they must reach.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0


def check(sampling: Sampling) -> None:
    """Raise `InputError` for what no token can be chosen by."""
    if not 0 <= sampling.temperature <= HOTTEST:
        sentence = f"The temperature is from 0 to {HOTTEST:g}. A usual one is 1."
        raise InputError("temperature", sentence, ("temperature", 1.0))
    if sampling.top_k is not None and sampling.top_k < 1:
        sentence = "Top-k leaves 1 token or more. Leave it empty for all of them."
        raise InputError("top_k", sentence, ("top_k", None))
    if not 0 < sampling.top_p <= 1:
        sentence = "Top-p is more than 0 and at most 1, which leaves all tokens."
        raise InputError("top_p", sentence, ("top_p", 1.0))


def probabilities(
    logits: np.ndarray, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0
) -> np.ndarray:
    """Give how likely each token is to be chosen.

    Parameters
    ----------
    logits : numpy.ndarray
        [vocabulary].
    temperature, top_k, top_p
        See `Sampling`. Of equal tokens, the first are kept.

    Returns
    -------
    numpy.ndarray
        float64 [vocabulary], of sum 1; 0 where a token is left out.

    Raises
    ------
    InputError
        When no token can be chosen so.
    """
    check(Sampling(temperature, top_k, top_p))
    if not np.isfinite(np.max(logits)):  # of which −∞ is one that is never expected
        raise InputError("logits", NO_NUMBERS)
    made = _softened(np.asarray(logits, dtype=np.float64), temperature)
    order = np.argsort(-made, kind="stable")
    kept = len(made) if top_k is None else min(top_k, len(made))
    reached = np.cumsum(made[order[:kept]])
    if top_p < 1:
        # What is added up in floats may miss by its rounding what it reaches.
        enough = top_p * reached[-1] * (1 - 4 * len(made) * np.finfo(np.float64).eps)
        kept = int(np.searchsorted(reached, enough)) + 1
    made[order[kept:]] = 0
    chosen: np.ndarray = made / made.sum()
    return chosen


def _softened(logits: np.ndarray, temperature: float) -> np.ndarray:
    below = logits - logits.max()
    if temperature == 0 or not math.isfinite(1 / temperature):
        largest = (below == 0).astype(np.float64)  # the limit; of equal ones, all
        return np.asarray(largest / largest.sum())
    with np.errstate(over="ignore", under="ignore"):
        powers = np.exp(below / temperature)
    return np.asarray(powers / powers.sum())


def draw(probabilities: np.ndarray, generator: np.random.Generator) -> int:
    """Choose a token, each as often as it is likely; one of probability 0 never."""
    reached = np.cumsum(probabilities)
    at = int(np.searchsorted(reached, generator.random() * reached[-1], side="right"))
    return min(at, int(np.flatnonzero(probabilities)[-1]))
