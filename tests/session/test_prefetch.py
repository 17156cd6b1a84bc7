"""A prefetch reads everything that is shown, and nothing is shown before it was read."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.examples import examples
from tests.support.screens import needs, present, resolved, warm
from tests.support.small_runs import a_run
from tests.support.struct_strategies import structs
from visualizer.attention.cached_tensor import CachedTensor
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.spec import DropoutMode
from visualizer.session.cell_address import Cell
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.document import Document
from visualizer.session.timeline import PlaybackPosition, PlaybackState
from visualizer.session.token_selection import TokenSelection
from visualizer.session.user_prediction import Prediction
from visualizer.session.view import View
from visualizer.session.view_options import ColourLimits, ColourOptions, LineViewOptions
from visualizer.session.worker_jobs import with_immediate_fields
from visualizer.session.zoom_ranges import ZoomRange
from visualizer.shell import pane_table

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

TEXTS = tuple(" ".join(f"{letter}{at}" for at in range(30)) for letter in "ab")
RUN = a_run(*TEXTS, heads=6, d_in=6, d_out=6, dropout=0.5, mode=DropoutMode.TRAIN)
COMPARISONS = (
    Comparison(ComparisonKind.KEPT, kept=RUN),
    Comparison(ComparisonKind.HEAD),
    Comparison(ComparisonKind.SAMPLES, count=2),
)
CELLS = [Cell("scores", (2, 3, 4)), Cell("weights", (1, 3, 0)), Cell("context", (1, 5, 0))]
FOLDED = Cell("weights", (3, 4), HeadAggregate.MEAN)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "stages": st.sets(st.sampled_from(["queries", "scores", "weights", "dropped"])).map(frozenset),
    "text": st.integers(0, 1),
    "panes": st.sets(st.sampled_from([pane.id for pane in pane_table.PANES])).map(frozenset),
    "hovered": st.none() | st.sampled_from(CELLS),
    "pinned": st.none() | st.sampled_from([*CELLS, FOLDED]),
    "heads": st.none() | st.sets(st.integers(0, 6)).map(frozenset),
    "folds": st.sets(st.sampled_from(HeadAggregate)).map(frozenset),
    "lens": st.sampled_from(WeightTransform),
    "spread": st.booleans(),
    "zoom": st.none() | st.just(ZoomRange(range(9), range(4, 13))),
    "colouring": st.sampled_from(ColourLimits).map(lambda limits: ColourOptions(limits=limits)),
    "room": st.sampled_from([8, 16, 256]),
    "playhead": st.sampled_from(
        [PlaybackState(), PlaybackState(PlaybackPosition("weights", 3, 2))]
    ),
    "guess": st.sampled_from([None, Prediction("weights")]),
    "comparison": st.none() | st.sampled_from(COMPARISONS),
    "tokens": st.sets(st.integers(0, 29), max_size=2).map(
        lambda chosen: TokenSelection(frozenset(chosen))
    ),
    "lines": structs(LineViewOptions, top=st.integers(0, 3), solo=st.none() | st.integers(-1, 2)),
}
CHANGES = st.sampled_from(sorted(FIELDS)).flatmap(
    lambda name: st.tuples(st.just(name), FIELDS[name])
)
CHOSEN = st.fixed_dictionaries({}, optional=FIELDS)


@examples(3)
@given(fields=CHOSEN, changes=st.lists(CHANGES, min_size=1, max_size=2))
def test_the_immediate_part_of_a_view_needs_no_prefetch(
    fields: dict[str, Any], changes: list[tuple[str, Any]]
) -> None:
    read, wanted = (replace(View(), **more) for more in (fields, {**fields, **dict(changes)}))
    shown = with_immediate_fields(wanted, read)
    assert needs(RUN, shown) == needs(RUN, read)


@examples(1.5)
@given(fields=CHOSEN, change=CHANGES)
@example(
    {"pinned": FOLDED, "colouring": ColourOptions(limits=ColourLimits.UNIT)},
    ("folds", frozenset({HeadAggregate.MEAN})),
)
def test_a_view_with_prefetched_data_is_shown_without_reading(
    fields: dict[str, Any], change: tuple[str, Any]
) -> None:
    read, wanted = (replace(View(), **more) for more in (fields, {**fields, **dict([change])}))
    assume(needs(RUN, read) == needs(RUN, wanted))
    assume(wanted.hovered is None or wanted.hovered.stage in resolved(RUN, wanted).stages)
    run = deepcopy(RUN)  # a run with empty caches
    for comparison in COMPARISONS:
        comparison.derived_tensors.clear()
    warm(run, read)
    made = []

    def keep(held: CachedTensor, key: Hashable, make: Callable[[Any], Any]) -> Any:
        if key not in held.cached_keys:
            made.append(key)
        return original(held, key, make)

    original = CachedTensor.cached_reduction
    with patch.object(CachedTensor, "cached_reduction", keep):
        present(Document(), wanted, run, None, False, None)
    assert not made, "read on the GUI thread"
