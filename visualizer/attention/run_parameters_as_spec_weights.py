"""The parameters of a run as the own weights of a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import (
    BIAS,
    LAYERS,
    NORMS,
    OWN_BIASES,
    OWN_LAYERS,
    NumberMatrix,
    Projection,
)
from visualizer.attention.stages import parameter_names
from visualizer.errors import InputError

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.trace import Trace

MAX_ELEMENTS = 4_000_000


def weights_as_own(trace: Trace) -> tuple[tuple[str, NumberMatrix], ...]:
    """Read a run's weights in the form of a spec's own weights.

    Returns
    -------
    tuple of (name, NumberMatrix)
        In the layout of a spec, all heads side by side, independent of the run's layout; of the
        biases only own ones. Empty where a run has no weights.

    Raises
    ------
    InputError
        When there are more than a document may hold.
    """
    sizes = trace.spec.weight_sizes
    check_count(sum(rows * columns for rows, columns in sizes.values()))
    kept = ((name, NumberMatrix.of(weights_of(trace, name))) for name in sizes)
    biases = (own for own in trace.spec.counting_weights if own[0] in OWN_BIASES)
    return (*kept, *biases)


def are_kept(spec: AttentionSpec) -> bool:
    """Whether all weights of a spec are own weights."""
    own = {name for name, _ in spec.counting_weights}
    return bool(own) and own.issuperset(spec.weight_names)


def check_count(count: int) -> None:
    """Raise `InputError` for more weights than a document may hold."""
    if count > MAX_ELEMENTS:
        sentence = f"Of {count:,} weights only {MAX_ELEMENTS:,} could be kept. Use smaller sizes."
        raise InputError("own_weights", sentence)


def weights_of(
    trace: Trace, name: str, rows: slice = slice(None), columns: slice = slice(None)
) -> np.ndarray:
    """Read a block of a run's weights by its name among a spec's own weights.

    Returns
    -------
    numpy.ndarray
        [row, column] of ``x @ W``, all heads side by side; of a norm one row.
    """
    spec, layer = trace.spec, OWN_LAYERS[name]
    if layer in NORMS:
        (norm, _) = parameter_names(spec, layer)
        return trace.read(norm, (columns,))[None][rows]
    height, width = spec.weight_sizes[name]
    first, last, _ = columns.indices(width)
    is_raw = spec.projection is Projection.UNIFORM and layer in LAYERS
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


def biases_of(trace: Trace, name: str) -> np.ndarray:
    """Read a bias of a run by its name among a spec's own biases, read-only [width]."""
    names = parameter_names(trace.spec, OWN_BIASES[name])
    parts = [trace.read(part) for part in names if part.endswith(BIAS)]
    found = parts[0] if len(parts) == 1 else np.concatenate(parts)
    found.flags.writeable = False
    return found
