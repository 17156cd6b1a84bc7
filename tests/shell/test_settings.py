"""Changes in the Settings window take effect immediately and are stored, like those in menus."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QFile, QRectF, Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QFontDatabase, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QWidget

from tests.support.accessible_text import heard
from tests.support.examples import others_slow
from tests.support.window_input import Hand
from visualizer import app
from visualizer.attention.spec import Device
from visualizer.session.document import Document, default_document
from visualizer.session.pane_spec import PaneArea
from visualizer.session.view import View
from visualizer.session.view_options import ColourMapKind, colour_maps_of_kind
from visualizer.shell.pane_docks import DEFAULT_WIDTHS_PX
from visualizer.shell.settings_controller import list_data_folders
from visualizer.shell.settings_dialog import SettingComboBox
from visualizer.shell.window_manager import WindowManager, create_initial_document
from visualizer.widgets import app_settings, fonts
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.incremental_gui_task import IncrementalTask
from visualizer.widgets.theme import DARK, LIGHT, ColourScheme, Theme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from tests.support.window_fixtures import Open
    from visualizer.shell.settings_dialog import SettingsDialog

ALT = Qt.KeyboardModifier.AltModifier


@pytest.fixture
def usual_text() -> Iterator[None]:
    """Restore the application's font."""
    before = QGuiApplication.font()
    yield
    QApplication.setFont(before)


def settings(hand: Hand) -> SettingsDialog:
    hand.settle()
    hand.press(Qt.Key.Key_Comma)
    dialog = hand.window.controllers.settings_controller.dialog
    assert dialog is not None
    hand.until(dialog.isActiveWindow)
    return dialog


def choose(box: QComboBox, words: str) -> None:
    """Choose from a list by keyboard."""
    target = box.findText(words)
    assert target >= 0
    while box.currentIndex() != target:
        is_above = target < box.currentIndex()
        QTest.keyClick(box, Qt.Key.Key_Up if is_above else Qt.Key.Key_Down)


def test_it_opens_once_and_every_control_has_a_name(hand: Hand) -> None:
    dialog = settings(hand)
    hand.window.actions_.by_id["settings.open"].trigger()
    assert hand.window.controllers.settings_controller.dialog is dialog
    kinds = (SettingComboBox, QAbstractButton)
    stops = [one for one in dialog.findChildren(QWidget) if isinstance(one, kinds)]
    assert len(stops) > 10
    assert [one for one in stops if not heard(one).name and not heard(one).description] == []
    assert all(one.toolTip() for one in stops if one.parent() is dialog)
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    assert hand.window.controllers.settings_controller.dialog is None


def test_a_size_that_comes_with_a_theme_is_filled(hand: Hand) -> None:
    def places() -> list[QRectF]:
        return [slot.whole_area for slot in hand.window.board.board_layout.slots]

    hand.window.resize(1600, 1000)
    hand.settle()
    QApplication.processEvents()
    wanted = places()
    hand.window.resize(1280, 800)
    hand.until(lambda: places() != wanted)
    hand.window.set_colour_scheme("dark")
    hand.window.resize(1600, 1000)
    QApplication.processEvents()
    hand.settle()
    assert places() == wanted


def test_the_theme_is_that_of_the_menu(hand: Hand) -> None:
    dialog = settings(hand)
    choose(dialog.scheme, "Dark")
    assert hand.window.theme is DARK
    assert app_settings.load_scheme() is ColourScheme.DARK
    assert hand.window.actions_.by_id["theme.set_scheme dark"].isChecked()
    hand.window.actions_.by_id["theme.set_scheme light"].trigger()
    assert hand.window.theme is LIGHT
    assert dialog.scheme.currentText() == "Light"


