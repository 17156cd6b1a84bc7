"""Where the vectors that are kept of a long text are held: in memory, or else in a file.

The file lies in the program's cache folder, has no name, and is gone with the last vectors in it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

import torch

from visualizer.attention import device as attention_device
from visualizer.attention.run import USABLE
from visualizer.attention.spec import Device
from visualizer.attention.tensors_in_file import TensorFile
from visualizer.context_value import held_within
from visualizer.errors import InputError, reason_of
from visualizer.number_format import format_size
from visualizer.storage.cache_folder import cache_folder, free_bytes, is_in_memory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from torch import Tensor

MAX_MEMORY_BYTES = 2**30
"""Vectors of all layers that take more than these bytes are held in a file."""
SHARE_OF_FREE = 4
"""So are those that take more than this part of the free memory."""
MAX_FILE_BYTES = 2**36
"""The most bytes of that file."""
LEFT_ON_DISK = 2**31
"""Bytes of the disk that it leaves free."""

_FILE: ContextVar[TensorFile | None] = ContextVar("file of vectors", default=None)


def vectors_for(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return room for vectors of a long text, which is not filled yet; within `held_in` its file.

    Raises
    ------
    InputError
        Of ``text``, when the file has no room and cannot have more.
    """
    file = _FILE.get()
    if file is None:
        return torch.empty(tuple(shape), dtype=dtype)
    try:
        return file.allocate(shape, dtype)
    except OSError as error:
        sentence = f"The file of its vectors cannot be written: {reason_of(error)}. Use less text."
        raise InputError("text", sentence) from error


def held_in(file: TensorFile | None) -> AbstractContextManager[None]:
    """Have the vectors that are made within the context be held in a file, or in memory."""
    return held_within(_FILE, file)


def file_for_vectors(bytes_of_token: int, tokens: int) -> TensorFile | None:
    """Reserve a file for the vectors of a text; None where they are to be held in memory.

    Parameters
    ----------
    bytes_of_token : int
        What all layers keep of each token.

    Raises
    ------
    InputError
        Of ``text``, when there is no room for it, or its folder cannot be written.
    """
    size, in_memory = bytes_of_token * tokens, _most_in_memory()
    if size <= in_memory:
        return None
    where = f"{tokens:,} tokens need a file of {format_size(size)}"
    try:
        folder = cache_folder()
        where += f" in {folder}"
        room = max(0, min(MAX_FILE_BYTES, free_bytes(folder) - LEFT_ON_DISK))
        if is_in_memory(folder):
            room = min(room, int(USABLE * _free_memory()))
        if size <= room:
            return TensorFile(folder, size)
    except OSError as error:
        why, most = f"which cannot be written: {reason_of(error)}", in_memory
    else:
        why, most = f"where {format_size(room)} can be used", max(room, in_memory)
    sentence = f"{where}, {why}. About {most // bytes_of_token:,} tokens fit."
    raise InputError("text", sentence)


def _most_in_memory() -> int:
    return min(MAX_MEMORY_BYTES, _free_memory() // SHARE_OF_FREE)


def _free_memory() -> int:
    return attention_device.free_bytes(Device.CPU)
