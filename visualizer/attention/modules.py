"""The book's modules, with the same names, arguments and parameter names, and with traces.

A ``state_dict`` of the book's modules can be loaded, including the masks. `AttentionModule.trace`
returns all stages that `AttentionModule.forward` computes.

Source: Raschka 2024, §3.3 to §3.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec.structs import replace
from torch import Tensor, nn
from torch.nn import functional

from visualizer.attention.attend import attend
from visualizer.attention.mechanisms import Mechanism, apply_mechanism
from visualizer.attention.parameter_init import join_head_weights
from visualizer.attention.spec import (
    PROJECTION_LAYERS,
    AttentionSpec,
    BooleanMatrix,
    DropoutMode,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    PositionKind,
    Projection,
)
from visualizer.attention.spec_validation import check_spec
from visualizer.attention.stages import unfused_stages
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.trace import Trace


_MODES = {True: DropoutMode.TRAIN, False: DropoutMode.EVAL}


class AttentionModule(nn.Module):
    """Base class of the modules; a spec defines their computation."""

    def __init__(self, spec: AttentionSpec, context_length: int | None = None) -> None:
        check_spec(spec)
        super().__init__()
        self.spec = spec
        self.context_length = context_length
        self.register_load_state_dict_post_hook(_apply_loaded_mask)  # type: ignore[no-untyped-call]

    def trace(self, x: Tensor) -> Trace:
        """Compute every stage for inputs [..., token, d_in]; the last stage is the output.

        In training mode, dropout keeps the cells that ``torch.nn.functional.dropout`` would keep.

        Raises
        ------
        InputError
            If the size of the inputs is not d_in, or there are more tokens than the context length.
        """
        if self.context_length is not None and x.shape[-2] > self.context_length:
            limit = f"the context length of {self.context_length}"
            raise InputError("text", f"{x.shape[-2]} tokens exceed {limit}.")
        training = self.training and self.spec.dropout > 0
        spec = replace(_crop_custom_mask(self.spec, x.shape[-2]), mode=_MODES[training])
        kept = self._sample_keep_mask(x) if training else None
        return attend(spec, x, self._parameters_by_name(), kept=kept)

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs [..., token, d_in] to [..., token, d_out], with all heads concatenated."""
        trace = self.trace(x)
        return trace.tensor(trace.output_stage_name)

    def fused(self, x: Tensor) -> Tensor:
        """Compute the result of `forward`, apart from rounding, with torch's fused attention.

        No stages are stored, so training steps are faster. Invalid inputs and specs that torch's
        function does not support are passed to `forward` instead.
        """
        spec, (tokens, size) = self.spec, x.shape[-2:]
        fits = size == spec.d_in and tokens <= (self.context_length or tokens)
        if not (fits and _can_use_fused_attention(spec)):
            result: Tensor = self(x)
            return result
        parameters = self._parameters_by_name()
        # head token d_head
        queries, keys, values = _project_queries_keys_values(spec, parameters, x)
        context = functional.scaled_dot_product_attention(
            queries,
            keys,
            values,
            dropout_p=spec.dropout if self.training else 0.0,
            is_causal=spec.mask is MaskKind.CAUSAL,
            scale=1 / spec.divisor,
        )  # head query d_head
        concat = context.transpose(-3, -2).flatten(-2)  # query d_out
        if not spec.output_projection:
            return concat
        return functional.linear(concat, parameters["out_proj.weight"], parameters["out_proj.bias"])

    def _parameters_by_name(self) -> dict[str, Tensor]:
        return dict(self.named_parameters())

    def _sample_keep_mask(self, x: Tensor) -> Tensor:
        cells = (*x.shape[:-2], self.spec.heads, x.shape[-2], x.shape[-2])
        return _sample_dropout_mask(cells, self.spec.dropout, x)  # head query key


class SimplifiedSelfAttention(AttentionModule):
    """Attention without trainable weights: each input is the query, key and value (§3.3)."""

    def __init__(self) -> None:
        super().__init__(apply_mechanism(Mechanism.SIMPLIFIED))

    def trace(self, x: Tensor) -> Trace:
        """Compute every stage; see `AttentionModule.trace`."""
        return attend(replace(self.spec, d_in=x.shape[-1]), x, {})


class SelfAttentionV1(AttentionModule):
    """Self-attention with weights that are initialized uniformly in [0, 1) (§3.4.1)."""

    def __init__(self, d_in: int, d_out: int) -> None:
        base = apply_mechanism(Mechanism.SELF)
        super().__init__(replace(base, d_in=d_in, d_out=d_out, projection=Projection.UNIFORM))
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))


class SelfAttentionV2(AttentionModule):
    """Self-attention with linear layers (§3.4.2)."""

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        base = apply_mechanism(Mechanism.SELF)
        super().__init__(replace(base, d_in=d_in, d_out=d_out, bias=qkv_bias))
        _add_projections(self, d_in, d_out, qkv_bias)


class CausalAttention(AttentionModule):
    """Causal self-attention with dropout of the weights (§3.5.3)."""

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        qkv_bias: bool = False,
    ) -> None:
        base = apply_mechanism(Mechanism.CAUSAL)
        spec = replace(base, d_in=d_in, d_out=d_out, dropout=dropout, bias=qkv_bias)
        super().__init__(spec, context_length)
        _add_projections(self, d_in, d_out, qkv_bias)
        _add_causal_mask(self, context_length)


