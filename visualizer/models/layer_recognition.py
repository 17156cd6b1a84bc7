"""Infers what the layers of a model compute around their attention, from recorded tensors.

The name of the architecture is never used. A step is recognized only if recomputing it reproduces
the model's own values: sums must match bit for bit; norms and rotary embeddings are recomputed for
the last token, and the values must be close. Steps that are not recognized are left out.
"""

from __future__ import annotations

from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch import nn

from visualizer.attention.layer_operations import (
    EmbeddedTokens,
    ExpertMixture,
    JoinedHeads,
    LateSink,
    LinearLayer,
    NormLayer,
    ResidualAddition,
    ResidualStream,
    RotaryPosition,
    ScaledVector,
)
from visualizer.attention.layer_stages import LayerStageSpec
from visualizer.attention.roles import Role
from visualizer.models.attention_recognition import (
    KEPT_SHARE_KEY,
    AttentionRecognizer,
    rotation_cosines_and_sines,
)
from visualizer.models.feed_forward_recognition import FeedForwardRecognizer
from visualizer.models.layer_recorder import layer_path
from visualizer.models.layer_stage_builder import (
    ROTARY_KEY,
    LayerStageBuilder,
    is_norm,
    own_weights,
    recognize_norm,
)
from visualizer.models.layer_values import (
    LayerRecording,
    RoutedExperts,
    StageReader,
    are_tensors_equal,
    find_embedding_rows,
    find_scale_factor,
    total_key_weight,
    vectors_without_batch_axis,
)
from visualizer.models.recognition_errors import StepMismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.layer_recorder import ModuleCall


SUPPORTED_DTYPES = (torch.float32, torch.float64)
"""Supported dtypes; with fewer bits, rounding makes different steps indistinguishable."""
MAX_EMBEDDINGS = 3
"""Maximum number of embeddings: token, position and token type."""
ModuleStep = NormLayer | LinearLayer | ExpertMixture | ScaledVector
"""Steps that refer to one module per layer."""


class RecognizedLayers(Struct, frozen=True, eq=False):
    """The recognized computation of several layers of the same kind; valid for any text.

    Parameters
    ----------
    steps : dict
        The steps by stage name, in order of computation.
    readers : tuple of dict
        For each layer, the readers of the values of its stages.
    weights : dict
        Parameters used by the steps, by their name in the model.
    paths : tuple of str
        Module path of each layer.
    """

    steps: dict[str, LayerStageSpec]
    readers: tuple[dict[str, StageReader], ...]
    weights: dict[str, Tensor]
    experts: dict[str, RoutedExperts]
    paths: tuple[str, ...]


LayerStages = tuple[dict[str, "Tensor"], dict[str, LayerStageSpec], dict[str, "Tensor"]]
"""Stages of several layers of the same kind, for one text: their values, [layer, head, token,
d_head] or [layer, token, column], on the CPU; how they are computed; and the parameters used,
including the angles of rotary embeddings."""


def recognize_layers(
    model: nn.Module,
    calls: Sequence[AttentionCall],
    layers: Sequence[int],
    module_calls: Mapping[str, ModuleCall],
) -> RecognizedLayers | None:
    """Infer what the layers compute around their attention; return None if nothing is recognized.

    Stages that some layers lack are left out.

    Parameters
    ----------
    calls, layers
        One attention call per layer, all for one text, and the layers' numbers in the model.
    """
    recorded = [_recognize_layer(model, call, module_calls) for call in calls]
    _add_identity_stages(recorded)
    first = recorded[0].tensors
    names = [
        name
        for name, numbers in first.items()
        if all(name in one.tensors and one.tensors[name].shape == numbers.shape
               for one in recorded)
    ]  # fmt: skip
    if Role.RESIDUAL not in names:
        return None
    steps = {
        name: _merge_layer_steps([one.steps[name] for one in recorded], names) for name in names
    }
    weights = {name: each for one in recorded for name, each in one.weights.items()}
    stream = _find_stream_sources(model, layers, [one.layer_pass for one in recorded], module_calls)
    steps[Role.RESIDUAL] = LayerStageSpec(stream)
    if stream.embedded:
        paths = [path for path, _ in stream.embedded.tables]
        for path in (*paths, *(stream.embedded.norm.modules if stream.embedded.norm else ())):
            weights |= own_weights(model.get_submodule(path), path)
    readers = tuple({name: one.readers[name] for name in names} for one in recorded)
    experts = {path: each for one in recorded for path, each in one.experts.items()}
    return RecognizedLayers(steps, readers, weights, experts, tuple(one.path for one in recorded))


