"""Recovery files: copies of unsaved documents, kept until they are saved or discarded.

Each running program has its own recovery file, and a lock that the system releases when the process
ends. If the lock is free, the program that wrote the recovery file has crashed.
"""

from __future__ import annotations

import io
import json
import os
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from visualizer.documents.document_file import document_bytes, read_document
from visualizer.errors import InputError, system_error_reason
from visualizer.storage.atomic_file import write_atomically
from visualizer.storage.file_lock import FileLock
from visualizer.storage.regular_file import FileVersion, open_regular_file
from visualizer.storage.symlink_safe_folder import SymlinkSafeFolder, make_private_folder

if TYPE_CHECKING:
    from visualizer.documents.document_file import SavedDocument
    from visualizer.session.document import Document
    from visualizer.session.view import View

_RECOVERY, _LOCK = ".recovery", ".lock"
_MAX_LINE_BYTES = 2**16


class RecoveryFile:
    """The recovery file of one running program.

    Parameters
    ----------
    folder : Path
        Folder of all recovery files; it is created if it does not exist.

    Raises
    ------
    InputError
        With field ``recovery`` if the folder is not writable.
    """

    def __init__(self, folder: Path) -> None:
        try:
            make_private_folder(folder)
            self._lock: FileLock | None = _create_lock(folder)
        except OSError as error:
            reason = system_error_reason(error)
            sentence = f"Unsaved changes cannot be backed up in {folder}: {reason}."
            raise InputError("recovery", sentence) from error
        name = self._lock.path.with_suffix(_RECOVERY).name
        self._file = SymlinkSafeFolder(folder, is_private=True).file(name)

    def write(
        self,
        document: Document,
        view: View,
        path: Path | None = None,
        version: FileVersion | None = None,
    ) -> None:
        """Write a document, and replace the document that was stored before.

        Parameters
        ----------
        path : Path, optional
            The file that the document was opened from or saved to.
        version : FileVersion, optional
            Version of that file when it was last opened or saved.

        Raises
        ------
        InputError
            If the document cannot be written; the document stored before is then unchanged.
        """
        origin = json.dumps((str(path.absolute()), version) if path else None)
        content = origin.encode() + b"\n" + document_bytes(document, view)
        write_atomically(self._file, lambda file: file.write(content))

    def delete(self) -> None:
        """Remove the file when everything has been saved or discarded."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the file and its lock when the program exits normally."""
        self.delete()
        if self._lock:
            self._lock.release()
            self._lock = None


def _create_lock(folder: Path) -> FileLock:
    while True:
        try:
            return FileLock(folder / f"{secrets.token_hex(8)}{_LOCK}")
        except (
            BlockingIOError,
            FileNotFoundError,
        ):  # another program's `find_crash_recovery_files` has just removed the file
            if not folder.is_dir():
                raise


class CrashRecoveryFile(Struct, frozen=True):
    """The recovery file of a program that crashed.

    Parameters
    ----------
    file : Path
        The recovery file.
    when : datetime
        Time at which the file was last written, in UTC.
    path : Path or None
        The file that the document was opened from or saved to.
    version : FileVersion or None
        Version of that file when the crashed program last read or wrote it; None if unknown.
    """

    file: Path
    when: datetime
    path: Path | None
    version: FileVersion | None = None

    def read(self) -> SavedDocument:
        """Read the document.

        Raises
        ------
        InputError
            With field ``open`` if the document cannot be read.
        """
        try:
            with open_regular_file(self.file) as file:
                file.readline()
                content = file.read()
        except OSError as error:
            sentence = (
                "The backup of the unsaved changes could not be opened: "
                f"{system_error_reason(error)}."
            )
            raise InputError("open", sentence) from error
        except MemoryError as error:
            sentence = "There is not enough memory to open the backup of the unsaved changes."
            raise InputError("open", sentence) from error
        return replace(read_document(io.BytesIO(content)), version=self.version)

    def delete(self) -> None:
        """Delete the recovery file."""
        with suppress(OSError):
            self.file.unlink(missing_ok=True)


def find_crash_recovery_files(folder: Path) -> list[CrashRecoveryFile]:
    """Return the recovery files of crashed programs, newest first.

    Files of running programs, including this one, are skipped. Stale locks and partially written
    files are removed.
    """
    found = []
    SymlinkSafeFolder(folder).remove_temporary_files()
    with suppress(OSError):
        for file in [*folder.glob(f"*{_RECOVERY}"), *folder.glob(f"*{_LOCK}")]:
            if _is_abandoned(file.with_suffix(_LOCK)) and file.suffix == _RECOVERY:
                found += _read_recovery_file(file)
    return sorted(found, key=lambda left: left.when, reverse=True)


def _is_abandoned(path: Path) -> bool:
    try:
        FileLock(path).release()
    except OSError:
        return False
    return True


def _read_recovery_file(file: Path) -> list[CrashRecoveryFile]:
    try:
        with open_regular_file(file) as opened:
            when = datetime.fromtimestamp(os.fstat(opened.fileno()).st_mtime, UTC)
            path, version = _parse_origin_line(opened.readline(_MAX_LINE_BYTES))
    except OSError:  # not a file, or another program has removed it in the meantime
        return []
    except (ValueError, RecursionError, msgspec.MsgspecError):
        path, version = "", None
    return [CrashRecoveryFile(file, when, Path(path) if path else None, version)]


def _parse_origin_line(line: bytes) -> tuple[str, FileVersion | None]:
    """Return the path and version of the document's file; older programs stored only the path."""
    of = msgspec.convert(json.loads(line), str | tuple[str, FileVersion | None] | None)
    return of if isinstance(of, tuple) else (of or "", None)
