"""File dialogs deliver one result, and are deleted only when no message box of theirs is open."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QSettings, Qt, QTimer, QUrl
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QFileDialog, QLineEdit, QMessageBox, QWidget
from shiboken6 import isValid

from visualizer.storage.regular_file import read_file_version
from visualizer.widgets import app_settings
from visualizer.widgets.dialogs import ask_save_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

BUTTON = QMessageBox.StandardButton


@pytest.fixture(autouse=True)
def _own_dialogs(application: QApplication) -> None:
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs)


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    return window


def saving(window: QWidget, qtbot: QtBot, file: Path, chosen: list[str]) -> QFileDialog:
    dialog = ask_save_path(window, "Save", file, "(*.csv)", chosen.append)
    qtbot.waitExposed(dialog)
    return dialog


def name_of(dialog: QFileDialog) -> QLineEdit:
    line = dialog.findChild(QLineEdit)
    assert line
    return line


def boxes(dialog: QFileDialog) -> list[QMessageBox]:
    return dialog.findChildren(QMessageBox)


def delete_what_may_be() -> None:
    """Process deferred deletions, as the event loop of a message box does."""
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QApplication.processEvents()


def test_an_accepted_dialog_is_deleted(window: QWidget, qtbot: QtBot, tmp_path: Path) -> None:
    chosen: list[str] = []
    dialog = saving(window, qtbot, tmp_path / "new.csv", chosen)
    QTest.keyClick(name_of(dialog), Qt.Key.Key_Return)
    assert chosen == [str(tmp_path / "new.csv")]
    qtbot.waitUntil(lambda: not isValid(dialog))


def test_a_cancelled_dialog_is_deleted(window: QWidget, qtbot: QtBot, tmp_path: Path) -> None:
    chosen: list[str] = []
    dialog = saving(window, qtbot, tmp_path / "new.csv", chosen)
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    assert chosen == []
    qtbot.waitUntil(lambda: not isValid(dialog))


def test_the_appearance_of_the_dialog_is_restored(
    window: QWidget, qtbot: QtBot, tmp_path: Path
) -> None:
    app_settings.disable_qt_settings()
    first = saving(window, qtbot, tmp_path / "new.csv", [])
    assert first.viewMode() is QFileDialog.ViewMode.Detail
    first.setViewMode(QFileDialog.ViewMode.List)
    first.setSidebarUrls([QUrl.fromLocalFile("/usr")])
    QTest.keyClick(first, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not isValid(first))
    other = tmp_path / "other"
    other.mkdir()
    second = saving(window, qtbot, other / "new.csv", [])
    assert second.viewMode() is QFileDialog.ViewMode.List
    assert second.sidebarUrls() == [QUrl.fromLocalFile("/usr")]
    assert (second.directory().path(), name_of(second).text()) == (str(other), "new.csv")
    QTest.keyClick(second, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not isValid(second))
    app_settings.store_values({"file dialog": "bm9uc2Vuc2U="})
    third = saving(window, qtbot, tmp_path / "new.csv", [])
    assert third.viewMode() is QFileDialog.ViewMode.Detail
    QTest.keyClick(third, Qt.Key.Key_Escape)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="Qt stores nothing in files there")
def test_qt_reads_shared_settings_but_stores_nothing(
    window: QWidget, qtbot: QtBot, tmp_path: Path
) -> None:
    """Otherwise, Qt would write to the disk on the GUI thread when a dialog is deleted."""
    stored = Path(QSettings(QSettings.Scope.UserScope, "QtProject").fileName())
    stored.parent.mkdir(parents=True)
    stored.write_text("[FileDialog]\nshortcuts=file:///usr\nsidebarWidth=90\nviewMode=List\n")
    version = read_file_version(stored)
    app_settings.disable_qt_settings()
    dialog = saving(window, qtbot, tmp_path / "new.csv", [])
    assert dialog.sidebarUrls() == [QUrl.fromLocalFile("/usr")]
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not isValid(dialog))
    assert read_file_version(stored) == version
    assert [each.name for each in stored.parent.iterdir() if each.is_file()] == [stored.name]


def answer_twice(dialog: QFileDialog, then: Callable[[], object]) -> list[int]:
    """Press Return again while a question is open; answer the second question, then the first.

    Parameters
    ----------
    then : callable
        Called once the second question is answered.

    Returns
    -------
    list of int
        How many questions were open before each further step.
    """
    line, asked = name_of(dialog), list[int]()

    def press_again() -> None:
        asked.append(len(boxes(dialog)))
        QTimer.singleShot(0, answer_second)
        QTest.keyClick(line, Qt.Key.Key_Return)
        then()
        QTimer.singleShot(0, answer_first)

    def answer_second() -> None:
        asked.append(len(boxes(dialog)))
        boxes(dialog)[-1].button(BUTTON.Yes).click()

    def answer_first() -> None:
        delete_what_may_be()
        assert isValid(dialog)
        boxes(dialog)[0].button(BUTTON.Yes).click()

    QTimer.singleShot(0, press_again)
    QTest.keyClick(line, Qt.Key.Key_Return)
    return asked


def test_a_second_return_during_a_question_has_no_effect(
    window: QWidget, qtbot: QtBot, tmp_path: Path
) -> None:
    file = tmp_path / "old.csv"
    file.write_text("kept", encoding="utf-8")
    chosen: list[str] = []
    dialog = saving(window, qtbot, file, chosen)

    def look() -> None:
        assert not dialog.isVisible()
        assert chosen == []  # the callback might delete the dialog and its message box

    assert answer_twice(dialog, look) == [1, 2]
    assert chosen == [str(file)]
    qtbot.waitUntil(lambda: not isValid(dialog))


def test_the_callback_may_close_the_window(qtbot: QtBot, tmp_path: Path) -> None:
    window = QWidget()
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    window.show()
    file = tmp_path / "old.csv"
    file.write_text("kept", encoding="utf-8")
    dialog = ask_save_path(window, "Save", file, "(*.csv)", lambda name: window.close())
    qtbot.waitExposed(dialog)
    assert answer_twice(dialog, delete_what_may_be) == [1, 2]
    qtbot.waitUntil(lambda: not isValid(window))


def test_closing_the_window_cancels_the_question(qtbot: QtBot, tmp_path: Path) -> None:
    """For example, a window that waited until an export was finished."""
    window = QWidget()
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    window.show()
    over = QDialog(window)
    over.open()
    file = tmp_path / "old.csv"
    file.write_text("kept", encoding="utf-8")
    chosen: list[str] = []
    dialog = saving(over, qtbot, file, chosen)
    asked: list[int] = []

    def close() -> None:
        asked.append(len(boxes(dialog)))
        window.close()
        delete_what_may_be()
        asked.append(len(boxes(dialog)))

    QTimer.singleShot(0, close)
    QTest.keyClick(name_of(dialog), Qt.Key.Key_Return)
    assert asked == [1, 1]
    assert chosen == []
    qtbot.waitUntil(lambda: not isValid(window))
