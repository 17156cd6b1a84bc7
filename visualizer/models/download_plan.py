"""Describes the files that a download from the Hugging Face Hub would fetch."""

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
        Hash of the file: SHA-256 for a large file, otherwise the Git hash.
    """

    name: str
    size: int
    blob: str


class DownloadPlan(Struct, frozen=True):
    """The files of a repository that would be downloaded.

    Parameters
    ----------
    folder : Path
        The repository's folder in the cache.
    missing : int
        Number of bytes that are not downloaded yet.
    free : int
        Number of free bytes on the disk that contains the cache.
    revision : str
        The branch, tag or commit that was requested.
    """

    repository: str
    commit: str
    files: tuple[RepositoryFile, ...]
    folder: Path
    missing: int
    free: int
    revision: str = "main"

    @property
    def bytes(self) -> int:
        """Total size of the files."""
        return sum(file.size for file in self.files)

    @property
    def snapshot_folder(self) -> Path:
        """The model's folder after the download."""
        return self.folder / "snapshots" / self.commit
