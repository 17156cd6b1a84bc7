"""Screen readers receive roles, names, values, and the elements that the keyboard reaches."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLabel, QPlainTextEdit, QWidget

import visualizer
from tests.support.accessible_text import heard
from tests.support.window_input import CONTROL, Hand
from visualizer.features.lessons.presenter import LESSON_PANEL
from visualizer.features.line_view.widget import AttentionLinesView
from visualizer.features.playback.playback_bar_widget import ALL_COMPUTED
from visualizer.heatmap.minimap_widget import MinimapWidget
from visualizer.heatmap.widget import BoardCanvas, BoardView
from visualizer.lab.window import LabWindow
from visualizer.session.cell_address import Cell
from visualizer.shell.pane_table import PANES
from visualizer.shell.screen_presenter import STATUS_PANEL
from visualizer.widgets import accessibility
from visualizer.widgets.status_bar import ProgressLine
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtWidgets import QApplication
    from pytestqt.qtbot import QtBot

    from tests.support.playback_viewer import Viewer

ROLE = QAccessible.Role
SENTENCE = "journey (query 2) attends to Your (key 1) with weight 48%."


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the announcements to screen readers in order."""
    said: list[str] = []

    def update(event: object) -> None:
        assert isinstance(event, QAccessibleAnnouncementEvent)
        said.append(event.message())

    monkeypatch.setattr(accessibility, "QAccessible", _Recorded(update))
    return said


class _Recorded:
    def __init__(self, update: object) -> None:
        self.updateAccessibility = update

    def __getattr__(self, name: str) -> object:
        return getattr(QAccessible, name)


def test_every_widget_that_draws_itself_has_a_role_and_a_name(hand: Hand) -> None:
    window = hand.window
    hand.settle()
    for widget, role, name in (
        (window.board, ROLE.Chart, "Heatmaps"),
        (window.playback_bar, ROLE.ToolBar, "Playback"),
        (window.view_bar, ROLE.ToolBar, "View controls"),
        (window.progress, ROLE.ProgressBar, "Progress"),
        (window.settings_bar, ROLE.ToolBar, "Settings"),
        (window.panes["Explain"], ROLE.Grouping, "Explain"),
        (window.panes["Heads"], ROLE.Grouping, "Heads"),
        (window.panes["Explain"].code_section, ROLE.Grouping, "Code"),
        (window.panes["Lines"], ROLE.Grouping, "Lines"),
        (window.panes["Lines"].view, ROLE.Chart, "Lines from queries to keys"),
        (window.panes["Numbers"], ROLE.Grouping, "Numbers"),
        (window.panes["Shapes"], ROLE.Grouping, "Shapes"),
        (window.panes["Lesson"], ROLE.Grouping, "Lesson"),
        (window.settings_bar.sentence, ROLE.EditableText, "Sentence"),
        (window.panes["Explain"].code_section.code, ROLE.EditableText, "Code"),
    ):
        told = heard(widget)
        assert (told.role, told.name) == (role, name)
    tokens = heard(window.panes["Tokens"].strip)
    assert tokens.role is ROLE.List
    assert tokens.name == "Tokens: 6 tokens, Your journey starts with one step"


def test_a_list_without_a_label_has_a_description(hand: Hand) -> None:
    """On Linux, screen readers use the chosen entry of a list as the list's name."""
    for pane in hand.window.docks.by_id.values():
        pane.show()
    hand.settle()
    boxes = [box for box in hand.window.findChildren(QComboBox) if box.isVisible()]
    labelled = {label.buddy() for label in hand.window.findChildren(QLabel)}
    for box in boxes:
        assert box in labelled or heard(box).description, box.currentText()


WIDGET_MODULES = ("widget", "paint", "dialog", "controller", "window", "presenter_mode", "panes")


