"""The window's state is restored, and invalid settings are ignored."""

from __future__ import annotations

import stat
import sys
from base64 import b64decode, b64encode
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QDockWidget, QToolBar

from tests.damage import spoil_settings
from tests.support.examples import others_slow
from visualizer import app
from visualizer.documents.recent_files import add_recent_file
from visualizer.session.pane_spec import PaneArea
from visualizer.shell.pane_docks import tab_stops
from visualizer.shell.pane_table import PANES
from visualizer.shell.window_manager import WindowManager
from visualizer.storage.settings_file import read_private_json, write_private_json
from visualizer.widgets import app_settings
from visualizer.widgets.theme import DARK, LIGHT, ColourScheme

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from tests.support.window_input import Hand
    from visualizer.shell.window import MainWindow

    Open = Callable[..., MainWindow]


DAMAGED_SETTINGS = 300
CLOSED = {pane.id for pane in PANES if not pane.is_open}
"""Panes that are initially closed."""


@pytest.fixture
def open_window(open_window: Open) -> Open:
    """Return a function that opens windows of their default size."""
    return partial(open_window, size=None)


DOCKED = tuple(pane for pane in PANES if pane.area is not PaneArea.CENTRE)
AT_FIRST = {pane.id: not pane.is_open for pane in DOCKED if pane.id != "Lesson"}
"""Whether each pane is hidden, by id."""


def usual() -> tuple[int, int]:
    """Return the default window size, or less if the screen is too small for it and the frame."""
    screen = QApplication.primaryScreen().availableGeometry()
    return min(1280, screen.width() - 8), min(800, screen.height() - 40)


def at_first(window: MainWindow) -> dict[str, bool]:
    """Return whether each pane is hidden in a new window; in a narrow window, all panes are."""
    return {id_: hidden or window.docks.is_narrow for id_, hidden in AT_FIRST.items()}


def docks(window: MainWindow) -> dict[str, bool]:
    """Return whether each pane is hidden, except for panes that appear only with a lesson."""
    found = {dock.objectName(): dock.isHidden() for dock in window.findChildren(QDockWidget)}
    assert found.pop("Lesson")
    return found


def test_names_of_stored_settings_do_not_change(open_window: Open) -> None:
    """The ids do not depend on titles and classes, so that settings survive a new version."""
    window = open_window()
    ids = [dock.objectName() for dock in window.findChildren(QDockWidget)]
    assert sorted(ids) == sorted(pane.id for pane in DOCKED)
    assert set(ids) >= {
        *("Colours", "Explain", "Heads", "Lesson", "Lines", "Numbers", "Shapes", "Tokens")
    }
    assert [bar.objectName() for bar in window.findChildren(QToolBar)] == ["Playback"]
    window.actions_.by_id["reduced_motion.toggle"].trigger()
    window.close()
    kept = {"geometry", "last", "reduced motion", "scheme", "seal", "state"}
    found = read_private_json(app_settings.settings_file().path)
    assert isinstance(found, dict)
    assert found.keys() == kept


def test_a_pane_made_later_has_its_place_in_the_tab_order(open_window: Open) -> None:
    window = open_window()
    earlier, new = "Explain", "Numbers"
    window.docks.open_pane(new)
    ring, stops = tab_stops(window), tab_stops(window.panes[new])
    assert stops
    at = ring.index(stops[0])
    assert ring[at : at + len(stops)] == stops
    assert at > max(map(ring.index, tab_stops(window.panes[earlier])))


def test_size_and_panes_come_back(open_window: Open) -> None:
    first = open_window()
    first.resize(780, 640)
    first.findChildren(QDockWidget)[1].close()
    hidden = docks(first)
    first.close()
    second = open_window()
    assert (second.width(), second.height()) == (780, 640)
    assert docks(second) == hidden
    assert any(hidden.values())


@pytest.mark.slow
def test_colours_come_back(open_window: Open) -> None:
    first = open_window()
    first.set_colour_scheme("dark")
    first.close()
    second = open_window()
    assert (second.scheme, second.theme) == (ColourScheme.DARK, DARK)
    assert second.actions_.by_id["theme.set_scheme dark"].isChecked()
    second.set_colour_scheme("light")
    assert second.theme is LIGHT


def test_at_first_there_is_a_usual_size(open_window: Open) -> None:
    window = open_window()
    assert (window.width(), window.height()) == usual()
    assert window.scheme is ColourScheme.SYSTEM
    assert docks(window) == at_first(window)


@pytest.mark.parametrize(
    "nonsense",
    others_slow(
        [
            {"scheme": "purple"},
            {"scheme": 7},
            {"geometry": "wide", "state": 3},
            {"geometry": "bm9uc2Vuc2U=", "state": "bm9uc2Vuc2U="},
            {"geometry": None, "state": [1, 2]},
            {"geometry": "é", "state": "bm9uc2Vuc2"},
        ],
        first=2,
    ),
    ids=str,
)
def test_nonsense_is_survived(open_window: Open, nonsense: dict[str, object]) -> None:
    write_private_json(app_settings.settings_file().path, nonsense)
    window = open_window()
    assert window.scheme is ColourScheme.SYSTEM
    assert (window.width(), window.height()) == usual()


