"""Reads the values of a layer's stages and experts from a recorded forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from msgspec import Struct, field

from visualizer.attention.cached_tensor import to_float64_on_cpu
from visualizer.attention.stage_computation import repeat_for_heads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor, nn

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.layer_recorder import ModuleCall

VALUE_TOLERANCE = 1e-5
"""Tolerance for recomputed values, relative to the largest value."""
FACTOR_TOLERANCE = 1e-6
"""Relative tolerance within which one tensor is considered a multiple of another."""


class LayerRecording(Struct, eq=False):
    """Recorded values of one layer, and the stages that were found in them.

    Parameters
    ----------
    module_calls : mapping
        As recorded by `record_module_calls`.
    tensors : dict
        Values of stages, in order of computation: [head, token, d_head] or [token, column].
    """

    call: AttentionCall
    module_calls: Mapping[str, ModuleCall]
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def module_vectors(self, path: str, *, is_input: bool) -> Tensor:
        """Return the input or the result of a module, [token, column]."""
        each = self.module_calls[path]
        found = vectors_without_batch_axis(each.given if is_input else each.result)
        assert found is not None
        return found


StageReader = Callable[[LayerRecording], "Tensor"]
"""Returns the values of a stage in a forward pass."""


def vectors_without_batch_axis(numbers: Tensor) -> Tensor | None:
    """Return one text's vectors without a batch axis, [token, column]; None for other tensors."""
    if numbers.ndim == 4 and numbers.shape[1] == 1:  # of a single head
        numbers = numbers[:, 0]
    if not numbers.is_floating_point() or numbers.ndim not in (2, 3):
        return None
    return numbers[0].detach() if numbers.ndim == 3 else numbers.detach()


def are_tensors_equal(one: Tensor | None, other: Tensor | None) -> bool:
    """Return whether both tensors exist and have the same values."""
    if one is None or other is None or one.shape != other.shape:
        return False
    is_one = one.data_ptr() == other.data_ptr() and one.stride() == other.stride()
    return is_one or torch.equal(one, other)


def are_tensors_close(made: Tensor, wanted: Tensor, within: float = VALUE_TOLERANCE) -> bool:
    """Return whether the shapes are equal and the values differ by at most the tolerance.

    The tolerance is relative to the largest absolute value in ``wanted``.
    """
    if made.shape != wanted.shape:
        return False
    return bool((made - wanted).abs().max() <= within * wanted.abs().max().clamp_min(1e-12))


