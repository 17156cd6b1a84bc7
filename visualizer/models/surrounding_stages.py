"""Records the stages around the attention for a text, and adds them to its runs."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention import device as attention_device
from visualizer.attention.cached_tensor import CachedTensor
from visualizer.attention.layer_operations import ResidualStream
from visualizer.attention.layer_stages import STAGE_ORDER, SURROUNDING_STAGES, create_layer_stages
from visualizer.attention.layered_tensor import ComputedStageCache, LayeredTensor, LazyStageTensor
from visualizer.attention.roles import Role
from visualizer.attention.spec import Device
from visualizer.attention.trace import Trace
from visualizer.errors import InputError
from visualizer.format import format_size
from visualizer.models.float32_computation import (
    HALF_DTYPES,
    compute_in_float32,
    has_half_precision,
)
from visualizer.models.layer_recognition import (
    RecognizedLayers,
    collect_layer_values,
    collect_text_stages,
    collect_text_steps,
    recognize_layers,
)
from visualizer.models.layer_recorder import (
    LayerArguments,
    ModuleCall,
    first_input,
    record_layer_inputs,
    record_module_calls,
)
from visualizer.models.layer_values import LayerRecording, vectors_without_batch_axis
from visualizer.models.recognition_errors import StepMismatchError, infer_or_none
from visualizer.models.recorded_runs import LayerGroupRun, group_calls
from visualizer.models.text_model import PIXELS_ARGUMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from visualizer.attention.layer_stages import LayerStageSpec
    from visualizer.attention.run import Run
    from visualizer.models.attention_recorder import AttentionCall, ContextEdit
    from visualizer.models.editable_heads import Edits
    from visualizer.models.forward_runner import ForwardRunner
    from visualizer.models.layer_recognition import LayerStages
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.recorded_runs import KeptLayersAndStages, LayerGroup
    from visualizer.models.text_model import TextModel

    Recording = Callable[[], AbstractContextManager[list[AttentionCall]]]


STAGES_UNKNOWN_NOTICE = (
    "Only attention is shown: the program could not infer the other stages of the layers from what "
    "the model computed."
)
LayerGroupPath = tuple[str, tuple[int, ...]]
"""Path of the attention of a group of layers, and the numbers of the layers."""


def add_surrounding_stages(
    found: LayerGroupRun,
    model: nn.Module,
    module_calls: Mapping[str, ModuleCall],
    edits: Mapping[LayerAndHead, ContextEdit],
    memory: dict[LayerGroupPath, RecognizedLayers | None],
) -> LayerGroupRun:
    """Add the recognized stages around the attention to a run.

    If recognition fails, a notice is added to the run instead.

    Parameters
    ----------
    memory : dict
        Recognized steps of the model's layers, which this function updates.
    module_calls : mapping
        As recorded by `record_module_calls`.
    """

    def add_recognized_stages() -> LayerGroupRun:
        group = found.group
        key = (group.name, group.layers)
        with torch.inference_mode():
            known = memory.get(key)
            stages = _stages_of_text(known, group, module_calls, edits)
            if key not in memory or (known is not None and stages is None):
                known = recognize_layers(model, group.calls, group.layers, module_calls)
                # Keep only findings that hold for most texts: a single token has no rotation
                # (RoPE), and edited heads have other outputs.
                if found.run.trace.query_count > 1 and not edits:
                    memory.setdefault(key, known)
                stages = _stages_of_text(known, group, module_calls, edits)
        if stages is None:
            return found
        values, steps, weights = stages
        has_axis = bool(found.run.trace.axes)
        cache = ComputedStageCache()
        held = {
            name: _stage_tensor(name, each, cache, has_axis=has_axis)
            for name, each in values.items()
        }
        return replace(found, run=add_layer_stages(found.run, held, steps, weights))

    inferred = infer_or_none(f"the stages around {found.group.name}", add_recognized_stages)
    return inferred or found.with_notice(STAGES_UNKNOWN_NOTICE)


def _stage_tensor(
    name: str, values: Tensor, cache: ComputedStageCache, *, has_axis: bool
) -> CachedTensor:
    """Return a stage [layer, …]; 16-bit values are converted to float32 when they are read."""
    if values.dtype not in HALF_DTYPES:
        return CachedTensor(values if has_axis else values[0])
    parts = [
        LazyStageTensor(
            name,
            layer,
            values.shape[1:],
            torch.float32,
            lambda layer: {name: values[layer].float()},
            cache,
        )
        for layer in range(len(values))
    ]
    return LayeredTensor(parts) if has_axis else parts[0]


def _stages_of_text(
    known: RecognizedLayers | None,
    group: LayerGroup,
    module_calls: Mapping[str, ModuleCall],
    edits: Mapping[LayerAndHead, ContextEdit],
) -> LayerStages | None:
    """Return the stages for a text; None if the model computed them with other steps.

    Steps recognized with one text may not apply to another: a module may be skipped, or receive
    tensors of other shapes.
    """
    if known is None:
        return None
    try:
        return collect_text_stages(known, group.calls, group.layers, module_calls, edits)
    except StepMismatchError:
        return None


def add_layer_stages(
    run: Run,
    tensors: Mapping[str, CachedTensor],
    steps: Mapping[str, LayerStageSpec],
    weights: Mapping[str, Tensor],
) -> Run:
    """Return a run with the stages around its attention, in order of computation.

    The queries, keys and values are kept, with the steps by which the layers compute them.

    Parameters
    ----------
    tensors : mapping
        The stages, by name.
    steps, weights : mapping
        As returned by `collect_text_steps`.
    """
    trace = run.trace
    rows = {row.name: row for row in trace.stages}
    rows |= {
        row.name: row
        for row in create_layer_stages(steps)
        if row.step is not None or row.name not in rows
    }
    held = {**tensors, **{name: trace.cached_stage_tensor(name) for name in trace.names}}
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


ModuleWidths = dict[str, tuple[int, int]]
"""Input and output widths of modules, by path."""
REPEAT_TOLERANCE = 1e-5
"""Maximum difference between the repeated and the recorded result of a layer, relative to the
largest absolute value.
"""


def module_widths(paths: tuple[str, ...], module_calls: Mapping[str, ModuleCall]) -> ModuleWidths:
    """Return the widths of the modules that ran in the given layers.

    The widths are the same for every text with the same steps.
    """
    within = tuple(f"{path}." for path in paths)
    return {
        path: (each.given.shape[-1], each.result.shape[-1])
        for path, each in module_calls.items()
        if path in paths or path.startswith(within)
    }


def add_recomputed_stages(
    found: LayerGroupRun,
    model: nn.Module,
    known: RecognizedLayers,
    module_calls: Mapping[str, ModuleCall],
    inputs: Mapping[str, LayerArguments],
    edits: Mapping[LayerAndHead, ContextEdit],
    recording: Recording,
) -> LayerGroupRun:
    """Add the stages around the attention to a run; a layer runs again to compute its stages.

    Parameters
    ----------
    module_calls, inputs : mapping
        As recorded by `record_layer_inputs`.
    recording : callable
        Records attention, with the edits and cut edges of the text.

    Raises
    ------
    StepMismatchError
        If a repeated layer does not reproduce its result.
    """
    group = found.group
    again = _RecomputedLayers(model, known, group.calls, inputs, recording)
    with torch.no_grad():
        steps, weights = collect_text_steps(known, group.calls, group.layers, module_calls, edits)
        sizes = again.stage_shapes()
    trace = found.run.trace
    parts = _lazy_stages(again, sizes, len(group.layers), getattr(torch, trace.spec.dtype))
    held = {name: LayeredTensor(own) if trace.axes else own[0] for name, own in parts.items()}
    # Context vectors are also recomputed, so they need not be kept.
    group = replace(group, calls=tuple(replace(call, context=None) for call in group.calls))
    return LayerGroupRun(group, add_layer_stages(found.run, held, steps, weights))


class _RecomputedLayers:
    """Stages of layers, which are computed by running each layer again."""

    def __init__(
        self,
        model: nn.Module,
        known: RecognizedLayers,
        calls: tuple[AttentionCall, ...],
        inputs: Mapping[str, LayerArguments],
        recording: Recording,
    ) -> None:
        self._model, self._known = model, known
        self._attention = tuple(call.module for call in calls)
        if any(path not in inputs or _has_cache(inputs[path]) for path in known.paths):
            raise StepMismatchError
        self._inputs = tuple(inputs[path] for path in known.paths)
        self._recording = recording

    def stage_shapes(self) -> dict[str, tuple[int, ...]]:
        """Run a layer again, and return the shapes of its stages if it reproduces its result."""
        step = self._known.steps[Role.RESIDUAL].step
        before = step.before if isinstance(step, ResidualStream) else ()
        at = next((last for last in before if last is not None), 0)
        found = self.recompute_layer(at)
        if at + 1 < len(before) and before[at + 1] == at and "result" in found:
            wanted, made = self._input_stream(at + 1), found["result"]
            if wanted.shape != made.shape:
                raise StepMismatchError
            within = max(REPEAT_TOLERANCE, torch.finfo(wanted.dtype).eps)
            if not (made - wanted).abs().max() <= within * wanted.abs().max():
                raise StepMismatchError
        return {name: tuple(tensor.shape) for name, tensor in found.items()}

    def _input_stream(self, place: int) -> Tensor:
        given = self._inputs[place]
        stream = vectors_without_batch_axis(first_input(given.given, given.named))
        assert stream is not None
        return stream.cpu()

    def recompute_layer(self, place: int) -> dict[str, Tensor]:
        """Return all stages of a layer, [head, token, d_head] or [token, column]."""
        path, given = self._known.paths[place], self._inputs[place]
        module = self._model.get_submodule(path)
        with (
            torch.no_grad(),
            self._recording() as calls,
            record_module_calls(self._model, path) as module_calls,
        ):
            module(*given.given, **given.named)
        own = [call for call in calls if call.module == self._attention[place]]
        if len(own) != 1:
            raise StepMismatchError
        found = collect_layer_values(self._known, place, LayerRecording(own[0], module_calls))
        return {
            name: each.float() if each.dtype in HALF_DTYPES else each
            for name, each in found.items()
        }


def _lazy_stages(
    again: _RecomputedLayers, sizes: Mapping[str, tuple[int, ...]], layers: int, dtype: torch.dtype
) -> dict[str, list[LazyStageTensor]]:
    """Return the stages of all layers; computing a layer also caches the limits of its rows."""
    cache = ComputedStageCache()
    parts: dict[str, list[LazyStageTensor]] = {}

    def compute(layer: int) -> dict[str, Tensor]:
        found = again.recompute_layer(layer)
        for name, tensor in found.items():
            parts[name][layer].cache_row_limits(tensor)
        return found

    for name, size in sizes.items():
        parts[name] = [
            LazyStageTensor(name, layer, size, dtype, compute, cache) for layer in range(layers)
        ]
    return parts


def _has_cache(given: LayerArguments) -> bool:
    """Return whether a layer received a cache, to which a repeated run would append again."""
    from transformers import Cache

    return any(isinstance(one, Cache) for one in (*given.given, *given.named.values()))


MAX_LAYER_BYTES = 2**29
MAX_HELD_LAYER_BYTES = 2**25
"""Maximum size, in bytes, of stages around the attention that are kept; larger stages are computed
on access if possible.
"""
FREE_MEMORY_DIVISOR = 4
"""The stages around the attention are omitted if they would need more than `MAX_LAYER_BYTES`, or
more than 1/`FREE_MEMORY_DIVISOR` of the free memory."""
INFERENCE_TOKENS = 16
"""Number of tokens in the run that recognizes the steps of each layer."""
STAGES_OMITTED_NOTICE = (
    "Only attention is shown. The other stages of all layers would need {size} of memory. "
    "Use a shorter text or fewer layers to show them."
)


class SurroundingRecording(Struct, frozen=True, eq=False):
    """Recorded values from which the stages around the attention are built.

    Parameters
    ----------
    module_calls, inputs : mapping
        As recorded by `record_module_calls` and `record_layer_inputs`.
    is_repeated : bool
        Whether layers run again from their recorded inputs when a stage is accessed.
    notice : str
        The reason why these stages are not available, as a sentence; empty if they are available.
    """

    module_calls: Mapping[str, ModuleCall] = {}
    inputs: Mapping[str, LayerArguments] = {}
    is_repeated: bool = False
    notice: str = ""


class SurroundingStageRecorder:
    """The stages around the attention of a model's layers, such as norms and the MLP."""

    def __init__(self, model: TextModel, forward: ForwardRunner) -> None:
        self._model, self._forward = model, forward
        self._known: dict[LayerGroupPath, RecognizedLayers | None] = {}
        """Recognized steps of the layers, by group of layers; None if not recognized."""
        self._widths: dict[frozenset[int] | None, dict[LayerGroupPath, ModuleWidths]] = {}
        """Module widths of the layers that can run again, by requested layers and by group."""

    @contextmanager
    def record(
        self, given: Mapping[str, Any], tokens: int, kept: KeptLayersAndStages, *, repeats: bool
    ) -> Iterator[SurroundingRecording]:
        """Record the values from which the stages around the attention are built.

        Parameters
        ----------
        kept : KeptLayersAndStages
            Parts to keep; if they include none of these stages, nothing is recorded.
        repeats : bool
            Whether layers may run again on access if the stages are large.
        """
        if kept.stages is not None and SURROUNDING_STAGES.isdisjoint(kept.stages):
            yield SurroundingRecording()
            return
        if self._forward.stages_notice:
            yield SurroundingRecording(notice=self._forward.stages_notice)
            return
        if has_half_precision(self._model.model):
            # Rounding to 16 bits would make different steps indistinguishable.
            try:
                self._recognize_from_few_tokens(given, kept)
            except InputError:  # the model uses weights of modules that it does not call
                yield SurroundingRecording(notice=STAGES_UNKNOWN_NOTICE)
                return
        needed = self._estimate_stage_bytes(tokens, kept)
        room = attention_device.free_device_bytes(Device.CPU) / FREE_MEMORY_DIVISOR
        is_large = needed > MAX_HELD_LAYER_BYTES
        layers = self._layers_to_recompute(given, kept) if repeats and is_large else None
        if layers is not None:
            recording_inputs = record_layer_inputs(self._model.model, layers, kept.keeps_module)
            with recording_inputs as (module_calls, inputs):
                yield SurroundingRecording(module_calls, inputs, is_repeated=True)
        elif needed <= min(MAX_LAYER_BYTES, room):
            recording = record_module_calls(self._model.model, keeps_module=kept.keeps_module)
            with recording as module_calls:
                yield SurroundingRecording(module_calls)
        else:
            yield SurroundingRecording(
                notice=STAGES_OMITTED_NOTICE.format(size=format_size(needed))
            )

    def _estimate_stage_bytes(self, tokens: int, kept: KeptLayersAndStages) -> int:
        """Estimate the size, in bytes, of the stages around the attention of the kept layers."""
        width = self._model.config_size("hidden_size") or 1
        wide = self._model.config_size("intermediate_size") or 4 * width
        layers = len(kept.layers or ()) or self._model.config_size("num_hidden_layers") or 1
        experts = self._model.config_size("num_experts_per_tok")  # output of each active expert
        return 4 * layers * tokens * ((12 + experts) * width + 3 * wide)

    def _layers_to_recompute(
        self, given: Mapping[str, Any], kept: KeptLayersAndStages
    ) -> tuple[str, ...] | None:
        """Return the paths of layers that can run again; None if they cannot.

        The steps of these layers are recognized from the first tokens of the first large text.
        """
        if PIXELS_ARGUMENT in given or self._model.is_encoder_decoder:
            return None
        widths = self._recognize_from_few_tokens(given, kept)
        known_here = [known for key in widths if (known := self._known[key]) is not None]
        if any(known.experts for known in known_here):  # their choice differs for each text
            return None
        return tuple(path for known in known_here for path in known.paths)

    def _recognize_from_few_tokens(
        self, given: Mapping[str, Any], kept: KeptLayersAndStages
    ) -> dict[LayerGroupPath, ModuleWidths]:
        """Recognize the layers by running the model on a few tokens, in float32 or float64.

        Returns
        -------
        dict
            The widths of the layers' modules, by group of layers.
        """
        widths = self._widths.get(kept.layers)
        if widths is not None:
            return widths
        # A single token has no rotation.
        few = {
            name: tensor.repeat_interleave(2, 1)
            if tensor.shape[1] == 1
            else tensor[:, :INFERENCE_TOKENS]
            for name, tensor in given.items()
        }
        model, widths = self._model.model, {}
        with compute_in_float32(model) if has_half_precision(model) else nullcontext():
            with record_module_calls(model) as module_calls, self._forward.record_calls() as calls:
                self._forward.run({**few, **self._model.cache_disabling_arguments})
            groups = group_calls(kept.select_calls(calls))
            for group in (each for each in groups if not each.is_cross):
                key = (group.name, group.layers)
                if key not in self._known:
                    self._known[key] = recognize_layers(
                        model, group.calls, group.layers, module_calls
                    )
                if (known := self._known[key]) is not None:
                    widths[key] = module_widths(known.paths, module_calls)
        self._widths[kept.layers] = widths
        return widths

    def add_stages_to_run(
        self, found: LayerGroupRun, seen: SurroundingRecording, edits: Edits, recording: Recording
    ) -> LayerGroupRun:
        """Add the recognized stages around the attention to a run."""
        if not seen.is_repeated:
            with self._forward.lock:  # runs modules, such as experts
                return add_surrounding_stages(
                    found, self._model.model, seen.module_calls, edits, self._known
                )
        key = (found.group.name, found.group.layers)
        known = self._known.get(key)
        if known is None:
            return found
        widths = module_widths(known.paths, seen.module_calls)
        if not any(each.get(key) == widths for each in self._widths.values()):
            raise StepMismatchError
        return add_recomputed_stages(
            found, self._model.model, known, seen.module_calls, seen.inputs, edits, recording
        )
