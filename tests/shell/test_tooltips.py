"""Tooltips of buttons add information to the buttons' texts, and name the shortcuts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QDockWidget, QToolButton, QWidget

from visualizer.shell.commands import COMMANDS
from visualizer.shell.pane_table import PANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.window_input import Hand

LIKE = {
    "Split / join": "shapes.toggle_split",
    "More settings": "module.open_settings",
    "Next": "lesson.step 1",
    "Back": "lesson.step -1",
}
"""Buttons with the same function as a command that has another name."""


def plain(text: str) -> str:
    """Remove characters that are irrelevant when two texts are compared."""
    return re.sub(r"[^\w ]", "", text.replace("&", "")).strip().casefold()


UNLIKE = {"Causal"}
"""Buttons with the same name as a command but another function: they start a custom mask."""
COMMAND = {row.id: row for row in COMMANDS}


def keys_by_name() -> dict[str, tuple[str, ...]]:
    """Return the shortcuts of commands by the names that their buttons may have."""
    names = {plain(name): row for row in COMMANDS for name in (row.description, row.text)}
    names |= {plain(name): COMMAND[id_] for name, id_ in LIKE.items()}
    return {name: row.default_shortcuts for name, row in names.items()}


def buttons(hand: Hand) -> Iterator[QAbstractButton]:
    """Yield the program's own buttons; Qt's buttons are hidden or have other classes."""
    for button in hand.window.findChildren(QAbstractButton):
        is_qts = button.objectName().startswith("qt_") or type(button) is QAbstractButton
        if not is_qts and button.isVisible():
            yield button


def tip(button: QAbstractButton) -> str:
    """Return the effective tooltip; a widget without a tooltip shows that of its parent."""
    widget: QWidget | None = button
    while widget is not None and not widget.toolTip():
        parent = widget.parentWidget()
        widget = None if isinstance(parent, QDockWidget) else parent
    return widget.toolTip() if widget else ""


def label(button: QAbstractButton) -> str:
    """Return the visible text of a button."""
    kind = type(button)
    if kind.__module__.startswith("visualizer") and "paintEvent" in vars(kind):
        return button.accessibleName()
    is_icon = (
        isinstance(button, QToolButton)
        and not button.icon().isNull()
        and button.toolButtonStyle() is Qt.ToolButtonStyle.ToolButtonIconOnly
    )
    return "" if is_icon else button.text()


def complaints(hand: Hand) -> set[str]:
    found, known = set(), keys_by_name()
    for button in buttons(hand):
        said, shown = tip(button), label(button)
        own = said.rpartition(" (")[0] if said.endswith(")") else said
        if said and plain(own) == plain(shown):
            found.add(f"{shown!r}: the tip repeats it")
        if not shown and not said:
            found.add(f"{button.accessibleName()!r}: no word and no tip")
        names = {plain(name) for name in (shown, button.accessibleName(), button.text()) if name}
        names = set() if shown in UNLIKE else names
        for keys in (known[name] for name in names & known.keys() if known[name]):
            if not any(f"({key})" in said for key in keys):
                found.add(f"{shown or button.accessibleName()!r}: {said!r} lacks {keys}")
    return found


@pytest.mark.slow
def test_tooltips_add_something_and_name_the_shortcuts(hand: Hand) -> None:
    window = hand.window
    window.settings_bar.open_other_settings()
    for pane in PANES:
        if pane.id != "Lesson":
            window.docks.by_id[pane.id].show()
            window.docks.by_id[pane.id].raise_()
            QApplication.processEvents()
            assert complaints(hand) == set(), pane.id
    hand.trigger("comparison.compare_samples")  # compare dropout samples
    hand.settle()
    assert complaints(hand) == set()
    window.controllers.comparison_controller.compare_heads()
    window.controllers.mask_edit_controller.toggle_editing()
    hand.settle()
    assert complaints(hand) == set()
    window.controllers.mask_edit_controller.stop_editing()
    hand.trigger("playback.predict")
    hand.settle()
    assert complaints(hand) == set()
    window.controllers.lesson_controller.open_lesson(0)
    hand.settle()
    assert complaints(hand) == set()
    window.controllers.start_page.open_page()
    window.controllers.settings_controller.open_settings()
    QApplication.processEvents()
    assert complaints(hand) == set()
    assert window.controllers.settings_controller.dialog is not None
    window.controllers.settings_controller.dialog.close()
    window.controllers.start_page.close_page()


def test_the_walk_sees_the_buttons_and_finds_what_is_wrong(hand: Hand) -> None:
    hand.window.resize(1600, 800)  # nothing overflows into a menu, even with wide letters
    seen = {button.accessibleName() or button.text() for button in buttons(hand)}
    assert {"Step back", "Heads: mean", "Copy as script", "Mask causal", "More"} <= seen
    bar = hand.window.view_bar.buttons
    bar["view.toggle_aggregate mean"].setToolTip("Mean")
    bar["view.zoom_in"].setToolTip("Show fewer cells")
    found = complaints(hand)
    assert any("lacks" in each for each in found)
    assert any("repeats" in each for each in found)
