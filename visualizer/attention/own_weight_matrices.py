"""Conversion between a spec's custom matrices and tensors or module parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from visualizer.attention.spec import (
    BIAS,
    LAYERS,
    NORMS,
    OWN_BIASES,
    OWN_LAYERS,
    AttentionSpec,
    Projection,
)
from visualizer.attention.stages import parameter_names
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.spec import NumberMatrix


def own_tensor(
    field: str, own: NumberMatrix, spec: AttentionSpec, device: torch.device
) -> torch.Tensor:
    """Convert the custom matrix of a spec's field to a tensor of the spec's dtype."""
    dtype: torch.dtype = getattr(torch, spec.dtype)
    tensor = torch.tensor(own.array(), dtype=dtype, device=device)
    if tensor.isfinite().all():
        return tensor
    sentence = f"Some of the numbers are out of range for {spec.dtype}."
    raise InputError(field, sentence, (field, () if field == "own_weights" else None))


def own_parameters(spec: AttentionSpec, device: torch.device) -> dict[str, torch.Tensor]:
    """Convert custom weights to the layout of the parameters; the inverse of `as_matrix`."""
    found: dict[str, torch.Tensor] = {}
    for own, matrix in spec.counting_weights:
        is_bias = own in OWN_BIASES
        layer = OWN_BIASES[own] if is_bias else OWN_LAYERS[own]
        of_layer = parameter_names(spec, layer)
        names = [name for name in of_layer if name.endswith(BIAS) == is_bias]
        parts = own_tensor("own_weights", matrix, spec, device).chunk(len(names), dim=1)
        is_raw = spec.projection is Projection.UNIFORM and layer in LAYERS
        for name, part in zip(names, parts, strict=True):
            is_vector = is_bias or layer in NORMS
            laid_out = part[0] if is_vector else part if is_raw else part.T
            # Same strides as random weights: other strides change the last digits of the results.
            found[name] = laid_out.clone(memory_format=torch.contiguous_format)
    return found


def as_matrix(
    spec: AttentionSpec, parameters: Mapping[str, torch.Tensor], layer: str
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Join the weights of a layer's heads into one matrix [width, d_in] and one bias [width]."""
    names = parameter_names(spec, layer)
    weights = [parameters[name] for name in names if not name.endswith(".bias")]
    biases = [parameters[name] for name in names if name.endswith(".bias")]
    if spec.projection is Projection.UNIFORM and layer in LAYERS:
        weights = [weight.T for weight in weights]
    return _join_heads(weights), _join_heads(biases) if biases else None


def _join_heads(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
