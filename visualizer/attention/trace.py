"""The tensors of one computation, and the only way to read them.

Reading gives numpy, so nothing above needs torch; nor does this module, which only holds tensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from visualizer.attention.stages import Stage, shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from torch import Tensor

    from visualizer.attention.spec import AttentionSpec

Index = tuple[int | slice, ...]


@dataclass(slots=True, eq=False)
class _Held:
    """A tensor with what was read of it as a whole."""

    tensor: Tensor
    pooled: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    largest: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    limits: tuple[float, float] | None = None


class Trace:
    """Every stage of one computation.

    Parameters
    ----------
    spec : AttentionSpec
        What was computed.
    stages : tuple of Stage
        Its stages, in order.
    parameters : mapping
        The weights it read, by the names of the book's ``state_dict``.
    held : mapping
        The stages' tensors, held as `holding` gives them.
    recomputed : frozenset of str
        The stages that were computed anew; the others are an earlier trace's very tensors.
    """

    def __init__(
        self,
        spec: AttentionSpec,
        stages: tuple[Stage, ...],
        parameters: Mapping[str, Tensor],
        held: Mapping[str, _Held],
        recomputed: frozenset[str],
    ) -> None:
        self.spec = spec
        self.stages = stages
        self.parameters = parameters
        self.recomputed = recomputed
        self._held = dict(held)

    def __contains__(self, stage: str) -> bool:
        return stage in self._held

    @property
    def tokens(self) -> int:
        """Tokens of the text, padding included."""
        return self.tensor("input").shape[-2]

    @property
    def batch(self) -> tuple[int, ...]:
        """Sizes of the axes before the named ones; empty for a single text."""
        return tuple(self.tensor("input").shape[:-2])

    @property
    def names(self) -> tuple[str, ...]:
        """The stages' names, in order."""
        return tuple(stage.name for stage in self.stages)

    @property
    def last(self) -> str:
        """The stage that is the module's result."""
        return self.stages[-1].name

    @property
    def bytes(self) -> int:
        """Bytes of all stages, each storage counted once."""
        storages = [held.tensor.untyped_storage() for held in self._held.values()]
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    def stage(self, name: str) -> Stage:
        """Look up a stage's row of the table."""
        return next(stage for stage in self.stages if stage.name == name)

    def tensor(self, name: str) -> Tensor:
        """Give a stage's or a parameter's tensor, for work with torch."""
        return self._held[name].tensor if name in self._held else self.parameters[name]

    def holding(self, stage: str) -> _Held:
        """Give a stage together with what was read of it, to be kept by a later trace."""
        return self._held[stage]

    def read(self, name: str, index: Index = ()) -> np.ndarray:
        """Read numbers of a stage or of a parameter.

        Parameters
        ----------
        name : str
            A stage, or a parameter by its ``state_dict`` name.
        index : tuple of int and slice
            Into the batch axes first, then the stage's dims; what is left out is read whole.

        Returns
        -------
        numpy.ndarray
            Read-only, of the spec's floating-point type.
        """
        return _readable(self.tensor(name)[index])

    def read_pooled(self, stage: str, rows: int, columns: int, index: Index = ()) -> np.ndarray:
        """Read a stage with each block of so many rows and columns as its largest number.

        The last blocks of an axis may be smaller. What was pooled is kept with the tensor.
        """
        held, blocks = self._held[stage], (rows, columns)
        if blocks not in held.pooled:
            tensor = _largest(_largest(held.tensor.detach(), rows, -2), columns, -1)
            held.pooled[blocks] = tensor
        return _readable(held.pooled[blocks][index])

    def read_largest(
        self, stage: str, count: int, index: Index = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """Read the numbers of each row that are largest in size, largest first, and their columns.

        What was found is kept with the tensor.
        """
        held = self._held[stage]
        if count not in held.largest:
            tensor = held.tensor.detach()
            columns = tensor.abs().topk(count, -1).indices
            held.largest[count] = (tensor.gather(-1, columns), columns)
        numbers, columns = held.largest[count]
        return _readable(numbers[index]), _readable(columns[index])

    def limits(self, stage: str) -> tuple[float, float]:
        """Give the smallest and largest finite number of a stage, over all heads and texts."""
        held = self._held[stage]
        if held.limits is None:
            held.limits = _limits(held.tensor.detach()) or (0.0, 0.0)
        return held.limits

    def check(self) -> None:
        """Compare every stage's shape with the stage table; a difference is a bug."""
        for stage in self.stages:
            expected = self.batch + shape(self.spec, stage.dims, self.tokens)
            actual = tuple(self.tensor(stage.name).shape)
            if actual != expected:
                raise AssertionError(f"{stage.name} has shape {actual} and not {expected}")


def hold(tensor: Tensor) -> _Held:
    """Wrap a newly computed tensor."""
    return _Held(tensor)


def _largest(tensor: Tensor, block: int, axis: int) -> Tensor:
    if block == 1:
        return tensor
    size = tensor.shape[axis]
    block = min(block, size)
    whole, rest = divmod(size, block)
    sizes = list(tensor.shape)
    sizes[axis] = whole + (rest > 0)
    pooled = tensor.new_empty(sizes)
    pooled.narrow(axis, 0, whole).copy_(tensor.unfold(axis, block, block).amax(-1))
    if rest:
        last = tensor.narrow(axis, whole * block, rest).amax(axis, keepdim=True)
        pooled.narrow(axis, whole, 1).copy_(last)
    return pooled


def _limits(tensor: Tensor) -> tuple[float, float] | None:
    low, high = (float(limit) for limit in tensor.aminmax())
    if math.isfinite(low) and math.isfinite(high):
        return low, high
    if tensor.dim() > 2:  # matrix by matrix, as leaving the others out makes copies
        found = [limits for limits in map(_limits, tensor) if limits]
        return (min(low for low, _ in found), max(high for _, high in found)) if found else None
    finite = tensor.isfinite()
    low = float(tensor.where(finite, math.inf).amin())
    high = float(tensor.where(finite, -math.inf).amax())
    return (low, high) if low <= high else None


def _readable(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    array.flags.writeable = False
    return array
