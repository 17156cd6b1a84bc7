"""Adds the stages around the attention of a model's layers to a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec.structs import replace

from visualizer.attention.model_layer_stages import ORDER, layer_rows
from visualizer.attention.tensor_with_cached_reductions import CachedTensor
from visualizer.attention.trace import Trace
from visualizer.models.inference_boundary import inferred
from visualizer.models.layer_step_recognition import (
    KnownLayers,
    ModelLayers,
    OtherStepsError,
    known_layers,
    layers_of_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from visualizer.attention.model_layer_stages import StepOfStage
    from visualizer.attention.run import Run
    from visualizer.models.attention_recorder import ContextEdit
    from visualizer.models.layer_recorder import ModulePass
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.run_from_attention_calls import LayerGroup, LayerRun


STAGES_UNKNOWN_NOTICE = (
    "Only attention is shown: the program could not infer the other stages of the layers from what "
    "the model computed."
)
LayerPlaces = tuple[str, tuple[int, ...]]
"""Path of the attention of a group of layers, and the numbers of the layers."""


def with_layers(
    found: LayerRun,
    model: nn.Module,
    passed: Mapping[str, ModulePass],
    edits: Mapping[LayerAndHead, ContextEdit],
    memory: dict[LayerPlaces, KnownLayers | None],
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
    return inferred(
        f"the stages around {group.name}",
        lambda: _add_recognized_stages(found, model, passed, edits, memory),
    ) or found.with_notice(STAGES_UNKNOWN_NOTICE)


def _add_recognized_stages(
    found: LayerRun,
    model: nn.Module,
    passed: Mapping[str, ModulePass],
    edits: Mapping[LayerAndHead, ContextEdit],
    memory: dict[LayerPlaces, KnownLayers | None],
) -> LayerRun:
    group = found.group
    key = (group.name, group.layers)
    with torch.inference_mode():
        known = memory.get(key)
        layers = _stages_of_text(known, group, passed, edits)
        if key not in memory or (known is not None and layers is None):
            known = known_layers(model, group.calls, group.layers, passed)
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
    return replace(found, run=with_layer_stages(found.run, held, layers.steps, layers.weights))


def _stages_of_text(
    known: KnownLayers | None,
    group: LayerGroup,
    passed: Mapping[str, ModulePass],
    edits: Mapping[LayerAndHead, ContextEdit],
) -> ModelLayers | None:
    """Return the stages for a text; None if the model took other steps for it.

    Steps recognized with one text may not hold for another: a module may be skipped, or receive
    tensors of other shapes.
    """
    if known is None:
        return None
    try:
        return layers_of_text(known, group.calls, group.layers, passed, edits)
    except OtherStepsError:
        return None


def with_layer_stages(
    run: Run,
    tensors: Mapping[str, CachedTensor],
    steps: Mapping[str, StepOfStage],
    weights: Mapping[str, Tensor],
) -> Run:
    """Return a run with the stages around its attention, in order of computation.

    Its queries, keys and values are kept, but described by how the layers compute them.

    Parameters
    ----------
    tensors : mapping
        The stages, by name.
    steps, weights : mapping
        As in `ModelLayers`.
    """
    trace = run.trace
    rows = {row.name: row for row in trace.stages}
    rows |= {
        row.name: row for row in layer_rows(steps) if row.step is not None or row.name not in rows
    }
    held = {**tensors, **{name: trace.holding(name) for name in trace.names}}
    names = sorted(held, key=ORDER.index)
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
