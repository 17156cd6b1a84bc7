"""Reads and writes files of a folder without following links below that folder.

A folder of unknown origin, from an archive or a repository, may contain a link, a pipe or a device
under any name. The folder itself is opened by its path, as the user chose it; everything below it
is reached through its descriptor and never through a link. If the system has no folder descriptors
(Windows), each name is checked before it is used.

If a name cannot be used, all functions raise an `OSError` with a reason that can be shown to the
user.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from visualizer.storage.private_folder import PRIVATE
from visualizer.storage.regular_file import NONBLOCKING_FLAGS, check_regular_status

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LINK = "it is a link, and links are not followed there"
FOLDER_REQUIRED = "it is not a folder"
PROTECTED = "it is write-protected"
HARD_LINK_ERROR = "it is a hard link to a file elsewhere"
HAS_FOLDER_DESCRIPTORS = {os.open, os.rename, os.unlink} <= os.supports_dir_fd
_TEMPORARY_NAME = re.compile(r"\.attention-[0-9a-f]{8}\.part")
"""Names of temporary files that are later renamed; no other program uses such names."""
_NAME_SURROGATE = 0x2000_0000
"""Bit of a Windows reparse tag that marks links and junctions, but not cloud files."""
_COMMON_FLAGS = NONBLOCKING_FLAGS | getattr(os, "O_NOFOLLOW", 0)
_DESCRIPTORS = "/proc/self/fd"
"""Links to the open files of this process, through which Linux can name an unnamed file."""


def _is_link(found: os.stat_result) -> bool:
    return stat.S_ISLNK(found.st_mode) or bool(
        getattr(found, "st_reparse_tag", 0) & _NAME_SURROGATE
    )


class _OpenFolder:
    """An open folder that resolves names through its descriptor, if the system supports it.

    Parameters
    ----------
    most : int
        Maximum permissions of files and folders created in it.
    """

    def __init__(self, path: Path, descriptor: int | None, most: int) -> None:
        self.path, self._descriptor, self.most = path, descriptor, most

    @classmethod
    def at(cls, path: Path, most: int) -> _OpenFolder:
        """Open a folder, which may itself be a link."""
        return cls(path, os.open(path, _folder_flags()) if HAS_FOLDER_DESCRIPTORS else None, most)

    def below(self, name: str) -> _OpenFolder:
        """Open a subfolder, which must not be a link."""
        self.check_folder(name)
        if self._descriptor is None:
            return _OpenFolder(self.path / name, None, self.most)
        flags = _folder_flags() | os.O_NOFOLLOW
        below = os.open(name, flags, dir_fd=self._descriptor)
        return _OpenFolder(self.path / name, below, self.most)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _path_of(self, name: str) -> str:
        """Return the path to pass to the system together with the descriptor."""
        return str(self.path / name) if self._descriptor is None else name

    def status(self, name: str) -> os.stat_result:
        return os.stat(self._path_of(name), dir_fd=self._descriptor, follow_symlinks=False)

    def check_folder(self, name: str) -> None:
        found = self.status(name)
        if _is_link(found):
            raise OSError(errno.ELOOP, LINK, name)
        if not stat.S_ISDIR(found.st_mode):
            raise OSError(errno.ENOTDIR, FOLDER_REQUIRED, name)

    def check_file(self, name: str) -> os.stat_result:
        found = self.status(name)
        if _is_link(found):
            raise OSError(errno.ELOOP, LINK, name)
        check_regular_status(found, name)
        return found

    def check_replaceable(self, name: str) -> os.stat_result:
        """Check a file that will be replaced: renaming only needs write access to the folder."""
        found = self.check_file(name)
        follows = os.access not in os.supports_follow_symlinks
        place = self._path_of(name)
        if not os.access(place, os.W_OK, dir_fd=self._descriptor, follow_symlinks=follows):
            raise PermissionError(errno.EACCES, PROTECTED, name)
        return found

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open a regular file, new or existing, and return its descriptor."""
        with suppress(FileNotFoundError):
            self.check_file(name)
        mode &= self.most
        descriptor = os.open(
            self._path_of(name), flags | _COMMON_FLAGS, mode, dir_fd=self._descriptor
        )
        try:
            check_regular_status(os.fstat(descriptor), name)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def open_nameless(self) -> int | None:
        """Create an unnamed file; return None if the system does not support it there."""
        if sys.platform == "linux" and os.access(_DESCRIPTORS, os.X_OK):
            flags, mode = os.O_RDWR | os.O_TMPFILE | _COMMON_FLAGS, 0o666 & self.most
            with suppress(OSError):
                return os.open(".", flags, mode, dir_fd=self._descriptor)
        return None

    def give_name(self, descriptor: int, name: str, *, waits_for_disk: bool) -> None:
        """Name an unnamed file; if that is not permitted, copy it to a new file with the name."""
        path = f"{_DESCRIPTORS}/{descriptor}"
        try:
            os.link(path, self._path_of(name), dst_dir_fd=self._descriptor, follow_symlinks=True)
        except OSError:
            copy = self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(copy, "wb") as file, os.fdopen(os.dup(descriptor), "rb") as whole:
                whole.seek(0)
                shutil.copyfileobj(whole, file)
                file.flush()
                if waits_for_disk:
                    os.fsync(copy)
                os.fchmod(copy, os.fstat(descriptor).st_mode & 0o777)

    def is_there(self, name: str) -> bool:
        """Whether the name is in use."""
        try:
            self.status(name)
        except FileNotFoundError:
            return False
        return True

    def unlink(self, name: str) -> None:
        os.unlink(self._path_of(name), dir_fd=self._descriptor)

    def replace(self, name: str, other: str) -> None:
        folder = self._descriptor
        os.replace(self._path_of(name), self._path_of(other), src_dir_fd=folder, dst_dir_fd=folder)

    def make_folder(self, name: str) -> None:
        with suppress(FileExistsError):
            os.mkdir(self._path_of(name), self.most, dir_fd=self._descriptor)
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
    # O_PATH: works for a folder with write permission but without read permission.
    return getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class ContainedFolder(Struct, frozen=True):
    """A folder below which no link is followed.

    Parameters
    ----------
    root : Path
        The folder that the user chose; it may be reached through links.
    subfolder : str
        Name of a folder in the root; empty for the root itself.
    is_private : bool
        Whether files and folders created in it are accessible to the user only.
    """

    root: Path
    subfolder: str = ""
    is_private: bool = False

    @property
    def path(self) -> Path:
        """The folder's path, for messages."""
        return self.root / self.subfolder

    @property
    def _max_permissions(self) -> int:
        return PRIVATE if self.is_private else 0o777

    def file(self, name: str) -> ContainedFile:
        """Return a file in the folder, existing or not."""
        return ContainedFile(self, name)

    @contextmanager
    def opened(self) -> Iterator[_OpenFolder]:
        """Open the folder for the duration of the context."""
        root = _OpenFolder.at(self.root, self._max_permissions)
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
        """Create the folder if it does not exist; its root is created with all parents."""
        self.root.mkdir(self._max_permissions, parents=True, exist_ok=True)
        if self.subfolder:
            with replace(self, subfolder="").opened() as root:
                root.make_folder(self.subfolder)

    def names(self) -> tuple[str, ...]:
        """List all names in the folder; empty if it does not exist."""
        try:
            with self.opened() as folder:
                return folder.names()
        except FileNotFoundError:
            return ()

    def remove_parts(self) -> None:
        """Remove temporary files left by interrupted writes, but not those being written."""
        with suppress(OSError), self.opened() as folder:
            _remove_temporary_files(folder)


