"""Files that are whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from visualizer.attention.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

PART = ".part"
"""How the names of files end that are not whole yet."""


def write(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file; what was there stays whole if that fails.

    Parameters
    ----------
    path : Path
        A file, there or not yet; where it is a link, the file it leads to is written.
    fill : callable
        Writes the content into a file that is open for writing bytes.

    Raises
    ------
    InputError
        Of ``export`` with the system's reason, when the folder cannot be written or the disk is
        full; of ``memory`` when the content does not fit into it.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{secrets.token_hex(4)}{PART}")  # short: names have a longest
    try:
        with beside.open("xb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            beside.chmod(target.stat().st_mode & 0o777)
        beside.replace(target)
    except OSError as error:
        raise InputError("export", _refusal(path, target, error)) from error
    except MemoryError as error:
        sentence = f"There is not enough memory to write “{path.name}”. Use a shorter text."
        raise InputError("memory", sentence) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _refusal(path: Path, target: Path, error: OSError) -> str:
    is_elsewhere = os.path.realpath(path.parent) != str(target.parent)
    folder = target.parent if is_elsewhere or path.parent == Path() else path.parent
    reason = error.strerror or str(error)
    return f"“{path.name}” could not be written to {folder}: {reason}."
