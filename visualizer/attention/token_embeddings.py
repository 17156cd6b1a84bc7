"""Token embeddings and position vectors, learned or sinusoidal; imports no torch.

Vectors are standard normal, as in ``torch.nn.Embedding``. This module generates them, so that they
depend neither on the operating system nor on the other tokens of the text.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

# Raschka 2024, §3.3.1: the inputs printed in the book, one row per token.
BOOK_VECTORS = {
    "Your": (0.43, 0.15, 0.89),
    "journey": (0.55, 0.87, 0.66),
    "starts": (0.57, 0.85, 0.64),
    "with": (0.22, 0.58, 0.33),
    "one": (0.77, 0.25, 0.10),
    "step": (0.05, 0.80, 0.55),
}
BOOK_DIMENSIONS = 3
"""Number of columns in the book's vectors."""
PADDING_LABEL = "⟨pad⟩"

# Generated vectors are cached, up to 16 MiB in total; longer vectors are not cached.
MAX_CACHED_VECTORS = 2_048
MAX_CACHED_SIZE = 1_024


def embed_tokens(tokens: Sequence[str], d_in: int, seed: int) -> np.ndarray:
    """Return the embeddings of a text's tokens.

    Returns
    -------
    numpy.ndarray
        Float64 array [token, d_in]. The book's six words have the book's vectors if d_in is 3.
    """
    vectors = np.empty((len(tokens), d_in))
    for place, token in enumerate(tokens):
        vectors[place] = _embed_token(token, d_in, seed)
    return vectors


def sample_position_vectors(count: int, d_in: int, seed: int) -> np.ndarray:
    """Draw learned position vectors [token, d_in], in float64, as they are before training.

    The vector of a position does not depend on the length of the text.
    """
    vectors = np.empty((count, d_in))
    for place in range(count):
        vectors[place] = sample_normal_vector(f"position {place}", d_in, seed)
    return vectors


def compute_sinusoidal_positions(count: int, d_in: int) -> np.ndarray:
    """Compute sinusoidal position vectors [token, d_in] in float64 (Vaswani et al. 2017, §3.5)."""
    column = np.arange(d_in)
    angles = np.arange(count)[:, None] / 10_000 ** ((column - column % 2) / d_in)
    return np.where(column % 2 == 0, np.sin(angles), np.cos(angles))


def _embed_token(token: str, d_in: int, seed: int) -> np.ndarray:
    if token == PADDING_LABEL:
        return np.zeros(d_in)
    if d_in == BOOK_DIMENSIONS and token in BOOK_VECTORS:
        return np.array(BOOK_VECTORS[token])
    return sample_normal_vector(f"token {token}", d_in, seed)


def sample_normal_vector(name: str, size: int, seed: int) -> np.ndarray:
    """Draw a standard normal vector that depends only on a name and the seed.

    A shorter vector is a prefix of a longer one. Source: Box and Muller 1958.
    """
    key = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, salt=seed.to_bytes(8))
    draw = _draw_cached_vector if size <= MAX_CACHED_SIZE else _sample_vector
    return draw(int.from_bytes(key.digest()), size)


def _sample_vector(key: int, size: int) -> np.ndarray:
    words = np.random.Philox(key=key).random_raw(size + size % 2)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53
    radius, angle = np.sqrt(-2 * np.log(uniform[::2])), 2 * np.pi * uniform[1::2]
    vector = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()[:size]
    vector.flags.writeable = False
    return vector


_draw_cached_vector = lru_cache(maxsize=MAX_CACHED_VECTORS)(_sample_vector)
