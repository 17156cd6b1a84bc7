"""Animation options: the chosen settings, and the animation's duration and file size."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.small_runs import a_run
from tests.support.window_input import PATIENCE_MS
from visualizer.errors import InputError
from visualizer.export.dialog import film_options_widget
from visualizer.export.dialog.film_options_widget import AnimationOptionsWidget, AnimationRange
from visualizer.export.figure_settings import AnimationSettings, FigureSettings
from visualizer.export.film_plan import LAST_FRAME_EXTRA_MS, plan_animation
from visualizer.export.films.film_writer import AnimationEstimate, estimate_animation
from visualizer.format import format_size
from visualizer.session.document import Document
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.timeline import STEP_MS, PlaybackPosition, PlaybackState, StepSize
from visualizer.session.view import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtWidgets import QComboBox
    from pytestqt.qtbot import QtBot

SMALL = FigureSettings(
    film=AnimationSettings((PlaybackPosition("weights"), "weights"), StepSize.ROW, width=640)
)
RUN = a_run()
SOON = " · takes less than a minute"


def shot() -> ExportSnapshot:
    return ExportSnapshot(Document(), View(), RUN)


@pytest.fixture
def options(application: QApplication, qtbot: QtBot) -> Iterator[AnimationOptionsWidget]:
    made = AnimationOptionsWidget()
    qtbot.addWidget(made)
    made.show()
    yield made
    made.stop_estimates()


def choose(box: QComboBox, words: str) -> None:
    """Choose an entry by keyboard, as a user does after moving to a list with Tab."""
    box.setFocus()
    QTest.keyClick(box, Qt.Key.Key_Home)
    while box.currentText() != words:
        before = box.currentIndex()
        QTest.keyClick(box, Qt.Key.Key_Down)
        assert box.currentIndex() > before, words


def measured(options: AnimationOptionsWidget, qtbot: QtBot) -> str:
    qtbot.waitUntil(lambda: "about" in options.description.text(), timeout=PATIENCE_MS)
    return options.description.text()


@pytest.mark.slow
def test_an_animation_is_described_before_it_is_written(
    options: AnimationOptionsWidget, qtbot: QtBot
) -> None:
    fast = replace(SMALL, film=replace(SMALL.film, speed=4))
    options.show_snapshot(shot(), fast, ".gif")
    assert options.description.text() == "6 steps · 5 s"
    large = format_size(estimate_animation(shot(), fast, ".gif").bytes)
    assert measured(options, qtbot) == f"6 steps · 5 s · about {large}{SOON}"
    options.show_snapshot(shot(), fast, ".apng")
    small = format_size(estimate_animation(shot(), fast, ".apng").bytes)
    assert measured(options, qtbot).endswith(f"{small}{SOON}")


@pytest.mark.slow
def test_the_chosen_settings_apply_to_the_animation(
    options: AnimationOptionsWidget, qtbot: QtBot
) -> None:
    told: list[AnimationSettings] = []
    options.changed.connect(told.append)
    options.show_snapshot(shot(), SMALL, ".gif")
    assert options.chosen_settings == SMALL.film
    assert told == []  # the user has not chosen anything
    choose(options.part, AnimationRange.STAGES)
    choose(options.last, "Context")
    choose(options.first, "Scores")
    choose(options.grain, "By cell")
    choose(options.speed, "8×")
    choose(options.width_, "960 pixels wide")
    QTest.mouseClick(options.motion, Qt.MouseButton.LeftButton)
    film = AnimationSettings(
        (PlaybackPosition("scores"), "context"), StepSize.CELL, 8, True, 960, has_motion=False
    )
    assert told[-1] == options.chosen_settings == film
    steps = len(plan_animation(RUN.trace, film).steps)
    seconds = steps * STEP_MS[StepSize.CELL] / 8000 + LAST_FRAME_EXTRA_MS / 1000
    assert measured(options, qtbot).startswith(f"{steps} steps · {seconds:,.0f} s · about ")


def test_an_animation_may_end(options: AnimationOptionsWidget) -> None:
    options.show_snapshot(shot(), SMALL, ".gif")
    options.loops.setFocus()
    QTest.keyClick(options.loops, Qt.Key.Key_Space)
    assert not options.chosen_settings.loops


def test_the_last_stage_is_never_before_the_first(options: AnimationOptionsWidget) -> None:
    options.show_snapshot(shot(), SMALL, ".gif")
    choose(options.first, "Context")
    assert options.chosen_settings.span == (PlaybackPosition("context"), "context")
    QTest.keyClicks(options.last, "Scores")  # arrow keys would select others
    assert options.chosen_settings.span == (PlaybackPosition("scores"), "scores")


@pytest.mark.parametrize(
    ("playhead", "parts"),
    [
        (PlaybackState(), [AnimationRange.WHOLE, AnimationRange.STAGES]),
        (
            PlaybackState(PlaybackPosition("weights", 2)),
            [AnimationRange.WHOLE, AnimationRange.HERE, AnimationRange.STAGES],
        ),
        (
            PlaybackState(
                PlaybackPosition("weights", 2), span=(PlaybackPosition("masked"), "weights")
            ),
            [
                AnimationRange.WHOLE,
                AnimationRange.HERE,
                AnimationRange.LESSON,
                AnimationRange.STAGES,
            ],
        ),
    ],
)
def test_parts_are_those_that_there_are(
    options: AnimationOptionsWidget, playhead: PlaybackState, parts: list[AnimationRange]
) -> None:
    made = ExportSnapshot(Document(), View(playhead=playhead), RUN)
    options.show_snapshot(made, SMALL, ".gif")
    assert [options.part.itemText(at) for at in range(options.part.count())] == parts
    spans: dict[AnimationRange, tuple[PlaybackPosition, str] | None] = {
        AnimationRange.WHOLE: None,
        AnimationRange.HERE: (PlaybackPosition("weights", 2), "output"),
        AnimationRange.LESSON: (PlaybackPosition("masked"), "weights"),
    }
    for part in parts:
        choose(options.part, part)
        spans[AnimationRange.STAGES] = (
            PlaybackPosition(options.first.currentData()),
            options.last.currentData(),
        )
        assert options.chosen_settings.span == spans[part]
        assert (
            options.first.isEnabled() == options.last.isEnabled() == (part is AnimationRange.STAGES)
        )
        options.show_snapshot(made, replace(SMALL, film=options.chosen_settings), ".gif")
        assert options.chosen_settings.span == spans[part]  # unchanged, whatever the text


def test_too_long_an_animation_is_reported(options: AnimationOptionsWidget) -> None:
    made = ExportSnapshot(Document(), View(), a_run(" ".join(50 * ["word"])))
    options.show_snapshot(made, SMALL, ".gif")
    choose(options.grain, "By cell")
    choose(options.part, AnimationRange.WHOLE)
    assert options.description.text().startswith("The animation has ")
    assert options.description.property("role") == "warning"
    choose(options.grain, "By stage")
    assert options.description.text().startswith("11 steps")
    assert options.description.property("role") == "quiet"


def test_an_error_for_earlier_settings_is_not_shown(
    options: AnimationOptionsWidget, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = {suffix: threading.Event() for suffix in (".gif", ".apng")}
    released = {suffix: threading.Event() for suffix in started}

    def estimate(*given: Any) -> AnimationEstimate:
        suffix = given[2]
        started[suffix].set()
        assert released[suffix].wait(PATIENCE_MS / 1000)
        if suffix == ".gif":
            raise InputError("format", "the earlier settings are invalid")
        return estimate_animation(*given)

    monkeypatch.setattr(film_options_widget, "estimate_animation", estimate)
    options.show_snapshot(shot(), SMALL, ".gif")
    assert started[".gif"].wait(PATIENCE_MS / 1000)
    options.show_snapshot(shot(), SMALL, ".apng")
    before = options.description.text()
    released[".gif"].set()
    assert started[".apng"].wait(PATIENCE_MS / 1000)
    QApplication.processEvents()  # delivers the error
    assert options.description.text() == before
    released[".apng"].set()
    assert measured(options, qtbot).startswith(before)
