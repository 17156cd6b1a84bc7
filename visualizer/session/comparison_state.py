"""Comparisons with a kept run, between two heads of a run, or with dropout samples."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.session.dropout_samples import DropoutSampleCounts

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.run import Run
    from visualizer.session.document import Document


class ComparisonKind(StrEnum):
    """The kinds of comparison for the live run."""

    KEPT = "kept"
    HEAD = "head"
    SAMPLES = "samples"


DERIVED_FIELDS = {"tally", "derived_tensors"}
"""Fields that are ignored when comparisons are tested for equality."""


class Comparison(Struct, frozen=True, eq=False):
    """A requested comparison.

    Parameters
    ----------
    kept, document : Run, Document or None
        Run of side A, and the document that it was computed from.
    heads : tuple of int
        A head, and the head that is subtracted from it.
    count : int
        Number of samples to average; fewer are used for a long text.
    alone, before : frozenset of str
        The stages shown when the comparison began, and the stages to restore afterwards.
    tally : DropoutSampleCounts
        The samples that have been drawn so far.
    derived_tensors : WeakKeyDictionary
        Tensors derived from live tensors; each is freed together with its live tensor or with the
        comparison.
    """

    against: ComparisonKind
    kept: Run | None = None
    document: Document | None = None
    heads: tuple[int, int] = (0, 1)
    count: int = 1
    alone: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    tally: DropoutSampleCounts = field(default_factory=DropoutSampleCounts)
    derived_tensors: WeakKeyDictionary[CachedTensor, CachedTensor] = field(
        default_factory=WeakKeyDictionary
    )

    @property
    def requested_fields(self) -> tuple[object, ...]:
        """The fields that were requested, without samples and derived tensors."""
        return tuple(
            getattr(self, name) for name in self.__struct_fields__ if name not in DERIVED_FIELDS
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Comparison) and self.requested_fields == other.requested_fields

    def __hash__(self) -> int:
        return hash(self.requested_fields)

    def with_changes(self, **fields: Any) -> Comparison:
        """Return a copy with changed fields and without derived tensors."""
        return replace(self, derived_tensors=WeakKeyDictionary(), **fields)

    def cached_derived_tensor(
        self, live: CachedTensor, make: Callable[[], CachedTensor]
    ) -> CachedTensor:
        """Return the cached result for a live tensor; it is computed on first use."""
        found = self.derived_tensors.get(live)
        if found is None:
            found = self.derived_tensors[live] = make()
        return found
