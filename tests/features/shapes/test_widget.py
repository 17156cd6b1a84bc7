"""The Shapes pane: the table of shapes, and the drawing of the split into heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.screens import resolved
from tests.support.small_runs import a_run
from tests.support.window_input import words
from visualizer.features.shapes.presenter import SHAPES_PANEL, ShapesPanel, present_shapes
from visualizer.features.shapes.widget import DURATION_MS, EMPTY_MESSAGE, ShapeRowButton, ShapesPane
from visualizer.session.cell_address import Cell
from visualizer.session.view import View
from visualizer.widgets.app_settings import set_motion_reduced
from visualizer.widgets.theme import DARK, LIGHT, Theme, head_colour

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from tests.support.playback_viewer import Viewer
    from tests.support.window_input import Hand

KEYS = Cell("keys", (0, 2, 0))


def shapes(stage: str = "", **fields: Any) -> ShapesPanel:
    """Return the shapes for the book's sentence, with a pinned cell in the given stage."""
    run = a_run(**{"d_out": 4, **fields})
    place = (0,) * len(run.trace.stage(stage).dims) if stage else ()
    return present_shapes(
        resolved(run, View(pinned=Cell(stage, place) if stage else None)), ShapesPanel()
    )


@pytest.fixture
def pane(qtbot: QtBot) -> ShapesPane:
    made = ShapesPane()
    qtbot.addWidget(made)
    made.resize(300, 700)
    made.show()
    qtbot.waitExposed(made)
    return made


@pytest.fixture
def opened(hand: Hand) -> ShapesPane:
    """Return the pane in the window, opened with its shortcut."""
    hand.settle()
    hand.trigger("pane.toggle Shapes")
    pane: ShapesPane = hand.window.panes["Shapes"]
    hand.until(lambda: bool(pane.rows))
    return pane


def show(pane: ShapesPane, shown: ShapesPanel, theme: Theme = LIGHT) -> None:
    """Show shapes and wait for the layout."""
    pane.show_shapes(shown, theme)
    QApplication.processEvents()


def arrive(pane: ShapesPane, qtbot: QtBot) -> None:
    """Wait until the animation has finished."""
    drawing = pane.drawing
    qtbot.waitUntil(lambda: drawing.progress == drawing.target_progress, timeout=20 * DURATION_MS)


def move(pane: ShapesPane, stage: str, dim: str) -> None:
    row = pane.row_of_stage(stage)
    place = next(place for found, place in row.axis_rectangles() if found.name == dim)
    QTest.mouseMove(row, QPoint(1, 1))
    QTest.mouseMove(row, place.center().toPoint())


# ------------------------------------------------------------------------------- the table


def test_it_says_what_would_be_there(pane: ShapesPane) -> None:
    assert words(pane.says) == EMPTY_MESSAGE
    assert not pane.split_button.isVisible()
    show(pane, shapes())
    assert pane.split_button.isVisible()
    show(pane, ShapesPanel())
    assert words(pane.says) == EMPTY_MESSAGE
    assert not any(row.isVisible() for row in pane.rows)


def test_there_is_a_row_for_every_stage(pane: ShapesPane) -> None:
    shown = shapes()
    show(pane, shown)
    assert [row.stage for row in pane.rows] == [row.stage for row in shown.rows]
    assert (
        pane.row_of_stage("queries")
        .accessibleName()
        .startswith("Queries: batch 1, heads 2, tokens 6")
    )
    assert words(pane.batch) == shapes().batch
    fewer = shapes(output_projection=False)
    show(pane, fewer, DARK)
    assert [row.stage for row in pane.rows if row.isVisible()] == [row.stage for row in fewer.rows]


def test_sizes_do_not_overlap_and_words_have_room(pane: ShapesPane) -> None:
    show(pane, shapes())
    for row in pane.rows:
        places = [place for _, place in row.axis_rectangles()]
        for number, place in enumerate(places):
            assert place.right() <= row.width()
            assert not any(place.intersects(other) for other in places[number + 1 :])
        assert row.height() >= row.heightForWidth(row.width())
    narrow, wide = (pane.row_of_stage("scaled").heightForWidth(width) for width in (200, 600))
    assert narrow > wide


