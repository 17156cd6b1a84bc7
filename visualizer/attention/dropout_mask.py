"""Dropout masks that are identical on every machine; imports no torch."""

from __future__ import annotations

import numpy as np

DRAWS_PER_STEP = 8
"""32-bit numbers that the generator produces per counter value."""


def kept_by_dropout(rate: float, seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Draw the cells that dropout keeps.

    The output of a counter-based generator (Philox 4×64, Salmon et al. 2011) is compared as
    integers, so that a seed gives the same cells on every operating system, unlike torch's dropout.

    Parameters
    ----------
    rate : float
        Share of cells to drop, in [0, 1).

    Returns
    -------
    numpy.ndarray
        Boolean, of the given shape.
    """
    return kept_in_range(rate, seed, 0, int(np.prod(shape))).reshape(shape)


def kept_in_range(rate: float, seed: int, start: int, count: int) -> np.ndarray:
    """Draw cells ``start`` to ``start + count`` of the flattened mask of `kept_by_dropout`."""
    skipped = start % DRAWS_PER_STEP
    generator = np.random.Philox(key=seed)
    generator.advance(start // DRAWS_PER_STEP)
    words = generator.random_raw((skipped + count + 1) // 2)
    draws = words.astype("<u8", copy=False).view("<u4")[skipped : skipped + count]
    kept: np.ndarray = draws >= np.uint32(min(round(rate * 2**32), 2**32 - 1))
    return kept
