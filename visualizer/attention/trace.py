"""The tensors of one computation, and the only way to read them.

Reading gives numpy, so nothing above needs torch; nor does this module, which only holds tensors.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from visualizer.attention.head_measures import HeadMeasures, measure
from visualizer.attention.stages import Stage, shape
from visualizer.attention.tensor_cache import CachedTensor, Index, readable
from visualizer.attention.weight_transforms import (
    HeadAggregate,
    WeightTransform,
    fold,
    times_value,
    without_first,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from torch import Tensor

    from visualizer.attention.spec import AttentionSpec


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
        The stages' tensors, as `holding` gives them.
    recomputed : frozenset of str
        The stages that were computed anew; the others are an earlier trace's very tensors.
    """

    def __init__(
        self,
        spec: AttentionSpec,
        stages: tuple[Stage, ...],
        parameters: Mapping[str, Tensor],
        held: Mapping[str, CachedTensor],
        recomputed: frozenset[str],
    ) -> None:
        self.spec = spec
        self.stages = stages
        self.parameters = parameters
        self.recomputed = recomputed
        self.names = tuple(stage.name for stage in stages)
        """The stages' names, in order."""
        self._rows = dict(zip(self.names, stages, strict=True))
        self._held = dict(held)

    def __contains__(self, stage: str) -> bool:
        return stage in self._held

    @cached_property
    def tokens(self) -> int:
        """Tokens of the text, padding included; of captured attention, its queries."""
        return self.tensor(self.stages[0].name).shape[-2]

    @cached_property
    def sides(self) -> tuple[int, int]:
        """How many queries and keys there are: only of captured attention not as many."""
        first = self.stages[0]
        keys = self.tensor(first.name).shape[-1] if first.dims[-1] == "key" else self.tokens
        return self.tokens, keys

    @cached_property
    def batch(self) -> tuple[int, ...]:
        """Sizes of the axes before the named ones; empty for a single text."""
        first = self.stages[0]
        return tuple(self.tensor(first.name).shape[: -len(first.dims)])

    @property
    def attention(self) -> str:
        """The stage that says who reads whom: the weights; of captured scores, these."""
        return "weights" if "weights" in self._held else self.last

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
        return self._rows[name]

    def tensor(self, name: str) -> Tensor:
        """Give a stage's or a parameter's tensor, for work with torch."""
        return self._held[name].tensor if name in self._held else self.parameters[name]

    def holding(self, stage: str) -> CachedTensor:
        """Give a stage together with what was read of it, to be kept by a later trace."""
        return self._held[stage]

    def possible(self, lens: WeightTransform) -> WeightTransform:
        """Give a lens; the plain one, where there are no values to take the length of."""
        return (
            lens
            if lens is not WeightTransform.TIMES_VALUE or "values" in self
            else WeightTransform.PLAIN
        )

    def seen(
        self,
        stage: str,
        lens: WeightTransform = WeightTransform.PLAIN,
        by: HeadAggregate | None = None,
    ) -> CachedTensor:
        """Give a stage as it is looked at: of weights through a lens, with its heads folded.

        What is made for it is kept with the stage, so it goes wherever that goes.

        Raises
        ------
        KeyError
            When there is no such stage, or heads are to be folded of one that has none.
        """
        held, row = self._held[stage], self.stage(stage)
        lens = self.possible(lens)
        if row.is_weights and lens is not WeightTransform.PLAIN:
            held = self._through(held, lens)
        if by is None:
            return held
        if "head" not in row.dims:
            raise KeyError((stage, by))
        folded: CachedTensor = held.keep(by, lambda tensor: CachedTensor(fold(tensor, by)))
        return folded

    def _through(self, held: CachedTensor, lens: WeightTransform) -> CachedTensor:
        made: CachedTensor
        if lens is WeightTransform.WITHOUT_FIRST:
            made = held.keep(lens, lambda own: CachedTensor(without_first(own)))
            return made
        values = self._held["values"]
        # Weights may outlive many values: what was made of those goes with them.
        by_values: WeakKeyDictionary[CachedTensor, CachedTensor] = held.keep(
            lens, lambda _: WeakKeyDictionary()
        )
        if values not in by_values:
            by_values[values] = CachedTensor(
                times_value(held.tensor.detach(), values.tensor.detach())
            )
        return by_values[values]

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
        return readable(self.tensor(name)[index])

    def limits(self, stage: str) -> tuple[float, float]:
        """Give the smallest and largest finite number of a stage, over all heads and texts."""
        return self._held[stage].limits()

    def measured(self, stage: str) -> HeadMeasures:
        """Say what each head looks at, by a stage of weights; kept with the tensor."""
        lengths = self.spec.lengths
        measures: HeadMeasures = self._held[stage].keep(
            ("measures", lengths), lambda weights: measure(weights, lengths)
        )
        return measures

    def check(self) -> None:
        """Compare every stage's shape with the stage table; a difference is a bug."""
        for stage in self.stages:
            expected = self.batch + shape(self.spec, stage.dims, self.tokens)
            actual = tuple(self.tensor(stage.name).shape)
            if actual != expected:
                raise AssertionError(f"{stage.name} has shape {actual} and not {expected}")
