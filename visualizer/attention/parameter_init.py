"""Initialization of a spec's weights from its seed, in the order of the book's modules.

Source: Raschka 2024, §3.4 to §3.6; `torch.nn.Linear.reset_parameters` for the distribution.
"""

from __future__ import annotations

import math

import torch

from visualizer.attention.own_weight_matrices import own_parameters
from visualizer.attention.spec import (
    LAYERS,
    NORMS,
    AttentionSpec,
    Position,
    Projection,
)
from visualizer.attention.stages import parameter_names
from visualizer.attention.token_and_position_vectors import positions


def draw(spec: AttentionSpec, tokens: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Initialize the weights of a spec, named as in the book's ``state_dict``.

    Random weights are drawn in float32 on the CPU, so they do not depend on the spec's dtype and
    device. Custom weights replace them without changing the other random weights.

    Raises
    ------
    InputError
        If a custom weight is not representable in the spec's dtype.
    """
    generator = torch.Generator().manual_seed(spec.seed)
    drawn: dict[str, torch.Tensor] = {}
    if spec.projection is not Projection.NONE:
        drawn |= _draw_projections(spec, generator)
    if spec.output_projection:
        drawn |= _draw_linear("out_proj", spec.width, spec.width, True, generator)
    if spec.has_block:
        drawn |= _draw_block(spec, generator)
    if spec.position is Position.LEARNED:
        drawn["position.weight"] = torch.from_numpy(positions(tokens, spec.d_in, spec.seed))
    dtype: torch.dtype = getattr(torch, spec.dtype)
    cast = {name: tensor.to(device, dtype) for name, tensor in drawn.items()}
    return cast | own_parameters(spec, device)


def _draw_projections(spec: AttentionSpec, generator: torch.Generator) -> dict[str, torch.Tensor]:
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
                drawn |= _draw_linear(layer, spec.d_in, spec.d_out, spec.bias, generator)
    return drawn


def _draw_block(spec: AttentionSpec, generator: torch.Generator) -> dict[str, torch.Tensor]:
    width, hidden = spec.d_in, spec.hidden_width
    norms = {
        f"{layer}.{kind}": torch.full((width,), float(kind == "weight"))
        for layer in NORMS
        for kind in ("weight", "bias")
    }
    widened = _draw_linear("linear1", width, hidden, True, generator)
    return norms | widened | _draw_linear("linear2", hidden, width, True, generator)


def _draw_linear(
    layer: str, columns: int, rows: int, bias: bool, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    weight = torch.empty(rows, columns)
    torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    if not bias:
        return {f"{layer}.weight": weight}
    bound = 1 / math.sqrt(columns)
    drawn = torch.empty(rows).uniform_(-bound, bound, generator=generator)
    return {f"{layer}.weight": weight, f"{layer}.bias": drawn}
