"""The stages of a model's layers around their attention, recorded or computed when read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec.structs import replace

from visualizer.attention.cached_tensor import CachedTensor
from visualizer.attention.layer_operations import ResidualStream
from visualizer.attention.layer_stages import STAGE_ORDER, layer_stage_rows
from visualizer.attention.layered_tensor import ComputedTensor, LayerCache, LayeredTensor
from visualizer.attention.roles import Role
from visualizer.attention.trace import Trace
from visualizer.models.inference_boundary import infer_or_none
from visualizer.models.layer_inference import (
    InferredLayers,
    KnownLayers,
    StepMismatchError,
    collect_layer_values,
    infer_layers,
    infer_text_layers,
    infer_text_steps,
)
from visualizer.models.layer_numbers import LayerPass, vectors
from visualizer.models.layer_recorder import record_layers
from visualizer.models.recorded_runs import LayerRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from visualizer.attention.layer_stages import StageStep
    from visualizer.attention.run import Run
    from visualizer.models.attention_recorder import ContextEdit
    from visualizer.models.layer_recorder import ModuleCall
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.recorded_runs import LayerGroup

STAGES_UNKNOWN_NOTICE = (
    "Only attention is shown: the program could not infer the other stages of the layers from what "
    "the model computed."
)
LayerGroupPath = tuple[str, tuple[int, ...]]
"""Path of the attention of a group of layers, and the numbers of the layers."""


def add_layers(
    found: LayerRun,
    model: nn.Module,
    passed: Mapping[str, ModuleCall],
    edits: Mapping[LayerAndHead, ContextEdit],
    memory: dict[LayerGroupPath, KnownLayers | None],
) -> LayerRun:
    """Add the recognized stages around the attention to a run.

    If recognition fails, the run gets a notice instead.

    Parameters
    ----------
    memory : dict
        Recognized steps of this model's layers; updated by this call.
    passed : mapping
        As recorded by `record_layers`.
    edits : mapping
        Edits of heads' context vectors.
    """
    group = found.group
    return infer_or_none(
        f"the stages around {group.name}",
        lambda: _add_recognized_stages(found, model, passed, edits, memory),
    ) or found.with_notice(STAGES_UNKNOWN_NOTICE)


def _add_recognized_stages(
    found: LayerRun,
    model: nn.Module,
    passed: Mapping[str, ModuleCall],
    edits: Mapping[LayerAndHead, ContextEdit],
    memory: dict[LayerGroupPath, KnownLayers | None],
) -> LayerRun:
    group = found.group
    key = (group.name, group.layers)
    with torch.inference_mode():
        known = memory.get(key)
        layers = _stages_of_text(known, group, passed, edits)
        if key not in memory or (known is not None and layers is None):
            known = infer_layers(model, group.calls, group.layers, passed)
            # Keep only findings that hold for most texts: a single token has no rotation (RoPE),
            # and edited heads have other outputs.
            if found.run.trace.tokens > 1 and not edits:
                memory.setdefault(key, known)
            layers = _stages_of_text(known, group, passed, edits)
    if layers is None:
        return found
    has_axis = bool(found.run.trace.axes)
    held = {
        name: CachedTensor(numbers if has_axis else numbers[0])
        for name, numbers in layers.tensors.items()
    }
    return replace(found, run=add_layer_stages(found.run, held, layers.steps, layers.weights))


def _stages_of_text(
    known: KnownLayers | None,
    group: LayerGroup,
    passed: Mapping[str, ModuleCall],
    edits: Mapping[LayerAndHead, ContextEdit],
) -> InferredLayers | None:
    """Return the stages for a text; None if the model took other steps for it.

    Steps recognized with one text may not hold for another: a module may be skipped, or receive
    tensors of other shapes.
    """
    if known is None:
        return None
    try:
        return infer_text_layers(known, group.calls, group.layers, passed, edits)
    except StepMismatchError:
        return None


def add_layer_stages(
    run: Run,
    tensors: Mapping[str, CachedTensor],
    steps: Mapping[str, StageStep],
    weights: Mapping[str, Tensor],
) -> Run:
    """Return a run with the stages around its attention, in order of computation.

    Its queries, keys and values are kept, but described by how the layers compute them.

    Parameters
    ----------
    tensors : mapping
        The stages, by name.
    steps, weights : mapping
        As in `InferredLayers`.
    """
    trace = run.trace
    rows = {row.name: row for row in trace.stages}
    rows |= {
        row.name: row
        for row in layer_stage_rows(steps)
        if row.step is not None or row.name not in rows
    }
    held = {**tensors, **{name: trace.holding(name) for name in trace.names}}
    names = sorted(held, key=STAGE_ORDER.index)
    whole = Trace(
        trace.spec,
        tuple(rows[name] for name in names),
        trace.parameters,
        {name: held[name] for name in names},
        trace.recomputed | frozenset(names),
        trace.axes,
        {**trace.model_weights, **weights},
        trace.layer_masks,
        trace.cut,
    )
    return replace(run, trace=whole)


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from visualizer.models.attention_recorder import AttentionCall, ContextEdit
    from visualizer.models.layer_inference import KnownLayers
    from visualizer.models.layer_recorder import LayerInput, ModuleCall
    from visualizer.models.model_source import LayerAndHead

    Recording = Callable[[], AbstractContextManager[list[AttentionCall]]]

ModuleWidths = dict[str, tuple[int, int]]
"""Input and output widths of modules, by path."""
REPEAT_TOLERANCE = 1e-5
"""Maximum difference of a repeated layer's result, relative to its largest absolute value."""


