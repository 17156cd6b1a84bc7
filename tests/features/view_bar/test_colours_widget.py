"""The Colours pane: the effect of every option on the cells and the colour bar; custom limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox

from tests.support.accessible_text import heard
from tests.support.examples import others_slow
from tests.support.window_input import words
from tests.support.zoom_gestures import run
from visualizer.attention.display_transforms import WeightTransform
from visualizer.errors import MEMORY_ERROR, InputError
from visualizer.features.view_bar.colours_widget import (
    CURVE_LABELS,
    LIMIT_LABELS,
    SEQUENTIAL_MAPS,
    TRANSFORM_LABELS,
    ColoursPane,
)
from visualizer.heatmap.panel_margins import format_colour_bar_texts
from visualizer.session.view_options import DEFAULT_MAP, ColourCurve, ColourLimits, ColourOptions
from visualizer.shell.screen_presenter import ScreenPresenter

if TYPE_CHECKING:
    from PySide6.QtWidgets import QLineEdit

    from tests.support.window_input import Hand


@pytest.fixture
def open_pane(hand: Hand) -> Hand:
    hand.settle()
    hand.trigger("pane.toggle Colours")
    hand.until(pane(hand).isVisible)
    hand.settle()
    return hand


def pane(hand: Hand) -> ColoursPane:
    shown = hand.window.panes["Colours"]
    assert isinstance(shown, ColoursPane)
    return shown


def choose(hand: Hand, box: QComboBox, chosen: str) -> None:
    """Open a list and choose an item with the keyboard."""
    pane(hand).ensureWidgetVisible(box)
    hand.click(box)
    QTest.keyClick(box.view(), Qt.Key.Key_Home)
    for _ in range(box.findText(chosen)):
        QTest.keyClick(box.view(), Qt.Key.Key_Down)
    QTest.keyClick(box.view(), Qt.Key.Key_Return)
    hand.activate()
    hand.settle()
    assert box.currentText() == chosen


def type_end(hand: Hand, stage: str, side: str, text: str) -> None:
    """Click a box, select its text, type another one, and press Enter."""
    box = boxes(hand)[stage, side]
    hand_types(hand, box, text)
    QTest.keyClick(box, Qt.Key.Key_Return)
    hand.settle()


def boxes(hand: Hand) -> dict[tuple[str, str], QLineEdit]:
    return pane(hand).boxes


def problem(hand: Hand) -> str:
    label = pane(hand).problem
    return words(label) if label.isVisibleTo(pane(hand)) else ""


def colouring(hand: Hand) -> ColourOptions:
    return hand.window.workspace.view.colouring


def bar(hand: Hand, stage: str) -> tuple[str, str, str]:
    return format_colour_bar_texts(hand.panel(stage))


def picture(hand: Hand) -> bytes:
    QApplication.processEvents()
    image = hand.board.viewport().grab().toImage()
    return bytes(image.constBits())


# ------------------------------------------------------------------------------------- choices


@pytest.mark.parametrize(
    ("curve", "weights", "scores"),
    [
        (ColourCurve.LOG, ("≤0.0001", "weights, log", "0.5+"), "scores, log"),
        (ColourCurve.RANK, ("smallest", "weights, rank", "largest"), "scores, rank"),
    ],
)
def test_colour_scales_change_cells_and_labels(
    open_pane: Hand, curve: ColourCurve, weights: tuple[str, ...], scores: str
) -> None:
    before = picture(open_pane)
    choose(open_pane, pane(open_pane).curve, CURVE_LABELS[curve])
    assert picture(open_pane) != before
    assert bar(open_pane, "weights") == weights
    low, middle, high = bar(open_pane, "scores")
    assert middle == scores
    assert low.removeprefix("≤ ") == f"−{high.removeprefix('≥ ')}"
    choose(open_pane, pane(open_pane).curve, CURVE_LABELS[ColourCurve.LINEAR])
    assert picture(open_pane) == before
    assert bar(open_pane, "weights") == ("0", "weights", "0.5+")


@pytest.mark.parametrize("limits", [ColourLimits.ROW, ColourLimits.PANEL])
def test_colour_limits_change_cells_and_labels(open_pane: Hand, limits: ColourLimits) -> None:
    before = picture(open_pane)
    choose(open_pane, pane(open_pane).limits, LIMIT_LABELS[limits])
    assert picture(open_pane) != before
    said = [format_colour_bar_texts(open_pane.panel("scores", head)) for head in (0, 1)]
    if limits is ColourLimits.ROW:
        assert said == 2 * [("−row’s largest", "scores", "row’s largest")] or said == 2 * [
            ("−row's largest", "scores", "row's largest")
        ]
    else:
        for head, (low, _, high) in enumerate(said):
            largest = np.abs(open_pane.panel("scores", head).values).max()
            assert float(high) == pytest.approx(largest, abs=0.0051)
            assert low == f"−{high}"
        assert said[0] != said[1]
    choose(open_pane, pane(open_pane).limits, LIMIT_LABELS[ColourLimits.SHARED])
    largest = max(np.abs(open_pane.panel("scores", head).values).max() for head in (0, 1))
    assert float(bar(open_pane, "scores")[2]) == pytest.approx(largest, abs=0.0051)
    choose(open_pane, pane(open_pane).limits, LIMIT_LABELS[ColourLimits.AUTO])
    assert picture(open_pane) == before


@pytest.mark.parametrize("name", [name for name in SEQUENTIAL_MAPS if name != DEFAULT_MAP])
def test_colour_maps_change_the_cells(open_pane: Hand, name: str) -> None:
    before = picture(open_pane)
    choose(open_pane, pane(open_pane).map, SEQUENTIAL_MAPS[name])
    assert picture(open_pane) != before
    assert open_pane.panel("weights").colour.map == name
    choose(open_pane, pane(open_pane).map, SEQUENTIAL_MAPS[DEFAULT_MAP])
    assert picture(open_pane) == before


def test_weights_without_the_first_token(open_pane: Hand) -> None:
    before = picture(open_pane)
    choose(open_pane, pane(open_pane).lens, TRANSFORM_LABELS[WeightTransform.WITHOUT_FIRST])
    assert picture(open_pane) != before
    shown = open_pane.panel("weights")
    assert "without the first token, renormalized" in shown.notes
    np.testing.assert_allclose(shown.values[1:].sum(axis=1), 1, atol=1e-6)
    assert not shown.values[:, 0].any()
    choose(open_pane, pane(open_pane).lens, TRANSFORM_LABELS[WeightTransform.PLAIN])
    assert picture(open_pane) == before


def test_an_unavailable_choice_is_reverted(
    open_pane: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> NoReturn:
        raise InputError("memory", MEMORY_ERROR)

    monkeypatch.setattr(ScreenPresenter, "prefetch", refuse)
    box = pane(open_pane).lens
    box.setFocus()
    QTest.keyClick(box, Qt.Key.Key_Down)
    assert box.currentText() == TRANSFORM_LABELS[WeightTransform.WITHOUT_FIRST]
    open_pane.settle()
    assert box.currentText() == TRANSFORM_LABELS[WeightTransform.PLAIN]


def test_weights_times_the_norm_of_the_values(open_pane: Hand) -> None:
    before = picture(open_pane)
    choose(open_pane, pane(open_pane).lens, TRANSFORM_LABELS[WeightTransform.TIMES_VALUE])
    assert picture(open_pane) != before
    assert bar(open_pane, "weights")[1] == "weights × ‖value‖"
    run = open_pane.window.workspace.run
    assert run
    weights, values = (run.trace.read(name, (0,)) for name in ("weights", "values"))
    expected = weights * np.linalg.norm(values, axis=1)
    np.testing.assert_allclose(open_pane.panel("weights").values, expected, rtol=1e-5)


def test_keyboard_choices_are_shown_in_the_pane(open_pane: Hand) -> None:
    run(open_pane, "view.set_curve log")
    run(open_pane, "view.set_limits row")
    shown = pane(open_pane)
    assert shown.curve.currentText() == CURVE_LABELS[ColourCurve.LOG]
    assert shown.limits.currentText() == LIMIT_LABELS[ColourLimits.ROW]


def test_choices_have_accessible_names(open_pane: Hand) -> None:
    shown = pane(open_pane)
    for box in (shown.lens, shown.curve, shown.limits, shown.map):
        assert heard(box).name
        assert heard(box).value == box.currentText()


# -------------------------------------------------------------------------------- custom limits


@pytest.fixture
def typed(open_pane: Hand) -> Hand:
    """A pane with boxes for custom limits."""
    assert boxes(open_pane) == {}
    choose(open_pane, pane(open_pane).limits, LIMIT_LABELS[ColourLimits.TYPED])
    QApplication.processEvents()
    return open_pane


def test_boxes_show_the_current_limits(typed: Hand) -> None:
    assert [*boxes(typed)] == [
        (stage, side) for stage in ("scores", "weights", "context") for side in ("low", "high")
    ]
    assert boxes(typed)["weights", "low"].text() == "0"
    assert boxes(typed)["weights", "high"].text() == "1"
    high = boxes(typed)["scores", "high"].text()
    assert boxes(typed)["scores", "low"].text() == f"−{high}"
    assert not boxes(typed)["scores", "low"].isEnabled()  # it follows the upper limit
    for box in boxes(typed).values():
        assert heard(box).name


def test_custom_limits_change_cells_and_labels(typed: Hand) -> None:
    before = picture(typed)
    type_end(typed, "weights", "low", "0.2")
    type_end(typed, "weights", "high", "0,5")
    assert picture(typed) != before
    for head in (0, 1):
        shown = typed.panel("weights", head)
        assert format_colour_bar_texts(shown) == ("0.20", "weights", "0.50")
        counts = np.tri(6, dtype=bool)
        above, below = (shown.values[counts] > 0.5).sum(), (shown.values[counts] < 0.2).sum()
        assert shown.notes == (f"◥ {above} above, ◢ {below} below",)
    assert problem(typed) == ""
    type_end(typed, "scores", "high", "0.25")
    assert bar(typed, "scores") == ("−0.25", "scores", "0.25")
    assert boxes(typed)["scores", "low"].text() == "−0.25"
    choose(typed, pane(typed).limits, LIMIT_LABELS[ColourLimits.AUTO])
    assert boxes(typed) == {}
    assert bar(typed, "weights") == ("0", "weights", "0.5+")
    choose(typed, pane(typed).limits, LIMIT_LABELS[ColourLimits.TYPED])
    assert bar(typed, "weights") == ("0.20", "weights", "0.50")  # the limits are kept


@pytest.mark.parametrize(
    ("stage", "side", "text", "said"),
    others_slow(
        [
            ("weights", "low", "x", "“x” is not a number. Enter a number such as 0.5."),
            ("weights", "high", "", "“” is not a number. Enter a number such as 0.5."),
            ("weights", "high", "inf", "“inf” is not a number. Enter a number such as 0.5."),
            ("weights", "high", "nan", "“nan” is not a number. Enter a number such as 0.5."),
            ("weights", "low", "1", "The lower limit, 1, must be below the upper limit, 1."),
            ("weights", "low", "7", "The lower limit, 7, must be below the upper limit, 1."),
            ("weights", "high", "0", "The lower limit, 0, must be below the upper limit, 0."),
            ("weights", "low", "-0.5", "The lower limit must be at least 0. It is -0.5."),
            ("scores", "high", "-3", "The upper limit must be above 0. It is -3."),
            ("scores", "high", "0", "The upper limit must be above 0. It is 0."),
        ],
        first=5,
    ),
)
def test_invalid_limits_are_reported_and_have_no_effect(
    typed: Hand, stage: str, side: str, text: str, said: str
) -> None:
    before, chosen = picture(typed), colouring(typed)
    type_end(typed, stage, side, text)
    assert problem(typed) == said
    assert colouring(typed) == chosen
    assert picture(typed) == before
    type_end(typed, stage, side, "0.4")
    assert problem(typed) == ""
    assert colouring(typed) != chosen


def test_the_invalid_box_is_reported(typed: Hand) -> None:
    type_end(typed, "weights", "low", "x")
    type_end(typed, "weights", "high", "0.9")
    assert problem(typed) == "“x” is not a number. Enter a number such as 0.5."
    type_end(typed, "weights", "low", "0.1")
    assert problem(typed) == ""
    assert bar(typed, "weights") == ("0.10", "weights", "0.90")


def test_leaving_a_box_applies_its_value(typed: Hand) -> None:
    box = boxes(typed)["weights", "high"]
    hand_types(typed, box, "0.7")
    typed.key(Qt.Key.Key_Tab)
    typed.settle()
    assert bar(typed, "weights")[2] == "0.70"


def hand_types(hand: Hand, box: QLineEdit, text: str) -> None:
    pane(hand).ensureWidgetVisible(box)
    hand.click(box)
    box.selectAll()
    QTest.keyClick(box, Qt.Key.Key_Delete)
    QTest.keyClicks(box, text)


def test_enter_without_an_edit_has_no_effect(typed: Hand) -> None:
    before = colouring(typed)
    box = boxes(typed)["scores", "high"]
    typed.click(box)
    QTest.keyClick(box, Qt.Key.Key_Return)
    typed.settle()
    assert colouring(typed) == before


def test_limits_chosen_by_keyboard_while_typing_are_kept(typed: Hand) -> None:
    hand_types(typed, boxes(typed)["weights", "high"], "0.7")
    run(typed, "view.set_limits automatic")
    QApplication.processEvents()
    typed.settle()
    assert colouring(typed).limits is ColourLimits.AUTO
    assert boxes(typed) == {}


def test_a_stage_may_disappear_while_its_box_is_edited(typed: Hand) -> None:
    hand_types(typed, boxes(typed)["scores", "high"], "0.7")
    typed.window.workspace.toggle_stage("scores")
    QApplication.processEvents()
    typed.settle()
    assert ("scores", "high") not in boxes(typed)
    assert colouring(typed).limits is ColourLimits.TYPED


def test_boxes_follow_new_values(typed: Hand) -> None:
    before = boxes(typed)["scores", "high"].text()
    typed.paste_sentence("one two three")
    typed.settle()
    assert boxes(typed)["scores", "high"].text() != before
    assert boxes(typed)["weights", "high"].text() == "1"
