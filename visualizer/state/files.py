"""Files that are whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np

from visualizer.attention.spec import InputError

if TYPE_CHECKING:
    from visualizer.attention.run import Run


def write(path: Path, content: bytes) -> None:
    """Write a file; what was there stays whole if that fails.

    Raises
    ------
    InputError
        With the system's reason, when the folder cannot be written or the disk is full.
    """
    name = ""
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as beside:
            name = beside.name
            beside.write(content)
            beside.flush()
            os.fsync(beside.fileno())
        Path(name).chmod(_mode(path))
        Path(name).replace(path)
    except OSError as error:
        with suppress(OSError):
            Path(name).unlink()
        reason = error.strerror or str(error)
        sentence = f"“{path.name}” could not be written to {path.parent}: {reason}."
        raise InputError("export", sentence) from error


def _mode(path: Path) -> int:
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def npz(run: Run) -> bytes:
    """Write a run as NPZ: one array a stage under the stage's name, and the tokens.

    Arrays of a batch have it as their first axis; the tokens are [token] or [text, token].
    """
    arrays: dict[str, Any] = {name: run.trace.read(name) for name in run.trace.names}
    arrays["tokens"] = np.array(run.texts if run.trace.batch else run.texts[0])
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
