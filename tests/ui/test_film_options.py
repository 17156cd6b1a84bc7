"""What is clicked is the film that is told, and how long and how large it will be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.state.making import a_run
from tests.ui.hand import PATIENCE_MS
from visualizer.state.document import Document
from visualizer.state.figure import FigureLook, Shot
from visualizer.state.film import HELD_MS, FilmLook, Panels, film_of
from visualizer.state.playback.timeline import Grain, Place, Playhead
from visualizer.state.view import View
from visualizer.state.words import size
from visualizer.ui.figures.film_options import FilmOptions, Part
from visualizer.ui.figures.films import estimate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtWidgets import QApplication, QComboBox
    from pytestqt.qtbot import QtBot

SMALL = FigureLook(film=FilmLook((Place("weights"), "weights"), width=640))
RUN = a_run()


def shot() -> Shot:
    return Shot(Document(), View(), RUN)


@pytest.fixture
def options(application: QApplication, qtbot: QtBot) -> Iterator[FilmOptions]:
    made = FilmOptions()
    qtbot.addWidget(made)
    made.show()
    yield made
    made.stop()


def choose(box: QComboBox, words: str) -> None:
    """Choose by the keys, as a person does who has come to a list by the tab key."""
    box.setFocus()
    QTest.keyClick(box, Qt.Key.Key_Home)
    while box.currentText() != words:
        before = box.currentIndex()
        QTest.keyClick(box, Qt.Key.Key_Down)
        assert box.currentIndex() > before, words


def measured(options: FilmOptions, qtbot: QtBot) -> str:
    qtbot.waitUntil(lambda: "about" in options.told.text(), timeout=PATIENCE_MS)
    return options.told.text()


def test_a_film_is_told_before_it_is_written(options: FilmOptions, qtbot: QtBot) -> None:
    options.show_shot(shot(), SMALL, ".gif")
    assert options.told.text() == "6 steps · 14 s"
    large = size(estimate(shot(), SMALL, ".gif"))
    assert measured(options, qtbot) == f"6 steps · 14 s · about {large}"
    options.show_shot(shot(), SMALL, ".apng")
    assert measured(options, qtbot).endswith(size(estimate(shot(), SMALL, ".apng")))


def test_what_is_chosen_is_the_film(options: FilmOptions, qtbot: QtBot) -> None:
    told: list[FilmLook] = []
    options.changed.connect(told.append)
    options.show_shot(shot(), SMALL, ".gif")
    assert options.film == SMALL.film
    assert told == []  # nobody has chosen anything
    choose(options.part, Part.STAGES)
    choose(options.last, "Context")
    choose(options.first, "Scores")
    choose(options.grain, "by cell")
    choose(options.speed, "8×")
    choose(options.panels, "all stages, small")
    choose(options.width_, "960 pixels wide")
    film = FilmLook((Place("scores"), "context"), Grain.CELL, 8, True, Panels.SPAN, 960)
    assert told[-1] == options.film == film
    steps = len(film_of(RUN.trace, film).steps)
    seconds = steps / 32 + HELD_MS / 1000
    assert measured(options, qtbot).startswith(f"{steps} steps · {seconds:,.0f} s · about ")


def test_a_film_may_end(options: FilmOptions) -> None:
    options.show_shot(shot(), SMALL, ".gif")
    options.loops.setFocus()
    QTest.keyClick(options.loops, Qt.Key.Key_Space)
    assert not options.film.loops


def test_the_last_stage_is_never_before_the_first(options: FilmOptions) -> None:
    options.show_shot(shot(), SMALL, ".gif")
    choose(options.first, "Context")
    assert options.film.span == (Place("context"), "context")
    QTest.keyClicks(options.last, "Scores")  # by its letters, as on the way there are others
    assert options.film.span == (Place("scores"), "scores")


@pytest.mark.parametrize(
    ("playhead", "parts"),
    [
        (Playhead(), [Part.WHOLE, Part.STAGES]),
        (Playhead(Place("weights", 2)), [Part.WHOLE, Part.HERE, Part.STAGES]),
        (
            Playhead(Place("weights", 2), span=(Place("masked"), "weights")),
            [Part.WHOLE, Part.HERE, Part.LESSON, Part.STAGES],
        ),
    ],
)
def test_parts_are_those_that_there_are(
    options: FilmOptions, playhead: Playhead, parts: list[Part]
) -> None:
    made = Shot(Document(), View(playhead=playhead), RUN)
    options.show_shot(made, SMALL, ".gif")
    assert [options.part.itemText(at) for at in range(options.part.count())] == parts
    spans: dict[Part, tuple[Place, str] | None] = {
        Part.WHOLE: None,
        Part.HERE: (Place("weights", 2), "output"),
        Part.LESSON: (Place("masked"), "weights"),
    }
    for part in parts:
        choose(options.part, part)
        spans[Part.STAGES] = (Place(options.first.currentData()), options.last.currentData())
        assert options.film.span == spans[part]
        assert options.first.isEnabled() == options.last.isEnabled() == (part is Part.STAGES)
        options.show_shot(made, replace(SMALL, film=options.film), ".gif")
        assert options.film.span == spans[part]  # as it was, with whichever words


def test_too_long_a_film_is_said(options: FilmOptions) -> None:
    made = Shot(Document(), View(), a_run(" ".join(50 * ["word"])))
    options.show_shot(made, SMALL, ".gif")
    choose(options.grain, "by cell")
    choose(options.part, Part.WHOLE)
    assert options.told.text().startswith("A film of ")
    assert options.told.property("role") == "warning"
    choose(options.grain, "by stage")
    assert options.told.text().startswith("11 steps")
    assert options.told.property("role") == "quiet"