@pytest.mark.slow
@pytest.mark.usefixtures("usual_text", "open_window")
def test_the_text_grows_immediately_and_at_the_next_start(hand: Hand) -> None:
    hand.window.resize(1280, 800)
    dialog = settings(hand)
    before = hand.window.settings_bar.sentence.fontMetrics().height()
    choose(dialog.text_size, "150%")
    assert text_scale() == pytest.approx(1.5, abs=0.05)
    assert hand.window.settings_bar.sentence.fontMetrics().height() > 1.3 * before
    QApplication.processEvents()
    explain = hand.window.docks.by_id["Explain"]
    assert explain.width() >= 1.4 * DEFAULT_WIDTHS_PX[PaneArea.RIGHT]
    switch = dialog.autosave
    assert switch.width() >= switch.sizeHint().width()  # the dialog has also grown
    QApplication.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont))
    app.apply_stored_text_size()
    assert text_scale() == pytest.approx(1.5, abs=0.05)
    choose(dialog.text_size, "100%")
    assert text_scale() == pytest.approx(1.0, abs=0.05)


@pytest.mark.usefixtures("usual_text")
def test_the_text_is_as_large_as_the_screen_asks_for_unless_chosen(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialog = settings(hand)
    assert dialog.text_size.currentText() == "Automatic"
    choose(dialog.text_size, "100%")
    monkeypatch.setattr(fonts, "text_scale_for_screen", lambda screen: 4 / 3)
    choose(dialog.text_size, "Automatic")
    assert text_scale() == pytest.approx(4 / 3, abs=0.05)
    QApplication.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont))
    app.apply_stored_text_size()
    assert text_scale() == pytest.approx(4 / 3, abs=0.05)


def test_motion_is_that_of_the_menu(hand: Hand) -> None:
    dialog = settings(hand)
    dialog.motion.setFocus()
    QTest.keyClick(dialog.motion, Qt.Key.Key_Space)
    assert app_settings.is_motion_reduced()
    assert not hand.window.isAnimated()
    assert hand.window.actions_.by_id["reduced_motion.toggle"].isChecked()
    hand.window.actions_.by_id["reduced_motion.toggle"].trigger()
    assert not dialog.motion.isChecked()


def test_the_start_page_is_that_of_the_page(hand: Hand) -> None:
    dialog = settings(hand)
    assert dialog.start_page.isChecked()
    dialog.start_page.setFocus()
    QTest.keyClick(dialog.start_page, Qt.Key.Key_Space)
    assert not app_settings.shows_start_page()


def test_colours_act_immediately_and_in_new_windows(hand: Hand, open_window: Open) -> None:
    dialog = settings(hand)
    choose(dialog.map, "magma")
    choose(dialog.signed_map, "Dark at 0")
    hand.until(lambda: hand.panel("weights").colour.map == "magma")
    assert hand.panel("scores").colour.map == colour_maps_of_kind(ColourMapKind.DIVERGING)[2].id
    assert hand.window.actions_.by_id["view.set_map magma"].isChecked()
    hand.window.actions_.by_id["view.set_map cividis"].trigger()
    assert dialog.map.currentText() == "cividis"
    assert open_window().workspace.view.colouring.sequential == "cividis"
    app_settings.save_colour_map("puce", ColourMapKind.SEQUENTIAL)
    assert app_settings.load_colour_maps().sequential == View().colouring.sequential


def test_the_device_is_that_of_the_document_and_of_new_ones(hand: Hand) -> None:
    dialog = settings(hand)
    choose(dialog.device, "CPU")
    assert hand.window.workspace.document.spec.device is Device.CPU
    assert create_initial_document() == default_document().with_setting("device", Device.CPU)
    hand.choose("device QComboBox", "Best available")
    assert dialog.device.currentText() == "Best available"
    assert create_initial_document() == default_document()
    hand.settle()


@pytest.mark.slow
@pytest.mark.usefixtures("open_window")  # the shared window has another folder for recovery
def test_unsaved_changes_are_kept_only_where_they_are_wanted(hand: Hand) -> None:
    folder = app_settings.user_data_folder() / app_settings.RECOVERY

    def kept() -> bool:
        with suppress(FileNotFoundError):  # each folder may have been deleted in the meantime
            return any(each.stat().st_size for each in folder.iterdir())
        return False

    dialog = settings(hand)
    hand.window.actions_.by_id["module.toggle_causal_mask"].trigger()
    hand.settle()
    hand.until(kept)
    dialog.autosave.setFocus()
    QTest.keyClick(dialog.autosave, Qt.Key.Key_Space)
    assert not app_settings.is_autosave_enabled()
    hand.until(lambda: not kept())
    QTest.keyClick(dialog.autosave, Qt.Key.Key_Space)
    hand.until(kept)