def test_every_widget_that_paints_itself_has_a_role(qapp: QApplication) -> None:
    """Qt provides the roles of buttons and texts, but none for other base classes."""
    for module in walk_packages(visualizer.__path__, "visualizer."):
        if module.name.endswith(WIDGET_MODULES):
            import_module(module.name)
    painting = [kind for kind in _derived(QWidget) if "paintEvent" in vars(kind)]
    assert {BoardView, AttentionLinesView, MinimapWidget} <= {*painting, *_derived(BoardCanvas)}
    lacking = [
        kind.__name__
        for kind in painting
        if not issubclass(kind, QPlainTextEdit | QAbstractButton)
        and not hasattr(kind, "ACCESSIBLE_ROLE")
    ]
    assert lacking == []


def _derived(kind: type) -> Iterator[type]:
    """Yield the program's subclasses of a class."""
    below: list[type] = kind.__subclasses__()
    for derived in below:
        if derived.__module__.startswith("visualizer."):
            yield derived
        yield from _derived(derived)


def test_screen_readers_get_the_role_of_a_class(hand: Hand) -> None:
    hand.window.controllers.export_controller.open_export_dialog()
    hand.until(lambda: hand.window.controllers.export_controller.dialog is not None)
    lab = LabWindow(("never started",))
    hand.qtbot.addWidget(lab)
    assert all(hand.window.panes[pane.id] for pane in PANES)  # created on demand
    widgets = [*hand.window.findChildren(QWidget), *lab.findChildren(QWidget)]
    roles = {widget: getattr(widget, "ACCESSIBLE_ROLE", None) for widget in widgets}
    told = {widget: heard(widget).role for widget, role in roles.items() if role}
    assert len({type(widget) for widget in told}) >= 35
    assert {type(widget) for widget, role in told.items() if role is not roles[widget]} == set()


def test_values_are_those_that_are_shown(hand: Hand) -> None:
    window = hand.window
    hand.settle()
    hand.leave()
    assert "6 tokens" in heard(window.board).value
    assert heard(window.playback_bar).value == f"Paused: {ALL_COMPUTED}"
    assert heard(window.view_bar.stages_button).description == "Scores, Weights, Context"
    assert heard(window.progress).value == "Up to date"
    assert heard(window.panes["Tokens"].strip).value == ""
    hand.click_cell(Cell("weights", (0, 1, 0)))
    hand.leave()
    cell, _, sentence = heard(window.board).value.partition(": ")
    assert cell == "Weights, head 1, query 2, key 1"
    assert sentence == SENTENCE
    assert heard(window.panes["Explain"]).value == sentence
    value = heard(window.panes["Tokens"].strip).value
    assert "journey, head 1: Your 0.48" in value
    assert heard(window.panes["Explain"].code_section).value == "Weights in code"


def test_values_of_playback(viewer: Viewer) -> None:
    viewer.key(Qt.Key.Key_Home)
    viewer.key(Qt.Key.Key_Space)
    assert heard(viewer.bar).value.startswith("Playing: Input")
    viewer.key(Qt.Key.Key_Space)
    assert heard(viewer.bar).value.startswith("Paused: Input")
    viewer.window.controllers.playback_controller.seek_stage("scores")
    viewer.hand.settle()
    assert heard(viewer.bar).value == "Paused: Scores, row 1 of 6"
    assert heard(viewer.bar.caption).name == viewer.said
    assert heard(viewer.bar.caption).role is ROLE.StaticText
    assert heard(viewer.bar.caption).description == "Step description"


def test_values_of_a_lesson(hand: Hand) -> None:
    hand.window.controllers.lesson_controller.open_lesson(0)
    hand.settle()
    panel = hand.window.workspace.screen.panel(LESSON_PANEL)
    assert panel is not None
    told = heard(hand.window.panes["Lesson"]).value
    assert told == f"{panel.lesson}, page 1 of {panel.count}: {panel.title}"


def test_progress_says_that_numbers_are_on_their_way(qtbot: QtBot) -> None:
    accessibility.install_accessible_interface()
    progress = ProgressLine()
    qtbot.addWidget(progress)
    progress.set_progress(True, LIGHT)
    qtbot.waitUntil(lambda: heard(progress).value == "Computing…")
    progress.resize(40, 2)
    progress.set_progress(True, LIGHT, 0.25, "Reading 8 tokens … 25%")
    assert heard(progress).value == "Reading 8 tokens … 25%"
    row = progress.grab().toImage()
    accent = [row.pixelColor(at, 0).name() == LIGHT.accent.lower() for at in range(40)]
    assert accent == [True] * 10 + [False] * 30
    progress.set_progress(False, LIGHT)
    assert heard(progress).value == "Up to date"