def module_widths(paths: tuple[str, ...], passed: Mapping[str, ModuleCall]) -> ModuleWidths:
    """Return the widths of the modules that ran within some layers.

    They are the same for every text with the same steps.
    """
    within = tuple(f"{path}." for path in paths)
    return {
        path: (each.given.shape[-1], each.result.shape[-1])
        for path, each in passed.items()
        if path in paths or path.startswith(within)
    }


def add_repeated_layers(
    found: LayerRun,
    model: nn.Module,
    known: KnownLayers,
    passed: Mapping[str, ModuleCall],
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
    StepMismatchError
        If a repeated layer does not reproduce its result.
    """
    group = found.group
    again = _RepeatedLayers(model, known, group.calls, inputs, recording)
    with torch.no_grad():
        steps, weights = infer_text_steps(known, group.calls, group.layers, passed, edits)
        sizes = again.sizes()
    trace = found.run.trace
    parts = _lazy_stages(again, sizes, len(group.layers), getattr(torch, trace.spec.dtype))
    held = {name: LayeredTensor(own) if trace.axes else own[0] for name, own in parts.items()}
    # Context vectors are also recomputed, so they need not be kept.
    group = replace(group, calls=tuple(replace(call, context=None) for call in group.calls))
    return LayerRun(group, add_layer_stages(found.run, held, steps, weights))


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
            raise StepMismatchError
        self._inputs = tuple(inputs[path] for path in known.paths)
        self._recording = recording

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Run a layer again, compare it with the next one's input, and return the stages' shapes.

        Raises
        ------
        StepMismatchError
            If it does not reproduce its result.
        """
        step = self._known.steps[Role.RESIDUAL].step
        before = step.before if isinstance(step, ResidualStream) else ()
        at = next((last for last in before if last is not None), 0)
        found = self.compute(at)
        if at + 1 < len(before) and before[at + 1] == at and "result" in found:
            wanted, made = self._input_stream(at + 1), found["result"]
            if wanted.shape != made.shape:
                raise StepMismatchError
            if not (made - wanted).abs().max() <= REPEAT_TOLERANCE * wanted.abs().max():
                raise StepMismatchError
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
            raise StepMismatchError
        return collect_layer_values(self._known, place, LayerPass(own[0], passed))


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