def lit(row: ShapeRowButton) -> tuple[str, ...]:
    assert row.shape_row
    return tuple(dim.name for dim in row.shape_row.dims if dim.unit == row.lit)


def test_a_dim_under_the_pointer_lights_all_that_count_the_same(pane: ShapesPane) -> None:
    show(pane, shapes())
    move(pane, "input", "tokens")
    assert lit(pane.row_of_stage("input")) == ("tokens",)
    assert lit(pane.row_of_stage("scores")) == ("queries", "keys")
    assert lit(pane.row_of_stage("concat")) == ("queries",)
    move(pane, "input", "d_in")
    assert lit(pane.row_of_stage("scores")) == ()
    QTest.mouseMove(pane.row_of_stage("input"), QPoint(2, 2))
    assert not any(map(lit, pane.rows))


def test_the_row_of_the_stage_that_is_looked_at_is_marked(pane: ShapesPane) -> None:
    show(pane, shapes())

    def mark(stage: str) -> str:
        image = pane.row_of_stage(stage).grab().toImage()
        return image.pixelColor(1, image.height() // 2).name().upper()

    assert mark("keys") != LIGHT.accent
    show(pane, shapes("keys"))
    assert mark("keys") == LIGHT.accent
    assert pane.row_of_stage("keys").accessibleDescription() == "Current stage"


def test_the_row_that_is_looked_at_is_in_sight(pane: ShapesPane) -> None:
    pane.resize(300, 320)
    show(pane, shapes())
    assert pane.row_of_stage("output").visibleRegion().isEmpty()
    show(pane, shapes("output"))
    assert not pane.row_of_stage("output").visibleRegion().isEmpty()


@pytest.mark.parametrize("by_keys", [True, False])
def test_a_row_says_which_stage_is_wanted(pane: ShapesPane, qtbot: QtBot, by_keys: bool) -> None:
    show(pane, shapes())
    with qtbot.waitSignal(pane.stageChosen) as chosen:
        if by_keys:
            QTest.keyClick(pane.row_of_stage("values"), Qt.Key.Key_Space)
        else:
            QTest.mouseClick(pane.row_of_stage("values"), Qt.MouseButton.LeftButton)
    assert chosen.args == ["values"]


# ------------------------------------------------------------------------------ the drawing


def test_heads_slide_apart_to_the_end(pane: ShapesPane, qtbot: QtBot) -> None:
    drawing = pane.drawing
    show(pane, shapes("concat"))
    assert drawing.progress == 0
    pane.show_shapes(shapes("context"), LIGHT)
    assert (drawing.progress, drawing.target_progress) == (0, 1)
    arrive(pane, qtbot)
    assert drawing.progress == 1
    lefts = [place.left() for _, place in drawing.column_rectangles()]
    assert lefts[2] - lefts[1] > lefts[1] - lefts[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "starts_anew"),
    [
        (shapes("queries"), shapes("keys"), True),
        (shapes("queries"), shapes("queries", heads=4), True),
        (shapes("queries"), shapes("queries", bias=True), False),
        (shapes("queries"), shapes("weights"), False),
        (shapes("values"), shapes("context"), False),
    ],
)
def test_it_slides_where_the_heads_are_others(
    pane: ShapesPane, qtbot: QtBot, before: ShapesPanel, after: ShapesPanel, starts_anew: bool
) -> None:
    show(pane, before)
    assert pane.drawing.progress == 1
    pane.show_shapes(after, LIGHT)
    assert pane.drawing.progress == (0 if starts_anew else 1)
    arrive(pane, qtbot)
    assert pane.drawing.progress == 1