# ------------------------------------------------------------------------------ announcements


def test_cells_that_are_walked_to_are_announced(hand: Hand, announced: list[str]) -> None:
    hand.settle()
    hand.board.setFocus()
    hand.key(Qt.Key.Key_Down)
    hand.key(Qt.Key.Key_Down)
    hand.settle()
    assert [said.partition(":")[0] for said in announced] == [
        "Scores, head 1, query 1, key 1",
        "Scores, head 1, query 2, key 1",
    ]
    assert announced[-1] == heard(hand.board).value
    hand.key(Qt.Key.Key_Escape)
    assert len(announced) == 2


def test_cells_of_lines_are_announced_during_keyboard_navigation(
    hand: Hand, announced: list[str]
) -> None:
    hand.settle()
    hand.trigger("pane.toggle Lines")
    hand.until(lambda: hand.window.panes["Lines"].view.isVisible())
    hand.window.panes["Lines"].view.setFocus()
    hand.key(Qt.Key.Key_Down)
    hand.settle()
    assert announced[-1].startswith("Scores, head 1, query 1, key 1")


def test_steps_that_are_stepped_to_are_announced(viewer: Viewer, announced: list[str]) -> None:
    viewer.key(Qt.Key.Key_Home)
    viewer.key(Qt.Key.Key_PageDown)
    viewer.hand.settle()
    assert announced
    assert announced[-1] == heard(viewer.window.board).value


def test_hovered_cells_are_not_announced(hand: Hand, announced: list[str]) -> None:
    hand.settle()
    hand.board.setFocus()
    hand.hover(Cell("weights", (0, 1, 0)))
    assert heard(hand.board).value == f"Weights, head 1, query 2, key 1: {SENTENCE}"
    hand.leave()
    assert announced == []


def test_typing_is_not_interrupted_by_announcements(hand: Hand, announced: list[str]) -> None:
    hand.settle()
    hand.board.setFocus()
    hand.key(Qt.Key.Key_Down)
    hand.press(Qt.Key.Key_L, CONTROL)
    before = len(announced)
    hand.type_sentence("Another text is typed")
    hand.settle()
    assert len(announced) == before == 1


def test_errors_are_announced_once(hand: Hand, announced: list[str]) -> None:
    hand.settle()
    hand.type_number("dropout", "1.5")
    notices = hand.window.workspace.screen.panel(STATUS_PANEL).notices
    assert announced[-1:] == list(notices)
    assert len(set(announced)) == len(announced)
    assert "dropout rate must be" in announced[-1]
    before = list(announced)
    hand.window.set_colour_scheme("dark")  # updated, but not announced again
    assert announced == before


# ----------------------------------------------------------------------------------- lifetimes


def test_accessible_values_are_deleted_with_their_widgets(qapp: QApplication) -> None:
    accessibility.install_accessible_interface()
    for _ in range(50):
        board = BoardView()
        told = QAccessible.queryAccessibleInterface(board)
        assert told.isValid()
        gc.collect(1)  # only young objects; a full collection would also visit those of other tests
        assert heard(board).name == "Heatmaps"
        board.deleteLater()
        del board
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect(1)
        del told


ENDING = """
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication
from visualizer.widgets.accessibility import announce
from visualizer.widgets.accessibility import install_accessible_interface
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.heatmap.widget import BoardView
application = QApplication([])
QAccessible.setActive(True)
install_accessible_interface()
boards = [BoardView() for _ in range(5)]
held = [QAccessible.queryAccessibleInterface(board) for board in boards]
for board in boards:
    board.show()
    set_accessible_value(board, "a sentence")
    announce(board, "a sentence", QAccessible.AnnouncementPoliteness.Polite)
application.processEvents()
print(held[0].text(QAccessible.Text.Value))
"""


@pytest.mark.slow
def test_the_program_ends_well_while_readers_hold_on() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDING],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )
    assert (ended.returncode, ended.stdout) == (0, "a sentence\n")
