"""Every control is reachable by keyboard and has an accessible name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QPushButton, QWidget
from shiboken6 import Shiboken

from tests.support.accessible_text import heard
from tests.support.colour_vision import contrast
from tests.support.image_pixels import rgb_of
from visualizer.attention.settings import SETTINGS_BY_NAME
from visualizer.session.cell_address import Cell
from visualizer.session.view_options import ColourLimits
from visualizer.shell.pane_docks import tab_stops
from visualizer.shell.pane_table import PANES
from visualizer.widgets.focus_ring import FocusRing

CELL = Cell("weights", (0, 1, 0))

if TYPE_CHECKING:
    from PySide6.QtGui import QImage
    from pytestqt.qtbot import QtBot

    from tests.support.window_input import Hand


def reachable_with_editors(hand: Hand) -> list[QWidget]:
    """Return the names of all tab stops, with each settings editor open in turn."""
    found = []
    for chip in visible_chips(hand):
        chip.setChecked(True)
        found += reachable(hand, chip)
    return found


def visible_chips(hand: Hand) -> list[QAbstractButton]:
    """Return the buttons that fit; the last one opens the settings of the others."""
    return [chip for chip in hand.window.settings_bar.chips.values() if chip.isVisible()]


def reachable(hand: Hand, start: QWidget | None = None) -> list[QWidget]:
    """Return the names of all tab stops."""
    (start or hand.sentence).setFocus()
    found: list[QWidget] = []
    while (widget := QApplication.focusWidget()) is not None:
        if found and widget is found[0]:
            break
        if widget not in found:  # otherwise, Tab moves between the links in this widget
            found.append(widget)
        hand.key(Qt.Key.Key_Tab)
    return found


def named(widget: QWidget) -> str:
    shown = widget.text() if isinstance(widget, QAbstractButton | QLabel) else ""
    return widget.accessibleName() or shown


def test_the_tab_key_reaches_every_part(hand: Hand) -> None:
    names = {named(widget) for widget in reachable_with_editors(hand)}
    bar = hand.window.settings_bar
    assert {chip.accessibleName() for chip in visible_chips(hand)} <= names
    for name, row in bar.rows.items():
        if row.control.isEnabled():
            assert SETTINGS_BY_NAME[name].label in names
    assert {"Sentence", "Heatmaps"} <= names
    tokenizer = "Split the text into words or characters"
    assert {tokenizer, "Treat lines as one text or as a batch of texts"} <= names
    assert {"Stages: 3 of 11", "Head 1", "Range: automatic, 0 to 0.5+"} <= names


@pytest.mark.slow
def test_escape_unpins_the_cell_wherever_the_focus_is(hand: Hand) -> None:
    for widget in reachable(hand):
        hand.click_cell(CELL)
        hand.leave()
        widget.setFocus()
        hand.key(Qt.Key.Key_Escape)
        assert hand.window.workspace.requested_view.pinned is None, widget


def test_all_tab_stops_have_a_name(hand: Hand) -> None:
    hand.type_number("dropout", "1.5")
    unnamed = [widget for widget in reachable_with_editors(hand) if not named(widget)]
    assert unnamed == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_tab_stops_show_the_focus(hand: Hand, scheme: str) -> None:
    window = hand.window
    window.set_colour_scheme(scheme)
    hand.click_cell(Cell("weights", (0, 1, 0)))
    hand.leave()
    hand.settle()
    dim = []
    for widget in dict.fromkeys(reachable_with_editors(hand)):
        window.settings_bar.reveal_control(widget)
        QApplication.processEvents()  # the editors of the settings appear in their places
        window.settings_bar.reveal_control(widget)
        widget.setFocus(Qt.FocusReason.TabFocusReason)
        there = _picture(widget)
        widget.clearFocus()
        if not _stands_out(there, _picture(widget)):
            dim.append(named(widget) or repr(widget))
    assert dim == []


def test_the_tab_key_goes_along_the_bar_and_the_typed_ends(hand: Hand) -> None:
    hand.trigger("pane.toggle Colours")
    hand.window.actions_.by_id[f"view.set_limits {ColourLimits.TYPED}"].trigger()
    hand.settle()
    boxes = hand.window.panes["Colours"].boxes
    hand.until(lambda: ("context", "high") in boxes and boxes["context", "high"].isVisible())
    names = [named(widget) for widget in reachable(hand)]
    bar = names.index("Stages: 3 of 11")
    assert names[bar + 1 : bar + 4] == ["Head 1", "Head 2", "Heads: mean"]
    ends = names.index("Range")
    assert names[ends + 1 : ends + 4] == [
        "Scores: upper limit", "Weights: lower limit", "Weights: upper limit",
    ]  # fmt: skip
    assert names.index("Colour map for weights") > names.index("Context: upper limit")


def test_the_tab_key_goes_from_shape_to_shape(hand: Hand) -> None:
    hand.trigger("pane.toggle Shapes")
    hand.settle()
    names = [named(widget) for widget in reachable(hand)]
    first = names.index("Split / join") + 1
    assert [name.partition(":")[0] for name in names[first : first + 3]] == [
        "Input", "Queries", "Keys",
    ]  # fmt: skip


def test_a_wrong_end_is_reported_in_sight_of_its_box(hand: Hand) -> None:
    hand.window.resize(1280, 640)
    hand.trigger("pane.toggle Colours")
    hand.window.actions_.by_id[f"view.set_limits {ColourLimits.TYPED}"].trigger()
    hand.settle()
    pane = hand.window.panes["Colours"]
    box = pane.boxes["scores", "high"]
    hand.until(lambda: box.isVisible())
    box.setFocus(Qt.FocusReason.TabFocusReason)
    hand.until(box.hasFocus)
    box.selectAll()
    QTest.keyClicks(box, "abc")
    hand.key(Qt.Key.Key_Return)
    assert pane.problem.text() == "“abc” is not a number. Enter a number such as 0.5."
    both = (pane.problem, box)
    hand.until(lambda: not any(widget.visibleRegion().isEmpty() for widget in both))


def test_one_key_goes_from_part_to_part(hand: Hand) -> None:
    hand.run_in_palette("panes heads")
    hand.activate()
    hand.board.setFocus()
    hand.settle()
    found = []
    for _ in range(6):
        hand.key(Qt.Key.Key_F6)
        found.append(named(QApplication.focusWidget() or hand.window))
        assert hand.window.rect().contains(hand.window.focus_ring.geometry())
    assert found == [
        "Steps", "Heads", "Sentence", "Flow of one head", "Heatmaps", "Steps",
    ]  # fmt: skip
    hand.press(Qt.Key.Key_F6, Qt.KeyboardModifier.ShiftModifier)
    assert named(QApplication.focusWidget() or hand.window) == "Heatmaps"


def _picture(widget: QWidget) -> QImage:
    window = widget.window()
    area = QRect(widget.mapTo(window, QPoint()), widget.size()).adjusted(-3, -3, 3, 3)
    return window.grab(area.intersected(window.rect())).toImage()


def _stands_out(one: QImage, other: QImage) -> bool:
    """Return whether two images differ in a contrast of about 3:1 or more (WCAG 2.2, 1.4.11)."""
    pairs = np.unique(rgb_of(one).astype(np.uint64) << 24 | rgb_of(other)).tolist()
    return max(contrast(f"#{pair >> 24:06x}", f"#{pair & 0xFFFFFF:06x}") for pair in pairs) >= 2.9


def test_a_control_describes_its_purpose_and_its_error(hand: Hand) -> None:
    for row in hand.window.settings_bar.rows.values():
        part = row.control.focusProxy()
        assert part is not None
        assert part.accessibleDescription() == row.setting.help
    hand.type_number("dropout", "1.5")
    control = hand.window.settings_bar.rows["dropout"].control
    parts = [part for part in control.findChildren(QWidget) if part.accessibleName() == "Dropout"]
    assert len(parts) == 2
    for part in parts:
        assert part.accessibleDescription().startswith("The dropout rate must be")


def test_the_sentence_of_a_cell_is_reported_to_readers_of_the_screen(hand: Hand) -> None:
    hand.click_cell(Cell("weights", (0, 1, 0)))
    hand.leave()
    assert heard(hand.board).value.endswith(
        "journey (query 2) attends to Your (key 1) with weight 48%."
    )
    assert "6 tokens" in hand.window.panes["Tokens"].strip.accessibleName()


def test_clicks_show_no_focus_frame(hand: Hand) -> None:
    ring = hand.window.focus_ring
    hand.click(hand.window.view_bar.heads[0])
    hand.click(hand.sentence.viewport())
    assert not ring.isVisible()
    hand.key(Qt.Key.Key_Tab)
    assert ring.isVisible()


def test_a_pane_that_closes_leaves_the_focus_to_the_heatmaps(hand: Hand) -> None:
    """Qt would move the focus to the next widget in tab order, with a focus frame."""
    docks = hand.window.docks
    for pane in PANES:
        docks.open_pane(pane.id)
        hand.settle()
        stops = tab_stops(hand.window.panes[pane.id])
        if stops and docks.by_id[pane.id].isVisible():
            stops[0].setFocus(Qt.FocusReason.MouseFocusReason)
            docks.by_id[pane.id].close()
            assert hand.board.hasFocus(), pane.id
            assert not hand.window.focus_ring.isVisible(), pane.id


def test_the_ring_moves_and_hides_with_what_it_is_around(hand: Hand) -> None:
    ring, bar = hand.window.focus_ring, hand.window.settings_bar
    hand.window.resize(1280, 600)
    bar.open_other_settings()
    last = bar.rows["dtype"].control.focusProxy()
    assert last
    last.setFocus(Qt.FocusReason.TabFocusReason)
    QApplication.processEvents()
    bar.reveal_control(last)
    QApplication.processEvents()
    before, scrolled = ring.geometry(), next(p for p in bar.popovers if p.isVisible()).scroll_area
    scroll = scrolled.verticalScrollBar()
    scroll.setValue(scroll.value() - 10)
    assert ring.geometry() == before.translated(0, 10)
    scroll.setValue(scroll.minimum())
    assert not ring.isVisible()  # the focused widget has been scrolled out of view
    bar.reveal_control(last)
    assert ring.isVisible()
    there = ring.geometry()
    hand.key(Qt.Key.Key_Escape)
    assert not ring.isVisible() or ring.geometry() != there  # the focus moves elsewhere


def test_the_ring_outlives_what_it_was_around(application: QApplication, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    around, inner, other = QWidget(window), QPushButton("Inner"), QPushButton("Other", window)
    inner.setParent(around)
    ring = FocusRing(window)
    window.resize(200, 100)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    other.clearFocus()
    inner.setFocus(Qt.FocusReason.TabFocusReason)
    assert ring.isVisible()
    Shiboken.delete(around)
    other.move(20, 20)
    other.setFocus(Qt.FocusReason.TabFocusReason)
    assert ring.geometry().contains(other.geometry())


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Escape])
def test_keys_lead_from_the_sentence_to_the_heatmaps(hand: Hand, key: Qt.Key) -> None:
    hand.type_sentence("one two")
    hand.key(key)
    hand.settle()
    assert hand.board.hasFocus()
    assert hand.window.workspace.document.text == "one two"


def test_a_new_line_is_typed_with_shift(hand: Hand) -> None:
    hand.type_sentence("one")
    hand.press(Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(hand.sentence, "two")
    hand.settle()
    assert hand.window.workspace.document.text == "one\ntwo"


def test_a_tab_in_front_of_the_focus_leaves_it_to_the_heatmaps(hand: Hand) -> None:
    hand.window.docks.open_pane("Tokens")
    hand.settle()
    hand.window.panes["Tokens"].strip.setFocus()
    hand.window.docks.open_pane("Lines")
    hand.settle()
    assert hand.board.hasFocus()