def test_folders_are_named_and_opened(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[QUrl] = []

    def show(address: QUrl) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr(QDesktopServices, "openUrl", show)
    dialog = settings(hand)
    for button in dialog.folder_buttons:
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    folders = [folder.path for folder in list_data_folders()]
    assert [url.toLocalFile() for url in opened] == [str(path) for path in folders]
    assert all(path.is_dir() for path in folders)
    assert {path.name for path in folders} >= {"recovery", "lessons", "runs"}


def test_a_folder_that_cannot_be_made_is_reported(hand: Hand, tmp_path: Path) -> None:
    runs = app_settings.user_data_folder() / app_settings.RUNS
    runs.parent.mkdir(parents=True)
    assert QFile(str(runs)).open(QFile.OpenModeFlag.WriteOnly)
    dialog = settings(hand)
    QTest.mouseClick(dialog.folder_buttons[-1], Qt.MouseButton.LeftButton)
    (box,) = hand.boxes()
    assert "Cannot create the folder" in box.text()
    assert str(runs) in box.text()
    box.close()


def choose_in_settings(hand: Hand) -> None:
    choose(settings(hand).scheme, "Dark")


def choose_in_menu(hand: Hand) -> None:
    hand.window.actions_.by_id["theme.set_scheme dark"].trigger()


@pytest.mark.slow
@pytest.mark.parametrize("choose_dark", others_slow([choose_in_settings, choose_in_menu]))
def test_other_windows_follow_one_after_the_other(
    windows: WindowManager,
    qtbot: QtBot,
    choose_dark: Callable[[Hand], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, *others = (windows.open_window(Document()) for _ in range(3))
    for window in others:
        Hand(qtbot, window).settle()
    hand = Hand(qtbot, first)
    hand.settle()
    themes: list[list[Theme]] = []
    """The themes of all other windows before each window is styled."""
    turns: list[None] = []
    styled_in: list[int] = []
    """The iteration of the event loop in which each window was styled."""
    clock = QTimer(first, interval=0)
    clock.timeout.connect(lambda: turns.append(None))
    clock.start()

    def styled(set_scheme: Callable[[str], None], scheme: str) -> None:
        themes.append([other.theme for other in others])
        styled_in.append(len(turns))
        set_scheme(scheme)

    for window in others:
        monkeypatch.setattr(window, "set_colour_scheme", partial(styled, window.set_colour_scheme))
    choose_dark(hand)
    assert first.theme == DARK
    assert [window.theme for window in others] == [LIGHT, LIGHT]  # the first window is not delayed
    hand.until(lambda: others[1].theme == DARK)
    assert themes == [[LIGHT, LIGHT], [DARK, LIGHT]]
    assert len(set(styled_in)) == 2  # other events are processed in between


@pytest.mark.slow
@pytest.mark.parametrize("is_styled", [False, True])
def test_a_window_may_be_closed_while_others_are_styled(
    windows: WindowManager, qtbot: QtBot, *, is_styled: bool
) -> None:
    first, second = windows.open_window(Document()), windows.open_window(Document())
    Hand(qtbot, second).settle()
    hand = Hand(qtbot, first)
    hand.settle()
    if is_styled:
        second.set_colour_scheme = lambda scheme: second.close()  # type: ignore[assignment, method-assign]
    choose_in_menu(hand)
    if not is_styled:
        second.close()  # the window is deleted, so using it raises an error
    (styling,) = windows.findChildren(IncrementalTask)
    with qtbot.waitSignal(styling.ended):
        pass
    assert windows.all == [first]


@pytest.mark.slow
def test_the_labs_theme_is_that_of_all_windows(windows: WindowManager, qtbot: QtBot) -> None:
    window = windows.open_window(Document())
    hand = Hand(qtbot, window)
    hand.settle()
    windows.open_lab()
    hand.until(lambda: bool(windows.lab and windows.lab.isVisible()))
    assert windows.lab
    windows.lab.activateWindow()
    hand.until(windows.lab.isActiveWindow)
    windows.lab.menus.by_id["theme.set_scheme dark"].trigger()
    assert windows.lab.theme == DARK
    hand.until(lambda: window.theme == DARK)
