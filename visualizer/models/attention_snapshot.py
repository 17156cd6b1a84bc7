"""Attention weights of a model that is being trained, without any effect on its training."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import nn

from visualizer.attention.token_labels import label_tokens
from visualizer.errors import InputError
from visualizer.models.attention_recorder import (
    LastPassRecorder,
    RecordingMethod,
    record_calls,
)
from visualizer.models.layer_run_lookup import is_decoder_part
from visualizer.models.recorded_runs import group_calls
from visualizer.models.recorded_texts import run_uncompiled
from visualizer.models.text_model import IDS_ARGUMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from visualizer.models.recorded_runs import LayerGroup

DECODER_IDS_ARGUMENT = "decoder_input_ids"
_SHARDING_CLASSES = ("FSDPModule", "FullyShardedDataParallel")
"""Names of module classes that divide their parameters among processes."""


@contextmanager
def preserve_training_state(model: nn.Module) -> Iterator[None]:
    """Evaluate a model within the context, and restore everything that training depends on.

    These are the training mode of each module, the random number generators, the gradient mode and
    the cache of automatic mixed precision, which must not contain weights without gradients.
    """
    modes = [(module, module.training) for module in model.modules()]
    devices = {parameter.device for parameter in model.parameters()}
    gpus = [device.index for device in devices if device.type == "cuda"]
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 - of others
    is_cached = torch.is_autocast_cache_enabled()
    try:
        with torch.random.fork_rng(devices=gpus), torch.no_grad():
            torch.set_autocast_cache_enabled(False)
            for module, _ in modes:
                module.training = False
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        torch.set_autocast_cache_enabled(is_cached)
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002 - restored for other code


def is_first_process() -> bool:
    """Return whether this is the only process, or the first one in distributed training."""
    distributed = torch.distributed
    is_group = distributed.is_available() and distributed.is_initialized()
    return not is_group or distributed.get_rank() == 0


def encode_text(given: Any, tokenizer: Any) -> tuple[dict[str, Any], str]:
    """Return the arguments of a model for a text, and the text as a string.

    Parameters
    ----------
    given : str, sequence of int, or mapping
        A text, its token ids, or the arguments of the model, such as a tokenizer's result.
    tokenizer : PreTrainedTokenizer or None
        The model's tokenizer, which is required for a string.

    Raises
    ------
    InputError
        With field ``tokenizer`` if it is required; with field ``texts`` if the text is invalid.
    """
    if isinstance(given, str):
        if tokenizer is None:
            sentence = "texts contains strings, so a tokenizer is required."
            raise InputError("tokenizer", f"{sentence} Pass tokenizer=, or token ids as texts.")
        arguments = dict(tokenizer(given, return_tensors="pt"))
    elif isinstance(given, Mapping):
        arguments = {name: _to_batch(value) for name, value in given.items()}
    else:
        arguments = {IDS_ARGUMENT: _to_batch(given)}
    numbers = _ids_of_text(arguments, IDS_ARGUMENT)
    if isinstance(given, str):
        return arguments, given
    return arguments, str(tokenizer.decode(numbers)) if tokenizer else " ".join(map(str, numbers))


def label_text(arguments: Mapping[str, Any], name: str, tokenizer: Any) -> tuple[str, ...]:
    """Return the tokens of the argument of a model that contains the ids of a text.

    Raises
    ------
    InputError
        With field ``texts`` if the argument is missing or does not contain the ids of one text.
    """
    numbers = _ids_of_text(arguments, name)
    if tokenizer is None:
        return tuple(map(str, numbers))
    return label_tokens(tokenizer.convert_ids_to_tokens(numbers))


def check_ids(model: nn.Module, texts: Sequence[Mapping[str, Any]]) -> None:
    """Check that a model supports all token ids and the length of each text.

    On a GPU, an invalid id would end the training: afterwards, no operation on the device works.

    Raises
    ------
    InputError
        With field ``texts``.
    """
    name, longest = type(model).__name__, _max_tokens(model)
    sizes = {each: _vocabulary_size(model, each) for each in (IDS_ARGUMENT, DECODER_IDS_ARGUMENT)}
    for text in texts:
        for argument, size in sizes.items():
            ids = _ids_of_text(text, argument) if argument in text else []
            wrong = next((each for each in ids if size and not 0 <= each < size), None)
            if wrong is not None:
                sentence = f"texts contains the token id {wrong:,}, but the ids of {name} are 0 to"
                raise InputError("texts", f"{sentence} {size - 1:,}.")
            if longest and len(ids) > longest:
                sentence = f"texts contains a text of {len(ids):,} tokens; {name} supports at most"
                raise InputError("texts", f"{sentence} {longest:,}. Use a shorter text.")


def _vocabulary_size(model: Any, argument: str) -> int:
    """Return the number of token ids that an argument may contain, or 0 if it is unknown."""
    try:
        part = model.get_decoder() if argument == DECODER_IDS_ARGUMENT else model
        return int(part.get_input_embeddings().weight.shape[0])
    except (AttributeError, NotImplementedError):
        return 0


def _max_tokens(model: Any) -> int:
    """Return the maximum number of tokens that a model supports, or 0 if it is unknown."""
    try:
        config = model.config
        text_config = config if config.is_encoder_decoder else config.get_text_config()
        return int(text_config.max_position_embeddings or 0)
    except (AttributeError, ValueError):
        return 0


def _ids_of_text(arguments: Mapping[str, Any], name: str) -> list[int]:
    ids = arguments.get(name)
    if not isinstance(ids, torch.Tensor) or ids.ndim != 2 or ids.shape[0] != 1 or not ids.numel():
        sentence = "Each text must be a string, the token ids of one text, or the arguments of the"
        raise InputError("texts", f"{sentence} model for one text, with “{name}”.")
    numbers: list[int] = ids[0].tolist()
    return numbers


def _to_batch(value: Any) -> Any:
    """Return numbers as a tensor with an axis for the batch; other values are unchanged."""
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return value
    return tensor[None] if tensor.ndim == 1 else tensor


class AttentionSampler(Protocol):
    """Computes the attention weights of a model for fixed inputs."""

    model: nn.Module
    ids_argument: str
    """Argument of the model that contains the ids of the tokens that attend to each other."""

    def compute_weights(self, inputs: Sequence[Mapping[str, Any]]) -> list[Tensor]:
        """Run the model on each of the inputs.

        Returns
        -------
        list of Tensor
            The weights for each of the inputs, [layer, head, query, key], on the model's device.
        """


class FunctionSampler:
    """Computes attention weights with a function of the user, for models of any kind.

    Parameters
    ----------
    model : Module
        The model, which is in evaluation mode while the function is called.
    function : callable
        Function that returns the weights for token ids [1, token], [layer, head, query, key], or
        one array [text, head, query, key] per layer; the axis of the text may be missing.

    Raises
    ------
    InputError
        With field ``model`` if the model is not a module of torch, or its parameters are divided
        among processes.
    """

    def __init__(self, model: Any, function: Callable[[Tensor], Any]) -> None:
        if not isinstance(model, nn.Module):
            kind = type(model).__name__
            raise InputError("model", f"model must be a torch.nn.Module. It is of type {kind}.")
        _check_is_whole(model)
        self.model, self._function = model, function
        self.ids_argument = IDS_ARGUMENT

    def compute_weights(self, inputs: Sequence[Mapping[str, Any]]) -> list[Tensor]:
        """Call the function for each of the inputs; see `AttentionSampler`.

        Raises
        ------
        InputError
            With field ``weights`` if the result does not have the required axes.
        """
        device = _device_of(self.model)
        with preserve_training_state(self.model), run_uncompiled():
            return [
                _stack_given_layers(self._function(each["input_ids"].to(device))) for each in inputs
            ]


def _stack_given_layers(given: Any) -> Tensor:
    """Return weights as a tensor [layer, head, query, key]."""
    if isinstance(given, list | tuple):
        layers = [torch.as_tensor(layer) for layer in given]
        if layers and all(layer.ndim == 4 and len(layer) == 1 for layer in layers):
            layers = [layer[0] for layer in layers]
        is_same = len({layer.shape for layer in layers}) == 1
        whole = torch.stack(layers) if is_same else torch.empty(0)
    else:
        whole = torch.as_tensor(given)
    if whole.ndim != 4 or whole.shape[-1] != whole.shape[-2] or not whole.numel():
        sentence = (
            "weights must return an array [layer, head, query, key], or one array [text, head, "
            "query, key] per layer, for one text and with as many queries as keys."
        )
        raise InputError("weights", sentence)
    # The function may return a buffer that the model overwrites before the weights are saved.
    return whole.detach().clone()


class RecordedCallSampler:
    """Computes the attention weights of a Transformers model from its recorded calls.

    Parameters
    ----------
    model : PreTrainedModel
        The model, which may be in training mode.
    part : str or None
        Name, or a unique part of the name, of the attention to return, if the model has several
        kinds of attention.

    Raises
    ------
    InputError
        With field ``model`` if the parameters of the model are divided among processes.
    """

    def __init__(self, model: nn.Module, part: str | None = None) -> None:
        self.model, self._part = model, part
        self.ids_argument = IDS_ARGUMENT
        self._watches_softmax = True
        """Whether softmax is observed, which models that use the attention interface do not need.
        """
        _check_is_whole(model)

    def compute_weights(self, inputs: Sequence[Mapping[str, Any]]) -> list[Tensor]:
        """Run the model on each of the inputs; see `AttentionSampler`.

        Raises
        ------
        InputError
            With field ``model`` if the model computes no attention, or its layers differ in their
            numbers of heads; with field ``part`` if it has several kinds of attention.
        """
        device = _device_of(self.model)
        recorder = LastPassRecorder()
        found = []
        with ExitStack() as stack:
            stack.enter_context(preserve_training_state(self.model))
            stack.enter_context(run_uncompiled())
            watches_softmax = self._watches_softmax
            stack.enter_context(record_calls(self.model, recorder, watches_softmax=watches_softmax))
            for each in inputs:
                self.model(**{name: _to_device(value, device) for name, value in each.items()})
                calls = [call.with_weights_only() for call in recorder.calls]
                found.append(self._stack_layers(group_calls(calls)))
                watches_softmax = any(call.method is RecordingMethod.SOFTMAX for call in calls)
        self._watches_softmax = watches_softmax
        return found

    def _stack_layers(self, groups: Sequence[LayerGroup]) -> Tensor:
        if not groups:
            sentence = "The model computed no attention that can be recorded."
            raise InputError("model", f"{sentence} Pass a function that returns it as weights=.")
        names = tuple(dict.fromkeys(group.name for group in groups))
        chosen = [name for name in names if self._part is None or self._part in name]
        if len(chosen) != 1:
            sentence = f"The model has several kinds of attention: {', '.join(names)}."
            raise InputError("part", f"{sentence} Pass part= with the name of one of them.")
        layers = {
            layer: call.weights[0]
            for group in groups
            if group.name == chosen[0]
            for layer, call in zip(group.layers, group.calls, strict=True)
        }
        shapes = {tuple(weights.shape) for weights in layers.values()}
        if len(shapes) > 1:
            sentence = "The layers have different numbers of heads, which is not supported."
            raise InputError("model", sentence)
        ((_, queries, keys),) = shapes
        if queries != keys:
            sentence = f"“{chosen[0]}” attends to another text, which is not supported."
            raise InputError("part", sentence)
        config: Any = self.model.config
        if config.is_encoder_decoder and is_decoder_part(chosen[0]):
            self.ids_argument = DECODER_IDS_ARGUMENT
        return torch.stack([layers[layer] for layer in sorted(layers)])


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())


def copy_to_arrays(weights: Sequence[Tensor]) -> list[np.ndarray]:
    """Copy weights to the CPU, as arrays; types with fewer bits are converted to float32."""
    own = (each.cpu() for each in weights)
    return [(each if each.dtype is torch.float64 else each.float()).numpy() for each in own]


def _to_device(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value


def _device_of(model: nn.Module) -> torch.device:
    """Return the device of the parameters or buffers; the CPU if there are none."""
    tensor = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if tensor is None else tensor.device


def _check_is_whole(model: nn.Module) -> None:
    """Reject parameters that are divided by FSDP, tensor parallelism or ZeRO stage 3."""
    kinds = {base.__name__ for module in model.modules() for base in type(module).__mro__}
    is_divided = bool(kinds.intersection(_SHARDING_CLASSES)) or any(
        hasattr(parameter, "ds_id") or hasattr(parameter, "device_mesh")
        for parameter in model.parameters()
    )
    if is_divided:
        sentence = "A model whose parameters are divided among processes cannot be recorded."
        raise InputError("model", f"{sentence} Use a strategy that keeps whole models.")