def test_a_state_that_was_changed_since_is_not_given_to_qt(open_window: Open) -> None:
    first = open_window()
    first.resize(780, 640)
    first.close()
    changed = bytearray(b64decode(str(app_settings.load_value("state"))))
    for at, byte in ((235, 233), (168, 113), (208, 85)):  # with this value, Qt once hung
        changed[at % len(changed)] = byte
    app_settings.store_values({"state": b64encode(changed).decode()})
    window = open_window()
    assert (window.width(), window.height()) == usual()
    assert docks(window) == at_first(window)


@pytest.mark.parametrize("content", others_slow([b"\x00\xff\xfe\x01", b'{"scheme": ', b"[]", b""]))
def test_a_broken_file_is_survived(
    open_window: Open, application: QApplication, content: bytes
) -> None:
    path = app_settings.settings_file().path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    window = open_window()
    assert window.scheme is ColourScheme.SYSTEM
    window.set_colour_scheme("dark")
    assert app_settings.load_scheme() is ColourScheme.DARK


def test_the_tests_keep_out_of_a_persons_settings(
    application: QApplication, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert app_settings.settings_file().path.is_relative_to(tmp_path_factory.getbasetemp())


def test_panes_that_close_give_their_room_to_the_heatmaps(window: MainWindow) -> None:
    narrow = window.board.width()
    for pane in PANES:
        window.docks.by_id[pane.id].hide()
    QApplication.processEvents()
    assert window.board.width() > narrow + 250
    window.docks.actions["Explain"].trigger()
    QApplication.processEvents()
    assert window.board.width() == narrow


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions on Windows")
@pytest.mark.usefixtures("application")
def test_stored_files_are_private() -> None:
    app_settings.user_data_folder().mkdir(parents=True)
    settings = app_settings.settings_file().path
    settings.parent.mkdir(parents=True)
    for _ in range(2):  # new folders and folders that contain files
        app_settings.restrict_folder_access()
        app_settings.save_scheme(ColourScheme.DARK)
        assert "dark" in settings.read_text(encoding="utf-8")
        assert stat.S_IMODE(settings.stat().st_mode) == 0o600
        for folder in (settings.parent, app_settings.user_data_folder()):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions on Windows")
def test_a_program_that_starts_keeps_it_so(application: QApplication) -> None:
    windows = WindowManager(app.create_window_services())
    assert stat.S_IMODE(app_settings.user_data_folder().stat().st_mode) == 0o700
    add_recent_file(app_settings.user_data_folder(), Path("a"))
    recent = app_settings.user_data_folder() / "recent.json"
    assert stat.S_IMODE(recent.stat().st_mode) == 0o600
    assert windows.all == []


@pytest.mark.slow
def test_the_layout_is_set_back(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    window.resize(1280, 800)
    QApplication.processEvents()
    in_front = window.docks.visible_pane_ids
    places = {id_: window.docks.by_id[id_].geometry() for id_ in in_front}
    hidden = docks(window)
    window.docks.by_id["Tokens"].close()
    window.docks.open_pane("Shapes")
    window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, window.docks.docks["Heads"])
    for name in ("Lines", "Numbers"):
        window.docks.actions[name].trigger()
    QApplication.processEvents()
    assert docks(window) != hidden
    window.actions_.by_id["layout.reset"].trigger()

    def is_back(id_: str) -> bool:
        now, place = window.docks.by_id[id_].geometry(), places[id_]
        changes = (now.x() - place.x(), now.width() - place.width(), now.height() - place.height())
        return max(map(abs, changes)) <= 2

    # A floating pane may still be moving; afterwards, the other panes are laid out.
    qtbot.waitUntil(lambda: docks(window) == hidden and all(map(is_back, places)))
    tabbed = window.tabifiedDockWidgets(window.docks.docks["Explain"])
    assert window.docks.docks["Heads"] in tabbed


def test_panes_are_wider_in_a_wide_window_and_as_the_user_made_them(hand: Hand) -> None:
    window = hand.window
    explain = window.docks.docks["Explain"]
    window.resize(1280, 800)
    QApplication.processEvents()
    narrow = explain.width()
    window.resize(2560, 1440)
    QApplication.processEvents()
    assert explain.width() >= 1.3 * narrow
    window.resizeDocks([explain], [600], Qt.Orientation.Horizontal)
    QApplication.processEvents()
    window.resize(1280, 800)
    QApplication.processEvents()
    assert explain.width() > 1.5 * narrow


@pytest.mark.parametrize("stored", ["x" * 5_000, "a/" * 5_000, "a\0b", "", "missing", ["a", "b"]])
@pytest.mark.usefixtures("application")
def test_no_file_is_reopened_where_none_can_be(stored: str | list[str]) -> None:
    write_private_json(app_settings.settings_file().path, {app_settings.LAST_FILE: stored})
    assert app_settings.load_last_file() is None


@pytest.mark.slow
@pytest.mark.usefixtures("application")
def test_the_program_starts_with_any_damaged_settings() -> None:
    outcome = spoil_settings(DAMAGED_SETTINGS)
    assert outcome.opened > DAMAGED_SETTINGS // 4  # the damage is in another value
    assert outcome.refused > DAMAGED_SETTINGS // 4