def test_without_motion_it_jumps(pane: ShapesPane) -> None:
    set_motion_reduced(True)
    show(pane, shapes("concat"))
    for stage, progress in (("values", 1), ("output", 0), ("queries", 1), ("keys", 1)):
        show(pane, shapes(stage))
        assert pane.drawing.progress == progress
    QTest.mouseClick(pane.split_button, Qt.MouseButton.LeftButton)
    assert pane.drawing.progress == 0


@pytest.mark.slow
def test_the_button_plays_it_there_and_back(pane: ShapesPane, qtbot: QtBot) -> None:
    show(pane, shapes())
    for goal in (0, 1):
        QTest.mouseClick(pane.split_button, Qt.MouseButton.LeftButton)
        assert pane.drawing.target_progress == goal
        arrive(pane, qtbot)
        assert pane.drawing.progress == goal
    QTest.mouseClick(pane.split_button, Qt.MouseButton.LeftButton)
    QTest.mouseClick(pane.split_button, Qt.MouseButton.LeftButton)
    assert pane.drawing.target_progress == 1
    show(pane, shapes(heads=1))
    assert not pane.split_button.isEnabled()


def test_columns_have_their_heads_colours(pane: ShapesPane) -> None:
    show(pane, shapes(d_out=6, heads=3))
    image = pane.drawing.grab().toImage()
    for head, place in pane.drawing.column_rectangles():
        at = place.topLeft().toPoint() + QPoint(3, 3)
        assert image.pixelColor(at).name().upper() == head_colour(head, LIGHT).upper()


@pytest.mark.parametrize("fields", [{"d_out": 768, "heads": 12}, {"d_out": 24, "heads": 24}])
def test_of_a_wide_matrix_the_drawing_stays_inside(
    pane: ShapesPane, fields: dict[str, Any]
) -> None:
    show(pane, shapes(**fields))
    for progress in (0.0, 0.5, 1.0):
        pane.drawing.animate_split(progress, immediately=True)
        places = [place for _, place in pane.drawing.column_rectangles()]
        assert places[0].left() >= 0
        assert places[-1].right() <= pane.drawing.width()
    assert "Drawn: " in words(pane.says)


# ------------------------------------------------------------------------------- the window


def test_it_is_opened_by_keys_and_made_only_then(hand: Hand) -> None:
    hand.settle()
    assert hand.window.workspace.screen.panel(SHAPES_PANEL) == ShapesPanel()
    hand.trigger("pane.toggle Shapes")
    hand.until(hand.window.panes["Shapes"].isVisible)
    assert hand.window.workspace.screen.panel(SHAPES_PANEL).rows


def test_the_row_follows_the_pinned_cell_and_the_playhead(
    viewer: Viewer, opened: ShapesPane
) -> None:
    hand = viewer.hand
    hand.click_cell(Cell("weights", (1, 3, 2)))
    assert opened.panel is not None
    assert opened.panel.current_stage == "weights"
    hand.window.controllers.playback_controller.seek_stage("keys")
    hand.settle()
    assert opened.panel.current_stage == "keys"


def test_a_clicked_row_shows_its_stage(hand: Hand, opened: ShapesPane) -> None:
    assert "concat" not in hand.stages
    hand.click(opened.row_of_stage("concat"))
    hand.settle()
    assert "concat" in hand.stages
    hand.click(opened.row_of_stage("concat"))
    hand.settle()
    assert "concat" in hand.stages


def test_the_drawing_turns_by_keys(hand: Hand, opened: ShapesPane) -> None:
    assert opened.drawing.target_progress == 1
    hand.trigger("shapes.toggle_split")
    assert opened.drawing.target_progress == 0


def test_sizes_follow_the_settings(hand: Hand, opened: ShapesPane) -> None:
    hand.type_number("d_out", "8")
    hand.settle()
    hand.type_number("heads", "4")
    hand.settle()
    name = opened.row_of_stage("queries").accessibleName()
    assert "(6, 3) · (3, 8) = (6, 8); (6, 8) → (6, 4, 2) → (4, 6, 2)" in name
