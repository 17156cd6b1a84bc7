"""The Lines pane: the cursor shared with the heatmaps, the options, and text directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.colour_vision import contrast
from tests.support.examples import others_slow
from tests.support.window_input import LEFT, leave, words
from visualizer.features.line_view.paint import (
    MAX_LINE_WIDTH_PX,
    MIN_LINE_WIDTH_PX,
    MIN_ROW_PX,
    LinePenFactory,
    label_box,
    lay_out_lines,
)
from visualizer.features.line_view.presenter import LINES_PANEL
from visualizer.session.cell_address import Cell
from visualizer.session.view_options import FOLLOW_PINNED, LineViewSide, LineViewToken
from visualizer.widgets.fonts import font_metrics
from visualizer.widgets.theme import DARK, LIGHT, head_colour

if TYPE_CHECKING:
    from tests.support.window_input import Hand
    from visualizer.features.line_view.line_selection import SelectedLines
    from visualizer.features.line_view.presenter import LinePanel
    from visualizer.features.line_view.widget import AttentionLinesView

JOURNEY = Cell("weights", (0, 1, 0))
LONG = " ".join(f"w{number}" for number in range(90))
HEBREW = "אב ב"


def place_of_token(view: AttentionLinesView, token: LineViewToken) -> QPointF:
    box = label_box(view.rows, token.side, token.at)
    return box.center() - QPointF(0, view.verticalScrollBar().value())


class Lines:
    """Input to the Lines pane, and what it shows."""

    def __init__(self, hand: Hand) -> None:
        self.hand, self.window = hand, hand.window
        self.pane = hand.window.panes["Lines"]
        self.view: AttentionLinesView = self.pane.view
        hand.trigger("pane.toggle Lines")
        hand.until(lambda: bool(self.panel.labels))
        self.settle()

    @property
    def panel(self) -> LinePanel:
        """The panel that is painted."""
        return self.view.panel

    @property
    def pinned(self) -> Cell | None:
        return self.window.workspace.view.pinned

    def settle(self) -> None:
        """Wait until the layout of the window is also complete."""
        for _ in range(3):
            self.hand.settle()
            QApplication.processEvents()

    def move(self, to: QPointF) -> None:
        viewport = self.view.viewport()
        none, where = Qt.MouseButton.NoButton, QPointF(viewport.mapToGlobal(to))
        plain = Qt.KeyboardModifier.NoModifier
        event = QMouseEvent(QEvent.Type.MouseMove, to, where, none, none, plain)
        QApplication.sendEvent(viewport, event)

    def hover(self, what: Cell | LineViewToken) -> QPoint:
        view = self.view
        to = (
            place_of_token(view, what)
            if isinstance(what, LineViewToken)
            else view.line_position(what)
        )
        self.move(to)
        return to.toPoint()

    def click(self, what: Cell | LineViewToken) -> None:
        QTest.mouseClick(self.view.viewport(), LEFT, pos=self.hover(what))
        self.settle()

    def picture(self) -> QImage:
        return self.view.viewport().grab().toImage()

    def label(self, side: LineViewSide, at: int) -> QImage:
        """Return an image of a label with a small margin."""
        box = label_box(self.view.rows, side, at)
        box.translate(0, -self.view.verticalScrollBar().value())
        return self.view.viewport().grab(box.adjusted(-2, 0, 2, 0).toAlignedRect()).toImage()


@pytest.fixture
def lines(hand: Hand) -> Lines:
    hand.settle()
    hand.board.setFocus()
    return Lines(hand)


def ink(image: QImage, paper: str = LIGHT.paper) -> tuple[int, int]:
    """Return the first and the last column that contain painted pixels."""
    background = QColor(paper).rgb()
    columns = [
        x
        for x in range(image.width())
        if any(image.pixel(x, y) != background for y in range(image.height()))
    ]
    return columns[0], columns[-1]


def colours(image: QImage) -> set[str]:
    area = ((x, y) for x in range(image.width()) for y in range(image.height()))
    return {image.pixelColor(x, y).name().upper() for x, y in area}


# ------------------------------------------------------------------------------ one cursor


def test_a_key_opens_and_closes_it(lines: Lines) -> None:
    assert lines.pane.isVisibleTo(lines.window)
    assert lines.panel.labels == ("Your", "journey", "starts", "with", "one", "step")
    lines.hand.trigger("pane.toggle Lines")
    lines.settle()
    assert not lines.pane.isVisibleTo(lines.window)
    assert lines.window.workspace.screen.panel(LINES_PANEL) is None


def test_the_line_under_the_pointer_is_the_cell_that_is_told(lines: Lines) -> None:
    for cell in (JOURNEY, Cell("weights", (1, 5, 5)), Cell("weights", (1, 4, 1))):
        lines.hover(cell)
        assert lines.window.workspace.view.hovered == cell
        assert lines.panel.cell == cell
    assert lines.hand.said == "one (query 5) attends to journey (key 2) with weight 20%."
    lines.hand.leave()
    leave(lines.view)
    assert lines.panel.highlighted_lines is None


def test_what_is_pointed_at_next_stays_told_when_the_pane_before_lets_go(lines: Lines) -> None:
    view, on_board = lines.window.workspace, Cell("weights", (0, 5, 2))
    lines.hand.hover(on_board)
    lines.hover(JOURNEY)
    leave(lines.hand.board, at_once=True)
    assert view.requested_view.hovered == JOURNEY
    lines.hand.hover(on_board)
    leave(lines.view, at_once=True)
    assert view.requested_view.hovered == on_board
    leave(lines.hand.board)
    assert view.requested_view.hovered is None


def test_a_click_pins_the_cell_in_the_heatmaps_and_a_second_lets_go(lines: Lines) -> None:
    lines.click(JOURNEY)
    assert lines.pinned == JOURNEY
    assert lines.hand.board.cell_cursor.pinned == JOURNEY
    lines.click(JOURNEY)
    assert lines.pinned is None
    lines.click(JOURNEY)
    lines.move(QPointF(5, 2))
    QTest.mouseClick(lines.view.viewport(), LEFT, pos=QPoint(5, 2))
    assert lines.pinned is None


def test_a_cell_pinned_in_the_heatmaps_lights_its_lines(lines: Lines) -> None:
    before = lines.picture()
    lines.hand.click_cell(Cell("scores", (1, 3, 2)))
    lines.hand.leave()
    lines.settle()
    assert lines.panel.highlighted_lines is not None
    assert set(lines.panel.highlighted_lines.queries.tolist()) == {3}
    assert lines.panel.cell == Cell("weights", (1, 3, 2))
    picture = lines.picture()
    assert picture != before
    at = lines.view.line_position(Cell("weights", (1, 3, 2)))
    assert head_colour(1, LIGHT) in colours(
        picture.copy(round(at.x()) - 40, round(at.y()) - 40, 80, 80)
    )
    dimmed = lines.view.line_position(Cell("weights", (0, 0, 0))).toPoint()
    assert before.pixelColor(dimmed).saturation() > 2 * picture.pixelColor(dimmed).saturation()


def test_a_query_lights_what_it_reads_and_a_key_who_reads_it(lines: Lines) -> None:
    lines.hover(LineViewToken(LineViewSide.QUERY, 4))
    assert lines.panel.highlighted_lines is not None
    assert set(lines.panel.highlighted_lines.queries.tolist()) == {4}
    assert (lines.panel.query, lines.hand.board.cell_cursor.query) == (4, 4)
    lines.hover(LineViewToken(LineViewSide.KEY, 2))
    assert lines.panel.highlighted_lines is not None
    assert set(lines.panel.highlighted_lines.keys.tolist()) == {2}
    assert set(lines.panel.highlighted_lines.queries.tolist()) == {2, 3, 4, 5}
    lines.click(LineViewToken(LineViewSide.KEY, 2))
    leave(lines.view)
    assert lines.pinned is not None
    assert lines.panel.highlighted_lines is not None
    assert set(lines.panel.highlighted_lines.keys.tolist()) == {2}
    lines.click(LineViewToken(LineViewSide.KEY, 2))
    assert lines.pinned is None


def test_lines_of_the_pinned_cell_are_found_before_others(lines: Lines) -> None:
    lines.click(LineViewToken(LineViewSide.QUERY, 5))
    held = lines.panel.pinned_lines
    assert held is not None
    for head, key in zip(held.heads.tolist(), held.keys.tolist(), strict=True):
        lines.hover(Cell("weights", (head, 5, key)))
        found = lines.window.workspace.view.hovered
        assert found is not None
        assert found.place[1] == 5


# ------------------------------------------------------------------------------ keys


def test_keys_walk_from_cell_to_cell_and_let_go(lines: Lines) -> None:
    lines.view.setFocus(Qt.FocusReason.TabFocusReason)
    lines.click(JOURNEY)
    for key, place in (
        (Qt.Key.Key_Down, (0, 2, 0)),
        (Qt.Key.Key_Right, (0, 2, 1)),
        (Qt.Key.Key_Up, (0, 1, 1)),
        (Qt.Key.Key_Left, (0, 1, 0)),
    ):
        lines.hand.key(key)
        assert lines.pinned == Cell("weights", place)
        assert lines.panel.cell == lines.pinned
    lines.hand.key(Qt.Key.Key_Escape)
    assert lines.pinned is None


def test_who_comes_by_keys_sees_where_they_are(lines: Lines) -> None:
    lines.window.settings_bar.sentence.setFocus()
    before = lines.picture()
    lines.view.setFocus(Qt.FocusReason.TabFocusReason)
    corner = QPoint(1, 1)
    assert lines.picture().pixelColor(corner) == QColor(lines.window.theme.accent)
    lines.window.settings_bar.sentence.setFocus()
    assert lines.picture() == before


# ------------------------------------------------------------------------------ which lines


def test_heads_are_mixed_or_alone(lines: Lines) -> None:
    box = lines.pane.heads
    box.setFocus()
    assert [box.itemText(at) for at in range(box.count())] == [
        *("All shown heads", "The pinned cell’s head", "Head 1", "Head 2")
    ]
    assert set(lines.panel.lines.heads.tolist()) == {0, 1}
    QTest.keyClick(box, Qt.Key.Key_End)
    lines.settle()
    assert set(lines.panel.lines.heads.tolist()) == {1}
    assert box.currentText() == "Head 2"
    QTest.keyClick(box, Qt.Key.Key_Home)
    QTest.keyClick(box, Qt.Key.Key_Down)
    lines.settle()
    assert lines.hand.window.workspace.view.lines.solo == FOLLOW_PINNED
    lines.hand.click_cell(Cell("weights", (1, 2, 1)))
    lines.settle()
    assert lines.panel.solo == 1
    lines.hand.click_cell(Cell("weights", (0, 2, 1)))
    lines.settle()
    assert lines.panel.solo == 0


def test_a_threshold_and_the_largest_are_typed(lines: Lines) -> None:
    for box, typed in ((lines.pane.threshold, "0.3"), (lines.pane.top, "1")):
        box.setFocus(Qt.FocusReason.TabFocusReason)
        box.selectAll()
        QTest.keyClicks(box, typed)
        QTest.keyClick(box, Qt.Key.Key_Return)
    lines.settle()
    options = lines.hand.window.workspace.view.lines
    assert (options.threshold, options.top) == (0.3, 1)
    assert (abs(lines.panel.lines.weights) >= 0.3).all()
    assert words(lines.pane.notes) == "the largest per query and head\nweights ≥ 0.3"
    assert not lines.window.workspace.history.can_undo


def test_every_control_says_what_it_is(lines: Lines) -> None:
    pane = lines.pane
    names = {box.accessibleName() for box in (pane.heads, pane.threshold, pane.top, pane.view)}
    assert len(names) == 4
    assert "" not in names
    lines.hover(JOURNEY)
    assert pane.view.accessibleDescription() == f"In head 1, {lines.hand.said}"


def test_a_long_text_is_thinned_and_says_so(lines: Lines) -> None:
    lines.hand.paste_sentence(LONG)
    lines.settle()
    assert lines.panel.lines.is_thinned
    count, every = len(lines.panel.lines), 2 * 90 * 91 // 2
    said = f"{count:,} of {every:,} lines: the 16 largest per query and head"
    assert words(lines.pane.notes).splitlines()[0] == said
    before = lines.pane.notes.height()
    lines.hover(LineViewToken(LineViewSide.QUERY, 80))
    assert lines.pane.notes.height() == before


def test_what_is_predicted_is_covered(lines: Lines) -> None:
    lines.window.controllers.playback_controller.toggle_prediction()
    lines.settle()
    assert (len(lines.panel.lines), bool(lines.panel.message)) == (0, True)
    lines.hover(LineViewToken(LineViewSide.QUERY, 1))
    assert lines.window.workspace.view.hovered is None


# ------------------------------------------------------------------------------ what is seen


def test_tokens_are_drawn_right_to_left_where_they_are(lines: Lines) -> None:
    lines.hand.paste_sentence(HEBREW)
    lines.settle()
    assert lines.panel.labels == ("אב", "ב")
    key, query = lines.label(LineViewSide.KEY, 0), lines.label(LineViewSide.QUERY, 0)
    assert ink(key)[0] <= 5  # next to the lines, on both sides
    assert query.width() - ink(query)[1] <= 6
    last = lines.label(LineViewSide.KEY, 1)
    first, end = ink(last)  # the second letter is to the left of the first one
    area = (first, 0, end - first, key.height())
    assert key.copy(*area) == last.copy(*area)
    assert ink(key)[1] > end + 3


def test_labels_of_neighbours_do_not_touch(lines: Lines) -> None:
    lines.hand.paste_sentence(LONG)
    lines.settle()
    rows = lines.view.rows
    assert rows.height < font_metrics(12).height()
    before = lines.picture()
    lines.hover(LineViewToken(LineViewSide.KEY, 33))
    assert lines.picture() != before


@pytest.mark.parametrize(("count", "scrolls"), [(1, False), (6, False), (40, True), (400, True)])
def test_rows_can_be_read_while_they_are_few_and_pointed_at_always(
    application: QApplication, count: int, scrolls: bool
) -> None:
    labels = tuple(f"w{number}" for number in range(count))
    rows = lay_out_lines(labels, (0, 1), 300, 500)
    assert rows.height >= (font_metrics(12).height() if count <= 40 else MIN_ROW_PX)
    assert (rows.bottom > 500) == scrolls
    assert [rows.row_at(rows.row_middle(at)) for at in range(count)] == list(range(count))
    assert rows.row_at(rows.top - 1) is rows.row_at(rows.row_middle(count)) is None
    assert 0 < rows.left < rows.right < 300


def test_a_narrow_pane_shortens_long_tokens(application: QApplication) -> None:
    rows = lay_out_lines(("x" * 300, "y"), (0, 1), 200, 500)
    assert rows.right - rows.left >= 70
    assert label_box(rows, LineViewSide.QUERY, 0).left() > 0
    assert label_box(rows, LineViewSide.KEY, 0).right() <= 200


def test_a_pinned_cell_far_away_is_scrolled_to(lines: Lines) -> None:
    lines.hand.paste_sentence(" ".join(f"w{number}" for number in range(600)))
    lines.settle()
    bar = lines.view.verticalScrollBar()
    assert bar.maximum() > 0
    lines.window.controllers.cell_selection_controller.follow_link(Cell("weights", (0, 599, 590)))
    lines.settle()
    place = place_of_token(lines.view, LineViewToken(LineViewSide.QUERY, 599))
    assert 0 < place.y() < lines.view.viewport().height()


@pytest.mark.slow
def test_both_themes_paint_their_paper(lines: Lines) -> None:
    for theme in (DARK, LIGHT):
        lines.window.set_colour_scheme(theme.name)
        assert lines.picture().pixelColor(2, 2) == QColor(theme.paper)
        assert theme.ink in colours(lines.picture())


# ---------------------------------------------------------------------------- width and opacity


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("heads", others_slow([8, 2]))
def test_the_largest_weights_stand_out_at_rest(lines: Lines, scheme: str, heads: int) -> None:
    lines.hand.press(Qt.Key.Key_M)  # without the mask, no weight is near 1
    lines.hand.type_number("d_out", "8")
    lines.hand.type_number("heads", str(heads))
    lines.window.set_colour_scheme(scheme)
    lines.settle()
    lines.picture()  # starts the painting of the lines
    lines.hand.until(lambda: bool(lines.view.picture and lines.view.picture.is_complete))
    drawn, picture = lines.panel.lines, lines.picture()
    assert drawn.weights.max() < 0.9
    paper = DARK.paper if scheme == "dark" else LIGHT.paper
    for at in (-1, -2):
        cell = Cell("weights", (drawn.heads[at], drawn.queries[at], drawn.keys[at]))
        middle = lines.view.line_position(cell).toPoint()
        column = [picture.pixelColor(middle + QPoint(0, away)).name() for away in (-1, 0, 1)]
        assert max(contrast(colour, paper) for colour in column) >= 3


def test_a_line_is_as_wide_and_as_opaque_whatever_is_selected(lines: Lines) -> None:
    rest = pens(lines, lines.panel.lines)
    assert len({width for width, _ in rest.values()}) > 4
    lines.click(JOURNEY)
    lit = lines.panel.highlighted_lines
    assert lit is not None
    assert len(lit) > 2
    selected = pens(lines, lit)
    assert selected == {cell: rest[cell] for cell in selected}


def test_a_larger_weight_has_a_wider_and_a_more_opaque_line(lines: Lines) -> None:
    drawn = lines.panel.lines
    found = list(pens(lines, drawn).values())  # sorted by weight
    assert found == sorted(found)
    assert found[-1][0] == MAX_LINE_WIDTH_PX  # the first query attends only to itself
    lines.hand.press(Qt.Key.Key_M)
    lines.settle()
    drawn = lines.panel.lines
    width, opacity = list(pens(lines, drawn).values())[-1]
    strength = min(1, drawn.weights[-1] / lines.hand.panel("weights").colour.high)
    assert width == pytest.approx(
        MIN_LINE_WIDTH_PX + (MAX_LINE_WIDTH_PX - MIN_LINE_WIDTH_PX) * strength
    )
    assert opacity == 1


def pens(lines: Lines, drawn: SelectedLines) -> dict[tuple[int, int, int], tuple[float, float]]:
    """Return the width and the opacity of each line, by head, query and key."""
    brush = LinePenFactory.for_picture(lines.panel.lines)
    found = {}
    places = zip(drawn.heads.tolist(), drawn.queries.tolist(), drawn.keys.tolist(), strict=True)
    for place, level in zip(
        places, brush.strength_levels(drawn.line_strengths).tolist(), strict=True
    ):
        pen = brush.create_pen(place[0], level, True, False, LIGHT)
        found[place] = (pen.widthF(), pen.color().alphaF())
    return found
