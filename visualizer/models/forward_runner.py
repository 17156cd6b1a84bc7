"""Runs the forward pass of a model in memory, across several processes, or from disk."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager, nullcontext
from threading import RLock
from typing import TYPE_CHECKING, Any

import torch
from msgspec import convert, to_builtins
from msgspec.structs import replace

from visualizer.errors import InputError, first_line, is_out_of_memory
from visualizer.language.wire_format import Message
from visualizer.models.attention_recorder import (
    TENSOR_FIELDS,
    AttentionCall,
    MaskedEdges,
    RecordingMethod,
    keep_every_module,
    record_attention,
)
from visualizer.models.model_ranks import Parallelism
from visualizer.models.text_model import PIXELS_ARGUMENT
from visualizer.progress import CancelledError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from torch import Tensor

    from visualizer.models.attention_recorder import ContextEdits, EdgeCuts, ModuleFilter
    from visualizer.models.disk_layers import DiskLayers
    from visualizer.models.text_model import TextModel

HEAD_AXIS = {"context": 2}
"""Axis of the heads, for fields in which the heads are not on axis 1."""


def _join_heads_of_ranks(calls: Sequence[AttentionCall]) -> AttentionCall:
    """Join the heads that all ranks recorded for one call."""
    first = calls[0]
    joined: dict[str, Tensor | None] = {}
    for name in TENSOR_FIELDS:
        tensors = [part for call in calls if (part := getattr(call, name)) is not None]
        is_shared = name == "mask" and bool(tensors) and tensors[0].shape[1] == 1
        if is_shared or not tensors:
            joined[name] = tensors[0] if tensors else None
        else:
            joined[name] = torch.cat(tensors, HEAD_AXIS.get(name, 1))
    arguments = dict(first.arguments)
    if "s_aux" in arguments:
        arguments["s_aux"] = torch.cat([call.arguments["s_aux"].flatten() for call in calls])
    cuts = {head: cut for call in calls for head, cut in call.cuts.items()}
    return replace(first, **joined, arguments=arguments, cuts=cuts)


def _calls_to_message(calls: Sequence[AttentionCall]) -> Message:
    """Convert calls to a message with their tensors and other fields."""
    values, arrays = [], {}
    for at, call in enumerate(calls):
        plain: dict[str, Any] = {}
        for name, given in call.arguments.items():
            if isinstance(given, torch.Tensor):
                arrays[f"{at}/arguments/{name}"] = _tensor_to_array(given)
            elif given is None or isinstance(given, (bool, int, float, str)):
                plain[name] = given
            elif (
                not isinstance(given, Mapping) or given
            ):  # only its presence matters: such arguments are not supported
                plain[name] = type(given).__name__
        for name in TENSOR_FIELDS:
            if (part := getattr(call, name)) is not None:
                arrays[f"{at}/{name}"] = _tensor_to_array(part)
        cuts = to_builtins(call.cuts, str_keys=True)
        values.append([call.module, call.method, call.scaling, plain, cuts])
    return Message("calls", {"calls": values}, arrays)


def _message_to_calls(message: Message) -> list[AttentionCall]:
    calls = []
    for at, (module, method, scaling, plain, cuts) in enumerate(message.values["calls"]):
        prefix = f"{at}/arguments/"
        tensors = {
            name.removeprefix(prefix): torch.from_numpy(array.copy())
            for name, array in message.arrays.items()
            if name.startswith(prefix)
        }
        parts: dict[str, Any] = {
            name: torch.from_numpy(message.arrays[key].copy())
            for name in TENSOR_FIELDS
            if (key := f"{at}/{name}") in message.arrays
        }
        calls.append(
            AttentionCall(
                module,
                RecordingMethod(method),
                scaling=scaling,
                arguments={**plain, **tensors},
                cuts=convert(cuts, dict[int, MaskedEdges], strict=False),
                **parts,
            )
        )
    return calls


def _tensor_to_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor as an array; 16-bit values become float32, as NumPy lacks bfloat16."""
    whole = tensor.detach().cpu()
    if whole.is_floating_point() and whole.dtype not in (torch.float32, torch.float64):
        whole = whole.float()
    array: np.ndarray = whole.contiguous().numpy()
    return array


PARALLEL_STAGES_NOTICE = (
    "Only attention is shown. The other stages are not available for a model that is "
    "split across several processes."
)
DISK_STAGES_NOTICE = (
    "Only attention is shown. The other stages need the weights of all layers, but this model "
    "loads its layers from disk one at a time."
)
ONE_PASS_NOTICE = (
    "The text was processed in one pass because processing it in chunks would change the results."
)
ONE_PASS_FROM_DISK_NOTICE = (
    "The text was processed in one pass because each chunk would load all layers from disk again."
)


