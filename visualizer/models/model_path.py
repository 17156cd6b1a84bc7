"""Finds the folder of a model by its path, or by its name in the Hugging Face cache.

Does not import torch.
"""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from visualizer.errors import InputError
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMIT_PATTERN = re.compile(r"[0-9a-f]{40}")
REPOSITORY_PATTERN = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
CACHE_PREFIX = "models--"
"""Beginning of the name of a repository's folder in the cache."""
SNAPSHOTS_FOLDER = "snapshots"
MAX_ENTRIES = 2_000
"""Maximum number of entries in a folder that are examined."""
GGUF_ERROR = (
    "“{name}” is a GGUF file, which is not supported. Open the folder of the original model (with "
    "config.json and .safetensors), or convert the file in any "
    "Python environment: pip install transformers torch gguf, then python -c "
    "\"import transformers as t; a=('FOLDER',); g={{'gguf_file': '{name}'}}; "
    "t.AutoModelForCausalLM.from_pretrained(*a, **g).save_pretrained('CONVERTED'); "
    "t.AutoTokenizer.from_pretrained(*a, **g).save_pretrained('CONVERTED')\""
)
"""Error message for a GGUF file; FOLDER stands for the folder that contains the file."""


def hub_cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the download cache of Hugging Face's libraries."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if folder := environment.get(name):
            return Path(folder).expanduser()
    if home := environment.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "huggingface" / "hub"


def list_folders(parent: Path) -> list[Path]:
    """List the folders in a folder; empty if it cannot be read."""
    try:
        with os.scandir(parent) as entries:
            return [Path(entry) for entry in islice(entries, MAX_ENTRIES) if entry.is_dir()]
    except OSError:
        return []


def find_model_snapshot(repository: Path) -> Path | None:
    """Return the snapshot of the main branch, or the newest snapshot if there is none."""
    versions = {each.name: each for each in list_folders(repository / SNAPSHOTS_FOLDER)}
    try:
        with open_regular_file(repository / "refs" / "main") as file:
            main = file.read(40).decode("ascii", "replace")
    except OSError:
        main = ""
    if COMMIT_PATTERN.fullmatch(main) and main in versions:
        return versions[main]
    return max(versions.values(), key=_modification_time, default=None)


def _modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def repository_name(path: Path) -> str:
    """Return ``organization/name`` of a cached repository or snapshot; empty for other folders."""
    whole = path.resolve()
    for folder in (whole, whole.parent, whole.parent.parent):
        if folder.name.startswith(CACHE_PREFIX) and (folder / SNAPSHOTS_FOLDER).is_dir():
            return folder.name.removeprefix(CACHE_PREFIX).replace("--", "/")
    return ""


def is_cached_repository(path: Path) -> bool:
    """Return whether a path is the folder of a cached repository, which contains its snapshots."""
    return path.name.startswith(CACHE_PREFIX) and (path / SNAPSHOTS_FOLDER).is_dir()


def find_model_folder(path: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that contains the files of a model.

    Parameters
    ----------
    path : Path
        The folder itself; the folder of a repository in the Hugging Face cache, for which the
        snapshot of the main branch is returned; or the name ``organization/name`` of such a
        repository.

    Raises
    ------
    InputError
        With field ``model`` if the folder is not found; the message states which folders were
        searched and what to do.
    """
    whole = path.resolve()
    if whole.name == SNAPSHOTS_FOLDER and is_cached_repository(whole.parent):
        whole = whole.parent
    if is_cached_repository(whole):
        if found := find_model_snapshot(whole):
            return found
        name = repository_name(whole)
        raise InputError(
            "model",
            f"The cache contains no snapshot of {name}. {_repository_download_instructions(name)}",
        )
    if path.is_dir():
        return path
    if path.suffix.lower() == ".gguf":
        raise InputError("model", GGUF_ERROR.format(name=path.name))
    if path.exists():
        raise InputError(
            "model",
            f"“{path.name}” is a file. Specify a model folder, with config.json and .safetensors "
            "weights.",
        )
    if path.is_symlink():
        raise InputError("model", f"“{path}” is a broken link: its target folder no longer exists.")
    if not REPOSITORY_PATTERN.fullmatch(path.as_posix()):
        raise InputError("model", f"Folder not found: “{path}”.")
    cache = hub_cache_folder(environment)
    if found := find_model_snapshot(cache / f"{CACHE_PREFIX}{path.as_posix().replace('/', '--')}"):
        return found
    sentence = (
        f"Model not found: “{path}” is neither a folder in {Path.cwd()} nor a model in {cache}."
    )
    raise InputError("model", f"{sentence} {_repository_download_instructions(path.as_posix())}")


def broken_link_message(path: Path) -> str:
    """Return the message for a model file that is a broken link."""
    sentence = f"“{path.name}” is missing: it is a link to a file that no longer exists."
    return f"{sentence} {download_instructions(path.parent)}"


def download_instructions(folder: Path) -> str:
    """Return instructions for completing the files of a folder."""
    name = repository_name(folder)
    return _repository_download_instructions(name) if name else "Copy or download the model again."


def _repository_download_instructions(name: str) -> str:
    return (
        f"Download it with File > Open a model…, or with “hf download {name}”. Complete files are "
        "kept."
    )
