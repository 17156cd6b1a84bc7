"""Computes the operations of the stage table; every function returns a new tensor.

Sources: Vaswani et al. 2017, §3.2.1, eq. 1 (scores to context), §3.2.2 (heads and output
projection); Raschka 2024, §3.3 to §3.6 (the variants); Katharopoulos et al. 2020, §3.2 and §3.3
(linear attention).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec import Struct
from torch import Tensor
from torch.nn import functional

from visualizer.attention import masks
from visualizer.attention.layer_operations import RotaryPosition
from visualizer.attention.masks import draw_keep_mask
from visualizer.attention.parameter_init import join_head_weights
from visualizer.attention.spec import (
    Activation,
    AttentionSpec,
    HeadArrangement,
    MaskKind,
    NormalisationKind,
    PositionKind,
)
from visualizer.attention.stages import (
    NORM_EPSILON,
    Operation,
    Stage,
    parameter_names,
    shape,
)
from visualizer.attention.token_embeddings import compute_sinusoidal_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from visualizer.attention.buffer_pool import BufferPool


class CellIndices(Struct, frozen=True, eq=False):
    """Heads, queries and keys of cells, as index tensors that can be broadcast with the cells."""

    spec: AttentionSpec
    dtype: torch.dtype
    heads: Tensor
    queries: Tensor
    keys: Tensor


def _alibi_bias(at: CellIndices) -> Tensor:
    slopes = torch.tensor(at.spec.alibi_slopes, dtype=at.dtype, device=at.keys.device)
    return slopes[at.heads] * -(at.queries - at.keys).abs()


CELLWISE: dict[Operation, Callable[..., Tensor]] = {
    Operation.LINEAR_BIAS: _alibi_bias,
    Operation.ADD_SCORE_BIAS: lambda at, scores, bias: scores + bias,
}
"""Operations that compute a cell from its indices and from the same cell in each input.

