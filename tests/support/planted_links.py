"""Puts links and pipes in place of files, and creates the files to which the links lead."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LINKS = ("link to a file", "link to a folder", "link to nothing")
KINDS = (*LINKS, "pipe")

Tree = dict[str, tuple[object, ...]]


def make_outside(folder: Path) -> Path:
    """Create the files that must not change: one file, and a folder with a run's file names."""
    (folder / "folder").mkdir(parents=True)
    for name in ("file", "folder/00000003.safetensors", "folder/.attention-0123abcd.part"):
        (folder / name).write_bytes(b"precious")
    return folder


def plant(place: Path, kind: str, outside: Path) -> None:
    """Replace a file or folder by a link or a pipe."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    targets = {"link to a file": "file", "link to a folder": "folder", "link to nothing": "none"}
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(outside / targets[kind])


def tree(folder: Path) -> Tree:
    """Return the status and content of everything in a folder."""
    found: Tree = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(folder))] = (
            status.st_ino, status.st_mode, status.st_mtime_ns, status.st_nlink, content,
        )  # fmt: skip
    return found
