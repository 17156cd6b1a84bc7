"""Numbers are shown and entered with a decimal point, whatever the language of the system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDoubleSpinBox, QSpinBox

from visualizer import app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytestqt.qtbot import QtBot


@pytest.fixture(autouse=True)
def german() -> Iterator[None]:
    before = QLocale()
    QLocale.setDefault(QLocale(QLocale.Language.German, QLocale.Country.Germany))
    yield
    QLocale.setDefault(before)


@pytest.fixture
def application(qapp: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure the existing QApplication as the program does; only one QApplication can exist."""
    with monkeypatch.context() as patch:
        patch.setattr("visualizer.shell.application.Application", lambda _: qapp)
        app.make_application()


def test_a_rate_is_typed_with_a_point(application: None, qtbot: QtBot) -> None:
    box = QDoubleSpinBox()
    qtbot.addWidget(box)
    box.selectAll()
    QTest.keyClicks(box, "0.25")
    assert (box.value(), box.text()) == (0.25, "0.25")


def test_a_large_number_has_no_separators(application: None, qtbot: QtBot) -> None:
    box = QSpinBox()
    qtbot.addWidget(box)
    box.setRange(0, 10_000_000)
    box.setValue(1_234_567)
    assert box.text() == "1234567"
    assert QLocale().toString(1_234_567) == "1234567"


def test_the_german_way_would_not_do(qtbot: QtBot) -> None:
    box = QDoubleSpinBox()
    qtbot.addWidget(box)
    box.selectAll()
    QTest.keyClicks(box, "0.25")
    assert box.value() != 0.25