The same function computes whole matrices, blocks of a long text, and individual cells.
"""


class StageInputs(Struct, frozen=True, eq=False):
    """Inputs that are available to every operation."""

    spec: AttentionSpec
    given: Tensor
    parameters: Mapping[str, Tensor]
    kept: Tensor | None
    pool: BufferPool | None

    @property
    def token_count(self) -> int:
        return self.given.shape[-2]

    @property
    def cell_indices(self) -> CellIndices:
        """Indices of all query–key cells."""
        places = torch.arange(self.token_count, device=self.given.device)
        heads = torch.arange(self.spec.heads, device=self.given.device)
        return CellIndices(
            self.spec, self.given.dtype, heads[:, None, None], places[:, None], places
        )

    def output_buffer(self, stage: Stage) -> Tensor | None:
        """Return a buffer for the result of a stage, or None if torch has to allocate it."""
        if self.pool is None:
            return None
        sizes = self.given.shape[:-2] + shape(self.spec, stage.dims, self.token_count)
        return self.pool.allocate_tensor(sizes, self.given)

    def allowed_mask(self, stage: Stage) -> Tensor:
        cells = masks.allowed(self.spec, self.token_count, stage.name).copy()
        return torch.from_numpy(cells).to(self.given.device)  # query key

    def rows_with_allowed_keys(self, stage: Stage) -> Tensor:
        """Return which queries have allowed keys, [query, 1], on the CPU to avoid a device sync."""
        some = masks.allowed(self.spec, self.token_count, stage.name).any(-1, keepdims=True)
        return torch.from_numpy(some)


def compute_stage(work: StageInputs, stage: Stage, read: Sequence[Tensor]) -> Tensor:
    """Compute a stage, or the given rows of a stage of vectors, from its inputs."""
    if cellwise := CELLWISE.get(stage.operation):
        cells = cellwise(work.cell_indices, *read)  # head query key
        return cells.expand(work.given.shape[:-2] + cells.shape[-3:])
    return COMPUTATIONS[stage.operation](work, stage, *read)


def _compute_position_vectors(work: StageInputs, stage: Stage) -> Tensor:
    if work.spec.position is PositionKind.LEARNED:
        table = work.parameters["position.weight"][: work.token_count]  # token d_in
    else:
        # token d_in
        table = torch.from_numpy(compute_sinusoidal_positions(work.token_count, work.spec.d_in))
    return table.to(work.given).expand(work.given.shape)


def _project_input(work: StageInputs, stage: Stage, x: Tensor) -> Tensor:
    spec, layer = work.spec, stage.parameters[0]
    weight, bias = join_head_weights(spec, work.parameters, layer)  # width d_in
    projected = functional.linear(x, weight, bias)  # token width
    apart = _unflatten_heads(projected, spec.projection_head_count(layer))
    return repeat_for_heads(apart, spec.heads)  # head token d_head


def _split_heads(work: StageInputs, stage: Stage, x: Tensor) -> Tensor:
    if work.spec.arrangement is HeadArrangement.SPLIT:
        return _unflatten_heads(x, work.spec.heads)  # head token d_head
    return x.unsqueeze(-3).expand(*x.shape[:-2], work.spec.heads, *x.shape[-2:])


def _unflatten_heads(x: Tensor, heads: int) -> Tensor:
    return torch.unflatten(x, -1, (heads, -1)).transpose(-3, -2)


def repeat_for_heads(x: Tensor, heads: int) -> Tensor:
    """Repeat keys or values [..., head, token, d_head] for every query head in their group."""
    return x if x.shape[-3] == heads else x.repeat_interleave(heads // x.shape[-3], -3)


def _dot_product(work: StageInputs, stage: Stage, queries: Tensor, keys: Tensor) -> Tensor:
    return torch.matmul(queries, keys.mT, out=work.output_buffer(stage))  # head query key


def _scale_scores(work: StageInputs, stage: Stage, scores: Tensor) -> Tensor:
    return torch.div(scores, work.spec.divisor, out=work.output_buffer(stage))  # head query key


def _rotate_heads(work: StageInputs, stage: Stage, x: Tensor) -> Tensor:
    step = stage.step_of_type(RotaryPosition)
    angles = torch.from_numpy(step.angles_at(range(work.token_count)))  # token pair
    return rotate_pairs(x, angles.cos().to(x), angles.sin().to(x), step)


def rotate_pairs(vectors: Tensor, cosines: Tensor, sines: Tensor, step: RotaryPosition) -> Tensor:
    """Rotate pairs of columns in vectors [..., d_head] by angles [..., pair]."""
    rotated, columns = vectors.clone(), torch.arange(step.pairs)
    halves, adjacent = (columns, columns + step.pairs), (2 * columns, 2 * columns + 1)
    first, second = (step.start + each for each in (adjacent if step.is_interleaved else halves))
    is_apart = step.is_regrouped or not step.is_interleaved
    to_first, to_second = (step.start + each for each in (halves if is_apart else adjacent))
    rotated[..., to_first] = vectors[..., first] * cosines - vectors[..., second] * sines
    rotated[..., to_second] = vectors[..., second] * cosines + vectors[..., first] * sines
    return rotated


def _zero_masked_weights(work: StageInputs, stage: Stage, x: Tensor) -> Tensor:
    return torch.where(work.allowed_mask(stage), x, x.new_zeros(()), out=work.output_buffer(stage))


def _mask_scores(work: StageInputs, stage: Stage, x: Tensor) -> Tensor:
    forbidden = ~work.allowed_mask(stage)  # query key
    if x.requires_grad and work.rows_with_allowed_keys(stage).all():
        # Addition has a trivial gradient but turns scores of +∞ into NaN.
        return x + x.new_zeros(forbidden.shape).masked_fill(forbidden, -torch.inf)
    return torch.where(forbidden, x.new_tensor(-torch.inf), x, out=work.output_buffer(stage))


def _normalise_scores(work: StageInputs, stage: Stage, x: Tensor) -> Tensor:
    if work.spec.normalisation is NormalisationKind.SUM:
        return torch.div(x, x.sum(-1, keepdim=True), out=work.output_buffer(stage))
    if work.spec.normalisation is NormalisationKind.NAIVE_SOFTMAX:
        exponentials = x.exp()  # head query key; overflows where softmax does not
        weights = exponentials / exponentials.sum(-1, keepdim=True)
    else:
        weights = torch.softmax(x, -1, out=work.output_buffer(stage))
    return _zero_empty_rows(work, stage, weights) if stage.has_masked_input else weights


def _zero_empty_rows(work: StageInputs, stage: Stage, weights: Tensor) -> Tensor:
    # Softmax is undefined for a row of −∞, so a query without allowed keys gets zero weights.
    some = work.rows_with_allowed_keys(stage)
    return weights if some.all() else weights.where(some.to(weights.device), 0)


def _average_allowed(work: StageInputs, stage: Stage) -> Tensor:
    rows = work.allowed_mask(stage).to(work.given)
    weights = rows / rows.sum(-1, keepdim=True).clamp(min=1)  # query key
    sizes = work.given.shape[:-2] + shape(work.spec, stage.dims, work.token_count)
    return weights.expand(sizes)  # head query key


def _renormalise_weights(work: StageInputs, stage: Stage, zeroed: Tensor) -> Tensor:
    sums = zeroed.sum(-1, keepdim=True)  # head query 1
    # A row of zeros remains zero.
    return zeroed / sums.masked_fill(~zeroed.any(-1, keepdim=True), 1)


def _apply_dropout(work: StageInputs, stage: Stage, weights: Tensor) -> Tensor:
    spec = work.spec
    if work.kept is not None:
        kept = work.kept
    elif spec.own_kept is not None:
        kept = torch.from_numpy(
            masks.unpack_custom_mask("own_kept", spec.own_kept, work.token_count)
        )
    else:
        kept = torch.from_numpy(
            draw_keep_mask(spec.dropout, spec.dropout_seed, tuple(weights.shape))
        )
    room = work.output_buffer(stage)
    larger = torch.div(weights, 1 - spec.dropout, out=room)
    return torch.where(kept.to(weights.device), larger, weights.new_zeros(()), out=room)


def _project_out(work: StageInputs, stage: Stage, concat: Tensor) -> Tensor:
    return functional.linear(
        concat, work.parameters["out_proj.weight"], work.parameters.get("out_proj.bias")
    )


def _apply_norm(work: StageInputs, stage: Stage, x: Tensor) -> Tensor:
    gain, bias = _weight_and_bias(work, stage)  # d_model
    return functional.layer_norm(x, gain.shape, gain, bias, NORM_EPSILON)


def _apply_linear(work: StageInputs, stage: Stage, x: Tensor) -> Tensor:
    return functional.linear(x, *_weight_and_bias(work, stage))


def _weight_and_bias(work: StageInputs, stage: Stage) -> tuple[Tensor, Tensor]:
    weight, bias = parameter_names(work.spec, stage.parameters[0])
    return work.parameters[weight], work.parameters[bias]


def _apply_activation(work: StageInputs, stage: Stage, x: Tensor) -> Tensor:
    return functional.gelu(x) if work.spec.activation is Activation.GELU else functional.relu(x)


def _add_vectors(work: StageInputs, stage: Stage, x: Tensor, *others: Tensor) -> Tensor:
    return sum(others, start=x)


def _apply_feature_map(work: StageInputs, stage: Stage, x: Tensor) -> Tensor:
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())  # elu(x) + 1, exact far below 0


def _sum_over_allowed_keys(work: StageInputs, each: Tensor) -> Tensor:
    """Sum vectors [..., token, column] over the allowed keys of each query."""
    if masks.needs_mask_product(work.spec):
        cells = masks.allowed(work.spec, work.token_count).copy()
        return torch.from_numpy(cells).to(each) @ each  # head query column
    if work.spec.mask is MaskKind.CAUSAL:
        return each.cumsum(-2)
    return each.sum(-2, keepdim=True).expand_as(each)


def _sum_keys_and_values(work: StageInputs, stage: Stage, keys: Tensor, values: Tensor) -> Tensor:
    products = keys.unsqueeze(-1) * values.unsqueeze(-2)  # head token d_head d_head
    return _sum_over_allowed_keys(work, products.flatten(-2))  # head query d_state


def _sum_keys(work: StageInputs, stage: Stage, keys: Tensor) -> Tensor:
    return _sum_over_allowed_keys(work, keys)  # head query d_head


def divide_by_normalizer(x: Tensor, normalizer: Tensor) -> Tensor:
    """Divide rows by their normalizer, which is 0 only for queries without allowed keys."""
    return x / normalizer.masked_fill(normalizer == 0, 1)


def _compute_implied_weights(
    work: StageInputs, stage: Stage, queries: Tensor, keys: Tensor, normalizer: Tensor
) -> Tensor:
    weights = divide_by_normalizer(queries @ keys.mT, normalizer)  # head query key
    return weights.masked_fill(~work.allowed_mask(stage), 0)


def _multiply_queries_by_sums(
    work: StageInputs, stage: Stage, queries: Tensor, sums: Tensor, normalizer: Tensor
) -> Tensor:
    state = torch.unflatten(sums, -1, (work.spec.d_head, work.spec.d_head))
    mixed = (queries.unsqueeze(-2) @ state).squeeze(-2)  # head query d_head
    return divide_by_normalizer(mixed, normalizer)


COMPUTATIONS: dict[Operation, Callable[..., Tensor]] = {
    Operation.INPUT_VECTORS: lambda work, stage: work.given,  # token d_in
    Operation.POSITION_VECTORS: _compute_position_vectors,  # token d_in
    Operation.ADD_POSITION: _add_vectors,  # token d_in
    Operation.INPUT_PROJECTION: _project_input,  # head token d_head
    Operation.UNPROJECTED_INPUT: _split_heads,  # head token d_head
    Operation.ROTARY_POSITION: _rotate_heads,  # head token d_head
    Operation.DOT_PRODUCT: _dot_product,  # head query key
    Operation.SCALE_SCORES: _scale_scores,  # head query key
    Operation.MASK_BEFORE_SOFTMAX: _mask_scores,  # head query key
    Operation.SCORES_TO_WEIGHTS: _normalise_scores,  # head query key
    Operation.EQUAL_WEIGHTS: _average_allowed,  # head query key
    Operation.MASK_AFTER_SOFTMAX: _zero_masked_weights,  # head query key
    Operation.RENORMALISE_MASKED_WEIGHTS: _renormalise_weights,  # head query key
    Operation.DROPOUT: _apply_dropout,  # head query key
    Operation.WEIGHTED_SUM: lambda work, stage, weights, values: (
        weights @ values
    ),  # head query d_head
    Operation.FEATURE_MAP: _apply_feature_map,  # head token d_head
    Operation.KEY_VALUE_SUMS: _sum_keys_and_values,  # head query d_state
    Operation.KEY_SUMS: _sum_keys,  # head query d_head
    Operation.NORMALIZER: lambda work, stage, queries, sums: (queries * sums).sum(
        -1, keepdim=True
    ),  # head query 1
    Operation.IMPLIED_WEIGHTS: _compute_implied_weights,  # head query key
    Operation.LINEAR_CONTEXT: _multiply_queries_by_sums,  # head query d_head
    Operation.CONCAT_HEADS: lambda work, stage, context: context.transpose(-3, -2).flatten(-2),
    Operation.OUTPUT_PROJECTION: _project_out,  # query d_out
    Operation.NORM_LAYER: _apply_norm,  # query d_model
    Operation.LINEAR_LAYER: _apply_linear,  # query d_ff, or d_model
    Operation.HIDDEN_ACTIVATION: _apply_activation,  # query d_ff
    Operation.RESIDUAL_ADDITION: _add_vectors,  # query d_model
}
