"""What a run is compared with: a kept run, its own heads, or samples of dropout."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from visualizer.session.dropout_samples import SampleTally

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.attention.tensor_cache import CachedTensor
    from visualizer.session.document import Document


class ComparisonKind(StrEnum):
    """With what the live picture is compared."""

    KEPT = "kept"
    HEAD = "head"
    SAMPLES = "samples"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison that was asked for.

    Parameters
    ----------
    kept, document : Run, Document or None
        A, and what it is of.
    heads : tuple of int
        A head, and the one that it is taken from.
    count : int
        Samples that are averaged.
    alone, before : frozenset of str
        The stages that it began with, and those to go back to.
    tally : Tally
        The samples that were drawn.
    made : WeakKeyDictionary
        What was worked out of a tensor that is live: it goes when that goes, or the comparison.
    """

    against: ComparisonKind
    kept: Run | None = None
    document: Document | None = None
    heads: tuple[int, int] = (0, 1)
    count: int = 1
    alone: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    tally: SampleTally = field(default_factory=SampleTally, compare=False, repr=False)
    made: WeakKeyDictionary[CachedTensor, CachedTensor] = field(
        default_factory=WeakKeyDictionary, init=False, compare=False, repr=False
    )

    def of(self, live: CachedTensor, make: Callable[[], CachedTensor]) -> CachedTensor:
        """Give what was worked out of a live tensor before, or work it out now."""
        found = self.made.get(live)
        if found is None:
            found = self.made[live] = make()
        return found
