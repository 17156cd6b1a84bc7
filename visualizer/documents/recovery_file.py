"""What one works on, kept beside the file that it is of, until it is saved or thrown away.

Each running program has a file of its own, and a lock that the system opens when the program ends.
A file whose lock is open was left behind by a program that ended without having been asked to.
"""

from __future__ import annotations

import io
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from visualizer.documents.document_file import document_bytes, read_document
from visualizer.errors import InputError
from visualizer.storage.atomic_file import write
from visualizer.storage.file_lock import FileLock

if TYPE_CHECKING:
    from typing import BinaryIO

    from visualizer.documents.document_file import SavedDocument
    from visualizer.session.document import Document
    from visualizer.session.view import View

_KEPT, _LOCK = ".recovery", ".lock"
_LONGEST_LINE = 2**16


class RecoveryFile:
    """Keeps what one running program works on.

    Parameters
    ----------
    folder : Path
        Where; made if it is not there.

    Raises
    ------
    InputError
        Of ``recovery``, when the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock: FileLock | None = _new_lock(folder)
        except OSError as error:
            reason = error.strerror or str(error)
            sentence = f"Nothing can be kept for the case of a crash in {folder}: {reason}."
            raise InputError("recovery", sentence) from error
        self._file = self._lock.path.with_suffix(_KEPT)

    def keep(self, document: Document, view: View, path: Path | None = None) -> None:
        """Keep a document in place of what was kept before.

        Parameters
        ----------
        path : Path, optional
            The file that it was opened from or saved to.

        Raises
        ------
        InputError
            When it cannot be written; what was kept before still is.
        """
        of = json.dumps(str(path.absolute()) if path else None)
        content = of.encode() + b"\n" + document_bytes(document, view)
        write(self._file, partial(_fill, content))

    def forget(self) -> None:
        """Keep nothing, as all has been saved or thrown away."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    def close(self) -> None:
        """End as one should: nothing is left behind."""
        self.forget()
        if self._lock:
            self._lock.release()
            self._lock = None


def _new_lock(folder: Path) -> FileLock:
    while True:
        try:
            return FileLock(folder / f"{secrets.token_hex(8)}{_LOCK}")
        except (BlockingIOError, FileNotFoundError):  # one who looked for crashes was quicker
            if not folder.is_dir():
                raise


def _fill(content: bytes, file: BinaryIO) -> None:
    file.write(content)


@dataclass(frozen=True, slots=True)
class RecoveredDocument:
    """What a program that crashed left behind.

    Parameters
    ----------
    file : Path
        Where it is kept.
    when : datetime
        When it was kept last, in UTC.
    path : Path or None
        The file that it was opened from or saved to.
    """

    file: Path
    when: datetime
    path: Path | None

    def saved(self) -> SavedDocument:
        """Read what was kept.

        Raises
        ------
        InputError
            Of ``open``, when it cannot be read.
        """
        try:
            _, _, content = self.file.read_bytes().partition(b"\n")
        except OSError as error:
            reason = error.strerror or str(error)
            sentence = f"What was kept could not be opened: {reason}."
            raise InputError("open", sentence) from error
        return read_document(io.BytesIO(content))

    def forget(self) -> None:
        """Throw it away."""
        with suppress(OSError):
            self.file.unlink(missing_ok=True)


def left_behind(folder: Path) -> list[RecoveredDocument]:
    """List what programs that crashed were working on, newest first.

    What a running program keeps is not among it, nor is what this one does. Locks that nobody
    needs any more are removed.
    """
    found = []
    with suppress(OSError):
        for file in [*folder.glob(f"*{_KEPT}"), *folder.glob(f"*{_LOCK}")]:
            if _is_abandoned(file.with_suffix(_LOCK)) and file.suffix == _KEPT:
                found += _left(file)
    return sorted(found, key=lambda left: left.when, reverse=True)


def _is_abandoned(path: Path) -> bool:
    try:
        FileLock(path).release()
    except OSError:
        return False
    return True


def _left(file: Path) -> list[RecoveredDocument]:
    try:
        when = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        with file.open("rb") as opened:
            of = json.loads(opened.readline(_LONGEST_LINE))
    except OSError:  # another program has taken it in the meantime
        return []
    except (ValueError, RecursionError):
        of = None
    return [RecoveredDocument(file, when, Path(of) if isinstance(of, str) and of else None)]
