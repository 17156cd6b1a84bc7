"""Which weights dropout keeps, identical on every machine; imports no torch."""

from __future__ import annotations

import numpy as np


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
    count = int(np.prod(shape))
    words = np.random.Philox(key=seed).random_raw((count + 1) // 2)
    draws = words.astype("<u8", copy=False).view("<u4")[:count]
    return (draws >= np.uint32(min(round(rate * 2**32), 2**32 - 1))).reshape(shape)
