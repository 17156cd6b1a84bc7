"""Write a run's arrays as NPZ, and its weights as safetensors."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from msgspec.structs import replace
from safetensors.numpy import save

from visualizer.attention.importers.numpy_files import DOCUMENT_MEMBER
from visualizer.attention.masks import MaskingSpec, cached_allowed_cells
from visualizer.attention.mechanisms import Mechanism, mechanism_of
from visualizer.attention.spec import MaskKind
from visualizer.errors import InputError
from visualizer.export.data.json_writer import PROGRAM_NAME, spec_to_json
from visualizer.format import format_count, format_size
from visualizer.progress import Progress, ProgressCounter, no_progress
from visualizer.session.computation_caption import caption
from visualizer.version import __version__

if TYPE_CHECKING:
    from visualizer.attention.run import Run

MASK_CELL_BYTES = 4
"""Bytes per mask cell."""
MAX_MASK_BYTES = 2**29


def write_safetensors(run: Run, file: BinaryIO) -> None:
    """Write the weights and masks under the names of the book's ``state_dict``.

    The book's class for the mechanism loads the file with ``load_state_dict(strict=True)``, if it
    is created with the sizes of the spec and a ``context_length`` equal to the number of tokens.
    The metadata are ``program``, ``version``, ``caption`` and ``spec``, which is JSON (see
    `spec_to_json`).

    Raises
    ------
    InputError
        When the module has no weights, or its masks are too large.
    """
    trace = run.trace
    names = mask_names(run)
    _check_masks(run, len(names))
    # safetensors writes memory in its storage order, so transposed views would be scrambled.
    arrays = {name: np.ascontiguousarray(trace.read(name)) for name in weight_names(run)}
    if names:
        arrays |= dict.fromkeys(names, mask_buffer(run))
    said = {
        "program": PROGRAM_NAME,
        "version": __version__,
        "caption": caption(run),
        "spec": json.dumps(spec_to_json(trace.spec), allow_nan=False),
    }
    file.write(save(arrays, said))


def _check_masks(run: Run, count: int) -> None:
    tokens = run.trace.tokens
    size = count * tokens**2 * MASK_CELL_BYTES
    if size > MAX_MASK_BYTES:
        sentence = (
            f"The book’s module contains {format_count(count, 'mask')} of {tokens:,} "
            f"× {tokens:,} cells, which take {format_size(size)}. Use a shorter text, "
            "or export as NPZ, which contains the weights without masks."
        )
        raise InputError("export", sentence)


def weight_names(run: Run) -> tuple[str, ...]:
    """Return the names of the weights.

    Raises
    ------
    InputError
        When the module has no weights.
    """
    if not run.trace.has_module:
        sentence = f"{run.source} contains attention but no module weights. Export it as NPZ."
        raise InputError("export", sentence)
    if not run.trace.parameters:
        sentence = "This module has no trainable weights. Choose another mechanism."
        raise InputError("export", sentence)
    return tuple(run.trace.parameters)


_MASKED = frozenset({Mechanism.STACKED, Mechanism.MULTI_HEAD})
"""Mechanisms that always have a mask in the book's classes."""


def mask_names(run: Run) -> tuple[str, ...]:
    """Return the names of the mask buffers in the book's class: one, or one per head."""
    spec = run.trace.spec
    if spec.mask is MaskKind.NONE and mechanism_of(spec) not in _MASKED:
        return ()
    before = (name.partition("W_query")[0] for name in weight_names(run) if "W_query" in name)
    return tuple(f"{module}mask" for module in dict.fromkeys(before)) or ("mask",)


def mask_buffer(run: Run) -> np.ndarray:
    """Return the mask as the book's buffer has it: float32 [query, key], 1 where forbidden."""
    unpadded = replace(run.trace.spec, lengths=())
    return (~cached_allowed_cells(MaskingSpec.of(unpadded), run.trace.tokens)).astype(np.float32)


def write_npz(
    run: Run, file: BinaryIO, progress: Progress = no_progress, document: bytes = b""
) -> None:
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
    names = [stage.name for stage in run.trace.stored_stages]
    tell = ProgressCounter(progress, len(names) + len(run.trace.parameters))
    with zipfile.ZipFile(file, "w") as archive:
        if document:
            _add_array(archive, DOCUMENT_MEMBER, np.frombuffer(document, np.uint8))
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
                archive, "spec", np.array(json.dumps(spec_to_json(run.trace.spec), allow_nan=False))
            )


def _without_nul(tokens: tuple[str, ...]) -> list[str]:
    return [token.replace("\0", "␀") for token in tokens]


def _add_array(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)
