"""Converts the parameters of a run to the custom weights of a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import (
    BIAS_SUFFIX,
    NORM_LAYERS,
    OWN_BIASES,
    OWN_LAYERS,
    PROJECTION_LAYERS,
    NumberMatrix,
    Projection,
)
from visualizer.attention.stages import parameter_names
from visualizer.errors import InputError

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.trace import Trace

MAX_ELEMENTS = 4_000_000


def custom_weights_of(trace: Trace) -> tuple[tuple[str, NumberMatrix], ...]:
    """Return the weights of a run in the form of a spec's custom weights.

    Returns
    -------
    tuple of (name, NumberMatrix)
        Weights in the layout of a spec, with all heads concatenated, and the custom biases. Empty
        if the run has no weights.

    Raises
    ------
    InputError
        If there are more weights than a document may contain.
    """
    sizes = trace.spec.weight_sizes
    check_weight_count(sum(rows * columns for rows, columns in sizes.values()))
    kept = ((name, NumberMatrix.from_array(read_weights(trace, name))) for name in sizes)
    biases = (own for own in trace.spec.used_custom_weights if own[0] in OWN_BIASES)
    return (*kept, *biases)


def are_all_weights_custom(spec: AttentionSpec) -> bool:
    """Return whether all weights of a spec are custom weights."""
    own = {name for name, _ in spec.used_custom_weights}
    return bool(own) and own.issuperset(spec.weight_names)


def check_weight_count(count: int) -> None:
    """Raise `InputError` if there are more weights than a document may contain."""
    if count > MAX_ELEMENTS:
        limit = f"at most {MAX_ELEMENTS:,} can be saved"
        sentence = f"There are {count:,} weights; {limit}. Use smaller sizes."
        raise InputError("own_weights", sentence)


def read_weights(
    trace: Trace, name: str, rows: slice = slice(None), columns: slice = slice(None)
) -> np.ndarray:
    """Read a block of a weight matrix of a run, by its name in the spec's custom weights.

    Returns
    -------
    numpy.ndarray
        Block [row, column] of the matrix W in ``x @ W``, with all heads concatenated; a norm has a
        single row.
    """
    spec, layer = trace.spec, OWN_LAYERS[name]
    if layer in NORM_LAYERS:
        (norm, _) = parameter_names(spec, layer)
        return trace.read(norm, (columns,))[None][rows]
    height, width = spec.weight_sizes[name]
    first, last, _ = columns.indices(width)
    is_raw = spec.projection is Projection.UNIFORM and layer in PROJECTION_LAYERS
    names = [each for each in parameter_names(spec, layer) if not each.endswith(".bias")]
    each, parts = width // len(names), []
    for number, part in enumerate(names):
        low, high = max(first - number * each, 0), min(last - number * each, each)
        if low < high:
            across = slice(low, high)
            read = trace.read(part, (rows, across) if is_raw else (across, rows))
            parts.append(read if is_raw else read.T)
    if not parts:
        return np.empty((len(range(*rows.indices(height))), 0))
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def read_bias(trace: Trace, name: str) -> np.ndarray:
    """Read a bias of a run, a read-only array [width], by its name in the spec's custom biases."""
    names = parameter_names(trace.spec, OWN_BIASES[name])
    parts = [trace.read(part) for part in names if part.endswith(BIAS_SUFFIX)]
    found = parts[0] if len(parts) == 1 else np.concatenate(parts)
    found.flags.writeable = False
    return found
