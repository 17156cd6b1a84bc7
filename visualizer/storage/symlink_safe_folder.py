"""Reads and writes files in a folder without following links below it.

A folder from an untrusted source, such as an archive or a repository, may contain a link, a pipe or
a device under any name. The folder itself is opened by its path because the user chose it; each
name below it is checked before it is used, and files are opened with ``O_NOFOLLOW``.

If a name cannot be used, all functions raise an `OSError` with a reason that can be shown to the
user.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from visualizer.storage.regular_file import NONBLOCKING_FLAGS, check_regular_status

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINK_ERROR = "it is a link, and links in this folder are not followed"
FOLDER_REQUIRED_ERROR = "it is not a folder"
WRITE_PROTECTED_ERROR = "it is write-protected"
HARD_LINK_ERROR = "it is a hard link to a file elsewhere"
PRIVATE_MODE = 0o700
"""Permissions for the user only; files are created with at most their folder's permissions."""
_TEMPORARY_NAME = re.compile(r"\.attention-[0-9a-f]{8}\.part")
"""Names of temporary files, which are renamed when they are complete; no other program uses such
names.
"""
_NAME_SURROGATE = 0x2000_0000
"""Bit of a Windows reparse tag that is set for links and junctions, but not for cloud files."""
_COMMON_FLAGS = NONBLOCKING_FLAGS | getattr(os, "O_NOFOLLOW", 0)


def make_private_folder(path: Path) -> None:
    """Create a folder that only the user can access, or restrict the access to an existing one.

    A folder owned by another user is left unchanged; on Windows, permissions are inherited.
    """
    path.mkdir(PRIVATE_MODE, parents=True, exist_ok=True)
    if sys.platform != "win32" and path.stat().st_mode & 0o777 & ~PRIVATE_MODE:
        with suppress(PermissionError):
            path.chmod(PRIVATE_MODE)


class SymlinkSafeFolder(Struct, frozen=True):
    """A folder below which no link is followed.

    Parameters
    ----------
    root : Path
        The folder that the user chose; its path may contain links.
    subfolder : str
        Name of a folder in the root; empty for the root itself.
    is_private : bool
        Whether only the user can access files and folders created in the folder.
    """

    root: Path
    subfolder: str = ""
    is_private: bool = False

    @property
    def path(self) -> Path:
        """The folder's path."""
        return self.root / self.subfolder

    @property
    def max_permissions(self) -> int:
        """Maximum permissions of files and folders that are created in this folder."""
        return PRIVATE_MODE if self.is_private else 0o777

    def file(self, name: str) -> SymlinkSafeFile:
        """Return a file in the folder, existing or not."""
        return SymlinkSafeFile(self, name)

    def check_folder(self) -> None:
        """Raise `OSError` if the folder does not exist, is not a folder, or is a link."""
        _check_folder(self.root.stat(), str(self.root))
        if self.subfolder:
            _check_folder(self.path.lstat(), self.subfolder)

    def create_folder(self) -> None:
        """Create the folder if it does not exist; its root is created together with all parents."""
        self.root.mkdir(self.max_permissions, parents=True, exist_ok=True)
        if self.subfolder:
            with suppress(FileExistsError):
                self.path.mkdir(self.max_permissions)
        self.check_folder()

    def list_names(self) -> tuple[str, ...]:
        """Return all names in the folder; none if it does not exist."""
        try:
            self.check_folder()
            return tuple(path.name for path in self.path.iterdir())
        except FileNotFoundError:
            return ()

    def remove_temporary_files(self) -> None:
        """Remove temporary files of interrupted writes, but not those that are being written."""
        with suppress(OSError):
            for name in filter(_TEMPORARY_NAME.fullmatch, self.list_names()):
                with suppress(OSError):
                    _remove_temporary_file(self.file(name))


