"""Finds the heads of a model by recording a few tokens, and maps edits to their modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct

from visualizer.errors import InputError
from visualizer.models.attention_recorder import MaskedEdges, RecordingMethod
from visualizer.models.model_source import describe_heads
from visualizer.models.recorded_runs import number_calls_by_layer
from visualizer.models.text_model import PIXELS_ARGUMENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from visualizer.models.attention_recorder import (
        AttentionCall,
        ContextEdit,
        ContextEdits,
        EdgeCuts,
    )
    from visualizer.models.forward_runner import ForwardRunner
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.text_model import TextModel

    Edits = Mapping[LayerAndHead, ContextEdit]
    """Edits of heads' context vectors, keyed by layer and head; 0 ablates a head."""
    Cuts = Mapping[LayerAndHead, Sequence[tuple[int, int]]]
    """Cut edges as (query, key), keyed by layer and head; edges outside the text are ignored."""

PROBE_TOKENS = 4
"""Number of tokens in the run that counts the heads of each layer."""


class _LayerHeads(Struct, frozen=True):
    """Attention module of a layer, its head count, and whether heads can be edited separately."""

    module: str
    heads: int
    is_editable: bool


class EditableHeads:
    """The attention heads of each layer of a model."""

    def __init__(self, model: TextModel, forward: ForwardRunner) -> None:
        self._model, self._forward = model, forward
        self._layers: dict[int, _LayerHeads] | None = None

    def heads_from_calls(self, calls: Sequence[AttentionCall]) -> Mapping[int, _LayerHeads]:
        """Return the heads by layer; if they are unknown, determine them from recorded calls."""
        self._layers = self._layers or _heads_by_layer(calls)
        return self._layers

    @property
    def are_editable(self) -> bool:
        """Whether individual heads can be edited, according to the runs so far."""
        return bool(self._layers) and _are_editable(self._layers or {})

    def list_heads(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the layer number and the head number of every head that runs on a text."""
        given, *_ = self._model.encode_inputs(text, None)
        with torch.inference_mode():
            layers = self.find_heads(given)
        counts = ((layer, layers[layer].heads) for layer in sorted(layers))
        return tuple((layer, head) for layer, count in counts for head in range(count))

    def edits_by_module(self, given: Mapping[str, Any], edits: Edits | None) -> ContextEdits:
        """Return edits of heads, keyed by module path instead of layer number.

        Raises
        ------
        InputError
            With field ``heads`` if a head does not exist or cannot be edited.
        """
        found: dict[str, dict[int, ContextEdit]] = {}
        if not edits:
            return found
        for (layer, head), edit in edits.items():
            found.setdefault(self._module_path_of_head(given, layer, head), {})[head] = edit
        return found

    def cuts_by_module(
        self, given: Mapping[str, Any], cuts: Cuts | None, tokens: int | None = None
    ) -> EdgeCuts:
        """Return the cut edges within the text, keyed by module path instead of layer number."""
        if not cuts:
            return {}
        if tokens is None:
            tokens = self._model.count_tokens(given)
        found: dict[str, dict[int, MaskedEdges]] = {}
        for (layer, head), cells in cuts.items():
            module = self._module_path_of_head(given, layer, head)
            if within := [cell for cell in cells if min(cell) >= 0 and max(cell) < tokens]:
                queries, keys = zip(*within, strict=True)
                cut = MaskedEdges(queries, keys, describe_heads(((layer, head),)))
                found.setdefault(module, {})[head] = cut
        return found

    def _module_path_of_head(self, given: Mapping[str, Any], layer: int, head: int) -> str:
        """Return the path of the module of a head; reject a head that cannot be edited."""
        layers = self.find_heads(given)
        known = layers.get(layer)
        if known is None or not 0 <= head < known.heads:
            raise InputError("heads", f"Head {head} of layer {layer} does not exist.")
        # If one stack has more layers than another, the numbers of its last layers would be
        # unambiguous, but the unedited model could not be recorded for comparison.
        if not _are_editable(layers):
            sentence = f"Individual heads of {self._model.folder.name} cannot be edited."
            raise InputError("heads", sentence)
        return known.module

    def find_heads(self, given: Mapping[str, Any]) -> Mapping[int, _LayerHeads]:
        """Return the heads by layer; if they are unknown, run the model on a few tokens."""
        if self._layers:
            return self._layers
        # The weights for a long text might not fit in memory.
        few = {name: tensor[:, :PROBE_TOKENS] for name, tensor in given.items()}
        with self._forward.record_calls() as calls:
            self._forward.run(given if PIXELS_ARGUMENT in given else few)
        return self.heads_from_calls(calls)


def _heads_by_layer(calls: Sequence[AttentionCall]) -> dict[int, _LayerHeads]:
    numbered = number_calls_by_layer(calls)
    names, layers = [call.module for call in calls], [layer for layer, _ in numbered]
    return {
        layer: _LayerHeads(
            call.module,
            call.weights.shape[1],
            # An edit would apply to every call of a module that runs more than once. In a layer
            # that attends twice, such as with cross-attention, the layer number is ambiguous.
            call.method is RecordingMethod.INTERFACE
            and names.count(call.module) == 1
            and layers.count(layer) == 1,
        )
        for layer, call in numbered
    }


def _are_editable(layers: Mapping[int, _LayerHeads]) -> bool:
    return all(each.is_editable for each in layers.values())
