"""The weights of a spec as tensors, initialized from the seed or taken from custom matrices.

Source: Raschka 2024, §3.4 to §3.6; `torch.nn.Linear.reset_parameters` for the distribution.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from visualizer.attention.spec import (
    BIAS_SUFFIX,
    NORM_LAYERS,
    OWN_BIASES,
    OWN_LAYERS,
    PROJECTION_LAYERS,
    AttentionSpec,
    PositionKind,
    Projection,
)
from visualizer.attention.stages import parameter_names
from visualizer.attention.token_embeddings import sample_position_vectors
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.spec import NumberMatrix


def convert_custom_matrix(
    field: str, own: NumberMatrix, spec: AttentionSpec, device: torch.device
) -> torch.Tensor:
    """Convert the custom matrix in a field of a spec to a tensor of the spec's dtype."""
    dtype: torch.dtype = getattr(torch, spec.dtype)
    tensor = torch.tensor(own.to_array(), dtype=dtype, device=device)
    if tensor.isfinite().all():
        return tensor
    sentence = f"Some of the numbers are out of range for {spec.dtype}."
    raise InputError(field, sentence, (field, () if field == "own_weights" else None))


def convert_custom_weights(spec: AttentionSpec, device: torch.device) -> dict[str, torch.Tensor]:
    """Convert custom weights to the layout of the parameters, reversing `join_head_weights`."""
    found: dict[str, torch.Tensor] = {}
    for own, matrix in spec.used_custom_weights:
        is_bias = own in OWN_BIASES
        layer = OWN_BIASES[own] if is_bias else OWN_LAYERS[own]
        of_layer = parameter_names(spec, layer)
        names = [name for name in of_layer if name.endswith(BIAS_SUFFIX) == is_bias]
        parts = convert_custom_matrix("own_weights", matrix, spec, device).chunk(len(names), dim=1)
        is_raw = spec.projection is Projection.UNIFORM and layer in PROJECTION_LAYERS
        for name, part in zip(names, parts, strict=True):
            is_vector = is_bias or layer in NORM_LAYERS
            laid_out = part[0] if is_vector else part if is_raw else part.T
            # Strides other than those of random weights change the last digits of the results.
            found[name] = laid_out.clone(memory_format=torch.contiguous_format)
    return found


def join_head_weights(
    spec: AttentionSpec, parameters: Mapping[str, torch.Tensor], layer: str
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Join the weights of a layer's heads into one matrix [width, d_in] and one bias [width]."""
    names = parameter_names(spec, layer)
    weights = [parameters[name] for name in names if not name.endswith(".bias")]
    biases = [parameters[name] for name in names if name.endswith(".bias")]
    if spec.projection is Projection.UNIFORM and layer in PROJECTION_LAYERS:
        weights = [weight.T for weight in weights]
    return _join_heads(weights), _join_heads(biases) if biases else None


def _join_heads(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def initialize_parameters(
    spec: AttentionSpec, tokens: int, device: torch.device
) -> dict[str, torch.Tensor]:
    """Initialize the weights of a spec, keyed by their names in the book's ``state_dict``.

    Random weights are drawn in float32 on the CPU, so that they do not depend on the dtype or the
    device. Custom weights replace random weights without changing the others.

    Raises
    ------
    InputError
        If a custom weight cannot be represented in the spec's dtype.
    """
    generator = torch.Generator().manual_seed(spec.seed)
    drawn: dict[str, torch.Tensor] = {}
    if spec.has_projection:
        drawn |= _initialize_projections(spec, generator)
    if spec.output_projection:
        drawn |= _initialize_linear_layer(
            "out_proj", spec.concatenated_head_width, spec.concatenated_head_width, True, generator
        )
    if spec.has_transformer_block:
        drawn |= _initialize_block(spec, generator)
    if spec.position is PositionKind.LEARNED:
        drawn["position.weight"] = torch.from_numpy(
            sample_position_vectors(tokens, spec.d_in, spec.seed)
        )
    dtype: torch.dtype = getattr(torch, spec.dtype)
    cast = {name: tensor.to(device, dtype) for name, tensor in drawn.items()}
    return cast | convert_custom_weights(spec, device)


def _initialize_projections(
    spec: AttentionSpec, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    drawn: dict[str, torch.Tensor] = {}
    per_layer = [parameter_names(spec, layer) for layer in PROJECTION_LAYERS]
    count = len([name for name in per_layer[0] if not name.endswith(".bias")])
    for head in range(count):
        for layer, names in zip(PROJECTION_LAYERS, per_layer, strict=True):
            name, columns = names[head], spec.weight_sizes[layer][1] // count
            if spec.projection is Projection.UNIFORM:
                drawn[name] = torch.rand(spec.d_in, columns, generator=generator)
            else:
                linear = name.removesuffix(".weight")
                drawn |= _initialize_linear_layer(linear, spec.d_in, columns, spec.bias, generator)
    return drawn


def _initialize_block(spec: AttentionSpec, generator: torch.Generator) -> dict[str, torch.Tensor]:
    width, hidden = spec.d_in, spec.hidden_width
    norms = {
        f"{layer}.{kind}": torch.full((width,), float(kind == "weight"))
        for layer in NORM_LAYERS
        for kind in ("weight", "bias")
    }
    widened = _initialize_linear_layer("linear1", width, hidden, True, generator)
    return norms | widened | _initialize_linear_layer("linear2", hidden, width, True, generator)


def _initialize_linear_layer(
    layer: str, columns: int, rows: int, bias: bool, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    weight = torch.empty(rows, columns)
    torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    if not bias:
        return {f"{layer}.weight": weight}
    bound = 1 / math.sqrt(columns)
    drawn = torch.empty(rows).uniform_(-bound, bound, generator=generator)
    return {f"{layer}.weight": weight, f"{layer}.bias": drawn}
