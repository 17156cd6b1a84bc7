"""Infers how a layer computes its queries, keys, values and attention output."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import torch
from msgspec.structs import replace

from visualizer.attention.cached_tensor import to_float64_on_cpu
from visualizer.attention.layer_operations import (
    HiddenActivation,
    JoinedHeads,
    LatentKeys,
    LateSink,
    LinearLayer,
    NormLayer,
    ResidualStream,
    RotaryPosition,
)
from visualizer.attention.roles import Role
from visualizer.attention.stage_computation import rotate_pairs
from visualizer.models.layer_stage_builder import ROTARY_KEY, LayerStageBuilder, recognize_norm
from visualizer.models.layer_values import (
    are_tensors_close,
    are_tensors_equal,
    columns_reader,
    concatenated_head_outputs,
    dot_product_reader,
    find_scale_factor,
    gated_context_reader,
    head_norm_reader,
    head_vectors,
    heads_reader,
    latent_keys_reader,
    module_input_reader,
    module_output_reader,
    modules_with_input,
    sink_scaled_context,
    unedited_context_vectors,
    vectors_without_batch_axis,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from visualizer.models.layer_recorder import ModuleCall


KEPT_SHARE_KEY = "kept_by_sinks"
"""Name, in a trace's weights, of the tensor that `total_key_weight` computes."""


