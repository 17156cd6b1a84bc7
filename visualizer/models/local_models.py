"""Lists the models in the local Hugging Face cache; no torch and no network.

What lies there is not trusted: only so many entries are looked at, and files are read as
`model_folder` reads them.
"""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import InputError
from visualizer.models.model_folder import name_of, read_model_folder
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_ENTRIES = 2_000
"""At most so many entries of a folder are looked at."""
COMMIT = re.compile(r"[0-9a-f]{40}")
_OF_MODELS = "models--"


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


def hub_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in which Hugging Face's libraries keep what they download."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if given := environment.get(name):
            return Path(given).expanduser()
    if home := environment.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "huggingface" / "hub"


def list_models(cache: Path) -> tuple[ListedModel, ...]:
    """List the models in a cache by name; none where there is no such folder."""
    found = (_snapshot(folder) for folder in _folders(cache) if folder.name.startswith(_OF_MODELS))
    listed = (_listed(snapshot) for snapshot in found if snapshot)
    return tuple(sorted(listed, key=lambda model: model.name.casefold()))


def _folders(parent: Path) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return [Path(entry) for entry in islice(entries, MOST_ENTRIES) if entry.is_dir()]
    except OSError:
        return []


def _snapshot(repository: Path) -> Path | None:
    """Return the folder of the version that is used: of the main branch, or else the newest."""
    versions = {each.name: each for each in _folders(repository / "snapshots")}
    try:
        with open_regular_file(repository / "refs" / "main") as file:
            main = file.read(40).decode("ascii", "replace")
    except OSError:
        main = ""
    if COMMIT.fullmatch(main) and main in versions:
        return versions[main]
    return max(versions.values(), key=_time, default=None)


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


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
                each.stat().st_size for each in islice(entries, MOST_ENTRIES) if each.is_file()
            )
    except OSError:
        return 0