def _recognize_layer(
    model: nn.Module, call: AttentionCall, module_calls: Mapping[str, ModuleCall]
) -> LayerStageBuilder:
    """Recognize the steps of a layer, or of its parent if its parts are numbered, as in T5."""
    layer = _trace_layer(model, call, module_calls, layer_path(call.module))
    outer = layer_path(layer.path)
    if outer == layer.path or layer.is_output_known:
        return layer
    whole = _trace_layer(model, call, module_calls, outer)
    return whole if whole.is_output_known else layer


def collect_text_stages(
    known: RecognizedLayers,
    calls: Sequence[AttentionCall],
    layers: Sequence[int],
    module_calls: Mapping[str, ModuleCall],
    edits: Mapping[tuple[int, int], float | Tensor] | None = None,
) -> LayerStages:
    """Return the stages around the attention of the given layers for a recorded text.

    Parameters
    ----------
    edits : mapping, optional
        Edits of the heads' context vectors, by the numbers of the layer in the model and the head.
        Each edit is a factor or a tensor of replacement vectors.

    Raises
    ------
    StepMismatchError
        If the model computed something else for this text.
    """
    tensors = _collect_stage_values(known, [LayerRecording(call, module_calls) for call in calls])
    return tensors, *collect_text_steps(known, calls, layers, module_calls, edits)


def collect_text_steps(
    known: RecognizedLayers,
    calls: Sequence[AttentionCall],
    layers: Sequence[int],
    module_calls: Mapping[str, ModuleCall],
    edits: Mapping[tuple[int, int], float | Tensor] | None = None,
) -> tuple[dict[str, LayerStageSpec], dict[str, Tensor]]:
    """Return the steps that compute the stages, and their parameters, as in `LayerStages`.

    Only the token ids, the rotary angles and the sizes of vectors are read from the recorded
    passes. The parameters are those of `collect_text_stages`.
    """
    steps, weights = {**known.steps}, {**known.weights}
    stream = steps[Role.RESIDUAL].step
    if isinstance(stream, ResidualStream) and stream.embedded:
        embedded = _find_embedded_rows(known, stream.embedded, module_calls)
        steps[Role.RESIDUAL] = LayerStageSpec(replace(stream, embedded=embedded))
    if Role.CONCAT in steps:
        at = {layer: place for place, layer in enumerate(layers)}
        heads = frozenset(
            (at[layer], head, None if isinstance(edit, torch.Tensor) else float(edit))
            for (layer, head), edit in (edits or {}).items()
            if layer in at
        )
        steps[Role.CONCAT] = replace(steps[Role.CONCAT], step=JoinedHeads(heads))
    kinds = {
        each.step
        for each in steps.values()
        if isinstance(each.step, RotaryPosition) and each.step.pairs
    }
    for rotary in kinds:
        if any(call.module not in module_calls for call in calls):
            raise StepMismatchError
        turns = _rotations_by_layer([module_calls[call.module] for call in calls], rotary)
        for at_, kind in enumerate(("cos", "sin")):
            weights[f"{ROTARY_KEY}.{kind}"] = torch.stack([turn[at_] for turn in turns])
    if any(isinstance(each.step, LateSink) for each in steps.values()):
        weights[KEPT_SHARE_KEY] = torch.stack(
            [total_key_weight(LayerRecording(call, module_calls)) for call in calls]
        )
    weights |= _compute_expert_outputs(known, len(calls), module_calls)
    return steps, weights


def _collect_stage_values(
    known: RecognizedLayers, passes: list[LayerRecording]
) -> dict[str, Tensor]:
    """Collect the values of all stages; raise `StepMismatchError` if shapes differ by layer."""
    each = [collect_layer_values(known, place, one) for place, one in enumerate(passes)]
    try:
        return {name: torch.stack([own[name] for own in each]) for name in known.steps}
    except RuntimeError as error:
        raise StepMismatchError from error  # shapes differ


def collect_layer_values(
    known: RecognizedLayers, place: int, one: LayerRecording
) -> dict[str, Tensor]:
    """Collect the values of one layer's stages, given its index among the known layers.

    Raises
    ------
    StepMismatchError
        If the model computed something else for this text.
    """
    try:
        for name, reader in known.readers[place].items():
            one.tensors[name] = reader(one)
        tensors = {name: one.tensors[name].cpu().contiguous() for name in known.steps}
    except (AssertionError, IndexError, KeyError, RuntimeError, TypeError) as error:
        raise StepMismatchError from error  # a module did not run, or its input had another shape
    if any(numbers.shape[-2] != one.call.weights.shape[2] for numbers in tensors.values()):
        raise StepMismatchError
    return tensors


