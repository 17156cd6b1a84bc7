"""What of a repository of the hub would be downloaded; imports nothing that speaks to a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pathlib import Path


class RepositoryFile(Struct, frozen=True):
    """A file of a repository.

    Parameters
    ----------
    blob : str
        Its hash: SHA-256 of a large file, or that of git.
    """

    name: str
    size: int
    blob: str


class RepositoryOffer(Struct, frozen=True):
    """What of a repository would be downloaded.

    Parameters
    ----------
    commit : str
        The version of the repository.
    folder : Path
        Where it is kept in the cache.
    missing : int
        The bytes that are not there yet.
    free : int
        The bytes that are free on that disk.
    """

    repository: str
    commit: str
    files: tuple[RepositoryFile, ...]
    folder: Path
    missing: int
    free: int

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def snapshot(self) -> Path:
        """The model's folder, once it is downloaded."""
        return self.folder / "snapshots" / self.commit
