"""Write a run's weights as safetensors, which torch, JAX and other libraries load."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from safetensors.numpy import save

from visualizer.errors import InputError
from visualizer.export.data.json_writer import PROGRAM, plain_spec
from visualizer.session.computation_caption import caption
from visualizer.version import __version__

if TYPE_CHECKING:
    from visualizer.attention.run import Run


def write_safetensors(run: Run, file: BinaryIO) -> None:
    """Write the weights under the names of the book's ``state_dict``, with the spec as metadata.

    The metadata are ``program``, ``version``, ``caption`` and ``spec``, the last as JSON (see
    `plain_spec`). The book's causal modules also keep their mask in their ``state_dict``, of the
    context length's size: it is not a weight and not in the file, so load with ``strict=False``.

    Raises
    ------
    InputError
        When the module has no weights.
    """
    trace = run.trace
    # It writes memory in its present order, so transposed views would be mixed up.
    arrays = {name: np.ascontiguousarray(trace.read(name)) for name in weights_in(run)}
    said = {
        "program": PROGRAM,
        "version": __version__,
        "caption": caption(run),
        "spec": json.dumps(plain_spec(trace.spec), allow_nan=False),
    }
    file.write(save(arrays, said))


def weights_in(run: Run) -> tuple[str, ...]:
    """Return the names of the weights.

    Raises
    ------
    InputError
        When the module has no weights.
    """
    if not run.trace.has_module:
        sentence = f"{run.source} has attention and no weights to write. Export it as NPZ."
        raise InputError("export", sentence)
    if not run.trace.parameters:
        sentence = "This attention has no weights to write. Choose one with trainable weights."
        raise InputError("export", sentence)
    return tuple(run.trace.parameters)