class SymlinkSafeFile(Struct, frozen=True):
    """A file in a `SymlinkSafeFolder`, existing or not: a regular file, never a link."""

    folder: SymlinkSafeFolder
    name: str

    @classmethod
    def from_path(cls, path: Path) -> SymlinkSafeFile:
        """Return the file at a path that must not have a link as its last component."""
        return SymlinkSafeFolder(path.parent).file(path.name)

    @property
    def path(self) -> Path:
        """The file's path."""
        return self.folder.path / self.name

    def exists(self) -> bool:
        """Return whether the name exists, even as a broken link."""
        try:
            self.folder.check_folder()
            self.path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_file(self) -> bool:
        """Return whether the file exists and is a regular file."""
        try:
            self.stat()
        except OSError:
            return False
        return True

    def stat(self) -> os.stat_result:
        """Return the file's status, including its size and times."""
        self.folder.check_folder()
        found = self.path.lstat()
        _check_no_link(found, self.name)
        check_regular_status(found, self.name)
        return found

    def open_descriptor(self, flags: int, mode: int = 0o666) -> int:
        """Open the file like `os.open`, and return the descriptor."""
        with suppress(FileNotFoundError):
            self.stat()
        descriptor = os.open(self.path, flags | _COMMON_FLAGS, mode & self.folder.max_permissions)
        try:
            check_regular_status(os.fstat(descriptor), self.name)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def open(self, most_bytes: int) -> BinaryIO:
        """Open the file for reading; raise `OSError` if it is larger than ``most_bytes``."""
        file = os.fdopen(self.open_descriptor(os.O_RDONLY), "rb")
        if os.fstat(file.fileno()).st_size > most_bytes:
            file.close()
            limit = f"{most_bytes / 2**20:,.4g} MiB"
            raise OSError(errno.EFBIG, f"it is larger than the limit of {limit}", self.name)
        return file

    def read_bytes(self, most_bytes: int) -> bytes:
        """Read the whole file; raise `OSError` if it is larger than ``most_bytes``."""
        with self.open(most_bytes) as file:
            return file.read(most_bytes)

    def create(self) -> BinaryIO:
        """Create the file for writing; an existing file is removed, not truncated."""
        with suppress(FileNotFoundError):
            self.stat()
            self.path.unlink()
        return os.fdopen(self.open_descriptor(os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")

    def write(
        self,
        fill: Callable[[BinaryIO], object],
        *,
        waits_for_disk: bool = True,
        removes_leftovers: bool = True,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        """Write the file atomically; if this fails, an existing file is unchanged.

        Parameters
        ----------
        fill : callable
            Function that writes the content to a binary file.
        waits_for_disk : bool
            Whether to flush the content to disk so that it survives a power loss; this may take
            several seconds.
        removes_leftovers : bool
            Whether to remove temporary files of interrupted writes, for which the whole folder is
            listed.
        check : callable
            Called after everything is written, just before an existing file is replaced; an
            exception prevents the replacement.
        """
        permissions = None
        with suppress(FileNotFoundError):
            permissions = self.stat().st_mode & self.folder.max_permissions
            if not os.access(self.path, os.W_OK):  # renaming requires access only to the folder
                raise PermissionError(errno.EACCES, WRITE_PROTECTED_ERROR, self.name)
        if removes_leftovers:
            self.folder.remove_temporary_files()
        part, descriptor = _create_temporary_file(self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                fill(file)
                file.flush()
                if waits_for_disk:
                    os.fsync(file.fileno())
                if sys.platform == "win32":
                    file.close()  # an open file cannot be renamed on Windows
                elif permissions is not None:
                    os.fchmod(file.fileno(), permissions)
                check()
                part.path.replace(self.path)  # on Windows, this fails while the file is locked
        finally:
            with suppress(OSError):
                part.path.unlink()

    def append(self, content: bytes) -> None:
        """Append bytes; if this fails, the file is truncated to its previous length."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with os.fdopen(self.open_descriptor(flags), "ab", buffering=0) as file:
            found = os.fstat(file.fileno())
            if found.st_nlink > 1:
                raise OSError(errno.EMLINK, HARD_LINK_ERROR, self.name)
            try:
                if file.write(content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(found.st_size)
                raise

    def touch(self) -> None:
        """Create an empty file if it does not exist."""
        os.close(self.open_descriptor(os.O_WRONLY | os.O_CREAT))

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove the file; if it is a link, remove the link and not its target."""
        self.folder.check_folder()
        self.path.unlink(missing_ok)


def _is_link(found: os.stat_result) -> bool:
    return stat.S_ISLNK(found.st_mode) or bool(
        getattr(found, "st_reparse_tag", 0) & _NAME_SURROGATE
    )


def _check_no_link(found: os.stat_result, name: str) -> None:
    if _is_link(found):
        raise OSError(errno.ELOOP, LINK_ERROR, name)


def _check_folder(found: os.stat_result, name: str) -> None:
    _check_no_link(found, name)
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, FOLDER_REQUIRED_ERROR, name)


def _create_temporary_file(folder: SymlinkSafeFolder) -> tuple[SymlinkSafeFile, int]:
    """Create a temporary file, locked until it is closed; return the file and a descriptor."""
    while True:
        # The name is short because file systems limit the length of names.
        part = folder.file(f".attention-{secrets.token_hex(4)}.part")
        descriptor = part.open_descriptor(os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            if _try_lock(descriptor) and part.exists():
                return part, descriptor
        except OSError:  # the file system has no locks, so no other process removes the file either
            return part, descriptor
        os.close(descriptor)  # another process has just removed the file as a leftover


def _remove_temporary_file(part: SymlinkSafeFile) -> None:
    """Remove a temporary file, unless it is locked because it is still being written."""
    is_regular = stat.S_ISREG(part.path.lstat().st_mode)
    if not is_regular or sys.platform == "win32":
        # Removes a link, not its target; on Windows, this fails if the file is open.
        part.path.unlink()
        return
    descriptor = part.open_descriptor(os.O_RDWR)
    try:
        if _try_lock(descriptor):
            part.path.unlink()
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Lock a temporary file, except on Windows, where an open file cannot be removed."""
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # the error depends on the file system
            return False
    return True


def path_of_open_file(file: BinaryIO, opened_as: SymlinkSafeFile) -> str:
    """Return a path by which a library that requires paths can open this same open file."""
    path = f"/dev/fd/{file.fileno()}"
    return path if os.path.exists(path) else str(opened_as.path)  # noqa: PTH110


def escapes_folder(root: Path, path: Path) -> bool:
    """Return whether a path below a folder leaves it through a link."""
    path, real = path.absolute(), os.path.realpath(root)
    for parent in path.parents:
        if os.path.realpath(parent) == real:
            below = path.relative_to(parent)
            ways = (parent / way for way in (below, *below.parents[:-1]))
            return any(_is_link(way.lstat()) for way in ways if os.path.lexists(way))
    return False
