"""Traces: the tensors of all stages of a computation, and the interface for reading them.

Reading returns NumPy arrays, so callers do not need torch. This module only holds tensors, so it
does not import torch either.
"""

from __future__ import annotations

from functools import cached_property, reduce
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from visualizer.attention.cached_tensor import (
    CachedTensor,
    Index,
    cached_result_for_values,
    is_cached_for_values,
    to_readonly_array,
)
from visualizer.attention.captured_attention import LayerMask, with_layer_mask
from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.head_measures import (
    HeadMeasurementState,
    HeadMeasures,
    attended_cells,
    first_query_position,
    measure_by_bands,
    measure_layerwise,
    measure_uniform_attention,
    measure_uniform_attention_in_ranges,
)
from visualizer.attention.layer_operations import ResidualStream
from visualizer.attention.masks import (
    MASKED_STAGES,
    MaskingSpec,
    allowed_cells,
    allowed_key_ranges,
    create_cut_masks,
)
from visualizer.attention.roles import Role
from visualizer.attention.stages import (
    Operation,
    Stage,
    has_forbidden_cells,
    recorded_stage,
    stages,
)
from visualizer.progress import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

    from torch import Tensor

    from visualizer.attention.blockwise_tensor import BlockwiseTensor
    from visualizer.attention.display_transforms import HeadAggregate
    from visualizer.attention.spec import AttentionSpec, Texts
    from visualizer.progress import Progress

LeadingIndex = tuple[int, ...]
"""Indices along a trace's leading axes, such as layer and text; empty if there are none."""


class _TextsKey:
    """Texts as part of cache keys, with a cached hash: hashing long texts delays the panes."""

    def __init__(self, texts: Texts | None) -> None:
        self.texts, self._hash = texts, hash(texts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TextsKey) and self.texts == other.texts


