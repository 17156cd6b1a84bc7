"""Write a run's weights as safetensors, which torch, JAX and other libraries load."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from msgspec.structs import replace
from safetensors.numpy import save

from visualizer.attention.masks import Masking, allowed_by
from visualizer.attention.mechanisms import Mechanism, mechanism_of
from visualizer.attention.spec import Mask
from visualizer.errors import InputError
from visualizer.export.data.json_writer import PROGRAM, plain_spec
from visualizer.number_format import format_count, format_size
from visualizer.session.computation_caption import caption
from visualizer.version import __version__

if TYPE_CHECKING:
    from visualizer.attention.run import Run


MASK_CELL = 4
"""Bytes per mask cell."""
MAX_MASK_BYTES = 2**29


def write_safetensors(run: Run, file: BinaryIO) -> None:
    """Write the weights and masks under the names of the book's ``state_dict``.

    The book's class for the mechanism loads the file with ``load_state_dict(strict=True)``, if it
    is created with the sizes of the spec and a ``context_length`` equal to the number of tokens.
    The metadata are ``program``, ``version``, ``caption`` and ``spec``, which is JSON (see
    `plain_spec`).

    Raises
    ------
    InputError
        When the module has no weights, or its masks are too large.
    """
    trace = run.trace
    names = mask_names(run)
    _check_masks(run, len(names))
    # safetensors writes memory in its storage order, so transposed views would be scrambled.
    arrays = {name: np.ascontiguousarray(trace.read(name)) for name in weights_in(run)}
    if names:
        arrays |= dict.fromkeys(names, forbidden_cells(run))
    said = {
        "program": PROGRAM,
        "version": __version__,
        "caption": caption(run),
        "spec": json.dumps(plain_spec(trace.spec), allow_nan=False),
    }
    file.write(save(arrays, said))


def _check_masks(run: Run, count: int) -> None:
    tokens = run.trace.tokens
    size = count * tokens**2 * MASK_CELL
    if size > MAX_MASK_BYTES:
        sentence = (
            f"The book’s module contains {format_count(count, 'mask')} of {tokens:,} "
            f"× {tokens:,} cells, which take {format_size(size)}. Use a shorter text, "
            "or export as NPZ, which contains the weights without masks."
        )
        raise InputError("export", sentence)


def weights_in(run: Run) -> tuple[str, ...]:
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
    if spec.mask is Mask.NONE and mechanism_of(spec) not in _MASKED:
        return ()
    before = (name.partition("W_query")[0] for name in weights_in(run) if "W_query" in name)
    return tuple(f"{module}mask" for module in dict.fromkeys(before)) or ("mask",)


def forbidden_cells(run: Run) -> np.ndarray:
    """Return the mask as the book's buffer has it: float32 [query, key], 1 where forbidden."""
    unpadded = replace(run.trace.spec, lengths=())
    return (~allowed_by(Masking.of(unpadded), run.trace.tokens)).astype(np.float32)
