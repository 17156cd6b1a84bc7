"""Computes the stages of a model's layers on access, by running a layer again.

The arguments of each layer are kept. Running it again with them reproduces its results exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec.structs import replace

from visualizer.attention.layered_tensor import ComputedTensor, LayerCache, LayeredTensor
from visualizer.attention.model_layer_steps import ResidualStream
from visualizer.models.layer_numbers import LayerPass, vectors
from visualizer.models.layer_recorder import record_layers
from visualizer.models.layer_step_recognition import (
    OtherStepsError,
    numbers_of_layer,
    steps_of_text,
)
from visualizer.models.run_from_attention_calls import LayerRun
from visualizer.models.run_with_layer_stages import with_layer_stages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from visualizer.models.attention_recorder import AttentionCall, ContextEdit
    from visualizer.models.layer_recorder import LayerInput, ModulePass
    from visualizer.models.layer_step_recognition import KnownLayers
    from visualizer.models.model_source import LayerAndHead

    Recording = Callable[[], AbstractContextManager[list[AttentionCall]]]

ModuleWidths = dict[str, tuple[int, int]]
"""Input and output widths of modules, by path."""
WITHIN = 1e-5
"""Maximum difference of a repeated layer's result, relative to its largest absolute value."""


def widths_of(paths: tuple[str, ...], passed: Mapping[str, ModulePass]) -> ModuleWidths:
    """Return the widths of the modules that ran within some layers.

    They are the same for every text with the same steps.
    """
    within = tuple(f"{path}." for path in paths)
    return {
        path: (each.given.shape[-1], each.result.shape[-1])
        for path, each in passed.items()
        if path in paths or path.startswith(within)
    }


def with_repeated_layers(
    found: LayerRun,
    model: nn.Module,
    known: KnownLayers,
    passed: Mapping[str, ModulePass],
    inputs: Mapping[str, LayerInput],
    edits: Mapping[LayerAndHead, ContextEdit],
    recording: Recording,
) -> LayerRun:
    """Add the stages around the attention of a run, computed by running layers again.

    Parameters
    ----------
    known : KnownLayers
        The recognized steps of the layers.
    passed, inputs : mapping
        As recorded by `record_layer_inputs`.
    edits : mapping
        Edits of heads' context vectors.
    recording : callable
        Records attention, with the edits and cut edges of the text.

    Raises
    ------
    OtherStepsError
        If a repeated layer does not reproduce its result.
    """
    group = found.group
    again = _RepeatedLayers(model, known, group.calls, inputs, recording)
    with torch.no_grad():
        steps, weights = steps_of_text(known, group.calls, group.layers, passed, edits)
        sizes = again.sizes()
    trace = found.run.trace
    parts = _lazy_stages(again, sizes, len(group.layers), getattr(torch, trace.spec.dtype))
    held = {name: LayeredTensor(own) if trace.axes else own[0] for name, own in parts.items()}
    # Context vectors are also recomputed, so they need not be kept.
    group = replace(group, calls=tuple(replace(call, context=None) for call in group.calls))
    return LayerRun(group, with_layer_stages(found.run, held, steps, weights))


class _RepeatedLayers:
    """Computes the stages of one layer at a time."""

    def __init__(
        self,
        model: nn.Module,
        known: KnownLayers,
        calls: tuple[AttentionCall, ...],
        inputs: Mapping[str, LayerInput],
        recording: Recording,
    ) -> None:
        self._model, self._known = model, known
        self._attention = tuple(call.module for call in calls)
        if any(path not in inputs or _has_cache(inputs[path]) for path in known.paths):
            raise OtherStepsError
        self._inputs = tuple(inputs[path] for path in known.paths)
        self._recording = recording

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Run a layer again, compare it with the next one's input, and return the stages' shapes.

        Raises
        ------
        OtherStepsError
            If it does not reproduce its result.
        """
        step = self._known.steps["residual"].step
        before = step.before if isinstance(step, ResidualStream) else ()
        at = next((last for last in before if last is not None), 0)
        found = self.compute(at)
        if at + 1 < len(before) and before[at + 1] == at and "result" in found:
            wanted, made = self._input_stream(at + 1), found["result"]
            if wanted.shape != made.shape:
                raise OtherStepsError
            if not (made - wanted).abs().max() <= WITHIN * wanted.abs().max():
                raise OtherStepsError
        return {name: tuple(tensor.shape) for name, tensor in found.items()}

    def _input_stream(self, place: int) -> Tensor:
        given = self._inputs[place]
        stream = vectors(next(iter((*given.given, *given.named.values()))))
        assert stream is not None
        return stream.cpu()

    def compute(self, place: int) -> dict[str, Tensor]:
        """Return all stages of a layer, [head, token, d_head] or [token, column]."""
        path, given = self._known.paths[place], self._inputs[place]
        module = self._model.get_submodule(path)
        with (
            torch.no_grad(),
            self._recording() as calls,
            record_layers(self._model, path) as passed,
        ):
            module(*given.given, **given.named)
        own = [call for call in calls if call.module == self._attention[place]]
        if len(own) != 1:
            raise OtherStepsError
        return numbers_of_layer(self._known, place, LayerPass(own[0], passed))


def _lazy_stages(
    again: _RepeatedLayers, sizes: Mapping[str, tuple[int, ...]], layers: int, dtype: torch.dtype
) -> dict[str, list[ComputedTensor]]:
    """Return the stages of all layers; computing one also caches the value ranges of the others."""
    cache = LayerCache()
    parts: dict[str, list[ComputedTensor]] = {}

    def compute(layer: int) -> dict[str, Tensor]:
        found = again.compute(layer)
        for name, tensor in found.items():
            parts[name][layer].note(tensor)
        return found

    for name, size in sizes.items():
        parts[name] = [
            ComputedTensor(name, layer, size, dtype, compute, cache) for layer in range(layers)
        ]
    return parts


def _has_cache(given: LayerInput) -> bool:
    """Whether a layer received a cache, to which a repeated run would append again."""
    from transformers import Cache

    return any(isinstance(one, Cache) for one in (*given.given, *given.named.values()))
