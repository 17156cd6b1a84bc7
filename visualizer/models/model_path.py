"""Finds the folder of a model by its path, or by its name in Hugging Face's cache. No torch."""

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

COMMIT = re.compile(r"[0-9a-f]{40}")
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
CACHE_PREFIX = "models--"
"""Beginning of the name of a repository's folder in the cache."""
SNAPSHOTS = "snapshots"
MAX_ENTRIES = 2_000
"""At most so many entries of a folder are looked at."""
GGUF_ERROR = (
    "“{name}” is a GGUF file, which is not read here. Open the folder of the original model, with "
    "config.json and .safetensors, or convert the file: pip install gguf, and then python -c "
    "\"import transformers as t; a=('FOLDER',); g={{'gguf_file': '{name}'}}; "
    "t.AutoModelForCausalLM.from_pretrained(*a, **g).save_pretrained('CONVERTED'); "
    "t.AutoTokenizer.from_pretrained(*a, **g).save_pretrained('CONVERTED')\""
)
"""FOLDER is the folder of the file."""


def hub_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in which Hugging Face's libraries keep what they download."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if given := environment.get(name):
            return Path(given).expanduser()
    if home := environment.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "huggingface" / "hub"


def folders_in(parent: Path) -> list[Path]:
    """List the folders in a folder; none if it cannot be read."""
    try:
        with os.scandir(parent) as entries:
            return [Path(entry) for entry in islice(entries, MAX_ENTRIES) if entry.is_dir()]
    except OSError:
        return []


def snapshot_of(repository: Path) -> Path | None:
    """Return the folder of the version that is used: of the main branch, or else the newest."""
    versions = {each.name: each for each in folders_in(repository / SNAPSHOTS)}
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


def repository_name(path: Path) -> str:
    """Return ``organisation/name`` of a folder in the cache: a repository or a version of one."""
    whole = path.resolve()
    for folder in (whole, whole.parent, whole.parent.parent):
        if folder.name.startswith(CACHE_PREFIX) and (folder / SNAPSHOTS).is_dir():
            return folder.name.removeprefix(CACHE_PREFIX).replace("--", "/")
    return ""


def is_cached_repository(path: Path) -> bool:
    """Whether a path is the folder of a repository in the cache, which has its versions."""
    return path.name.startswith(CACHE_PREFIX) and (path / SNAPSHOTS).is_dir()


def model_path(path: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that holds the files of a model.

    Parameters
    ----------
    path : Path
        That folder; the folder of a repository in the cache of Hugging Face, of which the version
        of the main branch is taken; or ``organisation/name`` of such a repository.

    Raises
    ------
    InputError
        Of ``model``, when there is none, with what was looked for and what to do about it.
    """
    whole = path.resolve()
    if whole.name == SNAPSHOTS and is_cached_repository(whole.parent):
        whole = whole.parent
    if is_cached_repository(whole):
        if found := snapshot_of(whole):
            return found
        name = repository_name(whole)
        raise _rejected(f"The cache holds no version of {name}. {_download(name)}")
    if path.is_dir():
        return path
    if path.suffix.lower() == ".gguf":
        raise _rejected(GGUF_ERROR.format(name=path.name))
    if path.exists():
        raise _rejected(
            f"“{path.name}” is a file. Name the folder of a model, with config.json and weights as "
            ".safetensors."
        )
    if path.is_symlink():
        raise _rejected(f"“{path}” is a link to a folder that no longer exists.")
    if not REPOSITORY.fullmatch(path.as_posix()):
        raise _rejected(f"There is no folder “{path}”.")
    cache = hub_cache(environment)
    if found := snapshot_of(cache / f"{CACHE_PREFIX}{path.as_posix().replace('/', '--')}"):
        return found
    sentence = f"There is no folder “{path}” in {Path.cwd()}, and no model of that name in {cache}."
    raise _rejected(f"{sentence} {_download(path.as_posix())}")


def missing_link_target(path: Path) -> str:
    """Return the sentence for a file of a model that is a link to nothing."""
    sentence = f"“{path.name}” is missing: it is a link to a file that no longer exists."
    return f"{sentence} {download_again(path.parent)}"


def download_again(folder: Path) -> str:
    """Return the sentence on how to complete the files of a folder."""
    name = repository_name(folder)
    return _download(name) if name else "Copy or download the model again."


def _download(name: str) -> str:
    return (
        f"Download it by File > Open a model… in the window, or by “hf download {name}”; files "
        "that are complete are kept."
    )


def _rejected(sentence: str) -> InputError:
    return InputError("model", sentence)
