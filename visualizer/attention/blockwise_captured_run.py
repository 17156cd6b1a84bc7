"""Runs of a model's attention on a long text, with matrices that are computed when read.

For each layer, the queries and keys of the dot products, the values, and the log-sum-exp of each
row are kept in memory. Keys and values that several heads share are kept once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec import Struct

from visualizer.attention.blockwise_stages import BlockCalculator
from visualizer.attention.blockwise_tensor import BlockSource, BlockwiseTensor
from visualizer.attention.captured_attention import (
    SINKS_NAME,
    CapturedAttention,
    CapturedVectors,
    LayerMask,
    captured_stages,
    with_layer_mask,
)
from visualizer.attention.captured_run import SINKS_NOTICE
from visualizer.attention.layer_operations import ScoreCap, SinkSoftmax
from visualizer.attention.mapped_tensors import is_in_tensor_file
from visualizer.attention.roles import VECTOR_ROLES, Role
from visualizer.attention.run import Run
from visualizer.attention.spec import Dtype
from visualizer.attention.stages import stages
from visualizer.attention.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from visualizer.attention.drawn_tiles import LeadingIndices
    from visualizer.attention.head_measures import HeadMeasures
    from visualizer.attention.layer_operations import LayerStep
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.progress import Progress

    Tensor = torch.Tensor


class LayerVectors(Struct, frozen=True, eq=False):
    """Vectors from which the attention of one layer can be recomputed.

    Parameters
    ----------
    queries, keys, values : Tensor
        Vectors [head, token, d]; several query heads may share one head of keys and values.
    logarithms : Tensor
        log Σ exp(score) over the allowed keys and the sink of each row, [head, query].
    sinks : Tensor or None
        Sink logits [head], which have no key but are part of the softmax of each row.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    logarithms: Tensor
    mask: LayerMask
    sinks: Tensor | None = None

    @property
    def bytes(self) -> int:
        """Size in bytes of the queries, keys, values and logarithms."""
        return sum(one.nbytes for one in (self.queries, self.keys, self.values, self.logarithms))

    def read_head_vectors(self, name: str, head: int) -> Tensor:
        """Return the queries, keys, values or logarithms of a query head, [token, …].

        16-bit vectors are converted to float32.
        """
        whole: Tensor = getattr(self, name)
        found = whole[head // (len(self.queries) // len(whole))]
        return found.to(torch.promote_types(found.dtype, torch.float32))


class LongTextAttention(Struct, frozen=True, eq=False):
    """Attention of a long text, in layers of equal size.

    Parameters
    ----------
    name : str
        Name of the source, as in `CapturedAttention`.
    scaling : float
        Scaling factor for the scores.
    softcap : float
        Soft cap of the scaled scores; 0 if there is none.
    """

    name: str
    layers: tuple[LayerVectors, ...]
    tokens: tuple[str, ...]
    scaling: float
    softcap: float = 0.0

    @property
    def header(self) -> CapturedAttention:
        """Sizes and settings of the attention, without its numbers."""
        one = self.layers[0]
        masks = tuple(layer.mask for layer in self.layers)
        is_one = all(mask == masks[0] for mask in masks)
        mask = masks[0] if is_one else LayerMask()
        dtype = Dtype.FLOAT64 if one.queries.dtype is torch.float64 else Dtype.FLOAT32
        vectors = CapturedVectors(
            one.queries.shape[-1],
            one.values.shape[-1],
            b"",
            b"",
            b"",
            self.scaling,
            mask.mask,
            mask.own_mask,
            mask.window,
            layer_masks=() if is_one else masks,
            softcap=self.softcap,
        )
        count = len(self.tokens)
        sizes = (len(self.layers), len(one.queries), count, count)
        return CapturedAttention(self.name, *sizes, dtype, b"", self.tokens, (), vectors)


class _CapturedBlockCalculator(BlockCalculator):
    """Computes blocks of the query–key stages of captured attention."""

    def __init__(
        self,
        found: LongTextAttention,
        spec: AttentionSpec,
        rows: tuple[Stage, ...],
        masks: tuple[LayerMask, ...],
    ) -> None:
        super().__init__(spec, getattr(torch, spec.dtype), rows)
        self._made_of = (found, spec, rows, masks)
        self._layers = found.layers
        self._specs = tuple(with_layer_mask(spec, mask) for mask in masks)

    def __reduce__(self) -> tuple[object, ...]:
        """Support copying and pickling of the inputs, without cached results."""
        return _CapturedBlockCalculator, self._made_of

    @property
    def leading_sizes(self) -> tuple[int, ...]:
        return (len(self._layers),)[: len(self._layers) - 1]

    def query_key_counts(self) -> tuple[int, int]:
        tokens = self._layers[0].queries.shape[-2]
        return tokens, tokens

    def read_head_vectors(self, name: str, place: LeadingIndices) -> Tensor:
        return self._layer_vectors_at(place).read_head_vectors(name, place[-1])

    def spec_at(self, place: LeadingIndices) -> AttentionSpec:
        return self._specs[place[0]] if self._specs else self.spec

    def sink_logit(self, place: LeadingIndices) -> Tensor | None:
        sinks = self._layer_vectors_at(place).sinks
        return None if sinks is None else sinks[place[-1]]

    def row_log_sum_exp(self, place: LeadingIndices) -> Tensor:
        return self._layer_vectors_at(place).logarithms[place[-1]]

    def _layer_vectors_at(self, place: LeadingIndices) -> LayerVectors:
        return self._layers[place[0] if len(place) > 1 else 0]

    def create_vector_tensor(self, name: str) -> BlockwiseTensor:
        """Return the queries, keys or values of all heads as a stage that is held in memory."""
        first = self._layers[0]
        heads, width = len(first.queries), getattr(first, name).shape[-1]
        sizes = (*self.leading_sizes, heads, self.query_key_counts()[0], width)
        return BlockwiseTensor(sizes, _HeadVectorSource(self, name))

    def vector_bytes(self, name: str) -> int:
        """Return the size in bytes of the named vectors in all layers."""
        return sum(int(getattr(layer, name).nbytes) for layer in self._layers)

    def bytes_in_file(self, name: str) -> int:
        """Return the part of `bytes` that is stored in a file."""
        vectors = (getattr(layer, name) for layer in self._layers)
        return sum(int(one.nbytes) for one in vectors if is_in_tensor_file(one))


class _HeadVectorSource(BlockSource):
    """Source of vectors for each query head; several heads may share the same vectors."""

    is_in_memory = True

    def __init__(self, blocks: _CapturedBlockCalculator, name: str) -> None:
        self._blocks, self._name = blocks, name

    @property
    def dtype(self) -> torch.dtype:
        return self._blocks.dtype

    @property
    def bytes(self) -> int:
        return self._blocks.vector_bytes(self._name)

    @property
    def bytes_in_file(self) -> int:
        return self._blocks.bytes_in_file(self._name)

    def compute_cells(self, place: LeadingIndices, rows: Tensor, columns: slice) -> Tensor:
        return self._blocks.read_head_vectors(self._name, place)[rows][:, columns].clone()


def blockwise_captured_run(found: LongTextAttention, device: str) -> Run:
    """Return a run for the attention of a long text, without computing any stage."""
    header = found.header
    sinks = [layer.sinks for layer in found.layers if layer.sinks is not None]
    rows = long_text_stages(header, has_sinks=bool(sinks))
    assert header.vectors is not None
    blocks = _CapturedBlockCalculator(found, header.spec, rows, header.vectors.layer_masks)
    held = {
        row.name: blocks.create_vector_tensor(row.name)
        if row.name in VECTOR_ROLES
        else blocks.stage_tensor(row)
        for row in rows
    }
    return create_blockwise_run(header, rows, held, torch.stack(sinks) if sinks else None, device)


def long_text_stages(header: CapturedAttention, *, has_sinks: bool) -> tuple[Stage, ...]:
    """Return the stages of a long text's attention.

    Parameters
    ----------
    header : CapturedAttention
        Sizes and settings, from `LongTextAttention.header`.
    has_sinks : bool
        Whether the softmax of each row includes a sink logit.
    """
    spec, vectors = header.spec, header.vectors
    assert vectors is not None
    steps: dict[str, LayerStep] = {}
    names: list[str] = [
        *VECTOR_ROLES,
        *(
            role
            for role in (Role.SCORES, Role.SCALED, Role.MASKED)
            if _has_stage_of_role(spec, role)
        ),
    ]
    if vectors.softcap:
        steps[Role.CAPPED] = ScoreCap(vectors.softcap)
    if has_sinks:
        steps[Role.WEIGHTS] = SinkSoftmax(SINKS_NAME)
    names += [Role.WEIGHTS, Role.CONTEXT, *(steps.keys() - {Role.WEIGHTS})]
    return captured_stages(spec, names, VECTOR_ROLES, steps)


def create_blockwise_run(
    header: CapturedAttention,
    rows: tuple[Stage, ...],
    held: Mapping[str, BlockwiseTensor],
    sinks: Tensor | None,
    device: str,
    measure_elsewhere: Callable[[str, Progress], HeadMeasures] | None = None,
) -> Run:
    """Return a run with stages that are computed when read.

    Parameters
    ----------
    rows : tuple of Stage
        The stages, from `long_text_stages`.
    held : mapping
        Tensors of the stages, by name.
    sinks : Tensor or None
        Sink logits, [layer, head].
    measure_elsewhere : callable, optional
        As in `Trace`.
    """
    assert header.vectors is not None
    weights = {} if sinks is None else {SINKS_NAME: sinks}
    axes = ("layer",)[: header.layers - 1]
    masks = header.vectors.layer_masks
    trace = Trace(
        header.spec, rows, {}, held, frozenset(held), axes, weights, masks, (), measure_elsewhere
    )
    notices = (SINKS_NOTICE,) if weights else ()
    return Run((header.query_tokens,), trace, device, notices, header, header.query_tokens)


def header_of_long_text_run(run: Run) -> CapturedAttention:
    """Return the sizes and settings of a run on a long text, without its numbers."""
    assert run.captured is not None
    return run.captured


def _has_stage_of_role(spec: AttentionSpec, role: Role) -> bool:
    return any(row.role is role for row in stages(spec))
