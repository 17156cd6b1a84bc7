"""File dialogs: answered once, and deleted only when nothing of theirs is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLineEdit, QMessageBox, QWidget
from shiboken6 import isValid

from visualizer.widgets.dialogs import ask_save_path

if TYPE_CHECKING:
    from pathlib import Path

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
    """Delete what is to be deleted, as the loop of a message box does."""
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QApplication.processEvents()


def test_an_answered_dialog_is_gone(window: QWidget, qtbot: QtBot, tmp_path: Path) -> None:
    chosen: list[str] = []
    dialog = saving(window, qtbot, tmp_path / "new.csv", chosen)
    QTest.keyClick(name_of(dialog), Qt.Key.Key_Return)
    assert chosen == [str(tmp_path / "new.csv")]
    qtbot.waitUntil(lambda: not isValid(dialog))


def test_a_cancelled_dialog_is_gone(window: QWidget, qtbot: QtBot, tmp_path: Path) -> None:
    chosen: list[str] = []
    dialog = saving(window, qtbot, tmp_path / "new.csv", chosen)
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    assert chosen == []
    qtbot.waitUntil(lambda: not isValid(dialog))


def test_a_second_return_while_it_asks_neither_deletes_it_nor_names_a_second_file(
    window: QWidget, qtbot: QtBot, tmp_path: Path
) -> None:
    file = tmp_path / "old.csv"
    file.write_text("kept", encoding="utf-8")
    chosen: list[str] = []
    dialog = saving(window, qtbot, file, chosen)
    line, asked = name_of(dialog), list[int]()

    def press_again() -> None:  # while the first question is open
        asked.append(len(boxes(dialog)))
        QTimer.singleShot(0, answer_second)
        QTest.keyClick(line, Qt.Key.Key_Return)
        assert not dialog.isVisible()
        assert chosen == []  # what is done with it might delete the dialog with the question in it
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
    assert asked == [1, 2]
    assert chosen == [str(file)]
    qtbot.waitUntil(lambda: not isValid(dialog))


def test_the_answer_may_close_the_window(qtbot: QtBot, tmp_path: Path) -> None:
    window = QWidget()
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    window.show()
    file = tmp_path / "old.csv"
    file.write_text("kept", encoding="utf-8")
    dialog = ask_save_path(window, "Save", file, "(*.csv)", lambda name: window.close())
    qtbot.waitExposed(dialog)
    line = name_of(dialog)

    def press_again() -> None:  # while the first question is open
        QTimer.singleShot(0, lambda: boxes(dialog)[-1].button(BUTTON.Yes).click())
        QTest.keyClick(line, Qt.Key.Key_Return)
        QTimer.singleShot(0, answer_first)

    def answer_first() -> None:
        delete_what_may_be()
        assert isValid(window)
        boxes(dialog)[0].button(BUTTON.Yes).click()

    QTimer.singleShot(0, press_again)
    QTest.keyClick(line, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not isValid(window))
