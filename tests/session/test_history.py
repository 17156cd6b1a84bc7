"""Undo reverts changes one by one, redo restores them, and their commands name the change."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from visualizer.attention.mechanisms import Mechanism
from visualizer.attention.spec import AttentionSpec, BooleanMatrix
from visualizer.models.model_source import CutEdges, HeadEdit, HeadEditKind, ModelSource
from visualizer.session.document import LONG_TEXT_CHARACTERS, Document
from visualizer.session.history import (
    FIELD_NAMES,
    MAX_ENTRIES,
    MAX_LENGTH,
    History,
    describe_change,
)

EMPTY: History[int] = History()
CHANGES = st.lists(st.tuples(st.integers(), st.sampled_from(["", "heads", "text"])))


def change(changes: list[tuple[int, str]]) -> tuple[int, History[int]]:
    """Start at 0 and make changes, each of which has a value and a key."""
    present, history = 0, EMPTY
    for value, key in changes:
        history = history.record(present, key)
        present = value
    return present, history


@given(CHANGES)
def test_undoing_every_change_leads_back_and_redo_returns(
    changes: list[tuple[int, str]],
) -> None:
    last, history = change(changes)
    present = last
    for _ in changes:
        present, history = history.undo(present)
    assert (present, history.past) == (0, ())
    for _ in changes:
        present, history = history.redo(present)
    assert (present, history.future) == (last, ())


@given(st.lists(st.integers(), min_size=1, max_size=20))
def test_without_a_key_every_change_is_a_separate_step(values: list[int]) -> None:
    present, history = change([(value, "") for value in values])
    seen = []
    for _ in values:
        present, history = history.undo(present)
        seen.append(present)
    assert seen == [*values[-2::-1], 0]


def test_changes_with_the_same_key_are_one_step() -> None:
    present, history = change([(1, "heads"), (2, "heads"), (3, "heads"), (4, "text")])
    assert history.past == (0, 3)
    present, history = history.undo(present)
    assert history.undo(present)[0] == 0


def test_a_sealed_change_is_not_merged_with_the_next() -> None:
    history = EMPTY.record(0, "heads").record(1, "heads").end_merged_edit().record(2, "heads")
    assert history.past == (0, 2)


def test_an_undone_change_is_not_merged_with_the_next() -> None:
    present, history = EMPTY.record(0, "heads").undo(1)
    assert history.record(present, "heads").past == (0,)
    assert history.record(present, "heads").future == ()


def test_a_change_clears_the_redo_history() -> None:
    present, history = EMPTY.record(0).undo(1)
    assert history.redo(present)[0] == 1
    assert history.record(present).redo(5)[0] == 5


def test_nothing_to_undo_or_redo_changes_nothing() -> None:
    assert EMPTY.undo(7) == (7, EMPTY)
    assert EMPTY.redo(7) == (7, EMPTY)


def test_the_oldest_values_are_dropped_beyond_the_limit() -> None:
    _, history = change([(value, "") for value in range(1, MAX_ENTRIES + 3)])
    assert len(history.past) == MAX_ENTRIES
    assert history.past[0] == 2


def test_the_oldest_values_are_dropped_if_all_use_too_much_memory() -> None:
    large, other = bytes(60), bytes(range(60))
    # Only two values count, because shared objects are counted once.
    values = (
        large,
        large,
        other,
        other,
    )
    history = History(past=values)
    both = 2 * sys.getsizeof(large)
    assert history.trim_to_bytes(both, lambda value: (value,)) == history
    assert history.trim_to_bytes(both - 1, lambda value: (value,)).past == (other, other)
    assert history.trim_to_bytes(10, lambda value: (value,)).past == (other,)


def test_the_newest_is_kept_however_large_it_is() -> None:
    history = History(past=(bytes(5), bytes(50)), key="text")
    left = history.trim_to_bytes(10, lambda value: (value,))
    assert (left.past, left.key) == ((bytes(50),), "text")


def test_long_texts_count_as_memory() -> None:
    long = tuple(Document(text="é" * (LONG_TEXT_CHARACTERS + more)) for more in range(1, 5))
    history = History(past=long)
    most = 2 * (LONG_TEXT_CHARACTERS + 1_000)
    assert history.trim_to_bytes(most, Document.large_objects).past == long[-2:]
    short = History(past=(Document(text="a"), Document(text="b")))
    assert short.trim_to_bytes(0, Document.large_objects) == short


MODEL = ModelSource("/models/tiny", "tiny", "f")
OFF = HeadEdit(4, 0)
CUT = CutEdges(0, 1, ((5, 3), (4, 2)))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (MODEL, replace(MODEL, edits=(OFF,)), "layer 5, head 1: off"),
        (replace(MODEL, edits=(OFF,)), MODEL, "layer 5, head 1: as it is"),
        (replace(MODEL, edits=(OFF,)),
         replace(MODEL, edits=(HeadEdit(4, 0, HeadEditKind.SCALED, 2.0),)),
         "layer 5, head 1: × 2"),
        (MODEL, replace(MODEL, cuts=(CUT,)), "cut 2 edges of layer 1, head 2"),
        (replace(MODEL, cuts=(CUT,)), replace(MODEL, cuts=(CutEdges(0, 1, ((5, 3),)),)),
         "restore 1 edge of layer 1, head 2"),
        (replace(MODEL, edits=(OFF,)), replace(MODEL, cuts=(CUT,)), ""),
        (MODEL, replace(MODEL, second="a dog"), "second text"),
        (None, MODEL, "open tiny"),
        (MODEL, None, "return to a module"),
    ],
)  # fmt: skip
def test_changes_of_a_model_are_named(
    before: ModelSource | None, after: ModelSource | None, said: str
) -> None:
    assert describe_change(Document(model=before), Document(model=after)) == said


def test_changes_of_settings_are_named() -> None:
    document = Document(text="a b")
    mask = BooleanMatrix.from_array(np.array([[True]]))
    for name, value, said in (
        ("text", "a c", "text"),
        ("dropout", 0.5, "Dropout"),
        ("painted", mask, "mask"),
        ("mechanism", Mechanism.MULTI_HEAD, ""),
    ):
        assert describe_change(document, document.with_setting(name, value)) == said
    assert describe_change(document, document) == ""


def test_only_fields_are_named_and_long_names_are_shortened() -> None:
    known = {*Document.__struct_fields__, *AttentionSpec.__struct_fields__}
    assert {*FIELD_NAMES} <= known | {"mechanism", "causal"}
    edits = tuple(HeadEdit(layer, layer % 7) for layer in range(20))
    said = describe_change(Document(model=MODEL), Document(model=replace(MODEL, edits=edits)))
    assert len(said) <= MAX_LENGTH