class ContainedFile(Struct, frozen=True):
    """A file in a `ContainedFolder`, existing or not: a regular file, never a link."""

    folder: ContainedFolder
    name: str

    @classmethod
    def at(cls, path: Path) -> ContainedFile:
        """Return the file at a path, whose last component must not be a link."""
        return ContainedFolder(path.parent).file(path.name)

    @property
    def path(self) -> Path:
        """The file's path, for messages."""
        return self.folder.path / self.name

    def exists(self) -> bool:
        """Whether the name is in use, even by a broken link."""
        try:
            with self.folder.opened() as folder:
                return folder.is_there(self.name)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def is_file(self) -> bool:
        """Whether it exists and is a regular file."""
        try:
            self.stat()
        except OSError:
            return False
        return True

    def stat(self) -> os.stat_result:
        """Return the file's status, including its size and times."""
        with self.folder.opened() as folder:
            return folder.check_file(self.name)

    def descriptor(self, flags: int, mode: int = 0o666) -> int:
        """Open the file as `os.open` does and return its descriptor."""
        with self.folder.opened() as folder:
            return folder.open(self.name, flags, mode)

    def open(self, most_bytes: int) -> BinaryIO:
        """Open the file for reading; raise `OSError` if it is larger than ``most_bytes``."""
        file = os.fdopen(self.descriptor(os.O_RDONLY), "rb")
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
        with self.folder.opened() as folder:
            with suppress(FileNotFoundError):
                folder.check_file(self.name)
                folder.unlink(self.name)
            return os.fdopen(folder.open(self.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")

    def write(
        self,
        fill: Callable[[BinaryIO], object],
        *,
        waits_for_disk: bool = True,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        """Write the file atomically; if that fails, an existing file is unchanged.

        Parameters
        ----------
        fill : callable
            Writes the content to a binary file.
        waits_for_disk : bool
            Whether to flush the content to disk so that it survives a power loss, which may take
            seconds.
        check : callable
            Called after everything is written, just before an existing file is replaced; an
            exception prevents the replacement.
        """
        with self.folder.opened() as folder:
            before = None
            with suppress(FileNotFoundError):
                before = folder.check_replaceable(self.name)
            with suppress(OSError):
                _remove_temporary_files(folder)
            temporary_name, descriptor = _create_temporary_file(folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    fill(file)
                    file.flush()
                    if waits_for_disk:
                        os.fsync(file.fileno())
                    if sys.platform != "win32":
                        if before:
                            os.fchmod(file.fileno(), before.st_mode & folder.most)
                        if not os.fstat(file.fileno()).st_nlink:  # it is unnamed
                            folder.give_name(
                                file.fileno(), temporary_name, waits_for_disk=waits_for_disk
                            )
                        check()
                        folder.replace(
                            temporary_name, self.name
                        )  # while the temporary file is locked
                if sys.platform == "win32":  # an open file cannot be renamed on Windows
                    check()
                    folder.replace(temporary_name, self.name)
            finally:
                with suppress(OSError):
                    folder.unlink(temporary_name)

    def append(self, content: bytes) -> None:
        """Append bytes; if that fails, the file is truncated to its previous length."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with os.fdopen(self.descriptor(flags), "ab", buffering=0) as file:
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
        os.close(self.descriptor(os.O_WRONLY | os.O_CREAT))

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove the file; if it is a link, the link and not its target."""
        with self.folder.opened() as folder:
            try:
                folder.unlink(self.name)
            except FileNotFoundError:
                if not missing_ok:
                    raise


def _create_temporary_file(folder: _OpenFolder) -> tuple[str, int]:
    """Create a temporary file, locked until it is closed; return its name and descriptor.

    If possible, it is unnamed until it is complete, so that a killed program leaves nothing behind.
    """
    while True:
        name = f".attention-{secrets.token_hex(4)}.part"  # short: file systems limit name lengths
        nameless = folder.open_nameless()
        if nameless is not None:
            with suppress(OSError):
                _try_lock(nameless)  # no other process can have opened it
            return name, nameless
        descriptor = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            if _try_lock(descriptor) and folder.is_there(name):
                return name, descriptor
        except OSError:  # the file system has no locks, so no process removes it either
            return name, descriptor
        os.close(descriptor)  # another process has just removed it as a leftover


def _remove_temporary_files(folder: _OpenFolder) -> None:
    for name in filter(_TEMPORARY_NAME.fullmatch, folder.names()):
        with suppress(OSError):
            if not stat.S_ISREG(folder.status(name).st_mode):
                folder.unlink(name)  # a link itself, not its target
                continue
            descriptor = folder.open(name, os.O_RDWR)
            try:
                is_left = _try_lock(descriptor)
                if is_left and sys.platform != "win32":
                    folder.unlink(name)
            finally:
                os.close(descriptor)
            if is_left and sys.platform == "win32":  # an open file cannot be removed on Windows
                folder.unlink(name)


def _try_lock(descriptor: int) -> bool:
    """Lock a temporary file; on Windows, an open one cannot be removed anyway."""
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # depending on the file system
            return False
    return True


def path_of_open(file: BinaryIO, contained: ContainedFile) -> str:
    """Return a path through which a path-based library opens this same open file."""
    path = f"/dev/fd/{file.fileno()}"
    return path if os.path.exists(path) else str(contained.path)  # noqa: PTH110


def leads_elsewhere(root: Path, path: Path) -> bool:
    """Whether a path below a folder leaves it through a link."""
    path, real = path.absolute(), os.path.realpath(root)
    for parent in path.parents:
        if os.path.realpath(parent) == real:
            below = path.relative_to(parent)
            ways = (parent / way for way in (below, *below.parents[:-1]))
            return any(_is_link(way.lstat()) for way in ways if os.path.lexists(way))
    return False
