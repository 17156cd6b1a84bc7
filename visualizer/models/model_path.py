"""Finds the folder of a model by its path, or by its name and revision in the Hugging Face cache.

Does not import torch.
"""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import InputError
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMIT_PATTERN = re.compile(r"[0-9a-f]{40}")
REPOSITORY_PATTERN = re.compile(
    r"((?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95})(?:@([\w.-]+(?:/[\w.-]+)*))?", re.ASCII
)
"""Matches the name of a repository, such as ``org/name`` or ``gpt2``, and ``@`` with a revision."""
MAIN_REVISION = "main"
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


class RepositoryName(Struct, frozen=True):
    """Name of a repository of the Hugging Face Hub, with a revision.

    Parameters
    ----------
    name : str
        ``organization/name``, or only ``name`` for the oldest models.
    revision : str
        A branch, a tag or a commit.
    """

    name: str
    revision: str = MAIN_REVISION

    def __str__(self) -> str:
        return self.name if self.revision == MAIN_REVISION else f"{self.name}@{self.revision}"

    @property
    def folder_name(self) -> str:
        """Name of the repository's folder in the cache."""
        return f"{CACHE_PREFIX}{self.name.replace('/', '--')}"


def parse_repository_name(text: str) -> RepositoryName | None:
    """Parse ``organization/name@revision``, where the organization and the revision are optional.

    Return None for other texts.
    """
    found = REPOSITORY_PATTERN.fullmatch(text)
    if found is None or "--" in found[1] or ".." in text:
        return None
    return RepositoryName(found[1], found[2] or MAIN_REVISION)


def find_model_snapshot(repository: Path, revision: str = MAIN_REVISION) -> Path | None:
    """Return the snapshot of a revision; None if the cache does not contain it.

    If the main branch is unknown, the newest snapshot is returned for it.
    """
    versions = {each.name: each for each in list_folders(repository / SNAPSHOTS_FOLDER)}
    if COMMIT_PATTERN.fullmatch(revision):
        return versions.get(revision)
    try:
        with open_regular_file(repository / "refs" / revision) as file:
            commit = file.read(40).decode("ascii", "replace")
    except OSError:
        commit = ""
    if COMMIT_PATTERN.fullmatch(commit) and commit in versions:
        return versions[commit]
    if revision != MAIN_REVISION:
        return None
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
        snapshot of the main branch is returned; or the name of such a repository, as in
        `parse_repository_name`.

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
    return _find_cached_model(path, environment)


def _find_cached_model(path: Path, environment: Mapping[str, str]) -> Path:
    repository = parse_repository_name(path.as_posix())
    if repository is None:
        raise InputError("model", f"Folder not found: “{path}”.")
    cache = hub_cache_folder(environment)
    if found := find_model_snapshot(cache / repository.folder_name, repository.revision):
        return found
    sentence = (
        f"Model not found: “{path}” is neither a folder in {Path.cwd()} nor a model in {cache}."
    )
    ends = f"--{repository.name}"
    if similar := [one for one in list_folders(cache) if one.name.endswith(ends)]:
        sentence = f"{sentence} Did you mean {repository_name(similar[0])}?"
    raise InputError("model", f"{sentence} {_repository_download_instructions(str(repository))}")


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
        f"Download it with “attention-visualizer model {name} --download”, with "
        f'open_model("{name}", download=True) in Python, or with File > Open a model… in the '
        "window. Complete files are kept."
    )
