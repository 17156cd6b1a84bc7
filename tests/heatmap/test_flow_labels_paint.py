"""Positions on the flow board are round numbers and never touch; words and numbers have room."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.small_runs import a_run, board
from visualizer.heatmap.flow_labels_paint import board_labels, labelled_positions
from visualizer.heatmap.flow_placement import place_flow_panels
from visualizer.widgets.fonts import font_metrics

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication


@pytest.mark.parametrize(
    ("tokens", "pitch", "shown"),
    [
        (12, 20.0, range(1, 13)),
        (30, 8.0, (1, 5, 10, 15, 20, 25, 30)),
        (1000, 0.5, (1, *range(50, 1001, 50))),
    ],
)
def test_the_first_position_and_multiples_of_a_round_number_are_shown(
    tokens: int, pitch: float, shown: range | tuple[int, ...]
) -> None:
    assert [at + 1 for at in labelled_positions(range(tokens), pitch, 20.0)] == list(shown)


@given(st.integers(0, 5_000), st.integers(1, 20_000), st.floats(0.01, 40), st.floats(10, 60))
def test_positions_never_touch(start: int, count: int, pitch: float, room: float) -> None:
    found = labelled_positions(range(start, start + count), pitch, room)
    assert found[0] == start
    assert all((b - a) * pitch >= room for a, b in itertools.pairwise(found))
    assert all(at < start + count for at in found)


@pytest.mark.parametrize("tokens", [12, 64, 65, 80])
def test_there_is_room_for_words_if_rows_are_high_enough(
    tokens: int, application: QApplication
) -> None:
    text = " ".join(f"letters{at:05}" for at in range(tokens))
    placement = place_flow_panels(board(a_run(text, heads=1), flow=True), 1600, 1400, 1).flow
    assert placement is not None
    words = [label for label in board_labels(placement) if label.is_word and not label.is_upright]
    assert len(words) == tokens
    for label in words:
        assert font_metrics(label.size).horizontalAdvance(label.text) <= label.area.width()


def test_a_short_sentence_has_numbers_in_all_matrices(application: QApplication) -> None:
    run = a_run("Your journey starts with one step", heads=2, d_in=3, d_out=2)
    placement = place_flow_panels(board(run, flow=True), 959, 600, 1).flow
    assert placement is not None
    slots = [slot for slot in (*placement.slots, *placement.operands) if slot]
    assert len(slots) > len(placement.panels.columns)
    assert all(slot.numbers for slot in slots)
