"""A layer of a trained model as an attention module of its own; no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from visualizer.attention.choices import (
    Arrangement,
    Mask,
    Mode,
    Normalisation,
    NumberMatrix,
    Projection,
    Scale,
)
from visualizer.attention.spec import AttentionSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

_KINDS = {
    "projection": Projection,
    "arrangement": Arrangement,
    "scale": Scale,
    "normalisation": Normalisation,
    "mask": Mask,
}


def spec_of_layer(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> AttentionSpec:
    """Make the spec that computes a layer's attention, with its input and weights as its own.

    Parameters
    ----------
    values, arrays : mapping
        As `visualizer.language.probing.layer` gives them; choices may be their names.
    """
    fields: dict[str, Any] = dict(values)
    fields.update({name: kind(values[name]) for name, kind in _KINDS.items()})
    weights = {name: NumberMatrix.of(array) for name, array in arrays.items() if name != "input"}
    return AttentionSpec(
        **fields,
        mode=Mode.EVAL,
        own_input=NumberMatrix.of(arrays["input"]),
        own_weights=tuple(weights.items()),
    )
