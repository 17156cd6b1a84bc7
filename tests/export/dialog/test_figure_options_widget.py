"""The figure options accept only numbers that can also be stored for the next start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from PySide6.QtTest import QTest

from visualizer.export.dialog.figure_options_widget import FigureOptionsWidget
from visualizer.export.export_settings import (
    ExportSettings,
    LengthUnit,
    settings_from_json,
    settings_to_json,
)
from visualizer.export.figure_settings import MAX_SIDE_MM, MIN_SIDE_MM, FigureSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from visualizer.export.dialog.figure_options_widget import NumberField

    Options = Callable[..., tuple[FigureOptionsWidget, list[ExportSettings]]]


@pytest.fixture
def options(qtbot: QtBot) -> Options:
    """Show options that are updated with each change, and list the emitted settings."""

    def make(settings: ExportSettings) -> tuple[FigureOptionsWidget, list[ExportSettings]]:
        widget, had = FigureOptionsWidget(), [settings]
        qtbot.addWidget(widget)

        def show(look: FigureSettings) -> None:
            had.append(replace(had[-1], look=look))
            widget.show_settings(had[-1])

        widget.chosen.connect(show)
        widget.show_settings(settings)
        with qtbot.waitActive(widget):  # the user types only in a field that has the focus
            widget.show()
            widget.activateWindow()
        return widget, had

    return make


def type_into(field: NumberField, text: str) -> None:
    field.box.setFocus()
    field.box.selectAll()
    QTest.keyClicks(field.box, text)


@pytest.mark.parametrize("unit", LengthUnit)
@pytest.mark.parametrize("dpi", [36, 96, 2400])
def test_the_ends_that_are_offered_are_taken_and_kept(
    unit: LengthUnit, dpi: int, options: Options
) -> None:
    widget, had = options(ExportSettings(look=FigureSettings(dpi=dpi), unit=unit))
    for mm in (MIN_SIDE_MM, MAX_SIDE_MM):
        for field in (widget.width_, widget.height_):
            type_into(field, unit.format_mm(mm, dpi))
            assert not field.is_invalid
        look = had[-1].look
        assert look.width_mm == look.height_mm
        assert unit.format_mm(look.width_mm, dpi) == unit.format_mm(mm, dpi)
        assert settings_from_json(settings_to_json(had[-1])) == had[-1]


@pytest.mark.parametrize(
    ("name", "typed"), [("dpi", "2401"), ("width_", "5000.1"), ("points", "144.1")]
)
def test_a_number_just_past_an_end_is_not_taken(name: str, typed: str, options: Options) -> None:
    widget, had = options(ExportSettings())
    field: NumberField = getattr(widget, name)
    type_into(field, typed)
    assert field.problem.text().startswith("Must be ")
    assert settings_from_json(settings_to_json(had[-1])) == had[-1]
