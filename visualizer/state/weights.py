"""The weights of a run as matrices that another module can compute with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.choices import LAYERS
from visualizer.attention.spec import InputError, NumberMatrix, Projection
from visualizer.attention.stages import parameter_names

if TYPE_CHECKING:
    from visualizer.attention.trace import Trace

MOST = 4_000_000


def kept_weights(trace: Trace) -> tuple[tuple[str, NumberMatrix], ...]:
    """Read a run's weights of queries, keys and values, to be given to a spec as its own.

    Returns
    -------
    tuple of (name, NumberMatrix)
        Each [d_in, width], all heads side by side, whatever layout the run has them in; biases are
        left out. Empty without projection.

    Raises
    ------
    InputError
        When there are more than a document should hold.
    """
    spec = trace.spec
    if spec.projection is Projection.NONE:
        return ()
    count = len(LAYERS) * spec.d_in * spec.width
    if count > MOST:
        sentence = f"Of {count:,} weights only {MOST:,} could be kept. Use smaller sizes."
        raise InputError("own_weights", sentence)
    return tuple((layer, NumberMatrix.of(_matrix(trace, layer))) for layer in LAYERS)


def _matrix(trace: Trace, layer: str) -> np.ndarray:
    is_linear = trace.spec.projection is Projection.LINEAR
    names = [name for name in parameter_names(trace.spec, layer) if not name.endswith(".bias")]
    parts = [trace.read(name) for name in names]
    return np.concatenate([part.T if is_linear else part for part in parts], axis=1)