class AttentionRecognizer:
    """Recognizer of the steps from the input of a layer to the output of its attention."""

    def __init__(self, layer: LayerStageBuilder) -> None:
        self.layer = layer

    def find_projection_input(self, stream: Tensor) -> str | None:
        """Find the input of the projections: the stream, normalized or not; None if unknown."""
        self.layer.add_stage(
            Role.RESIDUAL, module_input_reader(self.layer.path), ResidualStream((None,))
        )
        inputs = [
            vectors_without_batch_axis(each.given)
            for each in self.layer.attention_matrices.values()
        ]
        if any(are_tensors_equal(one, stream) for one in inputs):
            return Role.RESIDUAL
        for path, normed, step in self.layer.iterate_recognized_norms(stream):
            if any(are_tensors_equal(one, normed) for one in inputs):
                self.layer.add_stage(Role.NORMED, module_output_reader(path), step, Role.RESIDUAL)
                return Role.NORMED
        return None

    def find_projections(self, entered: str) -> None:
        """Find how queries, keys and values are computed from the input of the attention."""
        call = self.layer.call
        parts = {Role.QUERIES: call.queries, Role.KEYS: call.keys, Role.VALUES: call.values}
        heads = call.weights.shape[1]
        sizes = [(part.shape[1], part.shape[3]) for part in parts.values() if part is not None]
        self._find_latent_keys(entered)
        for role, (name, part) in enumerate(parts.items()):
            assert part is not None
            if name in self.layer.steps:
                continue
            whole = part[0]  # head token d_head
            shared = tuple(at // (heads // len(whole)) for at in range(heads))
            if self._find_projection(entered, name, whole, shared, role, sizes):
                continue
            if name != Role.QUERIES or not self._find_latent_queries(entered, whole, shared, sizes):
                self.layer.add_stage(name, dot_product_reader(name, shared), None)

    def _find_latent_vectors(self, entered: str) -> Iterator[tuple[str, str, NormLayer, Tensor]]:
        """Yield latent vectors: normalized projections of the stream to fewer columns.

        Each item consists of the path of the projection, the path and the step of the norm, and the
        latent vectors. The norm may use only the first columns of the projection.
        """
        for path, projected in self._projections_of_stage(entered):
            for norm, each in self.layer.norms.items():
                given, normed = (
                    vectors_without_batch_axis(each.given),
                    vectors_without_batch_axis(each.result),
                )
                if given is None or normed is None:
                    continue
                if are_tensors_equal(given, projected[:, : given.shape[-1]]):
                    step = recognize_norm(self.layer.modules[norm], norm, given, normed)
                    if step:
                        yield path, norm, step, normed

    def _projections_of_stage(self, stage: str) -> Iterator[tuple[str, Tensor]]:
        """Yield the path and the result of each attention matrix that is applied to a stage."""
        return modules_with_input(self.layer.attention_matrices, self.layer.tensors[stage])

    def _add_latent_stages(
        self, name: str, path: str, norm: str, step: NormLayer, entered: str
    ) -> str:
        size = self.layer.layer_pass.module_vectors(norm, is_input=True).shape[-1]
        self.layer.add_stage(
            name, columns_reader(path, 0, size), self.layer.linear_step(path), entered
        )
        self.layer.add_stage(f"normed_{name}", module_output_reader(norm), step, name)
        return f"normed_{name}"

    def _find_latent_queries(
        self, entered: str, whole: Tensor, shared: tuple[int, ...], sizes: list[tuple[int, int]]
    ) -> bool:
        """Find queries that are computed from one latent vector per token."""
        for path, norm, step, _ in self._find_latent_vectors(entered):
            read = self._add_latent_stages("latent_queries", path, norm, step, entered)
            if self._find_projection(read, Role.QUERIES, whole, shared, 0, sizes):
                return True
            self.layer.remove_stages("latent_queries", read)
        return False

    def _find_latent_keys(self, entered: str) -> None:
        """Find keys and values that are computed from one latent vector per token, as in DeepSeek.

        The rotary columns of the keys are shared by all heads.
        """
        keys, values = self.layer.call.keys, self.layer.call.values
        assert keys is not None
        assert values is not None
        heads, _, size = keys.shape[1:]
        for path, norm, step, normed in self._find_latent_vectors(entered):
            for to, projected in modules_with_input(self.layer.attention_matrices, normed):
                wide, left = divmod(projected.shape[-1], heads)
                own = wide - values.shape[-1]
                if left or values.shape[1] != heads or not 0 < own < size:
                    continue
                first = tuple(range(0, heads * wide, wide))
                after = tuple(at + own for at in first)
                if not torch.equal(
                    heads_reader(to, after, values.shape[-1])(self.layer.layer_pass), values[0]
                ):
                    continue
                start = normed.shape[-1]
                keys_source = latent_keys_reader(to, first, own, path, start, size - own)
                rotary = self._find_rotation(keys_source(self.layer.layer_pass), keys[0])
                if rotary is None:
                    continue
                read = self._add_latent_stages("latent_keys", path, norm, step, entered)
                others = columns_reader(path, start, size - own)
                self.layer.add_stage(
                    "shared_keys", others, self.layer.linear_step(path, (start,)), entered
                )
                linear = self.layer.linear_step(to, first)
                joined = LatentKeys(
                    linear.modules, linear.has_bias, linear.is_transposed, first, own_columns=own
                )
                self.layer.add_stage("projected_keys", keys_source, joined, read, "shared_keys")
                every = tuple(range(heads))
                self.layer.add_stage(
                    Role.KEYS, dot_product_reader(Role.KEYS, every), rotary, "projected_keys"
                )
                self.layer.add_stage(
                    Role.VALUES,
                    dot_product_reader(Role.VALUES, every),
                    self.layer.linear_step(to, after),
                    read,
                )
                return

    def _find_projection(
        self,
        entered: str,
        name: str,
        whole: Tensor,
        shared: tuple[int, ...],
        role: int,
        sizes: list[tuple[int, int]],
    ) -> bool:
        """Find the matrix that computes queries, keys or values, and the steps that follow it."""
        for path, result in self._projections_of_stage(entered):
            for first in _candidate_first_columns(role, sizes, result.shape[-1]):
                width = whole.shape[-1]
                projected = heads_reader(path, first, width)(self.layer.layer_pass)
                columns = tuple(first[head] for head in shared)
                step = self.layer.linear_step(path, columns)
                factor = find_scale_factor(projected, whole)
                if factor is not None:
                    self.layer.add_stage(
                        name,
                        dot_product_reader(name, shared),
                        replace(step, factor=factor),
                        entered,
                    )
                    return True
                if name != Role.VALUES and self._find_head_transforms(
                    name, projected, whole, shared, step, entered
                ):
                    return True
        return False

    def _find_head_transforms(
        self,
        name: str,
        made: Tensor,
        whole: Tensor,
        shared: tuple[int, ...],
        step: LinearLayer,
        entered: str,
    ) -> bool:
        """Find the steps from projected to final queries or keys: norms and rotary embeddings."""
        read, columns = f"projected_{name}", step.first_columns
        projected = heads_reader(step.modules[0], columns, whole.shape[-1])
        sizes = (len(whole), whole.shape[-1], shared)
        for now, normed in (*self._find_head_norms(shared, given=made), (made, None)):
            rotary = self._find_rotation(now, whole)
            if rotary is None and not torch.equal(now, whole):
                continue
            self.layer.add_stage(read, projected, step, entered)
            if normed and rotary:
                target = f"normed_{name}"
                source = head_norm_reader(normed.modules[0], *sizes, is_input=False)
                self.layer.add_stage(target, source, normed, read)
                read = target
            self.layer.add_stage(name, dot_product_reader(name, shared), rotary or normed, read)
            return True
        for turned, normed in self._find_head_norms(shared, result=whole):
            rotary = self._find_rotation(made, turned)
            if rotary:
                self.layer.add_stage(read, projected, step, entered)
                source = head_norm_reader(normed.modules[0], *sizes, is_input=True)
                self.layer.add_stage(f"turned_{name}", source, rotary, read)
                self.layer.add_stage(
                    name, dot_product_reader(name, shared), normed, f"turned_{name}"
                )
                return True
        return False

    def _find_head_norms(
        self, shared: tuple[int, ...], given: Tensor | None = None, result: Tensor | None = None
    ) -> Iterator[tuple[Tensor, NormLayer]]:
        """Yield the result of each norm with the given input, or the input for the given result.

        The norm is applied to the queries or keys of each head, or of all heads together.
        """
        known = given if given is not None else result
        assert known is not None
        heads, _, width = known.shape
        for path, each in self.layer.norms.items():
            if not path.startswith(f"{self.layer.call.module}."):
                continue
            ends = [head_vectors(part, heads, width) for part in (each.given, each.result)]
            before, after = ends
            if before is None or after is None:
                continue
            if not are_tensors_equal(before if given is not None else after, known):
                continue
            is_over_heads = each.given.shape[-1] != width
            if is_over_heads:
                before, after = (part.transpose(0, 1).flatten(1) for part in (before, after))
            step = recognize_norm(self.layer.modules[path], path, before, after)
            if step:
                step = replace(step, is_over_heads=is_over_heads, heads=shared)
                other = ends[1] if given is not None else ends[0]
                assert other is not None
                yield other, step

    def _find_rotation(self, before: Tensor, after: Tensor) -> RotaryPosition | None:
        """Find the rotary embedding that maps the last token's vectors to those in ``after``."""
        each = self.layer.module_calls.get(self.layer.call.module)
        if each is None or each.rotation is None:
            return None
        columns = each.rotation[0].shape[-1]
        given, wanted = (
            to_float64_on_cpu(before[:, -1]),
            to_float64_on_cpu(after[:, -1]),
        )  # head d_head
        size = given.shape[-1]
        kinds = product((columns // 2, columns), (False, True), (1, 2), (False, True))
        for pairs, is_interleaved, stride, is_backward in kinds:
            if not 0 < 2 * pairs <= size or pairs * stride > columns:
                continue
            step = RotaryPosition(ROTARY_KEY, pairs, is_interleaved, stride, is_backward)
            cosines, sines = (
                to_float64_on_cpu(part[-1]) for part in rotation_cosines_and_sines(each, step)
            )
            starts = dict.fromkeys((0, size - 2 * pairs))
            for start, is_regrouped in product(starts, (False, True)[: 1 + is_interleaved]):
                candidate = replace(step, start=start, is_regrouped=is_regrouped)
                if are_tensors_close(rotate_pairs(given, cosines, sines, candidate), wanted):
                    return candidate
        return None

    def find_head_combination(self, entered: str, result: Tensor) -> str | None:
        """Find how the head outputs are combined; return the last stage, if it is known."""
        context = self.layer.call.context
        assert context is not None
        joined = concatenated_head_outputs(self.layer.layer_pass)
        for path, each in self.layer.attention_matrices.items():
            given = vectors_without_batch_axis(each.given)
            if (
                given is None
                or given.shape != joined.shape
                or vectors_without_batch_axis(each.result) is None
            ):
                continue
            is_plain = are_tensors_equal(given, joined)
            if not is_plain and not self._find_context_gate(entered, given, joined):
                continue
            reader = module_input_reader(path)
            is_whole = is_plain and not self._find_post_softmax_sinks()
            read = Role.CONTEXT if is_whole else "gated_context"
            self.layer.add_stage(Role.CONCAT, reader, JoinedHeads(frozenset()), read)
            self.layer.add_stage(
                Role.OUTPUT, module_output_reader(path), self.layer.linear_step(path), Role.CONCAT
            )
            return Role.OUTPUT
        stream = self.layer.tensors[Role.RESIDUAL]
        if joined.shape == stream.shape and self.layer.is_input_or_result(stream + joined, result):
            self.layer.add_stage(
                Role.CONCAT, concatenated_head_outputs, JoinedHeads(frozenset()), Role.CONTEXT
            )
            return Role.CONCAT
        return None

    def _find_post_softmax_sinks(self) -> bool:
        """Find sinks that scale the context vectors after the softmax; return whether any do."""
        context, sinks = self.layer.call.context, self.layer.call.arguments.get("s_aux")
        assert context is not None
        if not isinstance(sinks, torch.Tensor) or sinks.numel() != context.shape[2]:
            return False
        pairs = zip(
            sink_scaled_context(self.layer.layer_pass),
            unedited_context_vectors(self.layer.layer_pass),
            strict=True,
        )
        outputs = context[0].transpose(0, 1)  # head token d_value
        # The output of an edited head matches neither of the two vectors.
        are_reduced = [
            are_tensors_close(left, wanted) and not are_tensors_close(left, own)
            for (left, own), wanted in zip(pairs, outputs, strict=True)
        ]
        if any(are_reduced):
            self.layer.add_stage(
                "gated_context", sink_scaled_context, LateSink(KEPT_SHARE_KEY), Role.CONTEXT
            )
        return any(are_reduced)

    def _find_context_gate(self, entered: str, given: Tensor, joined: Tensor) -> bool:
        """Find the gate of the context vectors: all or some columns of a matrix's result."""
        assert self.layer.call.context is not None
        _, _, heads, width = self.layer.call.context.shape
        kinds = {heads * width: (width, 0), 2 * heads * width: (2 * width, width)}
        for path, result in self._projections_of_stage(entered):
            if result.shape[-1] not in kinds:
                continue
            stride, start = kinds[result.shape[-1]]
            first = tuple(start + stride * head for head in range(heads))
            gates = heads_reader(path, first, width)(self.layer.layer_pass)  # head token d_head
            if are_tensors_close(gates.transpose(0, 1).flatten(1).sigmoid() * joined, given):
                self.layer.add_stage(
                    "context_gate",
                    heads_reader(path, first, width),
                    self.layer.linear_step(path, first),
                    entered,
                )
                self.layer.add_stage(
                    "gated_context",
                    gated_context_reader(path, first, width),
                    HiddenActivation("sigmoid"),
                    "context_gate",
                    Role.CONTEXT,
                )
                return True
        return False


def _candidate_first_columns(
    role: int, sizes: list[tuple[int, int]], width: int
) -> Iterator[list[int]]:
    """Yield candidates for the first column of each head's queries, keys or values."""
    heads, size = sizes[role]
    if width == 2 * heads * size:  # each head's columns are followed by a gate of the same size
        yield [2 * head * size for head in range(heads)]
    if width == heads * size:
        yield [head * size for head in range(heads)]
    elif width == sum(count * wide for count, wide in sizes):
        start = sum(count * wide for count, wide in sizes[:role])
        yield [start + head * size for head in range(heads)]
        if len({*sizes}) == 1:
            yield [(3 * head + role) * size for head in range(heads)]


def rotation_cosines_and_sines(each: ModuleCall, step: RotaryPosition) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of a rotation, [token, pair]."""
    assert each.rotation is not None
    cosines, sines = (part[0].detach() for part in each.rotation)
    # The first tokens may have no position, such as class and register tokens of an image model.
    if (first := each.given.shape[-2] - len(cosines)) > 0:
        unturned = cosines.new_ones(first, cosines.shape[-1])
        cosines = torch.cat([unturned, cosines])
        sines = torch.cat([torch.zeros_like(unturned), sines])
    kept = slice(None, step.pairs * step.stride, step.stride)
    return cosines[:, kept], sines[:, kept] * (-1 if step.is_backward else 1)
