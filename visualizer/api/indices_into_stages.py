"""Validation of notebook indices into a stage, and of the size of the indexed part."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from visualizer.api.argument_validation import shown
from visualizer.errors import InputError
from visualizer.number_format import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.attention.tensor_with_cached_reductions import Index
    from visualizer.attention.trace import Trace

MAX_READ_BYTES = 2**29
"""Maximum bytes read at once from a matrix that is not kept in memory."""


def read_part(trace: Trace, stage: str, index: Sequence[object]) -> tuple[str, Index]:
    """Validate the indices into a stage and the size of the indexed part.

    Returns
    -------
    tuple of str and tuple of int or slice
        The arguments of `Trace.read`.

    Raises
    ------
    InputError
        If the part does not exist, or the stage is not kept in memory and the part is too large.
    """
    sizes = trace.shape(stage)
    if len(index) > len(sizes):
        dims = ", ".join((*trace.axes, *trace.stage(stage).dims))
        raise InputError("stage", f"“{stage}” has {len(sizes)} axes: {dims}.")
    part = tuple(_check_index(at, size) for at, size in zip(index, sizes, strict=False))
    if trace.holding(stage).is_blockwise:
        _check_size(trace, stage, part)
    return stage, part


def _check_index(at: object, size: int) -> int | slice:
    if isinstance(at, slice):
        try:
            start, stop, step = at.indices(size)
        except TypeError:
            step = 0
        if step > 0:
            return slice(start, max(start, stop), step)
    elif hasattr(at, "__index__") and not isinstance(at, bool):
        place = int(at.__index__())
        if -size <= place < size:
            return place % size
        raise InputError(
            "stage", (f"There is no index {place}. Valid indices are 0 to {size - 1}.")
        )
    sentence = f"An index must be a whole number or a slice such as :10. It is {shown(at)}."
    raise InputError("stage", sentence)


def _check_size(trace: Trace, stage: str, part: Index) -> None:
    """Raise `InputError` if a part of a stage that is not kept would take too much memory."""
    sizes = trace.shape(stage)
    counts = [
        1 if isinstance(at, int) else len(range(*at.indices(size)))
        for at, size in zip(part, sizes, strict=False)
    ]
    counts += sizes[len(part) :]
    cell = trace.read(stage, (0,) * len(sizes)).itemsize
    count = math.prod(counts) * cell
    if count <= MAX_READ_BYTES:
        return
    whole = " × ".join(f"{each:,}" for each in counts)
    index = "0, " * (len(sizes) - 2) + f":{max(1, MAX_READ_BYTES // (cell * sizes[-1]))}"
    sentence = (
        f"The text is long, and this part of “{stage}” has {whole} numbers, which take "
        f"{format_size(count)}. Read at most {format_size(MAX_READ_BYTES)} at once, such as "
        f'attention["{stage}", {index}]; `explain` and `figure` take any text.'
    )
    raise InputError("stage", sentence)
