"""Infers what a layer computes between its attention output and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from msgspec.structs import replace

from visualizer.attention.cached_tensor import to_float64_on_cpu
from visualizer.attention.layer_operations import (
    ACTIVATIONS,
    ExpertMixture,
    HiddenActivation,
    ResidualAddition,
    ScaledVector,
)
from visualizer.attention.roles import Role
from visualizer.models.layer_stage_builder import LayerStageBuilder, is_matrix, is_norm
from visualizer.models.layer_values import (
    VALUE_TOLERANCE,
    RoutedExperts,
    are_tensors_equal,
    columns_reader,
    module_input_reader,
    module_output_reader,
    modules_with_input,
    scaled_stage_reader,
    stage_sum_reader,
    vectors_without_batch_axis,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor


CHECKED_HIDDEN_VALUES = 64
"""Approximate number of hidden values on which activation functions are compared."""
FACTOR_DIGITS = (2, 3, 4, 5, 6)
"""Numbers of significant digits that a layer's multiplier in a config may have."""
_Part = tuple[str, "Tensor", int]
"""Part of a matrix's result: the module path, the values, and the index of the first column."""


class FeedForwardRecognizer:
    """Recognizer of the steps from the output of attention to the result of the layer."""

    def __init__(self, layer: LayerStageBuilder) -> None:
        self.layer = layer

    def trace_after_attention(self, written: str, result: Tensor) -> None:
        """Trace the stream from the attention output to the result of the layer."""
        tensors, stream = self.layer.tensors, self.layer.tensors[Role.RESIDUAL]
        written = self._trace_output_scaling(
            self._trace_output_norm(written, stream), stream, result
        )
        attended = stream + tensors[written]
        if not self.layer.is_input_or_result(attended, result):
            self._trace_parallel_feed_forward(written, result)
            return
        self.layer.add_stage(
            "attended",
            stage_sum_reader(Role.RESIDUAL, written),
            ResidualAddition(),
            Role.RESIDUAL,
            written,
        )
        read = self._trace_norm("attended", "normed_attended")
        base, read = self._trace_cross_attention("attended", read)
        output = self._find_feed_forward(read)
        if output is None:
            self.layer.add_result(None)
            return
        output = self._trace_norm(output, "normed_feed_forward")
        output = (
            self._find_scaling_factor(output, tensors[base], [result], "scaled_feed_forward")
            or output
        )
        for before in dict.fromkeys((base, read)):
            whole = tensors[before] + tensors[output]
            if torch.equal(whole, result):
                self.layer.add_result(ResidualAddition(), before, output)
                return
            for _, normed, step in self.layer.iterate_recognized_norms(whole):
                if are_tensors_equal(normed, result):
                    parts = (before, output)
                    self.layer.add_stage(
                        "added", stage_sum_reader(*parts), ResidualAddition(), *parts
                    )
                    self.layer.add_result(step, "added")
                    return
        self.layer.add_result(None)

    def _trace_norm(self, name: str, normed: str) -> str:
        """Trace the norm that is applied to a stage, if any; return the last stage."""
        for path, _, step in self.layer.iterate_recognized_norms(self.layer.tensors[name]):
            self.layer.add_stage(normed, module_output_reader(path), step, name)
            return normed
        return name

    def _trace_cross_attention(self, base: str, read: str) -> tuple[str, str]:
        """Trace cross-attention, a module of the same class as the self-attention.

        Return the stream after the cross-attention and the input of the next module; both are
        unchanged if the layer has no cross-attention.
        """
        tensors, kind = self.layer.tensors, type(self.layer.modules[self.layer.call.module])
        others = {
            path: each
            for path, each in self.layer.module_calls.items()
            if type(self.layer.modules[path]) is kind and path != self.layer.call.module
        }
        for path, numbers in modules_with_input(others, tensors[read]):
            for before in dict.fromkeys((base, read)):
                if numbers.shape == tensors[before].shape and self.layer.is_module_input(
                    tensors[before] + numbers
                ):
                    self.layer.add_stage("cross_output", module_output_reader(path), None)
                    parts = (before, "cross_output")
                    self.layer.add_stage(
                        "crossed", stage_sum_reader(*parts), ResidualAddition(), *parts
                    )
                    return "crossed", self._trace_norm("crossed", "normed_crossed")
        return base, read

    def _trace_parallel_feed_forward(self, written: str, result: Tensor) -> None:
        """Trace a feed-forward block parallel to the attention: both use the layer's input."""
        tensors, stream = self.layer.tensors, self.layer.tensors[Role.RESIDUAL]
        read = Role.NORMED if Role.NORMED in tensors else Role.RESIDUAL
        output = self._find_feed_forward(read)
        if output is None:
            for path, normed, step in self.layer.iterate_recognized_norms(stream):
                if not are_tensors_equal(normed, tensors.get(Role.NORMED)):
                    self.layer.add_stage(
                        "normed_attended", module_output_reader(path), step, Role.RESIDUAL
                    )
                    output = self._find_feed_forward("normed_attended")
                    break
        if output is not None:
            names = (Role.RESIDUAL, written, output)
            parts = {name: tensors[name] for name in names}
            for one, two, three in ((0, 1, 2), (1, 2, 0), (0, 2, 1)):
                first, second, third = (parts[names[at]] for at in (one, two, three))
                if torch.equal(first + second + third, result):
                    self.layer.add_result(ResidualAddition(), *names)
                    return
        self.layer.add_result(None)

    def _trace_output_scaling(self, written: str, stream: Tensor, result: Tensor) -> str:
        """Trace a factor that scales the attention output before it is added to the stream."""
        if self.layer.is_input_or_result(stream + self.layer.tensors[written], result):
            return written
        given = [
            vectors_without_batch_axis(each.given) for each in self.layer.module_calls.values()
        ]
        return self._find_scaling_factor(written, stream, given, "scaled_output") or written

    def _find_scaling_factor(
        self, name: str, stream: Tensor, sums: Sequence[Tensor | None], scaled: str
    ) -> str | None:
        """Find the factor by which a stage is multiplied before it is added to the stream.

        The candidates for the stream after the addition are ``sums``. Return the name of the
        scaled stage, ``scaled``, or None if no factor explains any of the candidates.
        """
        numbers = self.layer.tensors[name]
        gains = [*self._candidate_column_factors(numbers.shape[-1])]
        for whole in sums:
            if (
                whole is None
                or whole.shape != stream.shape
                or are_tensors_equal(whole, stream + numbers)
            ):
                continue
            for path, gain in gains:
                if torch.equal(stream + numbers * gain, whole):
                    self.layer.add_stage(
                        scaled, scaled_stage_reader(name, gain), ScaledVector((path,)), name
                    )
                    self.layer.weights[path] = gain
                    return scaled
            for factor in _likely_factors(numbers, whole - stream):
                if torch.equal(stream + numbers * factor, whole):
                    self.layer.add_stage(
                        scaled, scaled_stage_reader(name, factor), ScaledVector(("",), factor), name
                    )
                    return scaled
        return None

    def _candidate_column_factors(self, columns: int) -> Iterator[tuple[str, Tensor]]:
        """Yield the vector parameters of the layer that do not belong to a norm or a matrix."""
        for name, part in self.layer.module.named_parameters():
            path = f"{self.layer.path}.{name}"
            owner = self.layer.modules.get(path.rpartition(".")[0])
            is_part = owner is not None and (is_norm(owner) or is_matrix(owner))
            if part.shape == (columns,) and not is_part:
                yield path, part.detach()

    def _trace_output_norm(self, written: str, stream: Tensor) -> str:
        """Trace a norm that is applied to the attention output before it is added to the stream."""
        numbers = self.layer.tensors[written]
        if self.layer.is_input_or_result(stream + numbers, stream):
            return written
        return self._trace_norm(written, "normed_output")

    def _find_feed_forward(self, read: str) -> str | None:
        """Find the matrices of the feed-forward block and the activation between them."""
        if self._find_experts(read):
            return "feed_forward"
        matrices = self.layer.feed_forward_matrices
        first = dict(modules_with_input(matrices, self.layer.tensors[read]))
        for path, each in matrices.items():
            given = vectors_without_batch_axis(each.given)
            if given is None or path in first:
                continue
            activated = self._find_activation(first, given)
            if activated is None:
                continue
            gate, up, function = activated
            size = given.shape[-1]
            for name, part in (("gate", gate), ("up", up)):
                if part is not None:
                    module, _, at = part
                    step = self.layer.linear_step(module, (at,))
                    self.layer.add_stage(name, columns_reader(module, at, size), step, read)
            reads = ("gate", "up") if gate is not None else ("up",)
            self.layer.add_stage(
                "hidden", module_input_reader(path), HiddenActivation(function), *reads
            )
            self.layer.add_stage(
                "feed_forward", module_output_reader(path), self.layer.linear_step(path), "hidden"
            )
            return "feed_forward"
        return self._add_unknown_feed_forward(read)

    def _find_experts(self, read: str) -> bool:
        """Find experts to which the tokens of a stream are routed, and any shared expert."""
        source = self.layer.tensors[read]
        for path, each in self.layer.module_calls.items():
            if each.routing is None or not are_tensors_equal(
                vectors_without_batch_axis(each.given), source
            ):
                continue
            block = path.rpartition(".")[0]
            whole = self.layer.module_calls.get(block)
            numbers = None if whole is None else vectors_without_batch_axis(whole.result)
            if numbers is None:
                continue
            experts = RoutedExperts(path, self.layer.modules[path])
            if not experts.is_weighted_mixture(self.layer.module_calls):
                continue
            for one in (experts, *self._candidate_shared_experts(experts, block, source)):
                if one.is_sum_with_shared(self.layer.module_calls, numbers):
                    step = ExpertMixture((path,), has_shared=bool(one.shared))
                    self.layer.add_stage("feed_forward", module_output_reader(block), step, read)
                    self.layer.experts[path] = one
                    return True
        return False

    def _candidate_shared_experts(
        self, experts: RoutedExperts, block: str, source: Tensor
    ) -> Iterator[RoutedExperts]:
        """Yield the experts with each possible shared expert, with and without a gate."""
        beside = [
            path
            for path, each in self.layer.module_calls.items()
            if path.startswith(f"{block}.")
            and path != experts.path
            and are_tensors_equal(vectors_without_batch_axis(each.given), source)
        ]
        gates = [path for path in beside if self.layer.module_calls[path].result.shape[-1] == 1]
        for path in beside:
            if self.layer.module_calls[path].result.shape[-1] == source.shape[-1]:
                for gate in ("", *gates):
                    yield replace(experts, shared=path, shared_gate=gate)

    def _add_unknown_feed_forward(self, read: str) -> str | None:
        """Add the output of a child module as a stage with an unknown computation."""
        for path, _ in modules_with_input(self.layer.module_calls, self.layer.tensors[read]):
            if (
                path.count(".") == self.layer.path.count(".") + 1
                and not path.startswith(self.layer.attention_prefix.rstrip("."))
                and path not in self.layer.norms
            ):
                self.layer.add_stage("feed_forward", module_output_reader(path), None)
                return "feed_forward"
        return None

    def _find_activation(
        self, first: dict[str, Tensor], hidden: Tensor
    ) -> tuple[_Part | None, _Part, str] | None:
        """Return the gate, the gated part and the activation that explain the hidden values."""
        size = hidden.shape[-1]
        parts = [
            (path, numbers[:, at : at + size], at)
            for path, numbers in first.items()
            for at in range(0, numbers.shape[-1] - size + 1, size)
        ]
        some = slice(None, None, max(1, size // CHECKED_HIDDEN_VALUES))
        wanted = to_float64_on_cpu(hidden[-1, some]).numpy()
        last = {id(part): to_float64_on_cpu(part[1][-1, some]).numpy() for part in parts}
        limit = VALUE_TOLERANCE * max(float(np.abs(wanted).max()), 1e-12)
        best: tuple[float, tuple[_Part | None, _Part, str]] | None = None
        for one in parts:
            others = [part for part in parts if part is not one]
            for name, function in ACTIVATIONS.items():
                activated = np.array([function(value) for value in last[id(one)].tolist()])
                pairs = [
                    (None, one, activated),
                    *((one, two, activated * last[id(two)]) for two in others),
                ]
                for gate, up, numbers in pairs:
                    error = float(np.abs(numbers - wanted).max())
                    if error <= limit and (best is None or error < best[0]):
                        best = error, (gate, up, name)
        return best[1] if best else None


def _likely_factors(numbers: Tensor, product: Tensor) -> Iterator[float]:
    """Yield factors with few digits by which a tensor may have been multiplied."""
    largest = numbers.abs().argmax()
    ratio = to_float64_on_cpu(product.flatten()[largest]) / to_float64_on_cpu(
        numbers.flatten()[largest]
    )
    if bool(ratio.isfinite()) and ratio:
        yield from dict.fromkeys(float(f"{float(ratio):.{digits}g}") for digits in FACTOR_DIGITS)
