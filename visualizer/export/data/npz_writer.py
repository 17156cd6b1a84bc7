"""Write a run's arrays as NPZ, the archive format of NumPy."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from visualizer.attention.importers.numpy_files import DOCUMENT
from visualizer.export.data.json_writer import plain_spec
from visualizer.progress_callback import Progress, ProgressCounter, no_progress

if TYPE_CHECKING:
    from visualizer.attention.run import Run


def npz(run: Run, file: BinaryIO, progress: Progress = no_progress, document: bytes = b"") -> None:
    """Write a run as NPZ: an array for each stage under its name, the tokens, weights and spec.

    The first axis of a batch's arrays is the batch. Tokens are [token] or [text, token]; for
    captured attention they are [query], with ``key_tokens`` if the keys are of another text. If the
    queries are the last tokens of the keys, the tokens are those of the whole text. A NUL in a
    token is written as ␀, because NumPy drops it at the end of a token. Weights are named
    ``parameters/`` followed by their names in the book's ``state_dict``; the spec is a JSON string.

    The bytes of the document file are the first entry, ``document``, so that the file can be
    reopened. Captured attention has no such entry and is reopened from its arrays. If a text is too
    long to keep its matrices in memory, only the stages before the scores are written.
    """
    names = [stage.name for stage in run.trace.held_stages]
    tell = ProgressCounter(progress, len(names) + len(run.trace.parameters))
    with zipfile.ZipFile(file, "w") as archive:
        if document:
            _add_array(archive, DOCUMENT, np.frombuffer(document, np.uint8))
        for name in names:  # copy one stage at a time from a GPU
            _add_array(archive, name, run.trace.read(name))
            tell()
        texts = run.compared_texts if run.is_continuation else run.texts
        seen = [_without_nul(text) for text in texts]
        _add_array(archive, "tokens", np.array(seen if len(seen) > 1 else seen[0]))
        if run.key_tokens and run.key_tokens != texts[0]:
            _add_array(archive, "key_tokens", np.array(_without_nul(run.key_tokens)))
        for name in run.trace.parameters:
            _add_array(archive, f"parameters/{name}", run.trace.read(name))
            tell()
        if run.trace.has_module:
            _add_array(
                archive, "spec", np.array(json.dumps(plain_spec(run.trace.spec), allow_nan=False))
            )


def _without_nul(tokens: tuple[str, ...]) -> list[str]:
    return [token.replace("\0", "␀") for token in tokens]


def _add_array(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)
