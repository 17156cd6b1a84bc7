"""Folders like those that Hugging Face's libraries create in their cache."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import save_file

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "a" * 40


def repository(cache: Path, name: str) -> Path:
    """Return the folder of a repository in a cache."""
    return cache / f"models--{name.replace('/', '--')}"


def cache_config(cache: Path, name: str, config: object, commit: str = COMMIT) -> Path:
    """Add a model with a config and 17 numbers to a cache, and return its snapshot folder."""
    snapshot = repository(cache, name) / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(config), encoding="utf-8")
    numbers: dict[str, np.ndarray] = {
        "one": np.ones((3, 4), np.float32),
        "two": np.ones(5, np.float16),
    }
    save_file(numbers, snapshot / "model.safetensors")
    return snapshot


def cache_folder(cache: Path, name: str, folder: Path) -> Path:
    """Add a model folder to a cache, as links to blobs, and return its snapshot folder."""
    blobs = repository(cache, name) / "blobs"
    snapshot = repository(cache, name) / "snapshots" / COMMIT
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(folder.iterdir())):
        shutil.copy(file, blobs / f"{number:064x}")
        (snapshot / file.name).symlink_to(f"../../blobs/{number:064x}")
    refs = repository(cache, name) / "refs"
    refs.mkdir()
    (refs / "main").write_text(COMMIT, encoding="ascii")
    return snapshot
