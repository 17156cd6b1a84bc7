"""Estimates the memory of a training run, so that settings that need too much are rejected.

Otherwise, a system that overcommits memory would kill the program later without a message.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention import device as attention_device
from visualizer.attention.run import USABLE_MEMORY_SHARE, format_gib
from visualizer.attention.spec import Device, Dtype
from visualizer.attention.stages import estimate_bytes as bytes_of_stages
from visualizer.errors import InputError, Remedy, system_error_reason
from visualizer.format import format_size
from visualizer.language.language_models import AttentionLayer, LanguageModel, count_layers
from visualizer.language.training_settings import FEED_FORWARD_MODELS, TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

BYTES_PER_NUMBER = 4
"""Number of bytes per value; all values are float32."""
PARAMETER_COPIES = 8
"""Number of copies of each parameter during training: the parameter, its gradient, two for AdamW,
one for reading old snapshots, and three in a checkpoint while it is written.
"""
CHECKPOINT_COPIES = 7
"""Number of copies of each parameter while a checkpoint is read: the parameter, and three
(including two for AdamW) both in the file's content and in the tensors that are read from it.
"""
WEIGHT_COPIES = 2
"""Number of copies of each parameter while only weights are read: the file's content and the model.
"""
VECTORS_PER_TOKEN, VECTORS_WITHOUT_FEED_FORWARD = 30, 16
"""Number of vectors stored per token and layer for the backward pass, with and without a
feed-forward block.
"""
LOGIT_COPIES = 4
"""Number of copies of the logits: the logits, their normalized values, and the gradients of both.
"""
TORCH_BYTES = 100 * 2**20
"""Memory that torch allocates for its first computation, in bytes."""


class ProcessCounts(Struct, frozen=True):
    """The number of processes that share each batch, in total and on this machine."""

    processes: int = 1
    local_processes: int = 1


SINGLE_PROCESS = ProcessCounts()


def check_training_memory(
    settings: TrainingSettings, tokens: int, sharing: ProcessCounts = SINGLE_PROCESS
) -> None:
    """Reject settings that need more memory for training than is free.

    Processes on the CPU share its memory; on GPUs, each process has its own memory.

    Parameters
    ----------
    tokens : int
        Size of the vocabulary.

    Raises
    ------
    InputError
        With field ``batch``; the remedy is the largest batch that fits.
    """
    device, _ = attention_device.resolve_device(settings.device, Dtype.FLOAT32)
    room = USABLE_MEMORY_SHARE * attention_device.free_device_bytes(device)

    def needed(settings: TrainingSettings) -> int:
        count = sharing.local_processes if device is Device.CPU else 1
        return count * _bytes_per_process(settings, tokens, sharing.processes)

    if needed(settings) <= room:
        return
    least = sharing.processes
    fits = _largest_fitting_value("batch", settings, needed, room, least)
    if not fits:
        smallest = format_gib(needed(replace(settings, batch=least)))
        sentence = (
            f"Even a batch of {least} needs about {smallest}, but only {format_gib(room)} is "
            "available. Use a smaller block or embedding size"
        )
        fewer_layers = ", or fewer layers" * settings.has_configurable_layers
        remedy = _suggest_smaller_model(settings, needed, room, least)
        raise InputError("batch", f"{sentence}{fewer_layers}.", remedy)
    raise InputError(
        "batch",
        f"A batch of {settings.batch:,} blocks of {settings.block:,} tokens needs about "
        f"{format_gib(needed(settings))}, but only {format_gib(room)} is available. "
        f"Use a batch size of {fits:,}{' or less' if fits > least else ''}.",
        ("batch", fits),
    )


def _bytes_per_process(settings: TrainingSettings, tokens: int, processes: int) -> int:
    """Estimate the memory that one of several processes needs, in bytes."""
    if processes == 1:
        return estimate_bytes(settings, tokens)
    masks = 0
    # Dropout masks are sampled for the whole batch, layer by layer.
    if settings.has_configurable_layers and settings.dropout:
        masks = 2 * BYTES_PER_NUMBER * settings.heads * settings.batch * settings.block**2
    share = replace(settings, batch=max(1, settings.batch // processes))
    return estimate_bytes(share, tokens) + masks


def check_model_memory(
    settings: TrainingSettings, tokens: int, copies: int, file: SymlinkSafeFile | None
) -> None:
    """Reject a saved model that needs more memory than is free or is larger than its file.

    Parameters
    ----------
    tokens : int
        Size of the vocabulary.
    copies : int
        Number of copies of the model's parameters that are in memory while the model is read.
    file : SymlinkSafeFile or None
        The file with the model's weights, if there is one.

    Raises
    ------
    InputError
        With field ``folder``.
    """
    room = USABLE_MEMORY_SHARE * attention_device.free_device_bytes(Device.CPU)
    size = BYTES_PER_NUMBER * _count_parameters(
        _single_layer_meta_model(settings, tokens), settings
    )
    if file is not None and (file_size := _file_size(file)) < size:
        sentence = (
            f"“{file.name}” is damaged or belongs to another model: its size is "
            f"{format_size(file_size)}, but the weights take {format_size(size)}."
        )
        raise InputError("folder", sentence)
    if copies * size > room:
        sentence = (
            f"Reading this model needs about {format_gib(copies * size)}, but only "
            f"{format_gib(room)} is available."
        )
        raise InputError("folder", sentence)


def _file_size(file: SymlinkSafeFile) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise InputError(
            "folder", f"Cannot read “{file.name}”: {system_error_reason(error)}."
        ) from error


def _single_layer_meta_model(settings: TrainingSettings, tokens: int) -> LanguageModel:
    """Return a model without data and with at most one layer; all layers have the same size."""
    with torch.device("meta"):
        return LanguageModel(replace(settings, layers=1), tokens)


def _count_parameters(model: LanguageModel, settings: TrainingSettings) -> int:
    """Return the number of parameters of the model with all its layers."""
    extra_layers = count_layers(settings) - len(model.layers)
    return _count_module_parameters(model) + extra_layers * sum(
        map(_count_module_parameters, model.layers)
    )


def _count_module_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def estimate_bytes(settings: TrainingSettings, tokens: int) -> int:
    """Estimate the memory that training needs, in bytes; the measured values are smaller."""
    model = _single_layer_meta_model(settings, tokens)
    positions = settings.batch * settings.block
    specs = [layer.attention.spec for layer in model.layers if isinstance(layer, AttentionLayer)]
    has_feed_forward = settings.model in FEED_FORWARD_MODELS
    vectors = VECTORS_PER_TOKEN if has_feed_forward else VECTORS_WITHOUT_FEED_FORWARD
    per_layer, stages = vectors * positions * settings.width, 0
    if specs:  # all layers have the same spec
        spec = specs[0]
        # The attention weights; with dropout, also the mask and the weights after dropout.
        per_layer += spec.heads * positions * settings.block * (3 if spec.dropout else 1)
        stages = bytes_of_stages(spec, settings.block, settings.batch)
    numbers = PARAMETER_COPIES * _count_parameters(model, settings)
    numbers += max(1, count_layers(settings)) * per_layer + LOGIT_COPIES * positions * tokens
    return BYTES_PER_NUMBER * numbers + stages + TORCH_BYTES


def _suggest_smaller_model(
    settings: TrainingSettings,
    needed: Callable[[TrainingSettings], int],
    room: float,
    least_batch: int,
) -> Remedy | None:
    """Return the first smaller block size, width or number of layers with which the model fits.

    Each is tried with the current batch size, and then with the smallest one.
    """
    steps = {"block": 1, "width": 1}
    if settings.has_configurable_layers:
        steps = {"block": 1, "width": settings.heads, "layers": 1}
    for batch in (settings.batch, least_batch):
        for name, step in steps.items():
            fits = _largest_fitting_value(name, replace(settings, batch=batch), needed, room, step)
            if fits:
                return name, fits
    return None


def _largest_fitting_value(
    name: str,
    settings: TrainingSettings,
    needed: Callable[[TrainingSettings], int],
    room: float,
    step: int,
) -> int:
    """Return the largest multiple of `step` for which the memory suffices, or 0 if none exists."""
    multiples = range(step, getattr(settings, name) + 1, step)
    return step * bisect_right(
        multiples, room, key=lambda value: needed(replace(settings, **{name: value}))
    )
