"""A run of attention that a model computed of a long text; its matrices are made when read.

What is kept of each layer are the queries, keys and values that met, and the logarithm of each
row's sum of exponentials. Keys and values that several heads read are kept once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec import Struct

from visualizer.attention.blockwise_stages import MatrixBlocks
from visualizer.attention.blockwise_tensor import BlockSource, BlockwiseTensor
from visualizer.attention.captured_attention import (
    SINKS,
    CapturedAttention,
    CapturedVectors,
    LayerMask,
    captured_stages,
    with_mask,
)
from visualizer.attention.model_layer_steps import ScoreCap, SinkSoftmax
from visualizer.attention.run import Run
from visualizer.attention.run_from_captured_attention import WITH_SINKS
from visualizer.attention.spec import Dtype
from visualizer.attention.stages import stages
from visualizer.attention.tensors_in_file import is_in_file
from visualizer.attention.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from visualizer.attention.blockwise_tensor import Place
    from visualizer.attention.head_measures import HeadMeasures
    from visualizer.attention.model_layer_steps import LayerStep
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.progress_callback import Progress

    Tensor = torch.Tensor

VECTORS = ("queries", "keys", "values")


class LayerVectors(Struct, frozen=True, eq=False):
    """What the attention of one layer is computed from again.

    Parameters
    ----------
    queries, keys, values : Tensor
        [head, token, d]; of keys and values each may be read by several heads.
    logarithms : Tensor
        log Σ exp(score) of each row over the keys that it may read, and over the sink, [head,
        query].
    sinks : Tensor or None
        Logits without a key, which take part in each row's softmax, [head].
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    logarithms: Tensor
    mask: LayerMask
    sinks: Tensor | None = None

    @property
    def bytes(self) -> int:
        """The bytes of what is kept of each token."""
        return sum(one.nbytes for one in (self.queries, self.keys, self.values, self.logarithms))

    def of_head(self, name: str, head: int) -> Tensor:
        """Return the vectors that a head reads, [token, d]."""
        whole: Tensor = getattr(self, name)
        return whole[head // (len(self.queries) // len(whole))]


class LongAttention(Struct, frozen=True, eq=False):
    """Attention of a long text in layers that are alike.

    Parameters
    ----------
    name : str
        What it is of.
    scaling : float
        Multiplies scores.
    softcap : float
        What scaled scores are kept within; 0 where they are not.
    """

    name: str
    layers: tuple[LayerVectors, ...]
    tokens: tuple[str, ...]
    scaling: float
    softcap: float = 0.0

    @property
    def header(self) -> CapturedAttention:
        """Its sizes and settings, without numbers."""
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


class _CapturedBlocks(MatrixBlocks):
    """Computes blocks of the stages of captured attention."""

    def __init__(
        self,
        found: LongAttention,
        spec: AttentionSpec,
        rows: tuple[Stage, ...],
        masks: tuple[LayerMask, ...],
    ) -> None:
        super().__init__(spec, found.layers[0].queries.dtype, rows)
        self._made_of = (found, spec, rows, masks)
        self._layers = found.layers
        self._specs = tuple(with_mask(spec, mask) for mask in masks)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle what is computed with."""
        return _CapturedBlocks, self._made_of

    @property
    def leading(self) -> tuple[int, ...]:
        return (len(self._layers),)[: len(self._layers) - 1]

    def sides(self) -> tuple[int, int]:
        tokens = self._layers[0].queries.shape[-2]
        return tokens, tokens

    def of_head(self, name: str, place: Place) -> Tensor:
        return self._layer(place).of_head(name, place[-1])

    def spec_at(self, place: Place) -> AttentionSpec:
        return self._specs[place[0]] if self._specs else self.spec

    def sink(self, place: Place) -> Tensor | None:
        sinks = self._layer(place).sinks
        return None if sinks is None else sinks[place[-1]]

    def logarithms(self, place: Place) -> Tensor:
        return self._layer(place).logarithms[place[-1]]

    def _layer(self, place: Place) -> LayerVectors:
        return self._layers[place[0] if len(place) > 1 else 0]

    def held(self, name: str) -> BlockwiseTensor:
        """Return vectors that are held, as a stage of all heads."""
        first = self._layers[0]
        heads, width = len(first.queries), getattr(first, name).shape[-1]
        sizes = (*self.leading, heads, self.sides()[0], width)
        return BlockwiseTensor(sizes, _VectorsOfHeads(self, name))

    def bytes(self, name: str) -> int:
        """Return the bytes of vectors of all layers."""
        return sum(int(getattr(layer, name).nbytes) for layer in self._layers)

    def bytes_in_file(self, name: str) -> int:
        """Return the bytes of those of them that lie in a file."""
        vectors = (getattr(layer, name) for layer in self._layers)
        return sum(int(one.nbytes) for one in vectors if is_in_file(one))


class _VectorsOfHeads(BlockSource):
    """Vectors of heads, of which some may read the same."""

    is_held = True

    def __init__(self, blocks: _CapturedBlocks, name: str) -> None:
        self._blocks, self._name = blocks, name

    @property
    def dtype(self) -> torch.dtype:
        return self._blocks.dtype

    @property
    def bytes(self) -> int:
        return self._blocks.bytes(self._name)

    @property
    def bytes_in_file(self) -> int:
        return self._blocks.bytes_in_file(self._name)

    def cells(self, place: Place, rows: Tensor, columns: slice) -> Tensor:
        return self._blocks.of_head(self._name, place)[rows][:, columns].clone()


def blockwise_captured_run(found: LongAttention, device: str) -> Run:
    """Return a run of attention of a long text, without computing."""
    header = found.header
    sinks = [layer.sinks for layer in found.layers if layer.sinks is not None]
    rows = stages_of_long_text(header, has_sinks=bool(sinks))
    assert header.vectors is not None
    blocks = _CapturedBlocks(found, header.spec, rows, header.vectors.layer_masks)
    held = {
        row.name: blocks.held(row.name) if row.name in VECTORS else blocks.of(row) for row in rows
    }
    return run_by_blocks(header, rows, held, torch.stack(sinks) if sinks else None, device)


def stages_of_long_text(header: CapturedAttention, *, has_sinks: bool) -> tuple[Stage, ...]:
    """List the stages of attention of a long text.

    Parameters
    ----------
    header : CapturedAttention
        Its sizes and settings, as `LongAttention.header`.
    has_sinks : bool
        Whether logits without a key take part in the softmax of each row.
    """
    spec, vectors = header.spec, header.vectors
    assert vectors is not None
    steps: dict[str, LayerStep] = {}
    names = [*VECTORS, *(name for name in ("scores", "scaled", "masked") if _has(spec, name))]
    if vectors.softcap:
        steps["capped"] = ScoreCap(vectors.softcap)
    if has_sinks:
        steps["weights"] = SinkSoftmax(SINKS)
    names += ["weights", "context", *(steps.keys() - {"weights"})]
    return captured_stages(spec, names, VECTORS, steps)


def run_by_blocks(
    header: CapturedAttention,
    rows: tuple[Stage, ...],
    held: Mapping[str, BlockwiseTensor],
    sinks: Tensor | None,
    device: str,
    measure_elsewhere: Callable[[str, Progress], HeadMeasures] | None = None,
) -> Run:
    """Return a run of stages that are computed where they are read.

    Parameters
    ----------
    rows : tuple of Stage
        As `stages_of_long_text` lists them.
    held : mapping
        The stages by their names.
    sinks : Tensor or None
        The logits without a key, [layer, head].
    measure_elsewhere : callable, optional
        As in `Trace`.
    """
    assert header.vectors is not None
    weights = {} if sinks is None else {SINKS: sinks}
    axes = ("layer",)[: header.layers - 1]
    masks = header.vectors.layer_masks
    trace = Trace(
        header.spec, rows, {}, held, frozenset(held), axes, weights, masks, (), measure_elsewhere
    )
    notices = (WITH_SINKS,) if weights else ()
    return Run((header.query_tokens,), trace, device, notices, header, header.query_tokens)


def header_of(run: Run) -> CapturedAttention:
    """Return the sizes and settings of a run of a long text, without numbers."""
    assert run.captured is not None
    return run.captured


def _has(spec: AttentionSpec, name: str) -> bool:
    return any(row.name == name for row in stages(spec))
