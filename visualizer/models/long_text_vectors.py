"""Storage for the vectors of a long text: in memory, or in a file.

The file is an anonymous file in the program's cache folder; it is deleted when the last of its
vectors is released.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

import torch

from visualizer.attention import device as attention_device
from visualizer.attention.mapped_tensors import TemporaryTensorFile
from visualizer.attention.run import USABLE_MEMORY_SHARE
from visualizer.attention.spec import Device
from visualizer.errors import InputError, system_error_reason
from visualizer.format import format_size
from visualizer.progress import set_context_variable
from visualizer.storage.program_folders import cache_folder, free_bytes, is_memory_backed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from torch import Tensor

MAX_MEMORY_BYTES = 2**30
"""Maximum size, in bytes, of the vectors that are stored in memory; larger ones are in a file."""
FREE_MEMORY_DIVISOR = 4
"""Vectors that need more than 1/`FREE_MEMORY_DIVISOR` of the free memory are stored in a file."""
MAX_FILE_BYTES = 2**36
"""Maximum size of the file, in bytes."""
RESERVED_DISK_BYTES = 2**31
"""Disk space, in bytes, that the file leaves free."""

_CURRENT_FILE: ContextVar[TemporaryTensorFile | None] = ContextVar("file of vectors", default=None)


def allocate_vectors(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return uninitialized storage for vectors, in the file that `store_vectors_in` selected.

    Raises
    ------
    InputError
        With field ``text`` if the file is full and cannot grow.
    """
    file = _CURRENT_FILE.get()
    if file is None:
        return torch.empty(tuple(shape), dtype=dtype)
    try:
        return file.allocate(shape, dtype)
    except OSError as error:
        sentence = (
            f"Cannot write the vector file: {system_error_reason(error)}. Use a shorter text."
        )
        raise InputError("text", sentence) from error


def store_vectors_in(file: TemporaryTensorFile | None) -> AbstractContextManager[None]:
    """Store the vectors that are allocated within the context in a file, or in memory."""
    return set_context_variable(_CURRENT_FILE, file)


def reserve_vector_file(bytes_of_token: int, tokens: int) -> TemporaryTensorFile | None:
    """Reserve a file for the vectors of a text; None if they are to be stored in memory.

    Parameters
    ----------
    bytes_of_token : int
        Size, in bytes, of one token's vectors in all layers.

    Raises
    ------
    InputError
        With field ``text`` if there is not enough space, or the file's folder cannot be written.
    """
    size = bytes_of_token * tokens
    in_memory = min(MAX_MEMORY_BYTES, free_cpu_memory_bytes() // FREE_MEMORY_DIVISOR)
    if size <= in_memory:
        return None
    where = f"{tokens:,} tokens need {format_size(size)} in a temporary file"
    try:
        folder = cache_folder()
        where += f" in {folder}"
        room = max(0, min(MAX_FILE_BYTES, free_bytes(folder) - RESERVED_DISK_BYTES))
        if is_memory_backed(folder):
            room = min(room, int(USABLE_MEMORY_SHARE * free_cpu_memory_bytes()))
        if size <= room:
            return TemporaryTensorFile(folder, size)
    except OSError as error:
        why, limit = f"which cannot be written: {system_error_reason(error)}", in_memory
    else:
        why, limit = f"where {format_size(room)} is available", max(room, in_memory)
    sentence = f"{where}, {why}. About {limit // bytes_of_token:,} tokens fit."
    raise InputError("text", sentence)


def free_cpu_memory_bytes() -> int:
    """Return the free memory of the CPU, in bytes."""
    return attention_device.free_device_bytes(Device.CPU)
