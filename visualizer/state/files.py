"""Files that are whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import json
import os
import secrets
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from visualizer.attention.spec import InputError
from visualizer.state.progress import Counted, Progress, quietly
from visualizer.state.written.specs import plain_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run


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
    beside = target.with_name(f".{secrets.token_hex(4)}.part")  # short: names have a longest
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


def npz(run: Run, file: BinaryIO, progress: Progress = quietly) -> None:
    """Write a run as NPZ: one array a stage under the stage's name, the tokens, weights and spec.

    Arrays of a batch have it as their first axis; the tokens are [token] or [text, token], and
    those of captured attention [query], with ``key_tokens`` where these are others. A NUL in a
    token is written as ␀, as numpy would lose it at a token's end. The weights are
    ``parameters/`` and their names in the book's ``state_dict``; the spec is one string of JSON.
    """
    tell = Counted(progress, len(run.trace.names) + len(run.trace.parameters))
    with zipfile.ZipFile(file, "w") as archive:
        for name in run.trace.names:  # of a trace on a GPU, one stage at a time is copied
            _add(archive, name, run.trace.read(name))
            tell()
        seen = [_without_nul(text) for text in run.texts]
        is_batch = run.trace.batch and not run.captured
        _add(archive, "tokens", np.array(seen if is_batch else seen[0]))
        if run.key_tokens and run.key_tokens != run.texts[0]:
            _add(archive, "key_tokens", np.array(_without_nul(run.key_tokens)))
        for name in run.trace.parameters:
            _add(archive, f"parameters/{name}", run.trace.read(name))
            tell()
        if run.captured is None:
            _add(archive, "spec", np.array(json.dumps(plain_spec(run.trace.spec), allow_nan=False)))


def _without_nul(tokens: tuple[str, ...]) -> list[str]:
    return [token.replace("\0", "␀") for token in tokens]


def _add(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)
