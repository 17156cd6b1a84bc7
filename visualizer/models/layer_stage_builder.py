"""The recorded passes of one layer of a model, and the stages recognized in it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import torch
from msgspec.structs import replace
from torch import nn

from visualizer.attention.cached_tensor import to_float64_on_cpu
from visualizer.attention.layer_operations import (
    LayerStep,
    LinearLayer,
    NormLayer,
    ResidualAddition,
    RotaryPosition,
)
from visualizer.attention.layer_stages import LayerStageSpec
from visualizer.attention.roles import Role
from visualizer.models.layer_recorder import layer_path
from visualizer.models.layer_values import (
    VALUE_TOLERANCE,
    LayerRecording,
    RoutedExperts,
    StageReader,
    are_tensors_close,
    are_tensors_equal,
    module_input_reader,
    module_output_reader,
    modules_with_input,
    vectors_without_batch_axis,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.layer_recorder import ModuleCall


ROTARY_KEY = "rotary"
CHECKED_VALUES = 8
"""Number of values of each matrix's result that are recomputed."""
EPSILON_ATTRIBUTES = ("eps", "variance_epsilon", "epsilon")
DEFAULT_EPSILONS = (1e-5, 1e-6)
"""Values that norms may add to the mean square if the module does not specify one."""


class LayerStageBuilder:
    """The recorded passes of one layer, and the stages recognized so far.

    Parameters
    ----------
    path : str
        Module path of the layer.
    """

    def __init__(
        self,
        model: nn.Module,
        call: AttentionCall,
        module_calls: Mapping[str, ModuleCall],
        path: str,
    ) -> None:
        self.call = call
        self.path = path
        within = f"{self.path}."
        self.module = model.get_submodule(self.path)
        self.modules = {within + name: part for name, part in self.module.named_modules() if name}
        self.module_calls = {
            path: module_calls[path] for path in self.modules if path in module_calls
        }
        self.whole_pass = module_calls.get(self.path)
        self.layer_pass = LayerRecording(call, module_calls)
        self.steps: dict[str, LayerStageSpec] = {}
        """The steps by stage name; tuples with one entry per layer have only this layer's entry."""
        self.readers: dict[str, StageReader] = {}
        """Readers of the stages' values, by stage name."""
        self.weights: dict[str, Tensor] = {}
        """Parameters that the steps use, by their names in the model."""
        self.experts: dict[str, RoutedExperts] = {}
        """Expert mixtures, by module path."""
        inner = layer_path(call.module)
        is_part = inner != path
        self.attention_prefix = (
            f"{inner}." if is_part else _attention_path_prefix(path, call.module)
        )
        # In BERT, ``attention.output.dense`` is a sibling of ``attention.self``.
        self.attention_matrices: dict[str, ModuleCall] = {}
        self.feed_forward_matrices: dict[str, ModuleCall] = {}
        for name, each in self.module_calls.items():
            if self._is_plain_matrix_product(name, each):
                is_inside = name.startswith(self.attention_prefix)
                matrices = self.attention_matrices if is_inside else self.feed_forward_matrices
                matrices[name] = each
        self.norms = {
            path: each for path, each in self.module_calls.items() if is_norm(self.modules[path])
        }

    def add_stage(
        self, name: str, reader: StageReader, step: LayerStep | None, *reads: str
    ) -> None:
        """Add a stage with the reader of its values, the step that computes it, and its inputs."""
        self.readers[name] = reader
        self.steps[name] = LayerStageSpec(step, reads)
        self.tensors[name] = reader(self.layer_pass)
        if isinstance(step, LinearLayer | NormLayer):
            for path in step.modules:
                self.weights |= own_weights(self.modules[path], path)

    def remove_stages(self, *names: str) -> None:
        """Remove stages that turned out not to lead to the result."""
        for name in names:
            for known in (self.steps, self.readers, self.tensors):
                known.pop(name, None)

    def add_result(self, step: LayerStep | None, *reads: str) -> None:
        """Add the result of the layer.

        If the step is unknown, a feed-forward stage with an unknown step is removed, since it is
        not known to contribute to the result.
        """
        unknown = self.steps.get("feed_forward")
        if step is None and unknown and unknown.step is None:
            self.remove_stages("feed_forward", "normed_feed_forward")
        self.add_stage("result", module_output_reader(self.path), step, *reads)

    def is_input_or_result(self, stream: Tensor, result: Tensor) -> bool:
        """Return whether a stream is the input of a module of the layer, or the layer's result."""
        return torch.equal(stream, result) or self.is_module_input(stream)

    def is_module_input(self, stream: Tensor) -> bool:
        """Return whether a stream is the input of a module of the layer."""
        others = (vectors_without_batch_axis(each.given) for each in self.module_calls.values())
        return any(are_tensors_equal(one, stream) for one in others)

    def _is_plain_matrix_product(self, path: str, each: ModuleCall) -> bool:
        """Return whether a module is a matrix product with an unmodified recorded result.

        A model may add to a matrix's result in place. This is detected by recomputing some values
        of the last token, which takes almost no time.
        """
        module = self.modules[path]
        given, result = (
            vectors_without_batch_axis(each.given),
            vectors_without_batch_axis(each.result),
        )
        if not is_matrix(module) or given is None or result is None:
            return False
        weights = own_weights(module, path)
        whole, bias = weights[f"{path}.weight"], weights.get(f"{path}.bias")
        matrix = whole if isinstance(module, nn.Linear) else whole.T
        some = torch.linspace(0, len(matrix) - 1, min(CHECKED_VALUES, len(matrix))).long()
        recomputed = to_float64_on_cpu(matrix[some]) @ to_float64_on_cpu(given[-1])
        if bias is not None:
            recomputed = recomputed + to_float64_on_cpu(bias[some])
        last = to_float64_on_cpu(result[-1])
        error = (recomputed - last[some]).abs().max()
        return bool(error <= VALUE_TOLERANCE * last.abs().max().clamp_min(1e-12))

    def iterate_recognized_norms(self, stream: Tensor) -> Iterator[tuple[str, Tensor, NormLayer]]:
        """Yield the path, the result and the step of each recognized norm of a stream."""
        for path, result in modules_with_input(self.norms, stream):
            if step := recognize_norm(self.modules[path], path, stream, result):
                yield path, result, step

    def linear_step(self, path: str, first: tuple[int, ...] = (0,)) -> LinearLayer:
        """Return the step that a matrix computes."""
        module = self.modules[path]
        has_bias = getattr(module, "bias", None) is not None
        return LinearLayer((path,), has_bias, not isinstance(module, nn.Linear), first)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The values of the stages, by name."""
        return self.layer_pass.tensors

    @property
    def is_output_known(self) -> bool:
        """Whether the computation of the layer's result from its input is known."""
        end = self.steps.get("result")
        return end is not None and end.step is not None

    def add_identity_norm(self) -> None:
        """Add an identity norm stage as the input of stages that use the stream directly."""
        for name, each in self.steps.items():
            if name != "attended" and Role.RESIDUAL in each.reads and len(each.reads) == 1:
                self.steps[name] = replace(each, reads=(Role.NORMED,))
        self.add_stage(
            Role.NORMED, module_input_reader(self.path), ResidualAddition(), Role.RESIDUAL
        )

    def add_identity_rotation(self, name: str, source: str) -> None:
        """Treat queries or keys without a rotary embedding as the result of an empty rotation."""
        self.add_stage(source, self.readers[name], self.steps[name].step,
                  *self.steps[name].reads)  # fmt: skip
        self.steps[name] = LayerStageSpec(RotaryPosition(ROTARY_KEY, 0), (source,))


