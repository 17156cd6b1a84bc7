"""The numbers of a run as they stand in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class RecordedNumbers:
    """What a run came to, without its spec, which is that of the document.

    Parameters
    ----------
    texts : tuple of tuple of str
        Tokens of each text, without padding.
    stages : dict of str to numpy.ndarray
        Each stage's numbers [..., *dims], in order, of the spec's type.
    parameters : dict of str to numpy.ndarray
        The weights, by the names of the book's ``state_dict``.
    device : str
        Where they were computed, in words.
    notices : tuple of str
        What a reader of the numbers should know, in sentences.
    """

    texts: tuple[tuple[str, ...], ...]
    stages: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray]
    device: str
    notices: tuple[str, ...]
