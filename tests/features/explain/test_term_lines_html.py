"""The terms in Explain: nothing is broken or cut, and numbers stand below each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtGui import QFontMetricsF, QGuiApplication, QTextDocument
from PySide6.QtWidgets import QApplication

from visualizer.features.explain.presenter import CellExplanation, FormattedFactor, FormattedTerm
from visualizer.features.explain.widget import PANE_WIDTH_PX, ExplainPane
from visualizer.session.cell_address import Cell
from visualizer.widgets.fonts import apply_interface_font, text_scale
from visualizer.widgets.theme import LIGHT, create_style_sheet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from PySide6.QtGui import QTextBlock
    from pytestqt.qtbot import QtBot

USUAL = 320
SIGNED = (("−0.2677", "(−0.4418)", "0.1183"), ("0.4582", "0.2224", "−0.1019"))
READ = Cell("queries", (0, 0, 0))


@pytest.fixture(params=[100, 150])
def percent(request: pytest.FixtureRequest) -> Iterator[int]:
    """A size of the text, in per cent of the usual."""
    before = QGuiApplication.font()
    apply_interface_font(request.param)
    yield request.param
    QApplication.setFont(before)


def term(name: str, factors: Sequence[str], value: str, chosen: bool = False) -> FormattedTerm:
    return FormattedTerm(
        name, tuple(FormattedFactor(each, READ) for each in factors), value, chosen
    )


def columns(count: int) -> tuple[FormattedTerm, ...]:
    return tuple(
        term(f"column {at + 1}", SIGNED[at % 2][:2], SIGNED[at % 2][2]) for at in range(count)
    )


def usual_width() -> int:
    """The usual width of the pane, in proportion where the font has wide digits."""
    digits = QFontMetricsF(QGuiApplication.font()).horizontalAdvance("0123456789")
    return round(max(USUAL * text_scale(), 3.85 * digits))


def made(qtbot: QtBot, terms: tuple[FormattedTerm, ...], width: int) -> ExplainPane:
    """A pane that shows terms."""
    pane = ExplainPane()
    qtbot.addWidget(pane)
    pane.setStyleSheet(create_style_sheet())
    pane.resize(width, 400)
    pane.show()
    panel = CellExplanation(
        "Scores", "A score.", "1.0000", "Σ a × b", terms, "", "sum", is_pinned=False
    )
    pane.show_cell(panel, LIGHT)
    qtbot.waitExposed(pane)
    QApplication.processEvents()
    return pane


def document_of(pane: ExplainPane) -> QTextDocument:
    document = pane.terms.findChild(QTextDocument)
    assert document
    return document


def lines(pane: ExplainPane) -> list[QTextBlock]:
    """The lines of the terms, which stand below the formula."""
    document = document_of(pane)
    return [document.findBlockByNumber(at) for at in range(1, document.blockCount())]


def texts(pane: ExplainPane) -> list[list[str]]:
    """What stands in the columns of each line, without those that are empty."""
    return [[text for text in block.text().split("\t") if text] for block in lines(pane)]


def ends(block: QTextBlock) -> list[float]:
    """Where the texts of a line end, in pixels from the left; empty ones are left out."""
    line, at, found = block.layout().lineAt(0), 0, []
    for text in block.text().split("\t"):
        at += len(text)
        if text:
            found.append(line.cursorToX(at)[0])  # type: ignore[index]
        at += 1
    return found


def is_whole(pane: ExplainPane) -> bool:
    """Whether no text of the terms is broken, touches the next or is cut."""
    return all(
        block.layout().lineCount() == 1
        and ends(block)[-1] <= pane.terms.width()
        and ends(block) == sorted(ends(block))
        and all(_begins_after(block, at) for at in range(1, len(ends(block))))
        for block in lines(pane)
    )


def _begins_after(block: QTextBlock, at: int) -> bool:
    text = [each for each in block.text().split("\t") if each][at]
    width = QFontMetricsF(block.charFormat().font()).horizontalAdvance(text)
    return ends(block)[at] - width >= ends(block)[at - 1] - 1


def test_twelve_columns_stand_in_lines_at_the_usual_width(percent: int, qtbot: QtBot) -> None:
    pane = made(qtbot, columns(12), usual_width())
    assert [row[0] for row in texts(pane)] == [f"column {at + 1}" for at in range(12)]
    assert is_whole(pane)
    assert not pane.scroll_area.horizontalScrollBar().isVisible()


@pytest.mark.parametrize(
    "terms",
    [
        columns(12),
        (term("internationalis…", ("0.1234", "(−0.4418)"), "−0.0545"),),
        (term("WWWWWWWWWWWWWWWW", ("12,345.6789",), "12,345.6789", chosen=True),),
        (term("kept", ("0.1234", "1.2500", "(−0.4418)"), "−0.0682"), *columns(1)),
    ],
    ids=["columns", "long word", "wide word", "three factors"],
)
def test_nothing_is_broken_or_cut_in_the_narrowest_pane(
    terms: tuple[FormattedTerm, ...], percent: int, qtbot: QtBot
) -> None:
    pane = made(qtbot, terms, round(PANE_WIDTH_PX * text_scale()))
    assert is_whole(pane)
    assert {each.name for each in terms} <= {row[0] for row in texts(pane)}


def test_digits_stand_below_each_other(qtbot: QtBot) -> None:
    pane = made(qtbot, columns(4), usual_width())
    first, second, *_ = lines(pane)
    written = texts(pane)
    assert written[0] == ["column 1", "−0.2677", "×", "(−0.4418", ")", "0.1183"]
    assert written[1] == ["column 2", "0.4582", "×", "0.2224", "−0.1019"]
    for at, other in ((1, 1), (3, 3), (5, 4)):
        assert ends(first)[at] == pytest.approx(ends(second)[other], abs=1.01)


def test_factors_go_below_a_long_name_and_back_in_a_wider_pane(qtbot: QtBot) -> None:
    terms = (term("internationalis…", ("−0.1234", "(−0.4418)"), "0.0545"),)
    pane = made(qtbot, terms, PANE_WIDTH_PX)
    assert texts(pane) == [["internationalis…"], ["−0.1234", "×", "(−0.4418", ")", "0.0545"]]
    pane.resize(2 * PANE_WIDTH_PX, 400)
    QApplication.processEvents()
    assert [len(row) for row in texts(pane)] == [6]
    assert is_whole(pane)
    assert ends(lines(pane)[0])[-1] == pytest.approx(pane.terms.width(), abs=1.01)
