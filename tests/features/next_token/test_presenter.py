"""What a model expects next, as rows and in words."""

from __future__ import annotations

from msgspec.structs import replace

from visualizer.attention.model_reading import ModelReading, NextToken
from visualizer.features.next_token.presenter import (
    NO_MODEL,
    NOT_READ,
    NOT_SWITCHABLE,
    SHOW_ONE,
    present_next_token,
)
from visualizer.models.model_source import ModelSource
from visualizer.session.document import Document
from visualizer.session.resolved_view import resolve
from visualizer.session.view import View
from visualizer.session.worker_jobs import run_of

SOURCE = ModelSource("/models/tiny", "tiny", "0" * 64, ((3, 1),))
ROWS = (NextToken(" cat", 0.2, 0.5), NextToken(" dog", 0.6, 0.25))


def reading(**changes: object) -> ModelReading:
    captured = None
    made = ModelReading("made", (3,), frozenset({(3, 1)}), True, ROWS, "", captured, None)  # type: ignore[arg-type]
    return replace(made, **changes)


def panel_of(view: View, found: ModelReading | None, model: ModelSource | None = SOURCE):  # type: ignore[no-untyped-def]
    run = replace(run_of(Document(), None), reading=found)
    return present_next_token(resolve(replace(Document(), model=model), view, run))


def test_the_likeliest_now_stands_first() -> None:
    panel = panel_of(View(), reading())
    assert [row.token for row in panel.rows] == [" dog", " cat"]
    assert panel.in_words == ("“ dog” 60 %, with all heads 25 %; “ cat” 20 %, with all heads 50 %.")
    assert (panel.hint, panel.switch) == (SHOW_ONE, "")


def test_the_head_that_is_shown_alone_can_be_switched() -> None:
    panel = panel_of(View(heads=frozenset({1})), reading())
    assert panel.head == (3, 1)
    assert panel.switch == "Switch layer 4, head 2 on"
    panel = panel_of(View(heads=frozenset({0})), reading())
    assert panel.switch == "Switch layer 4, head 1 off"
    panel = panel_of(View(heads=frozenset({0})), reading(are_heads_switchable=False))
    assert (panel.switch, panel.hint) == ("", NOT_SWITCHABLE)


def test_without_a_reading_it_says_why() -> None:
    assert panel_of(View(), None, None).message == NO_MODEL
    assert panel_of(View(), None).message == NOT_READ
    silent = reading(next_tokens=(), no_next_token="It does not continue a text.")
    assert panel_of(View(), silent).in_words == "It does not continue a text."