def _find_embedded_rows(
    known: RecognizedLayers, embedded: EmbeddedTokens, module_calls: Mapping[str, ModuleCall]
) -> EmbeddedTokens:
    """Find the embedding rows for a text; raise `StepMismatchError` if any are unknown."""
    tables = []
    for path, _ in embedded.tables:
        rows = (
            find_embedding_rows(known.weights[f"{path}.weight"], module_calls[path])
            if path in module_calls
            else None
        )
        if rows is None:
            raise StepMismatchError
        tables.append((path, rows))
    return replace(embedded, tables=tuple(tables))


def _compute_expert_outputs(
    known: RecognizedLayers, layers: int, module_calls: Mapping[str, ModuleCall]
) -> dict[str, Tensor]:
    """Return the tensors that the experts of all layers compute for the tokens."""
    outputs: dict[str, Tensor] = {}
    for each in known.steps.values():
        for layer in range(layers):
            step = (each.by_layer[layer] if each.by_layer else each).step
            if isinstance(step, ExpertMixture):
                try:
                    outputs |= known.experts[step.modules[layer]].compute_expert_outputs(
                        module_calls
                    )
                except (AssertionError, KeyError) as error:
                    raise StepMismatchError from error
    return outputs


def _rotations_by_layer(
    module_calls: list[ModuleCall], step: RotaryPosition
) -> list[tuple[Tensor, Tensor]]:
    """Return the cosines and sines of each layer; layers without rotation have angle 0."""
    angles = [
        None if each.rotation is None else rotation_cosines_and_sines(each, step)
        for each in module_calls
    ]
    cosines = next((turn[0] for turn in angles if turn), None)
    if cosines is None:
        raise StepMismatchError
    none = torch.ones_like(cosines), torch.zeros_like(cosines)
    return [turn or none for turn in angles]


def _add_identity_stages(found: list[LayerStageBuilder]) -> None:
    """Add identity stages to layers that lack a step which other layers have.

    Some layers have no positional encoding, and the first layer of some models has no norm. In
    these layers, the values before and after the step are the same.
    """
    if any(Role.NORMED in one.steps for one in found):
        for one in found:
            if Role.RESIDUAL in one.steps and Role.NORMED not in one.steps:
                one.add_identity_norm()
    for name, before in product((Role.QUERIES, Role.KEYS), ("projected_", "normed_")):
        source = f"{before}{name}"
        turned = [
            one for one in found
            if source in one.steps
            and isinstance(one.steps[name].step, RotaryPosition)
        ]  # fmt: skip
        kinds = {type(one.steps[source].step) for one in turned}
        for one in found:
            own = one.steps.get(name)
            if own and source not in one.steps and type(own.step) in kinds:
                one.add_identity_rotation(name, source)


def _merge_layer_steps(found: list[LayerStageSpec], names: list[str]) -> LayerStageSpec:
    """Return the common step of all layers, or one step per layer if they differ."""
    known = [_step_if_sources_known(one, names) for one in found]
    plain = [_without_modules(one) for one in known]
    turns = {one.step for one in known if isinstance(one.step, RotaryPosition) and one.step.pairs}
    if len(turns) > 1:  # a trace contains the angles of only one rotation
        return LayerStageSpec()
    most = max(plain, key=lambda each: (plain.count(each), each.step is not None))
    common = known[plain.index(most)]
    if isinstance(common.step, ModuleStep):
        modules = tuple(_module_path(one) for one in known)
        common = replace(common, step=replace(common.step, modules=modules))
    if all(one == most for one in plain):
        return common
    return replace(common, by_layer=tuple(_repeat_module_path(one, len(known)) for one in known))


def _step_if_sources_known(found: LayerStageSpec, names: list[str]) -> LayerStageSpec:
    """Return the step if all its inputs are known; otherwise, an unknown step."""
    is_known = found.step is not None and {*found.reads} <= {*names, Role.CONTEXT}
    return found if is_known else LayerStageSpec()


def _repeat_module_path(found: LayerStageSpec, layers: int) -> LayerStageSpec:
    """Repeat the module path for every layer, so that it can be looked up by layer index."""
    if isinstance(found.step, ModuleStep):
        return replace(found, step=replace(found.step, modules=found.step.modules * layers))
    return found


