"""The export dialog: what is chosen by clicks and keys is seen before it is written."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QFileDialog, QLineEdit

from tests.ui.test_export import NoImage
from visualizer.state.caption import caption
from visualizer.state.figure import PRESETS, Extent, FigureLook, Paper
from visualizer.state.formats import Kind
from visualizer.state.view import Cell
from visualizer.state.wish import Unit, Wish
from visualizer.ui import settings, writers
from visualizer.ui.figures import dialog as dialogs
from visualizer.ui.figures import png
from visualizer.ui.figures.page import figure_of, page_of
from visualizer.ui.theme import DARK

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ui.hand import Hand
    from visualizer.ui.figures.dialog import ExportDialog
    from visualizer.ui.figures.fields import NumberField

ALT = Qt.KeyboardModifier.AltModifier


def opened(hand: Hand) -> ExportDialog:
    """Open the dialog by its keys and wait until a figure is seen."""
    hand.settle()
    hand.press(Qt.Key.Key_E)
    dialog = hand.window.publisher.dialog
    assert dialog is not None
    hand.until(dialog.isActiveWindow)
    seen(hand, dialog)
    return dialog


def seen(hand: Hand, dialog: ExportDialog) -> QImage | None:
    """Wait until what was chosen is seen."""
    hand.until(lambda: not hand.window.publisher.previewer.is_working)
    QApplication.processEvents()  # the answer, which waits for its turn
    hand.until(lambda: dialog.pane.shown is not None)
    assert dialog.pane.shown
    return dialog.pane.shown.image


def choose(dialog: ExportDialog, box: QComboBox, value: object) -> None:
    """Choose in a list by the keys."""
    box.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(box, Qt.Key.Key_Home)
    for _ in range(box.count()):
        if box.currentData() == value:
            break
        QTest.keyClick(box, Qt.Key.Key_Down)
    assert box.currentData() == value


def type_into(field: NumberField | QLineEdit, text: str) -> None:
    box = field if isinstance(field, QLineEdit) else field.box
    box.setFocus(Qt.FocusReason.TabFocusReason)
    box.selectAll()
    QTest.keyClick(box, Qt.Key.Key_Delete)
    QTest.keyClicks(box, text)


def test_it_does_not_hold_the_window_up(hand: Hand) -> None:
    dialog = opened(hand)
    assert dialog.windowModality() is Qt.WindowModality.WindowModal
    hand.press(Qt.Key.Key_E)
    assert hand.window.publisher.dialog is dialog
    hand.key(Qt.Key.Key_Escape)
    assert hand.window.publisher.dialog is None


def test_a_preset_is_seen_at_its_shape(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.figure.preset, "Slide")
    image = seen(hand, dialog)
    assert image is not None
    assert image.width() / image.height() == pytest.approx(16 / 9, rel=0.01)
    assert dialog.size_.text() == "339 × 190 mm · 1,920 × 1,080 pixels"
    assert dialog.wish.look == PRESETS["Slide"]


def test_the_preview_is_the_page_that_is_written(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.figure.preset, "Paper page")
    image, shot = seen(hand, dialog), hand.window.workspace.shot
    assert shot
    assert image is not None
    look = PRESETS["Paper page"]
    size = page_of(figure_of(shot, look), look).size
    assert image.width() / image.height() == pytest.approx(size.width() / size.height(), rel=0.01)


def test_colours_are_seen(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.figure.paper, Paper.DARK)
    image = seen(hand, dialog)
    assert image is not None
    assert image.pixelColor(1, 1).name().upper() == DARK.paper


def test_own_sizes_in_three_units(hand: Hand) -> None:
    dialog = opened(hand)
    options = dialog.figure
    choose(dialog, options.preset, "Paper column")
    assert options.width_.box.text() == "85"
    choose(dialog, options.unit, Unit.INCH)
    assert options.width_.box.text() == "3.346"
    choose(dialog, options.unit, Unit.PIXEL)
    assert options.width_.box.text() == "2008"
    type_into(options.width_, "1200")
    assert dialog.wish.look.width_mm == pytest.approx(50.8)
    assert options.preset.currentText() == "Own size"
    type_into(options.height_, "600")
    assert dialog.wish.look.height_mm == pytest.approx(25.4)
    seen(hand, dialog)
    assert dialog.size_.text() == "51 × 25 mm · 1,200 × 600 pixels"
    type_into(options.height_, "")
    assert dialog.wish.look.height_mm is None


@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("width_", "5", "Takes 10 to 5000."),
        ("width_", "wide", "Takes 10 to 5000."),
        ("height_", "-3", "Takes 10 to 5000, or nothing."),
        ("height_", "nan", "Takes 10 to 5000, or nothing."),
        ("dpi", "300.5", "Takes a whole number from 36 to 2400."),
        ("points", "0", "Takes 3 to 144."),
        ("points", "1e999", "Takes 3 to 144."),
    ],
)
def test_what_is_not_taken_is_said_where_it_stands(
    hand: Hand, field: str, typed: str, said: str
) -> None:
    dialog = opened(hand)
    before = dialog.wish.look
    box: NumberField = getattr(dialog.figure, field)
    type_into(box, typed)
    assert box.problem.text() == said
    assert box.problem.isVisible()
    assert box.box.accessibleDescription() == said
    assert not dialog.save.isEnabled()
    assert dialog.wish.look.width_mm == before.width_mm
    type_into(box, "100")
    assert not box.problem.isVisible()
    assert dialog.save.isEnabled()


def test_what_is_on_it(hand: Hand) -> None:
    hand.click_cell(Cell("weights", (1, 3, 1)))
    hand.settle()
    dialog = opened(hand)
    choose(dialog, dialog.figure.extent, Extent.PANEL)
    type_into(dialog.figure.title, "Head 2 <b>")
    for name in ("has_caption", "has_marks", "carries_document"):
        QTest.keyClick(dialog.figure.switches[name], Qt.Key.Key_Space)
    look, shot = dialog.wish.look, hand.window.workspace.shot
    assert shot
    assert look == FigureLook(
        extent=Extent.PANEL,
        title="Head 2 <b>",
        has_caption=False,
        has_marks=False,
        carries_document=False,
    )
    seen(hand, dialog)
    (panel,) = figure_of(shot, look).board.heatmaps
    assert (panel.stage, panel.head) == ("weights", 1)


def test_of_numbers_is_said_what_they_are(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".npz")
    assert seen(hand, dialog) is None
    assert dialog.pane.shown
    assert "weights  2 head × 6 query × 6 key" in dialog.pane.shown.text.splitlines()
    assert not dialog.figure.isVisible()
    assert not dialog.copy.isEnabled()
    assert dialog.save.isEnabled()


def test_of_a_document_is_said_what_it_is_of(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".attention")
    assert seen(hand, dialog) is None
    assert dialog.pane.shown
    assert hand.window.workspace.shot
    assert dialog.pane.shown.text == caption(hand.window.workspace.shot.run)
    assert dialog.size_.text() == "Document, to be opened again"
    assert not dialog.figure.isVisible()
    assert not dialog.copy.isEnabled()
    assert dialog.save.isEnabled()


def test_a_kind_of_format_may_have_choices_of_its_own(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(dialogs.OWN_CHOICES, Kind.NUMBERS, QLineEdit)
    dialog = opened(hand)
    own = dialog.pages.widget([*Kind].index(Kind.NUMBERS))
    assert isinstance(own, QLineEdit)
    assert not own.isVisible()
    assert dialog.figure.isVisible()
    choose(dialog, dialog.format, ".npz")
    assert own.isVisible()
    assert not dialog.figure.isVisible()


def test_a_drawing_has_no_pixels(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".pdf")
    choose(dialog, dialog.figure.preset, "Slide")
    seen(hand, dialog)
    assert dialog.size_.text() == "339 × 190 mm"


def test_every_choice_is_reached_by_the_keys_and_has_a_name(hand: Hand) -> None:
    dialog = opened(hand)
    dialog.format.setFocus()
    reached = []
    while (widget := QApplication.focusWidget()) is not None and widget not in reached:
        reached.append(widget)
        QTest.keyClick(widget, Qt.Key.Key_Tab)
    names = [
        one.accessibleName() or (one.text() if isinstance(one, QAbstractButton) else "")
        for one in reached
    ]
    assert "" not in names
    wanted = {"Format", "What", "Size for", "Lengths in", "Width", "Height", "Pixels an inch"}
    assert wanted | {"Text size, pt", "Colours", "Title"} <= set(names)
    letters = [
        text[text.index("&") + 1].lower()
        for text in (
            *(label.text() for label in dialog.findChildren(type(dialog.size_))),
            *(button.text() for button in dialog.findChildren(QAbstractButton)),
        )
        if "&" in text
    ]
    assert len(letters) == len(set(letters))


def test_a_letter_leads_to_its_choice(hand: Hand) -> None:
    dialog = opened(hand)
    QTest.keyClick(dialog, Qt.Key.Key_T, ALT)
    assert QApplication.focusWidget() is dialog.figure.title


def test_it_remembers_how_it_was(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".svg")
    choose(dialog, dialog.figure.preset, "Poster")
    hand.key(Qt.Key.Key_Escape)
    hand.activate()
    assert opened(hand).wish == Wish(".svg", PRESETS["Poster"])
    assert settings.load_wish() == Wish(".svg", PRESETS["Poster"])


def test_a_figure_is_copied_as_pixels_and_as_a_drawing(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.figure.preset, "Slide")
    hand.click(dialog.copy)
    hand.until(lambda: not hand.window.exporter.is_working)
    data = QGuiApplication.clipboard().mimeData()
    image = QGuiApplication.clipboard().image()
    assert (image.width(), image.height()) == (1920, 1080)
    assert bytes(data.data("image/svg+xml").data()).startswith(b"<?xml")
    assert hand.window.publisher.dialog is dialog  # it may be saved, too
    said = hand.window.statusBar().currentMessage()
    assert said == "Copied a picture of 1,920 × 1,080 pixels"


def test_a_picture_is_copied_by_its_keys(hand: Hand) -> None:
    shift = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    hand.settle()
    hand.press(Qt.Key.Key_I, shift)
    hand.until(lambda: not hand.window.exporter.is_working)
    assert not QGuiApplication.clipboard().image().isNull()


def test_a_name_is_asked_for_and_takes_the_suffix(hand: Hand, tmp_path: Path) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".svg")
    seen(hand, dialog)
    hand.click(dialog.save)
    (question,) = dialog.findChildren(QFileDialog)
    hand.until(question.isVisible)
    question.selectFile(str(tmp_path / "drawn"))
    question.accept()
    hand.until(lambda: not hand.window.exporter.is_working)
    assert (tmp_path / "drawn.svg").read_bytes().startswith(b"<?xml")
    assert hand.window.statusBar().currentMessage() == f"Exported to {tmp_path / 'drawn.svg'}"
    assert hand.window.publisher.dialog is None
    assert hand.window.publisher.folder == tmp_path


def test_what_cannot_be_made_is_said_beside_it(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    dialog = opened(hand)
    shown = dialog.pane.shown
    monkeypatch.setattr(png, "QImage", NoImage)
    choose(dialog, dialog.figure.preset, "Poster")
    hand.until(dialog.problem.isVisible)
    assert dialog.problem.text().endswith("or export the numbers.")
    assert dialog.pane.shown is shown  # the last one stays
    assert not dialog.save.isEnabled()
    monkeypatch.undo()
    choose(dialog, dialog.figure.preset, "Slide")
    hand.until(dialog.save.isEnabled)


def test_an_export_can_be_called_off(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = threading.Event()

    def write(shot: object, look: object, file: object, progress: object) -> None:
        assert callable(progress)
        progress(1, 4)
        going.wait(10)
        progress(2, 4)

    monkeypatch.setitem(writers.WRITERS, ".png", write)
    saving, shot = hand.window.publisher.saving, hand.window.workspace.shot
    assert shot
    assert not saving.isVisible()
    hand.window.exporter.ask(tmp_path / "a.png", shot, FigureLook())
    hand.until(saving.isVisible)
    hand.until(lambda: (saving.line.value(), saving.line.maximum()) == (1, 4))
    hand.click(saving.cancel)
    going.set()
    hand.until(lambda: not hand.window.exporter.is_working)
    assert not saving.isVisible()
    assert list(tmp_path.glob("*.png")) == []
    assert hand.window.statusBar().currentMessage() == "Called off; nothing was written."
