"""Recorded and captured numbers are shown as stored, and checked against their document."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from tests.support.damaged_files import packed, unpacked
from tests.support.examples import examples
from tests.support.golden_documents import BATCH, CAPTURED, CAPTURED_A, CAPTURED_VIEW, PLAIN
from tests.support.screens import warm
from visualizer.attention.captured_run import create_recorded_run
from visualizer.attention.run import run
from visualizer.attention.saved_numbers import RecordedNumbers
from visualizer.attention.spec import AttentionSpec, Device, MaskKind, NormalisationKind
from visualizer.documents.document_file import (
    document_bytes,
    parameter_shapes,
    read_document,
    unpadded_tokens,
)
from visualizer.errors import InputError
from visualizer.file_opening import restore_document
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.document import Document, LineGrouping
from visualizer.session.view import View
from visualizer.session.worker_jobs import compute

if TYPE_CHECKING:
    from collections.abc import Collection

    from visualizer.attention.run import Run
    from visualizer.documents.document_file import SavedDocument

SPEC = AttentionSpec(device=Device.CPU)
DOCUMENT = Document(text="some words\nand more of them", lines=LineGrouping.APART, spec=SPEC)


def recorded(made: Run) -> RecordedNumbers:
    """Record a run with negated numbers, so that a computation cannot have produced them."""
    trace = made.trace
    return RecordedNumbers(
        unpadded_tokens(made),
        {name: -trace.read(name) for name in trace.names},
        {name: trace.read(name).copy() for name in trace.parameters},
        made.device,
        made.notices,
    )


def through_a_file(document: Document, view: View, made: Run | None) -> SavedDocument:
    return read_document(io.BytesIO(document_bytes(document, view, made)))


def without_stages(place: str, names: Collection[str], content: bytes) -> SavedDocument:
    left_out = {f"{place}/{name}.npy" for name in names}
    members = unpacked(content)
    assert left_out <= members.keys()
    kept = {name: member for name, member in members.items() if name not in left_out}
    return read_document(io.BytesIO(packed(kept)))


@examples(0.6)
@given(cases())
def test_exactly_the_recorded_numbers_are_shown(case: Case) -> None:
    made = case.run()
    down = recorded(made)
    again = create_recorded_run(case.spec, down)
    assert again.texts == made.texts
    assert again.trace.spec == made.trace.spec
    assert again.trace.names == made.trace.names
    for name in made.trace.names:
        np.testing.assert_array_equal(again.trace.read(name), -made.trace.read(name))
    for name in made.trace.parameters:
        np.testing.assert_array_equal(again.trace.read(name), made.trace.read(name))


@examples(0.6)
@given(cases())
def test_the_sizes_of_all_weights_are_known(case: Case) -> None:
    trace = case.run().trace
    sizes = {name: tuple(tensor.shape) for name, tensor in trace.parameters.items()}
    assert parameter_shapes(trace.spec, trace.query_count) == sizes


def test_what_did_not_change_is_taken_over() -> None:
    first = create_recorded_run(SPEC, recorded(run(DOCUMENT.tokens(), SPEC)))
    # Given stages are compared number by number, so they must have the computed values.
    first.trace.tensor("input").neg_()
    changed = run(DOCUMENT.tokens(), replace(SPEC, mask=MaskKind.NONE), first)
    for name in ("input", "queries", "keys", "values", "scores", "scaled"):
        assert changed.trace.tensor(name) is first.trace.tensor(name)
    assert "weights" in changed.trace.recomputed
    expected = torch.softmax(changed.trace.tensor("masked"), -1)
    torch.testing.assert_close(changed.trace.tensor("weights"), expected)
    assert changed.trace.parameters["W_query.weight"] is first.trace.parameters["W_query.weight"]


def test_it_says_that_it_was_recorded_and_says_it_once() -> None:
    made = run(DOCUMENT.tokens(), SPEC)
    again = create_recorded_run(SPEC, recorded(made))
    assert again.device == "recorded on CPU"
    assert create_recorded_run(SPEC, recorded(again)).device == "recorded on CPU"


def test_what_had_to_be_known_is_still_said() -> None:
    document = Document(text="one two", spec=replace(SPEC, normalisation=NormalisationKind.SUM))
    document = document.with_setting("mask", MaskKind.NONE)
    made = run(document.tokens(), document.spec)
    saved = through_a_file(document, View(), made)
    assert saved.recorded
    assert create_recorded_run(document.spec, saved.recorded).notices == made.notices


def test_numbers_that_are_not_of_the_settings_are_refused() -> None:
    down = recorded(run(DOCUMENT.tokens(), SPEC))
    with pytest.raises(InputError, match="do not match the settings"):
        create_recorded_run(replace(SPEC, mask=MaskKind.NONE, dropout=0.5), down)
    stages = {**down.stages, "weights": down.stages["weights"][:, :, :1]}
    with pytest.raises(InputError, match="weights has shape"):
        create_recorded_run(SPEC, replace(down, stages=stages))


# ------------------------------------------------------------------------------------ in the worker


def never(document: Document, previous: Run | None) -> Run:
    raise AssertionError("nothing is to be computed")


def test_a_file_with_numbers_opens_without_computing() -> None:
    made = compute(DOCUMENT, None)
    a = Document(spec=SPEC)
    view = View(comparison=Comparison(ComparisonKind.KEPT, kept=compute(a, None), document=a))
    saved = through_a_file(DOCUMENT, view, made)
    again, seen = restore_document(saved, never)
    warm(again, seen)
    assert seen.comparison
    assert seen.comparison.kept
    assert seen.comparison.kept.texts == a.tokens()
    np.testing.assert_array_equal(again.trace.read("output"), made.trace.read("output"))


@examples(0.3)
@given(st.data(), st.sampled_from((BATCH, PLAIN, DOCUMENT)))
def test_a_file_from_before_a_stage_existed_is_computed(
    data: st.DataObject, document: Document
) -> None:
    made = compute(document, None)
    missing = data.draw(st.lists(st.sampled_from(made.trace.names), min_size=1, unique=True))
    saved = without_stages("trace", missing, document_bytes(document, View(), made))
    assert saved.recorded
    assert set(saved.recorded.missing) == set(missing)
    assert all(f"“{name}”" in saved.notice for name in missing)
    again, _ = restore_document(saved, compute)
    assert again.device == "CPU"
    assert again.notices == made.notices
    for name in made.trace.names:
        np.testing.assert_array_equal(again.trace.read(name), made.trace.read(name))


def test_a_stage_may_lack_with_the_weights_that_it_alone_reads() -> None:
    made = compute(DOCUMENT, None)
    content = document_bytes(DOCUMENT, View(), made)
    saved = without_stages("trace", ["queries", "parameters/W_query.weight"], content)
    assert saved.recorded
    assert saved.recorded.missing == ("queries",)
    again, _ = restore_document(saved, compute)
    np.testing.assert_array_equal(again.trace.read("output"), made.trace.read("output"))


def test_an_a_from_before_a_stage_existed_is_computed_and_the_document_is_not() -> None:
    a, made = Document(spec=SPEC), compute(DOCUMENT, None)
    view = View(comparison=Comparison(ComparisonKind.KEPT, kept=compute(a, None), document=a))
    saved = without_stages("kept", ["scaled"], document_bytes(DOCUMENT, view, made))
    assert saved.notice == "The file does not contain “scaled”, so these numbers were recomputed."
    again, seen = restore_document(saved, compute)
    assert again.device == "recorded on CPU"
    assert seen.comparison
    assert seen.comparison.kept
    assert seen.comparison.kept.device == "CPU"


def test_a_file_with_all_its_numbers_needs_no_notice() -> None:
    assert through_a_file(DOCUMENT, View(), compute(DOCUMENT, None)).notice == ""
    assert through_a_file(DOCUMENT, View(), None).notice == ""


def test_a_file_without_numbers_is_computed_and_a_before() -> None:
    a = Document(spec=SPEC)
    view = View(comparison=Comparison(ComparisonKind.KEPT, kept=compute(a, None), document=a))
    again, seen = restore_document(through_a_file(DOCUMENT, view, None), compute)
    assert again.device == "CPU"
    assert seen.comparison
    assert seen.comparison.kept
    assert seen.comparison.kept.texts == a.tokens()
    assert again.texts[0] == ("some", "words", "⟨pad⟩", "⟨pad⟩")


def test_an_a_that_cannot_be_computed_is_let_go() -> None:
    comparison = Comparison(ComparisonKind.KEPT, document=Document(text=""))
    again, seen = restore_document(
        through_a_file(DOCUMENT, View(comparison=comparison), None), compute
    )
    assert seen.comparison is None
    assert again.trace.names


def test_another_comparison_needs_no_run() -> None:
    comparison = Comparison(ComparisonKind.HEAD, heads=(1, 0))
    _, seen = restore_document(through_a_file(DOCUMENT, View(comparison=comparison), None), compute)
    assert seen.comparison == comparison


def test_captured_attention_is_shown_as_it_was_and_so_is_that_of_a() -> None:
    saved = through_a_file(CAPTURED, CAPTURED_VIEW, compute(CAPTURED, None))
    again, seen = restore_document(saved, compute)
    warm(again, seen)
    assert CAPTURED.captured
    assert CAPTURED_A.captured
    assert (again.captured, again.device) == (CAPTURED.captured, "Not computed here")
    assert again.texts == (("Un", "chat"),)
    assert again.key_tokens == ("The", "cat", "sat")
    np.testing.assert_array_equal(again.trace.read("weights"), CAPTURED.captured.to_array())
    assert seen.comparison
    assert seen.comparison.kept
    shown = seen.comparison.kept.trace.read("scores")
    np.testing.assert_array_equal(shown, CAPTURED_A.captured.to_array()[0])


@pytest.mark.parametrize("is_recorded", [True, False])
def test_captured_attention_and_a_module_are_compared_again(is_recorded: bool) -> None:
    module, elsewhere = Document(spec=SPEC), CAPTURED
    for live, a in ((module, elsewhere), (elsewhere, module)):
        made, kept = (compute(one, None) for one in (live, a))
        view = View(comparison=Comparison(ComparisonKind.KEPT, kept=kept, document=a))
        saved = through_a_file(live, view, made if is_recorded else None)
        assert (saved.recorded is not None) == (is_recorded and live is module)
        again, seen = restore_document(saved, compute)
        np.testing.assert_array_equal(again.trace.read("weights"), made.trace.read("weights"))
        assert seen.comparison
        assert seen.comparison.kept
        np.testing.assert_array_equal(
            seen.comparison.kept.trace.read("weights"), kept.trace.read("weights")
        )