def recognize_norm(
    module: nn.Module, path: str, given: Tensor, result: Tensor, within: float = VALUE_TOLERANCE
) -> NormLayer | None:
    """Return the kind of norm that explains the last token's result; None if no kind does.

    Parameters
    ----------
    given, result : Tensor
        Input and output of the module, [query, d_model].
    within : float
        Tolerance, relative to the largest value.
    """
    weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    named = [float(value) for name in EPSILON_ATTRIBUTES if (value := getattr(module, name, None))]
    vector, wanted = to_float64_on_cpu(given[..., -1, :]), to_float64_on_cpu(result[..., -1, :])
    if any(part is not None and part.shape != vector.shape[-1:] for part in (weight, bias)):
        return None
    # If the mean of the vectors is 0, both kinds give the same result; the class name decides.
    kinds = (False, True) if "RMS" in type(module).__name__ else (True, False)
    for is_centred, adds_one, epsilon in product(
        kinds, (False, True) if weight is not None else (False,), named or DEFAULT_EPSILONS
    ):
        moved = vector - vector.mean(-1, keepdim=True) if is_centred else vector
        recomputed = moved * (moved.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        if weight is not None:
            recomputed = recomputed * (to_float64_on_cpu(weight) + adds_one)
        if bias is not None:
            recomputed = recomputed + to_float64_on_cpu(bias)
        if are_tensors_close(recomputed, wanted, within):
            has_gain, has_bias = weight is not None, bias is not None
            return NormLayer((path,), epsilon, is_centred, has_gain, has_bias, adds_one)
    return None


def _attention_path_prefix(layer: str, module: str) -> str:
    """Return the path prefix of the attention's parts, which may be siblings of the module."""
    step = module[len(layer) + 1 :].split(".")[0]
    return f"{layer}.{step}."


def own_weights(module: nn.Module, path: str) -> dict[str, Tensor]:
    """Return the parameters of a module without those of its children, by path in the model."""
    own = module.named_parameters(recurse=False)
    return {f"{path}.{name}": each.detach() for name, each in own}


def is_matrix(module: nn.Module) -> bool:
    """Return whether a module is a plain matrix product: torch's Linear or transformers' Conv1D."""
    return type(module) is nn.Linear or type(module).__name__ == "Conv1D"


def is_norm(module: nn.Module) -> bool:
    """Return whether a module may be a norm: no child modules and only vector parameters."""
    sizes = [part.ndim for part in module.parameters(recurse=False)]
    return (
        not [*module.children()]
        and all(size == 1 for size in sizes)
        and "Norm" in type(module).__name__
    )