class Trace:
    """All stages of one computation.

    Parameters
    ----------
    spec : AttentionSpec
        The spec that was computed.
    stages : tuple of Stage
        The stages of the spec, in order.
    parameters : mapping
        The weights, by their names in the book's ``state_dict``.
    held : mapping
        Tensors of the stages, with their caches.
    recomputed : frozenset of str
        Names of the newly computed stages; other stages share tensors with an earlier trace.
    axes : tuple of str
        Names of the leading axes, which precede the axes of every stage: ``layer`` and ``text``,
        outermost first.
    model_weights : mapping, optional
        Weights that the stages of a model's layer use, by their names in the model. These belong to
        the model and are not parameters of the run.
    layer_masks : tuple of LayerMask
        The mask of each layer if the layers have different masks; otherwise empty.
    cut : sequence of (layer, head, query, key)
        Cells that are forbidden in individual heads, in addition to the spec's mask.
    measure_elsewhere : callable, optional
        Measures the heads of a stage on another machine, if the numbers are there.
    """

    def __init__(
        self,
        spec: AttentionSpec,
        stages: tuple[Stage, ...],
        parameters: Mapping[str, Tensor],
        held: Mapping[str, CachedTensor],
        recomputed: frozenset[str],
        axes: tuple[str, ...] = (),
        model_weights: Mapping[str, Tensor] | None = None,
        layer_masks: tuple[LayerMask, ...] = (),
        cut: Sequence[tuple[int, int, int, int]] = (),
        measure_elsewhere: Callable[[str, Progress], HeadMeasures] | None = None,
    ) -> None:
        self.spec = spec
        self.stages = stages
        self.parameters = parameters
        self.recomputed = recomputed
        self.axes = axes
        self.model_weights = model_weights or {}
        self.layer_masks = layer_masks
        self.cut = tuple(cut)
        self.remote_measure = measure_elsewhere
        self.names = tuple(stage.name for stage in stages)
        """The stages' names, in order."""
        self._rows = dict(zip(self.names, stages, strict=True))
        self._held = dict(held)
        self._texts_key = _TextsKey(None)

    def __reduce__(self) -> tuple[object, ...]:
        """Support copying and pickling of the numbers, on the CPU and without caches.

        For matrices that are computed block by block, the inputs of the computation are copied.
        """
        # A copy of a module derives its stages from the spec.
        rows = None if self.has_module else self.stages
        made = self
        if not self.is_blockwise:
            held = {name: CachedTensor(_copy_to_cpu(self.tensor(name))) for name in self.names}
            parameters = {name: _copy_to_cpu(one) for name, one in self.parameters.items()}
            weights = {name: _copy_to_cpu(one) for name, one in self.model_weights.items()}
            made = Trace(
                self.spec, self.stages, parameters, held, frozenset(held), self.axes, weights,
                self.layer_masks, self.cut,
            )  # fmt: skip
        return _create_copied_trace, (self.spec, rows, *made._constructor_arguments(made._held)[2:])

    def _constructor_arguments(self, held: Mapping[str, CachedTensor]) -> tuple[Any, ...]:
        return (
            self.spec, self.stages, self.parameters, held, self.recomputed, self.axes,
            self.model_weights, self.layer_masks, self.cut, self.remote_measure,
        )  # fmt: skip

    def with_separate_tiles(self) -> Trace:
        """Return a trace with the same numbers and a separate copy of the drawn tiles.

        If no matrix is computed block by block, this trace itself is returned.
        """
        if not self.is_blockwise:
            return self
        held = {name: one.with_separate_tiles() for name, one in self._held.items()}
        return Trace(*self._constructor_arguments(held))

    def select_stages(self, names: Collection[str]) -> Trace:
        """Return a trace with only the named stages and the attention stage.

        A stage with a missing input becomes a given stage; its computation cannot be shown.
        """
        kept = {*names, self.attention_stage_name}
        rows = tuple(
            row if {*row.reads, *_reads_of_previous_layer(row)} <= kept else recorded_stage(row)
            for row in self.stages
            if row.name in kept
        )
        held = {row.name: self._held[row.name] for row in rows}
        spec, _, parameters, _, recomputed, *others = self._constructor_arguments(self._held)
        return Trace(spec, rows, parameters, held, recomputed & held.keys(), *others)

    def __contains__(self, stage: str) -> bool:
        return stage in self._held

    @cached_property
    def query_count(self) -> int:
        """Number of queries including padding, which is usually also the number of keys."""
        return self.shape(self.stages[0].name)[-2]

    @cached_property
    def query_key_counts(self) -> tuple[int, int]:
        """Numbers of queries and keys."""
        first = self.stages[0]
        if first.dims[-1] == "key":
            return self.query_count, self.shape(first.name)[-1]
        return self.query_count, self.shape(Role.KEYS)[
            -2
        ] if Role.KEYS in self else self.query_count

    @cached_property
    def leading_sizes(self) -> tuple[int, ...]:
        """Sizes of the leading axes; empty without leading axes."""
        first = self.stages[0]
        return self.shape(first.name)[: -len(first.dims)]

    @property
    def leading_axis_names(self) -> tuple[str, ...]:
        """Names of the leading axes or, without these, of the axis for further texts or layers."""
        return self.axes or ("text" if self.has_module else "layer",)

    def axis_size(self, axis: str) -> int:
        """Return the size of a leading axis, or 1 if the trace does not have this axis."""
        return dict(zip(self.axes, self.leading_sizes, strict=True)).get(axis, 1)

    def axis_position(self, axis: str, leading: LeadingIndex) -> int:
        """Return the position along a leading axis, or 0 if the trace does not have this axis."""
        return dict(zip(self.axes, leading, strict=True)).get(axis, 0)

    def leading_index(self, **positions: int) -> LeadingIndex:
        """Return the leading index at the given positions, which are clipped to the axes."""
        sized = zip(self.axes, self.leading_sizes, strict=True)
        return tuple(min(positions.get(axis, 0), size - 1) for axis, size in sized)

    def leading_indices(self) -> Iterator[LeadingIndex]:
        """Yield every leading index, with the innermost axis fastest; () without leading axes."""
        return product(*map(range, self.leading_sizes))

    @cached_property
    def _layer_specs(self) -> tuple[AttentionSpec, ...]:
        return tuple(with_layer_mask(self.spec, one) for one in self.layer_masks)

    def spec_at(self, leading: LeadingIndex) -> AttentionSpec:
        """Return the spec with the mask of the layer at a leading index."""
        specs = self._layer_specs
        return specs[self.axis_position("layer", leading)] if specs else self.spec

    def allowed_mask(
        self,
        stage: str,
        leading: LeadingIndex,
        head: int | None = None,
        queries: int | slice | np.ndarray = slice(None),
        keys: slice = slice(None),
    ) -> np.ndarray:
        """Return which cells the masks allow at a stage, as a read-only boolean array [query, key].

        Parameters
        ----------
        head : int, optional
            If given, the cut cells of this head are also forbidden.
        queries : int or slice or numpy.ndarray
            The queries; for a single query, the result is [key].
        """
        masking = MaskingSpec.from_spec(self.spec_at(leading), stage)
        text = self.axis_position("text", leading)
        rows = slice(queries, queries + 1) if isinstance(queries, int) else queries
        cells = allowed_cells(masking, self.query_key_counts, text, rows, keys)
        cut = self.cut_cells(stage, leading, head)
        if cut is not None:
            cells = cells & ~cut[rows, keys]
        cells.flags.writeable = False
        return cells[0] if isinstance(queries, int) else cells

    def has_forbidden_cells(
        self, stage: str, leading: LeadingIndex, head: int | None = None
    ) -> bool:
        """Return whether a stage has forbidden cells or cells that are cut in a head."""
        is_cut = self.cut_cells(stage, leading, head) is not None
        return is_cut or has_forbidden_cells(self.spec_at(leading), stage)

    def cut_cells(self, stage: str, leading: LeadingIndex, head: int | None) -> np.ndarray | None:
        """Return which cells of a head are cut, as a read-only boolean array [query, key].

        Returns None if no cell is cut.
        """
        if head is None or stage not in MASKED_STAGES:
            return None
        return self._cut_masks.get((self.axis_position("layer", leading), head))

    @cached_property
    def _cut_masks(self) -> dict[tuple[int, int], np.ndarray]:
        return create_cut_masks(self.cut, self.query_key_counts)

    @property
    def has_module(self) -> bool:
        """Whether the trace has all stages of a module with known settings, including the input."""
        return self.stages[0].operation is Operation.INPUT_VECTORS

    @property
    def attention_stage_name(self) -> str:
        """Name of the attention stage: the weights or, without weights, the scores."""
        row = self.stage_of_role(Role.WEIGHTS)
        return row.name if row else self.output_stage_name

    @property
    def output_stage_name(self) -> str:
        """Name of the stage that contains the module's output."""
        return self.stages[-1].name

    @property
    def bytes(self) -> int:
        """Size in bytes of all stages, in which shared storage is counted once."""
        apart = [one for one in self._held.values() if one.is_blockwise or one.is_computed]
        # Remote tensors have no storage here, except matrices that are computed block by block.
        whole = [one for one in self._held.values() if one not in apart and one.is_in_memory]
        storages = [held.tensor.untyped_storage() for held in whole]
        held = sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
        return held + sum(each.bytes for each in apart)

    @property
    def bytes_in_file(self) -> int:
        """The part of `bytes` that is stored in a file instead of in memory."""
        return sum(held.bytes_in_file for held in self._held.values())

    @property
    def stored_stages(self) -> tuple[Stage, ...]:
        """The stages that are not computed block by block."""
        return tuple(one for one in self.stages if not self._held[one.name].is_blockwise)

    @cached_property
    def is_blockwise(self) -> bool:
        """Whether the query–key matrices are computed block by block when read."""
        return self._held[self.attention_stage_name].is_blockwise

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a stage, with the leading axes first, or of a parameter."""
        return self._held[name].shape if name in self._held else tuple(self.tensor(name).shape)

    def stage(self, name: str) -> Stage:
        """Return the description of a stage."""
        return self._rows[name]

    def stage_of_role(self, role: Role) -> Stage | None:
        """Return the stage of a role, or None if the computation has none."""
        return self._rows.get(role)

    def stage_in_layer(self, name: str, leading: LeadingIndex) -> Stage:
        """Return the description of a stage in a layer; layers may compute it differently."""
        row = self._rows[name]
        return row.by_layer[self.axis_position("layer", leading)] if row.by_layer else row

    def tensor(self, name: str) -> Tensor:
        """Return the torch tensor of a stage or parameter."""
        if name in self._held:
            return self._held[name].tensor
        return self.parameters[name] if name in self.parameters else self.model_weights[name]

    @cached_property
    def dropout_stage_name(self) -> str | None:
        """Name of the stage of weights after dropout, or None without dropout."""
        return next((row.name for row in self.stages if row.operation is Operation.DROPOUT), None)

    def weights_qualifier(self, stage: str) -> str:
        """Return which step a stage of weights precedes or follows, such as "before dropout".

        Every text about a weight includes this qualifier, so that the weights of one pair in two
        stages are not confused. It is empty for the only weights of a computation and for other
        stages.
        """
        row = self.stage(stage)
        if row.is_before_mask:
            return "before the mask"
        if row.operation is Operation.MASK_AFTER_SOFTMAX and stage != self.attention_stage_name:
            return "before renormalization"
        if row.operation is Operation.IMPLIED_WEIGHTS:
            return "implied by the features"
        if self.dropout_stage_name is None:
            return ""
        sides = {
            self.dropout_stage_name: "after dropout",
            self.attention_stage_name: "before dropout",
        }
        return sides.get(stage, "")

    def stage_name_before_dropout(self, stage: str) -> str | None:
        """Return the name of the stage before dropout, or None unless the given one is after it."""
        return self.stage(stage).reads[0] if stage == self.dropout_stage_name else None

    @property
    def _value_vectors(self) -> CachedTensor | None:
        """The vectors that the weights are applied to."""
        return self._held.get(Role.VALUES)

    def cached_stage_tensor(self, stage: str) -> CachedTensor:
        """Return a stage's tensor with its cache, which a later trace can reuse."""
        return self._held[stage]

    def supported_transform(self, lens: WeightTransform) -> WeightTransform:
        """Return a transform, or the identity if the transform needs values that are missing."""
        is_possible = lens is not WeightTransform.TIMES_VALUE or self._value_vectors is not None
        return lens if is_possible else WeightTransform.PLAIN

    def displayed_tensor(
        self,
        stage: str,
        lens: WeightTransform = WeightTransform.PLAIN,
        by: HeadAggregate | None = None,
    ) -> CachedTensor:
        """Return a stage as displayed, with transformed weights or aggregated heads.

        Results are cached with the stage's tensor, so traces that reuse the tensor share them.

        Raises
        ------
        KeyError
            If the stage does not exist, or has no heads to aggregate.
        """
        held, row = self._held[stage], self.stage(stage)
        lens = self.supported_transform(lens)
        if row.is_weights and lens is not WeightTransform.PLAIN:
            held = held.transform_weights(lens, self._value_vectors)
        if by is None:
            return held
        if "head" not in row.dims:
            raise KeyError((stage, by))
        return held.aggregate_heads(by)

    def read(self, name: str, index: Index = ()) -> np.ndarray:
        """Read numbers of a stage or of a parameter.

        Parameters
        ----------
        name : str
            A stage, or a parameter by its ``state_dict`` name.
        index : tuple of int and slice
            Index along the leading axes and then the stage's axes; omitted axes are read in full.

        Returns
        -------
        numpy.ndarray
            The numbers, read-only, in the spec's dtype.
        """
        if name in self._held:
            return self._held[name].read(index)
        return to_readonly_array(self.tensor(name)[index])

    def limits(self, stage: str) -> tuple[float, float]:
        """Return the smallest and the largest finite number in all heads and texts of a stage."""
        return self._held[stage].limits()

    def head_measures(
        self, stage: str, texts: Texts | None = None, progress: Progress = ignore_progress
    ) -> HeadMeasures:
        """Return the measures of each head in a stage of weights.

        The measures are cached with the tensors of the stage and of the values that the weights are
        applied to. For a stage that is computed block by block, this may take minutes.

        Parameters
        ----------
        texts : tuple of tuple of str, optional
            The tokens of each text's keys; the last of these are the queries. Empty if the keys are
            from another text, None if the tokens are unknown.
        progress : callable
            Called while a stage is measured block by block.
        """
        held, lengths, values = self._held[stage], self.spec.lengths, self._value_vectors

        def compute_measures() -> HeadMeasures:
            if self.remote_measure:
                return self.remote_measure(stage, progress)
            if held.is_blockwise:
                blocks = cast("BlockwiseTensor", held)
                norms = None if values is None else values.row_norms()
                return measure_by_bands(blocks, lengths, texts, norms, progress)
            return measure_layerwise(held, values, lengths, texts)

        measures: HeadMeasures = cached_result_for_values(
            values, held, self._head_measures_cache_key(texts), compute_measures
        )
        return measures

    def has_head_measures(self, stage: str, texts: Texts | None = None) -> bool:
        """Return whether `head_measures` is quick, as for a stage that is held in memory."""
        held, values = self._held[stage], self._value_vectors
        return not held.is_blockwise or is_cached_for_values(
            values, held, self._head_measures_cache_key(texts)
        )

    def head_measurement_state(
        self, stage: str, texts: Texts | None = None
    ) -> HeadMeasurementState:
        """Return the progress of `head_measures` for a stage, for display."""
        key = "measurement", *self._head_measures_cache_key(texts)
        found: HeadMeasurementState = cached_result_for_values(
            self._value_vectors, self._held[stage], key, HeadMeasurementState
        )
        return found

    def _head_measures_cache_key(self, texts: Texts | None) -> tuple[Hashable, ...]:
        key = self._texts_key  # the worker may change it in the meantime
        if key.texts is not texts:
            key = self._texts_key = _TextsKey(texts)
        return "measures", self.spec.lengths, key

    def uniform_head_measures(
        self,
        stage: str,
        leading: LeadingIndex,
        texts: Texts | None = None,
        progress: Progress = ignore_progress,
    ) -> HeadMeasures:
        """Return the measures of a head that attends equally to all allowed keys of a text.

        The value weighting depends on the norms of the values, so it is averaged over the heads of
        all layers. If no mask is known, a key counts as allowed if any head attends to it. The
        measures are cached with the tensors of the stage and of the values.
        """
        text = self.axis_position("text", leading)
        held, values = self._held[stage], self._value_vectors
        words, first = (
            texts[text] if texts else (),
            first_query_position(self.query_key_counts, texts),
        )
        is_known = self.has_module or bool(self.layer_masks) or held.is_blockwise
        masking = MaskingSpec.from_spec(self.spec_at(leading), stage) if is_known else None

        def compute_measures() -> HeadMeasures:
            norms = _value_norms(values, self.axes, text)
            if masking is None:
                layers = held.split_by_layer() if self.axes == ("layer",) else (held,)
                read = reduce(
                    np.logical_or, (attended_cells(one.tensor.detach()) for one in layers)
                )
                return measure_uniform_attention(read, self.query_count, words, norms, first)
            real = masking.lengths[text] if masking.lengths else self.query_count
            is_square = self.query_key_counts[0] == self.query_key_counts[1]
            ranges = allowed_key_ranges(masking, self.query_count, text)
            if held.is_blockwise and is_square and ranges is not None:
                own = ranges[0][:real], ranges[1][:real]
                return measure_uniform_attention_in_ranges(own, words, norms, progress, first)
            return measure_uniform_attention(
                self.allowed_mask(stage, leading), real, words, norms, first
            )

        key = ("uniform", masking, text, words, first)
        measures: HeadMeasures = cached_result_for_values(values, held, key, compute_measures)
        return measures


def _value_norms(
    values: CachedTensor | None, axes: tuple[str, ...], text: int
) -> np.ndarray | None:
    """Return the norms of a text's values in all heads and layers, [head, key]."""
    if values is None or not values.is_in_memory:
        return None
    index = tuple(text if axis == "text" else slice(None) for axis in axes)
    return to_readonly_array(values.row_norms()[index].flatten(0, -2))


def _reads_of_previous_layer(row: Stage) -> tuple[str, ...]:
    return ("result",) if isinstance(row.step, ResidualStream) else ()


def _create_copied_trace(spec: AttentionSpec, rows: tuple[Stage, ...] | None, *parts: Any) -> Trace:
    """Create a copied trace; without rows, all of its stages were computed from the spec."""
    return Trace(spec, rows or stages(spec), *parts)


def _copy_to_cpu(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone()
