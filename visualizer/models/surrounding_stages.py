"""Records a text's stages around the attention, and adds them to its runs."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the types of fields
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from visualizer.attention import device as attention_device
from visualizer.attention.layer_stages import SURROUNDING_STAGES
from visualizer.attention.spec import Device
from visualizer.format import format_size
from visualizer.models.chunked_prefill import cache_disabling_argument
from visualizer.models.layer_inference import StepMismatchError, infer_layers
from visualizer.models.layer_recorder import (
    EMPTY_MODULE_PASSES,
    LayerInput,
    ModuleCall,
    record_layer_inputs,
    record_layers,
)
from visualizer.models.layer_stages import add_layers, add_repeated_layers, module_widths
from visualizer.models.recorded_runs import group_calls
from visualizer.models.text_model import PIXELS_ARGUMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.models.editable_heads import Edits
    from visualizer.models.forward import Forward
    from visualizer.models.kept_parts import PartsToKeep
    from visualizer.models.layer_inference import KnownLayers
    from visualizer.models.layer_stages import LayerGroupPath, ModuleWidths, Recording
    from visualizer.models.recorded_runs import LayerRun
    from visualizer.models.text_model import TextModel

MAX_LAYER_BYTES = 2**29
MAX_HELD_LAYER_BYTES = 2**25
"""Above this size, the stages around the attention are computed on access, if possible."""
FREE_MEMORY_DIVISOR = 4
"""The stages around the attention are omitted if they would take more than ``MAX_LAYER_BYTES``,
or more than one part in ``FREE_MEMORY_DIVISOR`` of the free memory."""
INFERENCE_TOKENS = 16
"""Number of tokens of the run that recognizes the steps of each layer."""
STAGES_OMITTED_NOTICE = (
    "Only attention is shown. The other stages of all layers would need {size} of memory. "
    "Use a shorter text or fewer layers to show them."
)


class RecordedLayers(Struct, frozen=True, eq=False):
    """Recorded values from which the stages around the attention are built.

    Parameters
    ----------
    passed, inputs : mapping
        As recorded by `record_layers` and `record_layer_inputs`.
    is_repeated : bool
        Whether layers run again from their recorded inputs when a stage is accessed.
    notice : str
        Why these stages are not available, as a sentence; empty if they are.
    """

    passed: Mapping[str, ModuleCall] = EMPTY_MODULE_PASSES
    inputs: Mapping[str, LayerInput] = {}
    is_repeated: bool = False
    notice: str = ""


class SurroundingStages:
    """The stages around the attention of a model's layers, such as norms and the MLP."""

    def __init__(self, model: TextModel, forward: Forward) -> None:
        self._model, self._forward = model, forward
        self._known: dict[LayerGroupPath, KnownLayers | None] = {}
        """Recognized steps of the layers, by group of layers; None if not recognized."""
        self._widths: dict[frozenset[int] | None, dict[LayerGroupPath, ModuleWidths]] = {}
        """Module widths of layers that can run again, by the requested layers."""

    @contextmanager
    def recorded(
        self, given: Mapping[str, Any], tokens: int, kept: PartsToKeep, *, repeats: bool
    ) -> Iterator[RecordedLayers]:
        """Record the values from which the stages around the attention are built.

        Parameters
        ----------
        kept : PartsToKeep
            Parts to keep; without any of these stages nothing is recorded.
        repeats : bool
            Whether layers may run again on access if the stages are large.
        """
        if kept.stages is not None and SURROUNDING_STAGES.isdisjoint(kept.stages):
            yield RecordedLayers()
        elif self._forward.stages_notice:
            yield RecordedLayers(notice=self._forward.stages_notice)
        else:
            with self._recorded_here(given, tokens, kept, repeats=repeats) as seen:
                yield seen

    @contextmanager
    def _recorded_here(
        self, given: Mapping[str, Any], tokens: int, kept: PartsToKeep, *, repeats: bool
    ) -> Iterator[RecordedLayers]:
        needed = self._bytes_of_layers(tokens)
        room = attention_device.free_device_bytes(Device.CPU) / FREE_MEMORY_DIVISOR
        is_large = needed > MAX_HELD_LAYER_BYTES
        layers = self._layers_to_repeat(given, kept) if repeats and is_large else None
        if layers is not None:
            with record_layer_inputs(self._model.model, layers) as (passed, inputs):
                yield RecordedLayers(passed, inputs, is_repeated=True)
        elif needed <= min(MAX_LAYER_BYTES, room):
            with record_layers(self._model.model) as passed:
                yield RecordedLayers(passed)
        else:
            yield RecordedLayers(notice=STAGES_OMITTED_NOTICE.format(size=format_size(needed)))

    def _bytes_of_layers(self, tokens: int) -> int:
        """Return an estimate of the bytes of the stages around the attention of all layers."""
        width = self._model.size("hidden_size") or 1
        wide = self._model.size("intermediate_size") or 4 * width
        layers = self._model.size("num_hidden_layers") or 1
        experts = self._model.size("num_experts_per_tok")  # output of each active expert
        return 4 * layers * tokens * ((12 + experts) * width + 3 * wide)

    def _layers_to_repeat(
        self, given: Mapping[str, Any], kept: PartsToKeep
    ) -> tuple[str, ...] | None:
        """Return the paths of layers that can run again; None if they cannot.

        Their steps are recognized from the first tokens of the first large text.
        """
        if PIXELS_ARGUMENT in given or self._model.has_decoder:
            return None
        widths = self._widths.get(kept.layers)
        if widths is None:
            few = {name: tensor[:, :INFERENCE_TOKENS] for name, tensor in given.items()}
            with record_layers(self._model.model) as passed, self._forward.recorded() as calls:
                self._forward.run({**few, **cache_disabling_argument(self._model.model)})
            widths = {}
            for group in group_calls(kept.select_calls(calls)):
                key = (group.name, group.layers)
                if key not in self._known:
                    found = infer_layers(self._model.model, group.calls, group.layers, passed)
                    self._known[key] = found
                if (known := self._known[key]) is not None:
                    widths[key] = module_widths(known.paths, passed)
            self._widths[kept.layers] = widths
        known_here = [known for key in widths if (known := self._known[key]) is not None]
        if any(known.experts for known in known_here):  # their choice differs for each text
            return None
        return tuple(path for known in known_here for path in known.paths)

    def added_to(
        self, found: LayerRun, seen: RecordedLayers, edits: Edits, recording: Recording
    ) -> LayerRun:
        """Add the recognized stages around the attention to a run."""
        if not seen.is_repeated:
            with self._forward.lock:  # runs modules, such as experts
                return add_layers(found, self._model.model, seen.passed, edits, self._known)
        key = (found.group.name, found.group.layers)
        known = self._known.get(key)
        if known is None:
            return found
        widths = module_widths(known.paths, seen.passed)
        if not any(each.get(key) == widths for each in self._widths.values()):
            raise StepMismatchError
        return add_repeated_layers(
            found, self._model.model, known, seen.passed, seen.inputs, edits, recording
        )
