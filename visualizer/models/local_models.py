"""Lists the models in the local Hugging Face cache; no torch and no network.

What lies there is not trusted: only so many entries are looked at, and files are read as
`model_folder` reads them.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import InputError
from visualizer.models.model_folder import name_of, read_model_folder
from visualizer.models.model_path import CACHE_PREFIX, MAX_ENTRIES, folders_in, snapshot_of

if TYPE_CHECKING:
    from pathlib import Path


class ListedModel(Struct, frozen=True):
    """A model's folder on this machine.

    Parameters
    ----------
    name : str
        The name of its repository.
    kind : str
        The architecture by the name of transformers; empty where it is not known.
    layers, heads, numbers : int
        The numbers of layers, of heads in a layer and of all weights; 0 where they are not known.
    bytes : int
        The bytes of its files.
    why_not : str
        Why it cannot be opened, as a sentence; empty where it can.
    notice : str
        What of it is not used, as sentences; empty where all is.
    """

    name: str
    path: Path
    kind: str = ""
    layers: int = 0
    heads: int = 0
    numbers: int = 0
    bytes: int = 0
    why_not: str = ""
    notice: str = ""


def list_models(cache: Path) -> tuple[ListedModel, ...]:
    """List the models in a cache by name; none where there is no such folder."""
    repositories = (folder for folder in folders_in(cache) if folder.name.startswith(CACHE_PREFIX))
    found = map(snapshot_of, repositories)
    listed = (_listed(snapshot) for snapshot in found if snapshot)
    return tuple(sorted(listed, key=lambda model: model.name.casefold()))


def _listed(path: Path) -> ListedModel:
    name = "".join(each if each.isprintable() else "�" for each in name_of(path))
    try:
        found = read_model_folder(path, has_fingerprint=False)
    except InputError as refused:
        return ListedModel(name, path, bytes=_bytes_in(path), why_not=refused.sentence)
    except OSError:  # it is changed or deleted meanwhile
        return ListedModel(name, path, why_not="Its files cannot be read.")
    return ListedModel(
        name,
        path,
        found.kind,
        found.layers,
        found.heads,
        found.numbers,
        _bytes_in(path),
        notice=" ".join(found.notices),
    )


def _bytes_in(folder: Path) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(
                each.stat().st_size for each in islice(entries, MAX_ENTRIES) if each.is_file()
            )
    except OSError:
        return 0
