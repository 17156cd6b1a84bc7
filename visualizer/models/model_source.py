"""Which model reads the text of a document, and which of its heads are switched off. No torch."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

LayerAndHead = tuple[int, int]
"""The number of a layer in its model, and that of a head in it, from 0."""


class ModelSource(Struct, frozen=True):
    """A model by its folder, and what is changed in it.

    Parameters
    ----------
    folder : str
        The absolute path of its folder on this machine.
    name : str
        What it is called.
    fingerprint : str
        That of its files when the document began to use them; see `model_folder.fingerprint`.
    heads_off : tuple of LayerAndHead
        Heads whose context vectors are replaced by zeros, ascending.
    """

    folder: str
    name: str
    fingerprint: str
    heads_off: tuple[LayerAndHead, ...] = ()

    @property
    def path(self) -> Path:
        """The path of the folder."""
        return Path(self.folder)