def modules_with_input(
    module_calls: Mapping[str, ModuleCall], stream: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """Yield the path and the result of each module that has the given input."""
    for path, each in module_calls.items():
        result = vectors_without_batch_axis(each.result)
        if result is not None and are_tensors_equal(vectors_without_batch_axis(each.given), stream):
            yield path, result


def find_embedding_rows(table: Tensor, each: ModuleCall) -> tuple[int, ...] | None:
    """Return each token's row in the table of an embedding; None if the rows are unknown.

    The input of an embedding is not always the row indices: BART's position embedding receives the
    token ids, and OPT's receives a mask. The rows are consecutive in these cases.
    """
    result = vectors_without_batch_axis(each.result)
    if result is None or result.shape[-1] != table.shape[-1] or each.given.is_floating_point():
        return None
    given = each.given.reshape(-1)
    is_within = len(given) == len(result) and 0 <= int(given.min()) <= int(given.max()) < len(table)
    if is_within and find_scale_factor(table[given], result) is not None:
        return tuple(given.tolist())
    column = result[0].abs().argmax()
    for start in (table[:, column] == result[0, column]).nonzero().flatten().tolist():
        if torch.equal(table[start : start + len(result)], result):
            return tuple(range(start, start + len(result)))
    # The model may have modified the result of the embedding in place.
    return tuple(given.tolist()) if is_within else None


def find_scale_factor(whole: Tensor, product: Tensor) -> float | None:
    """Return the factor by which ``whole`` is multiplied in ``product``; None if there is none."""
    if torch.equal(whole, product):
        return 1.0
    known, wanted = to_float64_on_cpu(whole), to_float64_on_cpu(product)
    largest = known.abs().argmax()
    ratio = wanted.flatten()[largest] / known.flatten()[largest]
    errors = (known * ratio - wanted).abs()
    is_factor = bool((errors <= FACTOR_TOLERANCE * wanted.abs().max()).all())
    return float(ratio) if is_factor and bool(ratio.isfinite()) else None


def head_vectors(numbers: Tensor, heads: int, width: int) -> Tensor | None:
    """Return a head norm's input or result as [head, token, d_head]; None for other shapes."""
    if numbers.ndim == 4 and numbers.shape[1] == heads and numbers.shape[3] == width:
        return numbers[0].detach()
    sizes = tuple(numbers.shape[2:])
    if sizes in ((heads, width), (heads * width,)):
        return numbers[0].detach().reshape(-1, heads, width).transpose(0, 1)
    return None


def module_input_reader(path: str) -> StageReader:
    """Return a reader of the input of a module."""
    return lambda at: at.module_vectors(path, is_input=True)


def module_output_reader(path: str) -> StageReader:
    """Return a reader of the result of a module."""
    return lambda at: at.module_vectors(path, is_input=False)


def columns_reader(path: str, first: int, size: int) -> StageReader:
    """Return a reader of some columns of the result of a module."""
    return lambda at: at.module_vectors(path, is_input=False)[:, first : first + size]


def heads_reader(path: str, first: Sequence[int], width: int) -> StageReader:
    """Return a reader of a module's result, divided into heads by their first columns."""
    columns = [start + at for start in first for at in range(width)]

    def numbers(at: LayerRecording) -> Tensor:
        picked = at.module_vectors(path, is_input=False)[:, columns]
        return picked.reshape(len(picked), len(first), width).transpose(0, 1)

    return numbers


def latent_keys_reader(
    path: str, first: Sequence[int], own: int, shared_path: str, start: int, shared: int
) -> StageReader:
    """Return a reader of keys that consist of each head's own columns and of shared columns."""
    heads = heads_reader(path, first, own)
    others = columns_reader(shared_path, start, shared)

    def numbers(at: LayerRecording) -> Tensor:
        each = heads(at)
        return torch.cat([each, others(at).expand(len(each), -1, -1)], -1)

    return numbers


def head_norm_reader(
    path: str, heads: int, width: int, shared: Sequence[int], *, is_input: bool
) -> StageReader:
    """Return a reader of the input or result of a head norm, for each query head."""
    picked = [*shared]

    def numbers(at: LayerRecording) -> Tensor:
        each = at.module_calls[path]
        by_head = head_vectors(each.given if is_input else each.result, heads, width)
        assert by_head is not None
        return by_head[picked]

    return numbers


def dot_product_reader(name: str, shared: Sequence[int]) -> StageReader:
    """Return a reader of queries, keys or values as used in the dot product, by query head."""
    picked = [*shared]
    return lambda at: getattr(at.call, name)[0][picked]


def gated_context_reader(path: str, first: Sequence[int], width: int) -> StageReader:
    """Return a reader of context vectors that are multiplied by the sigmoid of some columns."""
    gates_of = heads_reader(path, first, width)
    return lambda at: gates_of(at).sigmoid() * unedited_context_vectors(at)


def unedited_context_vectors(at: LayerRecording) -> Tensor:
    """Return the weighted sum of the values, before edits."""
    values = at.call.values
    assert values is not None
    each = repeat_for_heads(values[0], at.call.weights.shape[1])
    return at.call.read_weights()[0].to(each.dtype) @ each


def total_key_weight(at: LayerRecording) -> Tensor:
    """Return the total weight of the keys in a softmax that includes the sink, [head, query]."""
    call = at.call
    assert call.queries is not None
    assert call.keys is not None
    keys = repeat_for_heads(call.keys[0], call.weights.shape[1])
    scores = (
        to_float64_on_cpu(call.queries[0])
        @ to_float64_on_cpu(keys).transpose(-1, -2)
        * call.scaling
    )
    if call.mask is not None and call.mask.is_floating_point():
        scores = scores + to_float64_on_cpu(call.mask[0])
    is_masked = call.read_weights()[0] == 0  # or a cut edge
    scores = scores.masked_fill(is_masked.cpu(), -torch.inf)
    sinks: Tensor = to_float64_on_cpu(call.arguments["s_aux"].flatten())
    kept = (scores.logsumexp(-1) - sinks[:, None]).sigmoid()
    return kept.to(call.queries.dtype).to(call.queries.device)


def sink_scaled_context(at: LayerRecording) -> Tensor:
    """Return the context vectors multiplied by `total_key_weight`, before edits."""
    return total_key_weight(at)[..., None] * unedited_context_vectors(at)


def concatenated_head_outputs(at: LayerRecording) -> Tensor:
    """Return the concatenated outputs of the heads."""
    assert at.call.context is not None
    return at.call.context[0].flatten(1)


def scaled_stage_reader(name: str, factor: float | Tensor) -> StageReader:
    """Return a reader of a stage multiplied by one number, or by one number per column."""
    return lambda at: at.tensors[name] * factor


def stage_sum_reader(*names: str) -> StageReader:
    """Return a reader of the sum of stages, which are added in the given order."""

    def numbers(at: LayerRecording) -> Tensor:
        first, *others = names
        total = at.tensors[first]
        for name in others:
            total = total + at.tensors[name]
        return total

    return numbers


class RoutedExperts(Struct, frozen=True, eq=False):
    """Routed experts, with an optional shared expert.

    Parameters
    ----------
    path : str
        Path of the module in the model.
    module : nn.Module
        Computes the weighted sum of the results of each token's experts.
    shared : str
        Path of the expert shared by all tokens; empty if there is none.
    shared_gate : str
        Path of the module that computes the shared expert's gate, one logit per token; empty if
        there is none.
    """

    path: str
    module: nn.Module
    shared: str = ""
    shared_gate: str = ""

    def compute_expert_outputs(self, module_calls: Mapping[str, ModuleCall]) -> dict[str, Tensor]:
        """Return each token's experts, their weights and their results, by step name.

        The result of each expert is computed by the module itself, with a weight of 1.
        """
        each = module_calls[self.path]
        assert each.routing is not None
        numbers, weights = each.routing
        results = [
            self.module(each.given, one[:, None], torch.ones_like(weights[:, :1]))
            for one in numbers.unbind(-1)
        ]
        found = {"numbers": numbers, "router_weights": weights, "results": torch.stack(results, 1)}
        shared = self._shared_expert_output(module_calls)
        if shared is not None:
            found["shared"] = shared
        return {f"{self.path}.{name}": part.detach().cpu() for name, part in found.items()}

    def is_weighted_mixture(self, module_calls: Mapping[str, ModuleCall]) -> bool:
        """Return whether the module's output is the weighted sum of the results."""
        found = self.compute_expert_outputs(module_calls)
        weights, results = (
            to_float64_on_cpu(found[f"{self.path}.{name}"])
            for name in ("router_weights", "results")
        )
        wanted = to_float64_on_cpu(module_calls[self.path].result)
        return are_tensors_close((weights[..., None] * results).sum(1), wanted)

    def is_sum_with_shared(self, module_calls: Mapping[str, ModuleCall], result: Tensor) -> bool:
        """Return whether the result is the sum of the module's and the shared expert's outputs."""
        made, shared = (
            to_float64_on_cpu(module_calls[self.path].result),
            self._shared_expert_output(module_calls),
        )
        whole = made if shared is None else made + to_float64_on_cpu(shared)
        return are_tensors_close(whole, to_float64_on_cpu(result))

    def _shared_expert_output(self, module_calls: Mapping[str, ModuleCall]) -> Tensor | None:
        if not self.shared:
            return None
        shared, gate = (
            vectors_without_batch_axis(module_calls[path].result) if path else None
            for path in (self.shared, self.shared_gate)
        )
        assert shared is not None
        return shared if gate is None else gate.sigmoid() * shared
