"""The next tokens that a model predicts, and its edits, as rows and in words."""

from __future__ import annotations

from msgspec.structs import replace

from visualizer.attention.model_forward_pass import ModelForwardPass, NextTokenCandidate
from visualizer.errors import InputError
from visualizer.features.next_token.presenter import (
    ABLATION_UNAVAILABLE,
    METHOD_NOTE,
    MODEL_REQUIRED,
    present_next_token,
)
from visualizer.models.model_source import (
    CutEdges,
    HeadEdit,
    HeadEditKind,
    ModelSource,
)
from visualizer.session.document import Document
from visualizer.session.model_pane_options import RUNNING_MESSAGE
from visualizer.session.resolved_view import resolve_view
from visualizer.session.view import View
from visualizer.session.worker_jobs import run_document

SOURCE = ModelSource("/models/tiny", "tiny", "0" * 64, (HeadEdit(3, 1),))
ROWS = (NextTokenCandidate(" cat", 0.2, 0.5), NextTokenCandidate(" dog", 0.6, 0.25))


def reading(**changes: object) -> ModelForwardPass:
    captured = None
    made = ModelForwardPass(
        "made", (3,), {(3, 1): "off"}, {}, True, ROWS, "", captured, None
    )  # fmt: skip
    return replace(made, **changes)


def panel_of(  # type: ignore[no-untyped-def]
    view: View,
    found: ModelForwardPass | None,
    model: ModelSource | None = SOURCE,
    refused: InputError | None = None,
):
    run = replace(run_document(Document(), None), reading=found)
    return present_next_token(resolve_view(replace(Document(), model=model), view, run), refused)


def test_the_most_likely_token_is_first() -> None:
    panel = panel_of(View(), reading(largest_changes=ROWS[1:]))
    assert [row.token for row in panel.rows] == [" dog", " cat"]
    assert panel.description == ("“ dog” 60%, without edits 25%; “ cat” 20%, without edits 50%.")
    assert panel.changes_description == "Largest changes: “ dog” 25% → 60%."
    assert panel.hint == METHOD_NOTE


def test_all_shown_heads_are_edited() -> None:
    panel = panel_of(View(), reading())
    assert (panel.heads, panel.head) == (((3, 0), (3, 1)), None)
    assert (panel.is_mixed, panel.kind) == (True, None)
    both = replace(SOURCE, edits=(HeadEdit(3, 0), HeadEdit(3, 1)))
    panel = panel_of(View(), reading(), both)
    assert (panel.is_mixed, panel.kind) == (False, HeadEditKind.OFF)
    assert panel.heads_description == "Layer 4, heads 1, 2"


def test_a_single_shown_head_is_edited() -> None:
    panel = panel_of(View(heads=frozenset({1})), reading())
    assert (panel.head, panel.kind, panel.is_head_edited) == ((3, 1), HeadEditKind.OFF, True)
    panel = panel_of(View(heads=frozenset({0})), reading())
    assert (panel.head, panel.kind, panel.is_head_edited) == ((3, 0), None, False)
    panel = panel_of(View(heads=frozenset({0})), reading(are_heads_switchable=False))
    assert (panel.heads, panel.hint) == ((), ABLATION_UNAVAILABLE)


def test_all_edits_are_described() -> None:
    edits = (
        HeadEdit(3, 0, HeadEditKind.SCALED, 2.5),
        HeadEdit(3, 1, HeadEditKind.PATCHED, text="a  grey\nwolf " + "x" * 40),
        HeadEdit(4, 0, HeadEditKind.MEAN),
        HeadEdit(4, 1, HeadEditKind.MEAN),
    )
    cuts = (CutEdges(3, 0, ((2, 0), (2, 1), (2, 2), (40, 0))), CutEdges(4, 2, ((1, 0),)))
    panel = panel_of(View(), reading(), replace(SOURCE, edits=edits, cuts=cuts))
    assert panel.edit_descriptions == (
        f"Edited: layer 4, head 1: × 2.5 · layer 4, head 2: from “a grey wolf {'x' * 28}…” · "
        "layer 5, heads 1, 2: mean.",
        "Cut in layer 4, head 1: “starts” (3) no longer attends to “Your” (1), “journey” (2), "
        "“starts” (3).",
        "Cut in layer 5, head 3: “journey” (2) no longer attends to “Your” (1).",
    )
    assert panel.has_edits
    assert not panel_of(View(), reading(), replace(SOURCE, edits=())).has_edits


def test_errors_of_edits_are_shown() -> None:
    said = "The text has 3 tokens, but the text to patch from has 2."
    assert panel_of(View(), reading(), refused=InputError("edits", said)).problem == said
    assert panel_of(View(), reading(), refused=InputError("text", said)).problem == ""


def test_a_missing_forward_pass_is_explained() -> None:
    assert panel_of(View(), None, None).message == MODEL_REQUIRED
    assert panel_of(View(), None).message == RUNNING_MESSAGE
    silent = reading(next_tokens=(), no_next_token="It does not continue a text.")
    assert panel_of(View(), silent).description == "It does not continue a text."