class ForwardRunner:
    """Forward pass of a model whose weights are in memory, with its attention recorded."""

    holds_weights = False
    """Whether recorded weights are stored; otherwise, they are recomputed when they are read."""
    stages_notice = ""
    """The reason why the stages around the attention are not available; empty if they are."""
    one_pass_notice = ONE_PASS_NOTICE
    """The reason why a long text is processed in one pass."""
    can_chunk = True
    """Whether a long text may be processed in chunks."""

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self._is_by_interface = False
        self.lock = RLock()
        """Lock held during a run, because hooks can record only one run at a time."""

    def run(self, given: Mapping[str, Any]) -> Any:
        """Run the model; failures raise an `InputError` with field ``text`` or ``image``."""
        self._model.ranks.check_cancelled()
        with self._model.ranks.propagate_errors():
            return self._run_model(given)

    def _run_model(self, given: Mapping[str, Any]) -> Any:
        what = "image" if PIXELS_ARGUMENT in given else "text"
        try:
            return (self._model.image_model if PIXELS_ARGUMENT in given else self._model.model)(
                **given
            )
        except (InputError, CancelledError):
            raise
        except Exception as error:  # every architecture fails in its own way
            if is_out_of_memory(error):
                advice = "Use a shorter text." if what == "text" else "Close other programs."
                raise InputError(what, f"Out of memory. {advice}") from error
            sentence = f"{self._model.folder.name} failed on this {what}: {first_line(error)}"
            raise InputError(what, sentence) from error

    @contextmanager
    def record_calls(
        self,
        edits: ContextEdits | None = None,
        cuts: EdgeCuts | None = None,
        *,
        keeps: bool = True,
        holds_weights: bool = True,
        keeps_module: ModuleFilter = keep_every_module,
    ) -> Iterator[list[AttentionCall]]:
        """Record the attention of a run; runs on other threads wait.

        If the attention of a run used only the attention interface, softmax is not observed in
        later runs.
        """
        recording = record_attention(
            self._model.model,
            edits,
            cuts,
            keeps=keeps,
            watches_softmax=not self._is_by_interface,
            holds_weights=holds_weights,
            keeps_module=keeps_module,
            ranks=self._model.ranks,
        )
        with self.lock, recording as calls:
            yield calls
        if keeps:
            calls[:] = self._gather_calls(calls)
        met = {call.method for call in calls}
        self._is_by_interface = self._is_by_interface or met == {RecordingMethod.INTERFACE}

    def weights_in_memory(self, path: str) -> AbstractContextManager[None]:
        """Load the weights of a module into memory for the duration of the context.

        Raises
        ------
        InputError
            With field ``model`` if the weights are on disk and the files have changed.
        """
        return nullcontext()

    def _gather_calls(self, calls: list[AttentionCall]) -> list[AttentionCall]:
        """Return recorded calls with all heads of all layers."""
        return calls


class DistributedForwardRunner(ForwardRunner):
    """Forward pass of a model that is split across processes, which all make the same calls."""

    holds_weights = True
    stages_notice = PARALLEL_STAGES_NOTICE

    def _gather_calls(self, calls: list[AttentionCall]) -> list[AttentionCall]:
        ranks = self._model.ranks
        messages = ranks.gather_messages(_calls_to_message(calls))
        parts = [_message_to_calls(message) for message in messages]
        if ranks.parallelism is Parallelism.PIPELINE:
            return [call for part in parts for call in part]
        return [
            _join_heads_of_ranks(each)
            if ranks.has_partial_heads(each[0].weights.shape[1])
            else each[0]
            for each in zip(*parts, strict=True)
        ]


class DiskForwardRunner(ForwardRunner):
    """Forward pass of a model that loads its layers from disk one at a time."""

    holds_weights = True
    stages_notice = DISK_STAGES_NOTICE
    one_pass_notice = ONE_PASS_FROM_DISK_NOTICE
    can_chunk = False

    def __init__(self, model: TextModel, layers: DiskLayers) -> None:
        super().__init__(model)
        self._layers = layers

    def run(self, given: Mapping[str, Any]) -> Any:
        try:
            return super().run(given)
        finally:
            self._layers.unload_weights()

    @contextmanager
    def weights_in_memory(self, path: str) -> Iterator[None]:
        with self.lock, self._layers.weights_in_memory(path):
            yield


def create_forward_runner(model: TextModel) -> ForwardRunner:
    """Return the forward pass for a model, depending on where its weights are stored."""
    if model.on_disk:
        return DiskForwardRunner(model, model.on_disk)
    return DistributedForwardRunner(model) if model.ranks.count > 1 else ForwardRunner(model)
