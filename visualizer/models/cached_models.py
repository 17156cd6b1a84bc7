"""Lists the models in the local Hugging Face cache. Requires neither torch nor the network.

The contents of the cache are not trusted: the number of entries that are examined is limited, and
files are read as in `model_folder`.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.spec import ModelDtype  # noqa: TC001 - the type of a field
from visualizer.errors import InputError
from visualizer.models.model_folder import model_name, read_model_folder
from visualizer.models.model_path import (
    CACHE_PREFIX,
    MAX_ENTRIES,
    find_model_snapshot,
    list_folders,
)

if TYPE_CHECKING:
    from pathlib import Path


class LocalModelEntry(Struct, frozen=True):
    """A model in a cache, as it is shown in a list.

    Parameters
    ----------
    kind : str
        Name of the architecture in transformers; empty if unknown.
    layers, heads, parameters : int
        Number of layers, of heads per layer, and of parameters; 0 if unknown.
    unavailable_reason : str
        The reason why the model cannot be opened, as a sentence; empty if it can be opened.
    stored_dtype : ModelDtype or None
        Type of most of the stored parameters; None if unknown.
    notice : str
        The parts of the model that are not used, as sentences; empty if all are used.
    """

    name: str
    path: Path
    kind: str = ""
    layers: int = 0
    heads: int = 0
    parameters: int = 0
    bytes: int = 0
    stored_dtype: ModelDtype | None = None
    unavailable_reason: str = ""
    notice: str = ""


def list_cached_models(cache: Path) -> tuple[LocalModelEntry, ...]:
    """List the models in a cache by name; empty if the folder does not exist."""
    repositories = (
        folder for folder in list_folders(cache) if folder.name.startswith(CACHE_PREFIX)
    )
    snapshots = map(find_model_snapshot, repositories)
    listed = (_describe_model(snapshot) for snapshot in snapshots if snapshot)
    return tuple(sorted(listed, key=lambda model: model.name.casefold()))


def _describe_model(path: Path) -> LocalModelEntry:
    name = "".join(each if each.isprintable() else "�" for each in model_name(path))
    try:
        folder = read_model_folder(path, has_fingerprint=False)
    except InputError as refused:
        return LocalModelEntry(
            name, path, bytes=_folder_bytes(path), unavailable_reason=refused.sentence
        )
    except OSError:  # it is being changed or deleted
        return LocalModelEntry(name, path, unavailable_reason="Cannot read the model’s files.")
    return LocalModelEntry(
        name,
        path,
        folder.kind,
        folder.layers,
        folder.heads,
        folder.parameters,
        _folder_bytes(path),
        folder.stored_dtype,
        notice=" ".join(folder.notices),
    )


def _folder_bytes(folder: Path) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(
                each.stat().st_size for each in islice(entries, MAX_ENTRIES) if each.is_file()
            )
    except OSError:
        return 0
