"""Estimates the size, memory and time for streaming a model's layers from disk.

Does not import torch.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import InputError, system_error_reason
from visualizer.format import format_count, format_size
from visualizer.models.model_folder import find_weight_files, parameter_bytes
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.spec import ModelDtype
    from visualizer.models.model_folder import ModelFolder

SPEED_SAMPLE_BYTES = 32 * 2**20
"""Number of bytes that are read to measure the speed of the disk."""
SECONDS_PER_MINUTE = 60
STREAMING_ERROR = "{name} cannot be run from disk: {why}."
RUN_FROM_DISK_HINT = (
    "Run it from disk instead, one layer at a time: use File > Open a model…, "
    "“attention-visualizer model --from-disk”, or from_disk=True in Python."
)
LAB_MODEL_REASON = "models of the language lab are small and always loaded completely"
QUANTIZED_REASON = "its weights are quantized"
SEVERAL_STACKS_REASON = "its layers do not form a single stack"


class DiskStreamingEstimate(Struct, frozen=True):
    """Estimated costs of one forward pass of a model that is streamed from disk.

    Parameters
    ----------
    layers : int
        Number of layers, which are read one at a time.
    bytes : int
        Number of bytes read from the files.
    memory : int
        Maximum size, in bytes, of the weights in memory: those outside the layers, and those of
        the largest layer.
    seconds : float
        Time to read the files at the measured speed of the disk.
    """

    layers: int
    bytes: int
    memory: int
    seconds: float

    @property
    def description(self) -> str:
        """The estimate as a sentence."""
        rounded = max(1, round(self.seconds))
        seconds = format_count(rounded, "second")
        minutes = format_count(round(self.seconds / SECONDS_PER_MINUTE), "minute")
        time_ = seconds if rounded < 2 * SECONDS_PER_MINUTE else minutes
        return (
            f"Each pass reads {format_size(self.bytes)} in {format_count(self.layers, 'layer')} "
            f"from disk, which takes about {time_} at the measured speed. The weights need at most "
            f"{format_size(self.memory)} of memory."
        )


def disk_streaming_error(name: str, why: str) -> InputError:
    """Return the error for a model that cannot be streamed from disk."""
    return InputError("model", STREAMING_ERROR.format(name=name, why=why))


def no_disk_streaming_reason(folder: ModelFolder) -> str:
    """Return the reason why a model cannot be streamed from disk; empty if it can be."""
    if folder.is_quantised:
        return QUANTIZED_REASON
    return "" if folder.layer_sizes.layers else SEVERAL_STACKS_REASON


def max_resident_parameters(folder: ModelFolder) -> int:
    """Return the maximum number of parameters in memory while a model is streamed from disk."""
    return folder.parameters - folder.layer_sizes.parameters + folder.layer_sizes.largest_layer


def estimate_disk_streaming(folder: ModelFolder, dtype: ModelDtype) -> DiskStreamingEstimate:
    """Estimate the costs of streaming a model from disk, by reading part of its files.

    Raises
    ------
    InputError
        With field ``model`` if the model cannot be streamed from disk, or its files cannot be read.
    """
    if why := no_disk_streaming_reason(folder):
        raise disk_streaming_error(folder.name, why)
    try:
        files = find_weight_files(folder.path)
        speed = _measure_read_speed(max(files, key=lambda file: file.stat().st_size))
    except OSError as error:
        raise InputError(
            "model", f"Cannot read the weights: {system_error_reason(error)}."
        ) from error
    sizes = folder.layer_sizes
    memory = parameter_bytes(max_resident_parameters(folder), dtype)
    return DiskStreamingEstimate(sizes.layers, sizes.bytes, memory, sizes.bytes / speed)


def _measure_read_speed(file: Path) -> float:
    """Measure the speed of reading a file from the disk instead of the page cache."""
    size = file.stat().st_size
    with open_regular_file(file) as opened:
        start, length = max(0, (size - SPEED_SAMPLE_BYTES) // 2), min(size, SPEED_SAMPLE_BYTES)
        if hasattr(os, "posix_fadvise"):  # drop cached pages, which would be read too fast
            os.posix_fadvise(opened.fileno(), start, length, os.POSIX_FADV_DONTNEED)
        opened.seek(start)
        began = time.perf_counter()
        read = len(opened.read(length))
        return max(1, read) / max(1e-6, time.perf_counter() - began)
