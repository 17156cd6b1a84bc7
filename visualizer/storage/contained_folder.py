"""Files of a folder, read and written without following a link below that folder.

A folder of unknown origin, from an archive or a repository, may hold a link, a pipe or a device
under any name. The folder itself is opened by its path, as the user chose it; all below it is
reached through its descriptor and never through a link. Where the system has no descriptors of
folders (Windows), each name is checked before it is used.

All functions raise `OSError`, whose reason can be shown, where a name cannot be used.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LINK = "it is a link, and no link is followed there"
NO_FILE = "it is no file"
NO_FOLDER = "it is no folder"
OTHER_NAMES = "it is also a file elsewhere (a hard link)"
HAS_FOLDER_DESCRIPTORS = {os.open, os.rename, os.unlink} <= os.supports_dir_fd
_PART = re.compile(r"\.[0-9a-f]{8}\.part")
"""How files are named that are not whole yet."""
_NAME_SURROGATE = 0x2000_0000
"""Set in the tag of what leads elsewhere on Windows: links and junctions, but no cloud files."""
_COMMON = (
    getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
)  # fmt: skip


def _is_link(found: os.stat_result) -> bool:
    return stat.S_ISLNK(found.st_mode) or bool(
        getattr(found, "st_reparse_tag", 0) & _NAME_SURROGATE
    )


class _OpenFolder:
    """A folder whose names are used through its descriptor, where the system has such."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path, self._descriptor = path, descriptor

    @classmethod
    def at(cls, path: Path) -> _OpenFolder:
        """Open a folder that may be a link itself."""
        return cls(path, os.open(path, _folder_flags()) if HAS_FOLDER_DESCRIPTORS else None)

    def below(self, name: str) -> _OpenFolder:
        """Open a folder in it, which may not be a link."""
        self.check_folder(name)
        if self._descriptor is None:
            return _OpenFolder(self.path / name, None)
        flags = _folder_flags() | os.O_NOFOLLOW
        return _OpenFolder(self.path / name, os.open(name, flags, dir_fd=self._descriptor))

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _at(self, name: str) -> str:
        """Give what the system is told of a name, together with the descriptor."""
        return str(self.path / name) if self._descriptor is None else name

    def status(self, name: str) -> os.stat_result:
        return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)

    def check_folder(self, name: str) -> None:
        found = self.status(name)
        if _is_link(found):
            raise OSError(errno.ELOOP, LINK, name)
        if not stat.S_ISDIR(found.st_mode):
            raise OSError(errno.ENOTDIR, NO_FOLDER, name)

    def check_file(self, name: str) -> os.stat_result:
        found = self.status(name)
        if _is_link(found):
            raise OSError(errno.ELOOP, LINK, name)
        _check_regular(found, name)
        return found

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open a file and give its descriptor; only a new one is not there before."""
        with suppress(FileNotFoundError):
            self.check_file(name)
        descriptor = os.open(self._at(name), flags | _COMMON, mode, dir_fd=self._descriptor)
        try:
            _check_regular(os.fstat(descriptor), name)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def unlink(self, name: str) -> None:
        os.unlink(self._at(name), dir_fd=self._descriptor)

    def replace(self, name: str, other: str) -> None:
        folder = self._descriptor
        os.replace(self._at(name), self._at(other), src_dir_fd=folder, dst_dir_fd=folder)

    def make_folder(self, name: str) -> None:
        with suppress(FileExistsError):
            os.mkdir(self._at(name), dir_fd=self._descriptor)
        self.check_folder(name)

    def names(self) -> tuple[str, ...]:
        if self._descriptor is None:
            return tuple(os.listdir(self.path))  # noqa: PTH208
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._descriptor)
        try:
            return tuple(os.listdir(listed))  # noqa: PTH208
        finally:
            os.close(listed)


def _folder_flags() -> int:
    # O_PATH: a folder that may be written but not listed will do.
    return getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


def _check_regular(found: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, NO_FILE, name)


@dataclass(frozen=True, slots=True)
class ContainedFolder:
    """A folder below which no link is followed.

    Parameters
    ----------
    root : Path
        The folder that the user chose; it may be reached through links.
    subfolder : str
        The name of a folder in it; empty for the root itself.
    """

    root: Path
    subfolder: str = ""

    @property
    def path(self) -> Path:
        """Where it is, for messages."""
        return self.root / self.subfolder

    def file(self, name: str) -> ContainedFile:
        """Give a file of it, there or not yet."""
        return ContainedFile(self, name)

    @contextmanager
    def opened(self) -> Iterator[_OpenFolder]:
        """Hold it open while its names are used."""
        root = _OpenFolder.at(self.root)
        try:
            if not self.subfolder:
                yield root
                return
            below = root.below(self.subfolder)
            try:
                yield below
            finally:
                below.close()
        finally:
            root.close()

    def make(self) -> None:
        """Have it be there; its root is made with all folders above it."""
        self.root.mkdir(parents=True, exist_ok=True)
        if self.subfolder:
            with ContainedFolder(self.root).opened() as root:
                root.make_folder(self.subfolder)

    def names(self) -> tuple[str, ...]:
        """List the names in it, whatever they are of; none where it is not there."""
        try:
            with self.opened() as folder:
                return folder.names()
        except FileNotFoundError:
            return ()

    def remove_parts(self) -> None:
        """Remove files that were cut off while they were written."""
        for name in filter(_PART.fullmatch, self.names()):
            with suppress(OSError):
                self.file(name).unlink()


@dataclass(frozen=True, slots=True)
class ContainedFile:
    """A file of a `ContainedFolder`, there or not yet: a regular file, and no link to one."""

    folder: ContainedFolder
    name: str

    @classmethod
    def at(cls, path: Path) -> ContainedFile:
        """Give the file of a path, whose last name may not be a link."""
        return ContainedFolder(path.parent).file(path.name)

    @property
    def path(self) -> Path:
        """Where it is, for messages."""
        return self.folder.path / self.name

    def exists(self) -> bool:
        """Whether anything has its name, be it a link that leads nowhere."""
        try:
            with self.folder.opened() as folder:
                folder.status(self.name)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_file(self) -> bool:
        """Whether it is there and can be used."""
        try:
            self.stat()
        except OSError:
            return False
        return True

    def stat(self) -> os.stat_result:
        """Give its size and times."""
        with self.folder.opened() as folder:
            return folder.check_file(self.name)

    def descriptor(self, flags: int, mode: int = 0o666) -> int:
        """Open it as `os.open` does, and give the descriptor."""
        with self.folder.opened() as folder:
            return folder.open(self.name, flags, mode)

    def open(self, most_bytes: int) -> BinaryIO:
        """Open it to be read, unless it is larger than it may be."""
        file = os.fdopen(self.descriptor(os.O_RDONLY), "rb")
        if os.fstat(file.fileno()).st_size > most_bytes:
            file.close()
            most = f"{most_bytes / 2**20:,.4g} MiB"
            raise OSError(errno.EFBIG, f"it is larger than {most}, which none is", self.name)
        return file

    def read_bytes(self, most_bytes: int) -> bytes:
        """Read all of it, unless it is larger than it may be."""
        with self.open(most_bytes) as file:
            return file.read(most_bytes)

    def create(self) -> BinaryIO:
        """Begin it anew, to be written: what has its name is removed, not emptied."""
        with self.folder.opened() as folder:
            with suppress(FileNotFoundError):
                folder.check_file(self.name)
                folder.unlink(self.name)
            return os.fdopen(folder.open(self.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")

    def write(self, fill: Callable[[BinaryIO], object]) -> None:
        """Write it beside its place, then move it there; what was there stays if that fails.

        Parameters
        ----------
        fill : callable
            Writes the content into a file that is open for writing bytes.
        """
        beside = f".{secrets.token_hex(4)}.part"  # short: names have a longest
        with self.folder.opened() as folder:
            before = None
            with suppress(FileNotFoundError):
                before = folder.check_file(self.name)
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with os.fdopen(folder.open(beside, flags), "wb") as file:
                    fill(file)
                    file.flush()
                    os.fsync(file.fileno())
                    if before and sys.platform != "win32":
                        os.fchmod(file.fileno(), before.st_mode & 0o777)
                folder.replace(beside, self.name)
            finally:
                with suppress(OSError):
                    folder.unlink(beside)

    def append(self, content: bytes) -> None:
        """Write at its end; if that fails, it is as long as it was."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with os.fdopen(self.descriptor(flags), "ab", buffering=0) as file:
            found = os.fstat(file.fileno())
            if found.st_nlink > 1:
                raise OSError(errno.EMLINK, OTHER_NAMES, self.name)
            try:
                if file.write(content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(found.st_size)
                raise

    def touch(self) -> None:
        """Have it be there, empty where it is new."""
        os.close(self.descriptor(os.O_WRONLY | os.O_CREAT))

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove it; of a link, the link."""
        with self.folder.opened() as folder:
            try:
                folder.unlink(self.name)
            except FileNotFoundError:
                if not missing_ok:
                    raise


def path_of_open(file: BinaryIO, contained: ContainedFile) -> str:
    """Give a path at which another program's library finds the very file that is open here."""
    path = f"/dev/fd/{file.fileno()}"
    return path if os.path.exists(path) else str(contained.path)  # noqa: PTH110


def leads_elsewhere(root: Path, path: Path) -> bool:
    """Whether a path to something in a folder leaves it through a link."""
    path, real = path.absolute(), os.path.realpath(root)
    for parent in path.parents:
        if os.path.realpath(parent) == real:
            below = path.relative_to(parent)
            ways = (parent / way for way in (below, *below.parents[:-1]))
            return any(_is_link(way.lstat()) for way in ways if os.path.lexists(way))
    return False
