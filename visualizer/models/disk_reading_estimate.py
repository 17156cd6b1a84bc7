"""What reading a model from the disk would take: bytes, memory and time. No torch here."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import InputError, reason_of
from visualizer.models.model_folder import bytes_in_memory, weight_files
from visualizer.number_format import format_count, format_size
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.spec import Dtype
    from visualizer.models.model_folder import LayerSizes, ModelFolder

SAMPLE = 32 * 2**20
"""The bytes that are read to measure how fast the disk is."""
MINUTE = 60
STREAMING_ERROR = "{name} cannot be read layer by layer from the disk: {why}."
INSTEAD = (
    "Its layers can be read from the disk instead: by File > Open a model…, by "
    "“attention-visualizer model --from-disk”, or by from_disk=True in Python."
)
LAB_MODEL_REASON = "models of the language lab are small, and opened whole"
QUANTISED = "its weights are quantised"
SEVERAL_STACKS = "it has no single stack of layers"


class DiskReadingEstimate(Struct, frozen=True):
    """What each reading of a text would take.

    Parameters
    ----------
    layers : int
        How many are read, one at a time.
    bytes : int
        Of the files, each time that a text passes through all layers.
    memory : int
        Bytes of the weights in memory at most: those outside of layers, and the largest layer.
    seconds : float
        That reading takes at the speed that was measured of the disk.
    """

    layers: int
    bytes: int
    memory: int
    seconds: float

    @property
    def in_words(self) -> str:
        """The estimate as a sentence."""
        rounded = max(1, round(self.seconds))
        seconds = format_count(rounded, "second")
        minutes = format_count(round(self.seconds / MINUTE), "minute")
        time_ = seconds if rounded < 2 * MINUTE else minutes
        return (
            f"From the disk, each pass reads {format_size(self.bytes)} in "
            f"{format_count(self.layers, 'layer')}, about {time_} at the speed just measured, and "
            f"the weights take {format_size(self.memory)} of memory at most."
        )


def refused(name: str, why: str) -> InputError:
    """Return what says that a model cannot be read from the disk."""
    return InputError("model", STREAMING_ERROR.format(name=name, why=why))


def why_not_from_disk(folder: ModelFolder) -> str:
    """Return why a model is not read from the disk, as its files tell; empty where it may be."""
    if folder.is_quantised:
        return QUANTISED
    return "" if folder.layer_sizes.layers else SEVERAL_STACKS


def memory_from_disk(numbers: int, sizes: LayerSizes, dtype: Dtype) -> int:
    """Return the bytes of a model's weights that are in memory at once."""
    return bytes_in_memory(numbers - sizes.numbers + sizes.largest, dtype)


def disk_reading_estimate(folder: ModelFolder, dtype: Dtype) -> DiskReadingEstimate:
    """Estimate what reading a model from the disk takes, by reading a part of it.

    Raises
    ------
    InputError
        Of ``model``, when it is not read from the disk, or its files cannot be read.
    """
    if why := why_not_from_disk(folder):
        raise refused(folder.name, why)
    try:
        files = weight_files(folder.path)
        speed = _bytes_per_second(max(files, key=lambda file: file.stat().st_size))
    except OSError as error:
        raise InputError("model", f"The weights cannot be read: {reason_of(error)}.") from error
    sizes = folder.layer_sizes
    memory = memory_from_disk(folder.numbers, sizes, dtype)
    return DiskReadingEstimate(sizes.layers, sizes.bytes, memory, sizes.bytes / speed)


def _bytes_per_second(file: Path) -> float:
    """Measure how fast a file is read that may not be in memory."""
    size = file.stat().st_size
    with open_regular_file(file) as opened:
        start, length = max(0, (size - SAMPLE) // 2), min(size, SAMPLE)
        if hasattr(os, "posix_fadvise"):  # what is in memory already would be too fast
            os.posix_fadvise(opened.fileno(), start, length, os.POSIX_FADV_DONTNEED)
        opened.seek(start)
        began = time.perf_counter()
        read = len(opened.read(length))
        return max(1, read) / max(1e-6, time.perf_counter() - began)