def _module_path(found: LayerStageSpec) -> str:
    step = found.step
    return step.modules[0] if isinstance(step, ModuleStep) else ""


def _without_modules(found: LayerStageSpec) -> LayerStageSpec:
    """Return a step without its modules and with a rounded factor, since these differ by layer."""
    step = found.step
    if isinstance(step, NormLayer | ExpertMixture | ScaledVector):
        return replace(found, step=replace(step, modules=()))
    if isinstance(step, LinearLayer):
        rounded = float(f"{step.factor:.5g}")
        return replace(found, step=replace(step, modules=(), factor=rounded))
    return found


def _find_stream_sources(
    model: nn.Module,
    layers: Sequence[int],
    passes: list[LayerRecording],
    module_calls: Mapping[str, ModuleCall],
) -> ResidualStream:
    """Determine for each layer whether its input is the result of the previous layer."""
    before: list[int | None] = [None]
    for (last, this), (one, other) in zip(pairwise(layers), pairwise(passes), strict=True):
        is_next = this == last + 1 and "result" in one.tensors
        is_same = is_next and are_tensors_equal(one.tensors["result"], other.tensors[Role.RESIDUAL])
        before.append(len(before) - 1 if is_same else None)
    first = passes[0].tensors[Role.RESIDUAL].cpu()
    embedded = _find_embedding_rows(model, module_calls, first) if layers[0] == 0 else None
    return ResidualStream(tuple(before), embedded)


def _find_embedding_rows(
    model: nn.Module, module_calls: Mapping[str, ModuleCall], stream: Tensor
) -> EmbeddedTokens | None:
    """Find the embedding rows that add up to the input of the first layer.

    The sum may be multiplied by a factor or normalized.
    """
    tables = []
    for path, each in module_calls.items():
        module = model.get_submodule(path)
        if isinstance(module, nn.Embedding) and (rows := find_embedding_rows(module.weight, each)):
            numbers = module.weight.detach()[[*rows]].cpu()
            if numbers.shape == stream.shape:
                tables.append((path, rows, numbers))
    norms = [
        (path, given.cpu())
        for path, each in module_calls.items()
        if is_norm(model.get_submodule(path))
        and (given := vectors_without_batch_axis(each.given)) is not None
        and (normed := vectors_without_batch_axis(each.result)) is not None
        and are_tensors_equal(normed.cpu(), stream)
    ]
    for count in range(1, MAX_EMBEDDINGS + 1):
        for chosen in combinations(tables, count):
            whole = torch.stack([numbers for *_, numbers in chosen]).sum(0)
            named = tuple((path, rows) for path, rows, _ in chosen)
            factor = find_scale_factor(whole, stream)
            if factor is not None:
                return EmbeddedTokens(named, factor)
            for path, given in norms:
                factor = find_scale_factor(whole, given)
                step = recognize_norm(model.get_submodule(path), path, given, stream)
                if factor is not None and step:
                    return EmbeddedTokens(named, factor, step)
    return None


def _trace_layer(
    model: nn.Module, call: AttentionCall, module_calls: Mapping[str, ModuleCall], path: str
) -> LayerStageBuilder:
    """Trace the computation through a layer as far as it is recognized."""
    layer = LayerStageBuilder(model, call, module_calls, path)
    if layer.whole_pass is None or call.queries is None or call.context is None:
        return layer
    stream, result = (
        vectors_without_batch_axis(layer.whole_pass.given),
        vectors_without_batch_axis(layer.whole_pass.result),
    )
    if stream is None or result is None or stream.shape != result.shape:
        return layer
    if stream.dtype not in SUPPORTED_DTYPES:
        return layer
    attention = AttentionRecognizer(layer)
    entered = attention.find_projection_input(stream)
    if entered is None:
        layer.tensors.clear()
        return layer
    attention.find_projections(entered)
    written = attention.find_head_combination(entered, result)
    if written is None:
        layer.add_result(None)
    elif _ends_after_attention(layer, stream + layer.tensors[written], result):
        layer.add_result(ResidualAddition(), Role.RESIDUAL, written)
    else:
        FeedForwardRecognizer(layer).trace_after_attention(written, result)
    return layer


def _ends_after_attention(layer: LayerStageBuilder, attended: Tensor, result: Tensor) -> bool:
    """Return whether the result is the stream after attention, without a feed-forward block.

    In T5, each part of a layer is a separate module, and the feed-forward block is in another one.
    """
    is_part = layer_path(layer.path) != layer.path
    return not is_part and torch.equal(attended, result) and not layer.is_module_input(attended)
