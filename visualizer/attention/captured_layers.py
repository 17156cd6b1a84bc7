"""The numbers of captured attention, layer by layer, and the stages computed from them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from msgspec import Struct

from visualizer.attention.cached_tensor import CachedTensor, to_float64_on_cpu
from visualizer.attention.captured_attention import with_layer_mask
from visualizer.attention.layered_tensor import ComputedStageCache, LayeredTensor, LazyStageTensor
from visualizer.attention.masks import MaskingSpec, cached_allowed_cells
from visualizer.attention.roles import VECTOR_ROLES, Role
from visualizer.attention.stages import stages

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from visualizer.attention.captured_attention import CapturedAttention

    Tensor = torch.Tensor

HALF_TOLERANCE = 4
"""Maximum accepted difference between captured weights and the softmax of 16-bit scores, in units
of the type's precision: a score may be rounded to the next number."""
MAX_CELLS_AT_ONCE = 2**20
"""Maximum number of cells that are compared together; larger layers are compared head by head."""


class WeightSample(Struct, frozen=True, eq=False):
    """Statistics of a layer's weights, and a sample of their rows.

    Parameters
    ----------
    rows : Tensor
        Query indices of the sampled rows, in ascending order.
    weights : Tensor
        The sampled rows, [head, row, key].
    sums : Tensor
        Sum of every row, including rows that are not sampled, [head, query], float64.
    is_negative : bool
        Whether any weight is negative.
    nan_count : int
        Number of weights that are NaN.
    """

    rows: Tensor
    weights: Tensor
    sums: Tensor
    is_negative: bool
    nan_count: int

    @classmethod
    def from_weights(cls, weights: Tensor, most_cells: int | None = None) -> WeightSample:
        """Sample rows of weights [head, query, key]: all rows, or about ``most_cells`` cells."""
        heads, queries, keys = weights.shape
        rows = torch.arange(queries)
        if most_cells is not None and weights.numel() > most_cells:
            count = max(2, most_cells // (heads * keys))
            rows = torch.from_numpy(
                np.unique(np.linspace(0, queries - 1, count).round().astype(int))
            )
        own = weights if len(rows) == queries else weights[:, rows.to(weights.device)]
        wide = torch.promote_types(weights.dtype, torch.float32)
        sums, lowest = to_float64_on_cpu(weights.sum(-1, dtype=wide)), weights.amin()
        odd = int(weights.isnan().sum()) if bool(lowest.isnan()) else 0
        is_negative = bool((weights < 0).any()) if odd else bool(lowest < 0)
        return cls(rows, own.cpu(), sums, is_negative, odd)

    @property
    def is_causal(self) -> bool:
        """Whether all rows are sampled, and all weights on later keys are exactly 0."""
        queries, keys = self.weights.shape[-2:]
        if len(self.rows) != keys or queries != keys or bool(self.weights[:, 0, 1:].any()):
            return False
        return not bool(self.weights.triu(1).any())


class CapturedLayerSource(Protocol):
    """Source of one layer's captured numbers, in the type in which the model computes."""

    def weights(self) -> Tensor:
        """Return the captured weights or scores, [head, query, key]."""

    def sample_weights(self) -> WeightSample:
        """Return a sample of the captured weights or scores."""

    def vectors(self, name: str) -> Tensor:
        """Return the queries, keys or values of each head, [head, token, d]."""

    def bias(self) -> Tensor | None:
        """Return the bias of the scores [head, query, key], or None if there is no bias."""

    def sinks(self) -> Tensor | None:
        """Return the sink logits [head], or None if there are no sinks."""


class ArrayLayerSource:
    """One layer of captured attention, with numbers from a document or a file."""

    def __init__(self, captured: CapturedAttention, layer: int) -> None:
        self._captured, self._layer = captured, layer

    def weights(self) -> Tensor:
        return torch.tensor(self._captured.to_array()[self._layer])

    def sample_weights(self) -> WeightSample:
        return WeightSample.from_weights(self.weights())

    def vectors(self, name: str) -> Tensor:
        vectors = self._captured.vectors
        assert vectors is not None
        array = vectors.read_array(name, self._captured)
        return torch.tensor(array[self._layer if len(array) > 1 else 0])

    def bias(self) -> Tensor | None:
        return self._optional_vectors("bias")

    def sinks(self) -> Tensor | None:
        return self._optional_vectors("sinks")

    def _optional_vectors(self, name: str) -> Tensor | None:
        vectors = self._captured.vectors
        is_given = vectors is not None and getattr(vectors, name) is not None
        return self.vectors(name) if is_given else None


class CapturedStageCalculator:
    """Computes the stages of captured attention layer by layer.

    Parameters
    ----------
    captured : CapturedAttention
        Sizes and settings; the numbers may be omitted.
    layers : sequence of CapturedLayerSource
        Sources of the numbers, one per layer.
    """

    def __init__(self, captured: CapturedAttention, layers: Sequence[CapturedLayerSource]) -> None:
        self._captured, self._sources = captured, layers
        self._spec = captured.spec
        self._masks = captured.vectors.layer_masks if captured.vectors else ()
        roles = {row.role for row in stages(self._spec)}
        softcap = captured.vectors.softcap if captured.vectors else 0.0
        has_bias = captured.vectors is not None and captured.vectors.bias is not None
        self.softmax_input = tuple(
            name
            for name, is_there in (
                (Role.SCORES, True),
                (Role.SCALED, Role.SCALED in roles),
                (Role.CAPPED, bool(softcap)),
                (Role.BIASED, has_bias),
                (Role.MASKED, Role.MASKED in roles),
            )
            if is_there
        )
        """Names of the stages from the scores to the input of the softmax."""

    def lazy_tensors(self, names: Iterable[str]) -> dict[str, CachedTensor]:
        """Return the stages by name; each stage is computed when read."""
        cache, found = ComputedStageCache(), dict[str, CachedTensor]()
        dtype = getattr(torch, self._captured.dtype)
        for name in names:
            parts = [
                LazyStageTensor(
                    name,
                    layer,
                    self._stage_shape(name),
                    dtype,
                    partial(self._compute_stage_by_name, name),
                    cache,
                )
                for layer in range(len(self._sources))
            ]
            found[name] = LayeredTensor(parts) if len(parts) > 1 else parts[0]
        return found

    def _compute_stage_by_name(self, name: str, layer: int) -> dict[str, Tensor]:
        found = self.compute_stage_in_layer(name, layer)
        return {name: found.to(getattr(torch, self._captured.dtype))}

    def _stage_shape(self, name: str) -> tuple[int, ...]:
        captured, vectors = self._captured, self._captured.vectors
        heads, queries, keys = captured.heads, captured.queries, captured.keys
        if name in {*VECTOR_ROLES, Role.CONTEXT}:
            assert vectors is not None
            tokens = keys if name in {Role.KEYS, Role.VALUES} else queries
            width = vectors.d_head if name in {Role.QUERIES, Role.KEYS} else vectors.d_value
            return heads, tokens, width
        return heads, queries, keys

    def compute_stage_in_layer(self, name: str, layer: int) -> Tensor:
        """Compute one stage in one layer, [head, row, column]."""
        own = self._sources[layer]
        if name in VECTOR_ROLES:
            return own.vectors(name)
        if name == Role.CONTEXT:
            values = own.vectors(Role.VALUES)
            return own.weights().to(values.dtype) @ values
        if name == Role.BIAS:
            bias = own.bias()
            assert bias is not None
            return bias
        if name in self.softmax_input and self._has_vectors:
            return self._compute_scores(name, layer)
        return own.weights()

    @property
    def _has_vectors(self) -> bool:
        return self._captured.vectors is not None

    def _compute_scores(self, upto: str, layer: int, rows: Tensor | None = None) -> Tensor:
        """Compute rows of a stage between the queries and the softmax, [head, query, key]."""
        own, vectors, spec = self._sources[layer], self._captured.vectors, self._spec
        assert vectors is not None
        some = slice(None) if rows is None else rows
        found = own.vectors(Role.QUERIES)[:, some] @ own.vectors(Role.KEYS).transpose(-2, -1)
        for name in self.softmax_input[1 : self.softmax_input.index(upto) + 1]:
            if name == Role.SCALED:
                found = found.div_(spec.divisor)
            elif name == Role.CAPPED:
                found = found.div_(vectors.softcap).tanh_().mul_(vectors.softcap)
            elif name == Role.BIASED:
                bias = own.bias()
                assert bias is not None
                found = found.add_(bias[:, some])
            else:
                found.masked_fill_(~self._allowed_cells(layer)[some], -torch.inf)
                self._mask_cut_cells(found, layer, rows)
        return found

    def _allowed_cells(self, layer: int) -> Tensor:
        """Return which keys a layer's queries may attend to, as a boolean tensor [query, key]."""
        spec = with_layer_mask(self._spec, self._masks[layer]) if self._masks else self._spec
        queries, keys = self._captured.queries, self._captured.keys
        others = None if keys == queries else keys
        return torch.tensor(
            cached_allowed_cells(MaskingSpec.from_spec(spec, Role.MASKED), queries, others)
        )

    def _mask_cut_cells(self, scores: Tensor, layer: int, rows: Tensor | None) -> None:
        vectors = self._captured.vectors
        positions = {int(row): at for at, row in enumerate(rows)} if rows is not None else None
        for own_layer, head, query, key in vectors.cut if vectors else ():
            row = query if positions is None else positions.get(query)
            if own_layer == layer and row is not None:
                scores[head, row, key] = -torch.inf

    def are_weights_softmax_of_scores(self, samples: Sequence[WeightSample], within: float) -> bool:
        """Return whether the softmax of the scores equals the weights in all sampled rows."""
        return all(
            self._is_layer_softmax_of_scores(layer, one, within)
            for layer, one in enumerate(samples)
        )

    def _is_layer_softmax_of_scores(self, layer: int, sample: WeightSample, within: float) -> bool:
        is_whole = len(sample.rows) == sample.sums.shape[-1]
        scores = self._compute_scores(
            self.softmax_input[-1], layer, None if is_whole else sample.rows
        )
        vectors = self._captured.vectors
        has_sinks = vectors is not None and vectors.sinks is not None
        sinks = self._sources[layer].sinks() if has_sinks else None
        within = max(within, HALF_TOLERANCE * torch.finfo(scores.dtype).eps)
        if scores.numel() <= MAX_CELLS_AT_ONCE:
            difference = _softmax_over_keys(scores, None if sinks is None else sinks[:, None, None])
            return bool((difference.sub_(sample.weights).abs_() <= within).all())
        logits = [None] * len(scores) if sinks is None else sinks
        return all(
            bool(((_softmax_over_keys(one, sink) - other).abs() <= within).all())
            for one, other, sink in zip(scores, sample.weights, logits, strict=True)
        )


def _softmax_over_keys(scores: Tensor, sink: Tensor | None) -> Tensor:
    """Compute weights as models do: in float32 if the scores have 16 bits."""
    wide = torch.promote_types(scores.dtype, torch.float32)
    if sink is None:
        return torch.softmax(scores, -1, dtype=wide)
    column = sink.to(scores.dtype).expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, column], -1), -1, dtype=wide)[..., :-1]
