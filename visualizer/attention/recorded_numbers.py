"""The numbers of a computation, as read back from a document file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np


class RecordedNumbers(Struct, frozen=True, eq=False):
    """The results of a run, without its spec, which is part of the document.

    Parameters
    ----------
    texts : tuple of tuple of str
        Tokens of each text, without padding.
    stages : dict of str to numpy.ndarray
        Each stage's numbers [..., *dims], in order, of the spec's type.
    parameters : dict of str to numpy.ndarray
        The weights, by the names of the book's ``state_dict``.
    device : str
        Name of the device they were computed on.
    notices : tuple of str
        Notices about the numbers, each a sentence.
    missing : tuple of str
        Stages of the spec that are missing, as in files from older versions. The run is then
        computed.
    """

    texts: tuple[tuple[str, ...], ...]
    stages: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray]
    device: str
    notices: tuple[str, ...]
    missing: tuple[str, ...] = ()
