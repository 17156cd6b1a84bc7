"""Labels that wrap HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from visualizer.widgets.labels import AutoFitLabel, RichLabel, WrappingLabel

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot


@pytest.mark.parametrize("kind", [RichLabel, WrappingLabel])
def test_a_number_and_its_percent_sign_stay_on_one_line(
    qtbot: QtBot, kind: type[RichLabel]
) -> None:
    label = kind()
    qtbot.addWidget(label)
    label.setText("<b>with</b> attends to <b>journey</b> with weight 25 %.")
    assert "25\N{NO-BREAK SPACE}%" in label.text()


def test_the_sentence_of_a_step_keeps_its_percent_signs(qtbot: QtBot) -> None:
    label = AutoFitLabel("sentence")
    qtbot.addWidget(label)
    label.show_html("the largest, 25 %, goes to <b>journey</b>")
    assert "25\N{NO-BREAK SPACE}%" in label.text()
