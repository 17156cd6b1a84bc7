"""Initialization of a spec's weights, from its seed and in the order of the book's modules.

Source: Raschka 2024, §3.4 to §3.6; `torch.nn.Linear.reset_parameters` for the distribution.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from visualizer.attention.spec import (
    BIAS,
    LAYERS,
    OWN_BIASES,
    OWN_LAYERS,
    AttentionSpec,
    Position,
    Projection,
)
from visualizer.attention.stages import parameter_names
from visualizer.attention.token_and_position_vectors import positions
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.spec import NumberMatrix


def draw(spec: AttentionSpec, tokens: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Draw all weights of a spec, named as in the book's ``state_dict``; own weights replace them.

    They are drawn in float32 on the CPU, so that they do not depend on the spec's type and device;
    own weights do not change the other drawn ones.

    Raises
    ------
    InputError
        When an own weight is not representable in the spec's type.
    """
    generator = torch.Generator().manual_seed(spec.seed)
    drawn: dict[str, torch.Tensor] = {}
    if spec.projection is not Projection.NONE:
        drawn |= _projections(spec, generator)
    if spec.output_projection:
        drawn |= _linear("out_proj", spec.width, spec.width, True, generator)
    if spec.position is Position.LEARNED:
        drawn["position.weight"] = torch.from_numpy(positions(tokens, spec.d_in, spec.seed))
    dtype: torch.dtype = getattr(torch, spec.dtype)
    cast = {name: tensor.to(device, dtype) for name, tensor in drawn.items()}
    return cast | _own(spec, device)


def own_tensor(
    field: str, own: NumberMatrix, spec: AttentionSpec, device: torch.device
) -> torch.Tensor:
    """Convert the own numbers of a spec's field to a tensor of the spec's type."""
    dtype: torch.dtype = getattr(torch, spec.dtype)
    tensor = torch.tensor(own.array(), dtype=dtype, device=device)
    if tensor.isfinite().all():
        return tensor
    sentence = f"There is something among the numbers that {spec.dtype} cannot hold."
    raise InputError(field, sentence, (field, () if field == "own_weights" else None))


def _own(spec: AttentionSpec, device: torch.device) -> dict[str, torch.Tensor]:
    """Convert own weights to the layout of the parameters: the inverse of `as_matrix`."""
    found: dict[str, torch.Tensor] = {}
    for own, matrix in spec.counting_weights:
        is_bias = own in OWN_BIASES
        layer = OWN_BIASES[own] if is_bias else OWN_LAYERS[own]
        of_layer = parameter_names(spec, layer)
        names = [name for name in of_layer if name.endswith(BIAS) == is_bias]
        parts = own_tensor("own_weights", matrix, spec, device).chunk(len(names), dim=1)
        is_raw = spec.projection is Projection.UNIFORM and layer in LAYERS
        for name, part in zip(names, parts, strict=True):
            laid_out = part[0] if is_bias else part if is_raw else part.T
            # With the strides of drawn weights: other strides change the last digits of results.
            found[name] = laid_out.clone(memory_format=torch.contiguous_format)
    return found


def _projections(spec: AttentionSpec, generator: torch.Generator) -> dict[str, torch.Tensor]:
    drawn: dict[str, torch.Tensor] = {}
    per_layer = [parameter_names(spec, layer) for layer in LAYERS]
    count = len([name for name in per_layer[0] if not name.endswith(".bias")])
    for head in range(count):
        for names in per_layer:
            name = names[head]
            if spec.projection is Projection.UNIFORM:
                drawn[name] = torch.rand(spec.d_in, spec.d_out, generator=generator)
            else:
                layer = name.removesuffix(".weight")
                drawn |= _linear(layer, spec.d_in, spec.d_out, spec.bias, generator)
    return drawn


def _linear(
    layer: str, columns: int, rows: int, bias: bool, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    weight = torch.empty(rows, columns)
    torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    if not bias:
        return {f"{layer}.weight": weight}
    bound = 1 / math.sqrt(columns)
    drawn = torch.empty(rows).uniform_(-bound, bound, generator=generator)
    return {f"{layer}.weight": weight, f"{layer}.bias": drawn}


def as_matrix(
    spec: AttentionSpec, parameters: Mapping[str, torch.Tensor], layer: str
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Join a layer's weights of all heads into one matrix [width, d_in] and one bias [width]."""
    names = parameter_names(spec, layer)
    weights = [parameters[name] for name in names if not name.endswith(".bias")]
    biases = [parameters[name] for name in names if name.endswith(".bias")]
    if spec.projection is Projection.UNIFORM and layer in LAYERS:
        weights = [weight.T for weight in weights]
    return _joined(weights), _joined(biases) if biases else None


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