class MultiHeadAttentionWrapper(AttentionModule):
    """Causal heads of size d_out each, with concatenated context vectors (§3.6.1)."""

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        base = apply_mechanism(Mechanism.STACKED)
        spec = replace(
            base, d_in=d_in, d_out=d_out, heads=num_heads, dropout=dropout, bias=qkv_bias
        )
        super().__init__(spec, context_length)
        heads = [
            CausalAttention(d_in, d_out, context_length, dropout, qkv_bias)
            for _ in range(num_heads)
        ]
        self.heads = nn.ModuleList(heads)

    def _parameters_by_name(self) -> dict[str, Tensor]:
        weights = super()._parameters_by_name()
        if self.spec.heads > 1:
            return weights
        return {name.removeprefix("heads.0."): weight for name, weight in weights.items()}

    def _sample_keep_mask(self, x: Tensor) -> Tensor:
        # The book's heads run one after the other, so their dropout masks are drawn in this order.
        cells = (*x.shape[:-2], 1, x.shape[-2], x.shape[-2])
        return torch.cat(
            [_sample_dropout_mask(cells, self.spec.dropout, x) for _ in self.heads], dim=-3
        )


class MultiHeadAttention(AttentionModule):
    """Causal heads that split d_out, followed by an output projection (§3.6.2).

    Parameters
    ----------
    output_projection : bool
        Whether to add the output projection, which the book's module always has.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
        *,
        output_projection: bool = True,
    ) -> None:
        base = apply_mechanism(Mechanism.MULTI_HEAD)
        spec = replace(
            base,
            d_in=d_in,
            d_out=d_out,
            heads=num_heads,
            dropout=dropout,
            bias=qkv_bias,
            output_projection=output_projection,
        )
        super().__init__(spec, context_length)
        _add_projections(self, d_in, d_out, qkv_bias)
        _add_causal_mask(self, context_length)
        if output_projection:
            self.out_proj = nn.Linear(d_out, d_out)


def _apply_loaded_mask(module: AttentionModule, incompatible: object) -> None:
    """Use the masks in a loaded ``state_dict``, which may differ from the book's causal masks.

    Raises
    ------
    InputError
        If the heads have different masks.
    """
    masks = [buffer != 0 for name, buffer in module.named_buffers() if _is_mask(name)]
    if not masks:
        return
    forbidden = masks[0]  # query key
    if not all(torch.equal(forbidden, other) for other in masks):
        raise InputError(
            "mask", "The heads have different masks, but all heads must have the same mask."
        )
    if torch.equal(forbidden, torch.ones_like(forbidden).triu(1)):
        module.spec = replace(module.spec, mask=MaskKind.CAUSAL, own_mask=None)
    else:
        own = BooleanMatrix.from_array((~forbidden).cpu().numpy())
        module.spec = replace(module.spec, mask=MaskKind.OWN, own_mask=own)


def _is_mask(name: str) -> bool:
    return name.rpartition(".")[2] == "mask"


def _crop_custom_mask(spec: AttentionSpec, tokens: int) -> AttentionSpec:
    """Cut a custom mask to the number of tokens, as the book does."""
    own = spec.own_mask
    if own is None or own.rows == tokens:
        return spec
    return replace(spec, own_mask=BooleanMatrix.from_array(own.to_array()[:tokens, :tokens]))


def _can_use_fused_attention(spec: AttentionSpec) -> bool:
    """Return whether torch's fused attention can compute a spec with the same dropout."""
    return (
        (spec.arrangement is HeadArrangement.SPLIT or spec.heads == 1)
        and spec.normalisation is NormalisationKind.SOFTMAX
        and spec.route is MaskPlacement.BEFORE
        and spec.mask in {MaskKind.NONE, MaskKind.CAUSAL}
        and spec.position is PositionKind.NONE
        and not spec.has_transformer_block
        and not unfused_stages(spec)
    )


def _project_queries_keys_values(
    spec: AttentionSpec, parameters: Mapping[str, Tensor], x: Tensor
) -> tuple[Tensor, ...]:
    """Compute queries, keys and values [..., head, token, d_head] in one matrix product."""
    if not spec.has_projection:
        heads = torch.unflatten(x, -1, (spec.heads, spec.d_head)).transpose(-3, -2)
        return heads, heads, heads
    layers = [join_head_weights(spec, parameters, layer) for layer in PROJECTION_LAYERS]
    weights = torch.cat([weight for weight, _ in layers])  # 3·width d_in
    biases = [bias for _, bias in layers if bias is not None]
    joined = functional.linear(x, weights, torch.cat(biases) if biases else None)
    parts = torch.unflatten(joined, -1, (len(PROJECTION_LAYERS), spec.heads, spec.d_head))
    return parts.movedim(-3, 0).transpose(-3, -2).unbind()


def _add_projections(module: nn.Module, d_in: int, d_out: int, bias: bool) -> None:
    # The layers are created in the order in which the book initializes them.
    for name in ("W_query", "W_key", "W_value"):
        module.add_module(name, nn.Linear(d_in, d_out, bias=bias))


def _add_causal_mask(module: nn.Module, context_length: int) -> None:
    # The book's modules register their mask as a buffer, so their state_dict contains it.
    above = torch.triu(torch.ones(context_length, context_length), diagonal=1)
    module.register_buffer("mask", above)  # query key


def _sample_dropout_mask(cells: tuple[int, ...], rate: float, like: Tensor) -> Tensor:
    ones = torch.ones(cells, dtype=like.dtype, device=like.device)
    return functional.dropout(ones, rate) != 0
