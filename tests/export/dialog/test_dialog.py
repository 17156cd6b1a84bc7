"""The export dialog, used by mouse and keyboard: the preview shows what will be written."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QCheckBox,
    QComboBox,
    QFileDialog,
    QLabel,
    QLineEdit,
    QWidget,
)

from tests.export.test_export_controller import NoImage
from tests.support.examples import others_slow
from tests.support.window_input import name_file
from visualizer.attention import run as attention_run
from visualizer.export import export_controller, formats, writers
from visualizer.export.data import data_preview
from visualizer.export.data.data_preview import MAX_LINE_CHARACTERS, MAX_PREVIEW_LINES
from visualizer.export.dialog.film_options_widget import AnimationRange
from visualizer.export.export_runner import CANCELLED_MESSAGE
from visualizer.export.export_settings import ExportSettings, LengthUnit
from visualizer.export.figure_settings import (
    FIGURE_PRESETS,
    AnimationSettings,
    FigureExtent,
    FigureSettings,
    FigureTheme,
)
from visualizer.export.figures import rasterization
from visualizer.export.figures.figure_page import create_figure_content, lay_out_page
from visualizer.export.writers import export_file
from visualizer.session.cell_address import Cell
from visualizer.session.computation_caption import describe_value_origin
from visualizer.session.timeline import PlaybackPosition, StepSize
from visualizer.widgets import app_settings
from visualizer.widgets.theme import DARK

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_input import Hand
    from visualizer.export.dialog.dialog import ExportDialog
    from visualizer.export.dialog.figure_options_widget import NumberField

ALT = Qt.KeyboardModifier.AltModifier


def opened(hand: Hand) -> ExportDialog:
    """Open the dialog by its shortcut and wait until a figure is displayed."""
    hand.settle()
    hand.press(Qt.Key.Key_E)
    hand.until(lambda: hand.window.controllers.export_controller.dialog is not None)
    dialog = hand.window.controllers.export_controller.dialog
    assert dialog is not None
    hand.until(dialog.isActiveWindow)
    seen(hand, dialog)
    return dialog


def seen(hand: Hand, dialog: ExportDialog) -> QImage | None:
    """Wait until the preview shows the current settings."""
    hand.until(lambda: not hand.window.controllers.export_controller.preview_controller.is_working)
    QApplication.processEvents()  # process the result, which is queued
    hand.until(lambda: dialog.pane.shown is not None)
    assert dialog.pane.shown
    return dialog.pane.shown.image


def choose(dialog: ExportDialog, box: QComboBox, value: object) -> None:
    """Choose an entry of a list by keyboard."""
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


def test_importing_does_not_block_the_window(hand: Hand) -> None:
    dialog = opened(hand)
    assert dialog.windowModality() is Qt.WindowModality.WindowModal
    hand.press(Qt.Key.Key_E)
    assert hand.window.controllers.export_controller.dialog is dialog
    hand.key(Qt.Key.Key_Escape)
    assert hand.window.controllers.export_controller.dialog is None


def test_the_fields_are_below_each_other(hand: Hand) -> None:
    dialog = opened(hand)
    hand.settle()
    fields = (dialog.format, *dialog.figure.findChildren(QComboBox))
    lefts = {one.mapTo(dialog, QPoint()).x() for one in fields if one.isVisible()}
    assert len(lefts) == 1


def test_a_preset_is_seen_at_its_shape(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.figure.preset, "Slide")
    image = seen(hand, dialog)
    assert image is not None
    assert image.width() / image.height() == pytest.approx(16 / 9, rel=0.01)
    assert dialog.size_.text() == "339 × 190 mm · 1,920 × 1,080 pixels"
    assert dialog.settings.look == FIGURE_PRESETS["Slide"]


def test_the_preview_is_the_page_that_is_written(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.figure.preset, "Paper page")
    image, snapshot = seen(hand, dialog), hand.window.workspace.snapshot
    assert snapshot
    assert image is not None
    figure_settings = FIGURE_PRESETS["Paper page"]
    size = lay_out_page(create_figure_content(snapshot, figure_settings), figure_settings).size
    assert image.width() / image.height() == pytest.approx(size.width() / size.height(), rel=0.01)


def test_colours_are_seen(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.figure.paper, FigureTheme.DARK)
    image = seen(hand, dialog)
    assert image is not None
    assert image.pixelColor(1, 1).name().upper() == DARK.paper


def test_own_sizes_in_three_units(hand: Hand) -> None:
    dialog = opened(hand)
    options = dialog.figure
    choose(dialog, options.preset, "Paper column")
    assert options.width_.box.text() == "85"
    choose(dialog, options.unit, LengthUnit.INCH)
    assert options.width_.box.text() == "3.346"
    choose(dialog, options.unit, LengthUnit.PIXEL)
    assert options.width_.box.text() == "2008"
    type_into(options.width_, "1200")
    assert dialog.settings.look.width_mm == pytest.approx(50.8)
    assert options.preset.currentText() == "Custom size"
    type_into(options.height_, "600")
    assert dialog.settings.look.height_mm == pytest.approx(25.4)
    seen(hand, dialog)
    assert dialog.size_.text() == "51 × 25 mm · 1,200 × 600 pixels"
    type_into(options.height_, "")
    assert dialog.settings.look.height_mm is None


@pytest.mark.parametrize(
    ("field", "typed", "said"),
    others_slow(
        [
            ("width_", "5", "Must be from 10 to 5000."),
            ("width_", "wide", "Must be from 10 to 5000."),
            ("height_", "-3", "Must be from 10 to 5000, or empty."),
            ("height_", "nan", "Must be from 10 to 5000, or empty."),
            ("dpi", "300.5", "Must be a whole number from 36 to 2400."),
            ("points", "0", "Must be from 3 to 144."),
            ("points", "1e999", "Must be from 3 to 144."),
        ],
        first=3,
    ),
)
def test_invalid_input_is_reported_next_to_its_field(
    hand: Hand, field: str, typed: str, said: str
) -> None:
    dialog = opened(hand)
    before = dialog.settings.look
    box: NumberField = getattr(dialog.figure, field)
    type_into(box, typed)
    assert box.problem.text() == said
    assert box.problem.isVisible()
    assert box.box.accessibleDescription() == said
    assert not dialog.save.isEnabled()
    assert dialog.settings.look.width_mm == before.width_mm
    type_into(box, "100")
    assert not box.problem.isVisible()
    assert dialog.save.isEnabled()


def test_the_page_content(hand: Hand) -> None:
    hand.click_cell(Cell("weights", (1, 3, 1)))
    hand.settle()
    dialog = opened(hand)
    choose(dialog, dialog.figure.extent, FigureExtent.PANEL)
    type_into(dialog.figure.title, "Head 2 <b>")
    for name in ("has_caption", "has_marks", "carries_document"):
        QTest.keyClick(dialog.figure.switches[name], Qt.Key.Key_Space)
    figure_settings, snapshot = dialog.settings.look, hand.window.workspace.snapshot
    assert snapshot
    assert figure_settings == FigureSettings(
        extent=FigureExtent.PANEL,
        title="Head 2 <b>",
        has_caption=False,
        has_marks=False,
        carries_document=False,
    )
    seen(hand, dialog)
    (panel,) = create_figure_content(snapshot, figure_settings).board.heatmaps
    assert (panel.stage, panel.head) == ("weights", 1)


def test_the_preview_of_a_binary_format_lists_its_arrays(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".npz")
    assert seen(hand, dialog) is None
    assert dialog.pane.shown
    assert "weights  2 head × 6 query × 6 key  float32" in dialog.pane.shown.text.splitlines()
    assert not dialog.figure.isVisible()
    assert not dialog.copy.isEnabled()
    assert dialog.save.isEnabled()


def test_a_document_preview_describes_the_document(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".attention")
    assert seen(hand, dialog) is None
    assert dialog.pane.shown
    assert hand.window.workspace.snapshot
    assert dialog.pane.shown.text.split("\n") == describe_value_origin(
        hand.window.workspace.snapshot.run
    ).split(" · ")
    assert dialog.size_.text() == "Attention Visualizer document"
    assert not dialog.figure.isVisible()
    assert not dialog.copy.isEnabled()
    assert dialog.save.isEnabled()


def shown_rows(dialog: ExportDialog) -> set[str]:
    """Return the names of the visible options, except the format."""
    widgets = dialog.figure.findChildren(QWidget) + dialog.film.findChildren(QWidget)
    kinds = (QComboBox, QLineEdit, QCheckBox)
    return {one.accessibleName() for one in widgets if isinstance(one, kinds) and one.isVisible()}


ON_IT = {"Content", "Colours", "Title", "Add a caption that describes the computation"}
MARKS = "Mark the pinned cell and the selected tokens"
CARRIED = "Embed the document, so that the file can be reopened"
OF_A_FILM = {
    *("Part", "First stage", "Last stage", "Animation steps", "Animation speed", "Pixels"),
    "Animate inputs",
    "Loop (begin again at the end)",
    "Text size (pt)",
}


@pytest.mark.parametrize(
    ("suffix", "rows"),
    others_slow(
        [
            (".html", {*ON_IT, MARKS, CARRIED}),
            (
                ".gif",
                {
                    *ON_IT - {"Content"},
                    MARKS,
                    *OF_A_FILM,
                    "Text size (pt)",
                    "Loop (begin again at the end)",
                },
            ),
            (".csv", {"Content"}),
            (".md", {"Content"}),
            (".npz", set()),
            (".json", set()),
            (".safetensors", set()),
        ],
        first=3,
    ),
)
def test_the_visible_options_are_the_used_fields(hand: Hand, suffix: str, rows: set[str]) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, suffix)
    assert shown_rows(dialog) == rows


def test_hidden_options_have_no_effect(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[FigureSettings] = []
    monkeypatch.setattr(
        hand.window.controllers.export_controller.exporter,
        "write_file",
        lambda path, snapshot, figure_settings: asked.append(figure_settings),
    )
    dialog = opened(hand)
    choose(dialog, dialog.figure.preset, "Poster")
    choose(dialog, dialog.figure.extent, FigureExtent.ALL)
    choose(dialog, dialog.format, ".gif")
    assert not dialog.figure.extent.isVisible()
    monkeypatch.setattr(export_controller, "ask_export_path", lambda *parts: parts[-1]("/a.gif"))
    hand.until(dialog.save.isEnabled)
    hand.click(dialog.save)
    assert asked == [FigureSettings(points=24)]


def film(hand: Hand, figure_settings: AnimationSettings) -> ExportDialog:
    """Open the dialog with an animation format."""
    hand.window.controllers.export_controller.settings = ExportSettings(
        ".gif", FigureSettings(film=figure_settings)
    )
    return opened(hand)


SHORT = AnimationSettings((PlaybackPosition("weights"), "weights"), StepSize.CELL, 8, width=640)


@pytest.mark.slow
def test_an_animation_is_chosen_and_played_before_it_is_written(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".gif")
    first = dialog.pane.shown
    assert first
    hand.until(lambda: dialog.pane.shown is not None and dialog.pane.shown.animation is not None)
    choose(dialog, dialog.film.part, AnimationRange.STAGES)
    choose(dialog, dialog.film.last, "context")
    choose(dialog, dialog.film.first, "weights")
    choose(dialog, dialog.film.grain, StepSize.CELL)
    choose(dialog, dialog.film.speed, 8.0)
    choose(dialog, dialog.film.width_, 640)
    figure_settings = AnimationSettings(
        (PlaybackPosition("weights"), "context"), StepSize.CELL, 8, width=640
    )
    assert (
        dialog.settings.look.film
        == hand.window.controllers.export_controller.settings.look.film
        == figure_settings
    )
    assert export_controller.load_export_settings().look.film == figure_settings
    hand.until(lambda: "about" in dialog.film.description.text())
    assert dialog.film.description.text().startswith("42 steps · 6 s · about ")
    frames: list[int] = []
    hand.window.controllers.export_controller.preview_controller.rendered.connect(
        lambda made: frames.append(made.frame)
    )
    hand.until(lambda: len(frames) > 3)
    start = frames.index(min(frames))  # the preview plays in a loop
    assert sorted(frames) == frames[start:] + frames[:start]
    made = dialog.pane.shown
    assert made
    assert made.animation
    assert dialog.size_.text() == f"{made.animation.size[0]:,} × {made.animation.size[1]:,} pixels"


def test_a_frame_that_is_seen_is_the_one_that_is_written(hand: Hand) -> None:
    dialog = film(hand, SHORT)
    hand.until(lambda: dialog.pane.shown is not None and dialog.pane.shown.frame > 0)
    made = dialog.pane.shown
    assert made
    assert made.animation
    assert made.image
    whole = made.animation.paint_frame(made.frame)
    shape = whole.width() / whole.height()
    assert made.image.width() / made.image.height() == pytest.approx(shape, rel=0.01)
    small = made.image.copy()
    small.setDevicePixelRatio(1)
    if whole.size() != small.size():
        whole = whole.scaled(small.size(), mode=Qt.TransformationMode.SmoothTransformation)
    assert small == whole


@pytest.mark.slow
def test_an_animation_stands_still_for_those_who_want_no_motion(hand: Hand) -> None:
    app_settings.set_motion_reduced(True)
    dialog = film(hand, SHORT)
    hand.until(lambda: "about" in dialog.film.description.text())
    assert dialog.pane.shown
    assert dialog.pane.shown.frame == 0
    assert not dialog.film_player.is_playing


def test_an_animation_ends_with_the_dialog(hand: Hand) -> None:
    dialog = film(hand, SHORT)
    hand.until(lambda: dialog.film_player.is_playing)
    projector = dialog.film_player
    hand.key(Qt.Key.Key_Escape)
    assert not projector.is_playing
    hand.until(lambda: not hand.window.controllers.export_controller.preview_controller.is_working)


def test_an_animation_may_play_when_the_window_is_closed(hand: Hand) -> None:
    dialog = film(hand, SHORT)
    hand.until(lambda: dialog.film_player.is_playing)
    hand.window.close()
    assert not dialog.film_player.is_playing


@pytest.mark.slow
def test_an_animation_continues_in_another_room(hand: Hand) -> None:
    dialog = film(hand, replace(SHORT, grain=StepSize.ROW))
    hand.until(lambda: dialog.pane.shown is not None and dialog.pane.shown.frame > 0)
    made = dialog.pane.shown
    assert made
    assert made.image
    dialog.resize(dialog.size() - QSize(150, 150))
    hand.until(
        lambda: (
            dialog.pane.shown is not None
            and dialog.pane.shown.image is not None
            and dialog.pane.shown.image.width() < made.image.width()  # type: ignore[union-attr]
        )
    )
    assert dialog.pane.shown
    assert dialog.pane.shown.animation is made.animation
    assert dialog.pane.shown.frame >= made.frame


@pytest.mark.slow
def test_a_too_long_animation_is_reported_once_and_not_saved(hand: Hand) -> None:
    hand.type_sentence(" ".join(50 * ["word"]))
    hand.settle()
    dialog = opened(hand)
    choose(dialog, dialog.format, ".gif")
    choose(dialog, dialog.film.grain, StepSize.CELL)
    hand.until(lambda: not dialog.save.isEnabled())
    assert dialog.film.description.text().startswith("The animation has ")
    assert not dialog.problem.isVisible()
    choose(dialog, dialog.film.grain, StepSize.STAGE)
    hand.until(dialog.save.isEnabled)


def test_unavailable_formats_are_listed_with_the_reason(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "is_installed", lambda _: False)
    hand.window.controllers.export_controller.settings = ExportSettings(
        ".mp4", FigureSettings(film=SHORT)
    )  # the old preview, at another position
    dialog = opened(hand)
    said = formats.unavailable_reason(".mp4")
    assert "pip install" in said
    assert dialog.problem.text() == said
    assert dialog.problem.isVisible()
    assert not dialog.save.isEnabled()
    assert dialog.format.currentText().endswith(said)
    choose(dialog, dialog.format, ".webp")
    QTest.keyClick(dialog.format, Qt.Key.Key_Down)
    assert dialog.format.currentData() == ".npz"  # the keyboard skips this entry


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".md", ".json"])
def test_the_preview_of_a_text_format_shows_its_first_lines(
    hand: Hand, suffix: str, tmp_path: Path
) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, suffix)
    seen(hand, dialog)
    path = export_file(tmp_path / f"a{suffix}", dialog.snapshot, dialog.settings.figure_settings)
    lines = path.read_text("utf-8-sig").splitlines()
    said = dialog.pane.text.toPlainText().splitlines()
    assert said[-1] == "…"
    assert len(said) == MAX_PREVIEW_LINES + 1
    for line, whole in zip(said, lines, strict=False):
        assert line in (whole, f"{whole[:MAX_LINE_CHARACTERS]}…", "…")
    assert dialog.pane.text.isVisible()
    assert dialog.size_.text().startswith("About ")
    choose(dialog, dialog.format, ".png")
    seen(hand, dialog)
    assert not dialog.pane.text.isVisible()


def test_a_table_is_of_the_panels_that_are_chosen(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".md")
    seen(hand, dialog)
    assert "**Scores, head 1**" in dialog.pane.text.toPlainText()
    choose(dialog, dialog.figure.extent, FigureExtent.PANEL)
    seen(hand, dialog)
    assert dialog.pane.text.toPlainText().startswith("**Weights, head 1**")


def test_missing_weights_are_reported(hand: Hand) -> None:
    hand.window.workspace.change_setting("mechanism", "simplified")
    dialog = opened(hand)
    choose(dialog, dialog.format, ".safetensors")
    hand.until(lambda: dialog.problem.text().startswith("This module has no trainable weights."))
    assert not dialog.save.isEnabled()


def test_a_large_text_is_warned_of(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_preview, "LARGE_FILE_BYTES", 1000)
    dialog = opened(hand)
    choose(dialog, dialog.format, ".json")
    seen(hand, dialog)
    assert "slow to write" in dialog.size_.text()
    assert "NPZ" in dialog.size_.text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "said"),
    [
        (".csv", "byte order mark"),
        (".npz", "opened as a document"),
    ],
)
def test_the_note_of_a_format_is_shown(suffix: str, said: str, hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, suffix)
    seen(hand, dialog)
    assert said in dialog.size_.text()


def small_figure(hand: Hand, width: str) -> ExportDialog:
    """Choose a width in mm at which the panels are scaled down."""
    dialog = opened(hand)
    choose(dialog, dialog.figure.preset, "Paper page")
    type_into(dialog.figure.width_, width)
    seen(hand, dialog)
    return dialog


def test_text_that_is_too_small_is_rejected_and_a_click_widens_the_figure(hand: Hand) -> None:
    dialog = small_figure(hand, "12")
    field = dialog.figure.width_
    assert field.note.isVisible()
    assert field.note.text().endswith("too small for print.")
    assert field.note.text() in field.box.accessibleDescription()
    assert not dialog.save.isEnabled()
    assert not dialog.copy.isEnabled()
    offer = field.offer.text()
    assert offer.startswith("Use ")
    QTest.mouseClick(field.offer, Qt.MouseButton.LeftButton)
    seen(hand, dialog)
    assert f"Use {field.box.text()} mm" == offer
    assert field.note.isHidden()
    assert field.offer.isHidden()
    assert dialog.save.isEnabled()


@pytest.mark.slow
def test_small_text_is_reported_at_the_width_in_its_unit(hand: Hand) -> None:
    dialog = small_figure(hand, "12")
    choose(dialog, dialog.figure.unit, LengthUnit.INCH)
    seen(hand, dialog)
    width = float(dialog.figure.width_.offer.text().split()[1])
    type_into(dialog.figure.width_, f"{width * 0.8:.3f}")
    seen(hand, dialog)
    assert dialog.figure.width_.note.text().startswith("The smallest text would be ")
    assert dialog.figure.width_.offer.text().endswith(" inch")
    assert dialog.save.isEnabled()


@pytest.mark.slow
def test_numbers_have_no_text_size(hand: Hand) -> None:
    dialog = small_figure(hand, "12")
    choose(dialog, dialog.format, ".csv")
    seen(hand, dialog)
    assert dialog.save.isEnabled()
    choose(dialog, dialog.format, ".png")
    seen(hand, dialog)
    assert not dialog.save.isEnabled()


def test_an_svg_has_no_pixels(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".pdf")
    choose(dialog, dialog.figure.preset, "Slide")
    seen(hand, dialog)
    assert dialog.size_.text() == "339 × 190 mm"


FOR_FIGURES = {"Size preset", "Length unit", "Width", "Height", "Resolution (dpi)", CARRIED}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        (".png", {*ON_IT, *FOR_FIGURES, "Text size (pt)"}),
        (".html", {*ON_IT, CARRIED}),
        (".webp", {*ON_IT - {"Content"}, *OF_A_FILM - {"First stage", "Last stage"}}),
        (".md", {"Content"}),
        (".npz", set()),
    ],
)
def test_every_choice_is_reached_by_keyboard_and_has_a_name(
    hand: Hand, suffix: str, names: set[str]
) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, suffix)
    dialog.format.setFocus()
    reached = []
    while (widget := QApplication.focusWidget()) is not None and widget not in reached:
        reached.append(widget)
        QTest.keyClick(widget, Qt.Key.Key_Tab)
    found = [
        one.accessibleName() or (one.text() if isinstance(one, QAbstractButton) else "")
        for one in reached
    ]
    assert "" not in found
    assert {"Format", *names} <= set(found)
    letters = [
        text[text.index("&") + 1].lower()
        for text in (
            one.text()
            for one in dialog.findChildren(QWidget)
            if isinstance(one, (QLabel, QAbstractButton)) and one.isVisible()
        )
        if "&" in text
    ]
    assert len(letters) == len(set(letters))


def test_a_letter_leads_to_its_choice(hand: Hand) -> None:
    dialog = opened(hand)
    QTest.keyClick(dialog, Qt.Key.Key_T, ALT)
    assert QApplication.focusWidget() is dialog.figure.title


def test_the_dialog_restores_its_settings(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".svg")
    choose(dialog, dialog.figure.preset, "Poster")
    hand.key(Qt.Key.Key_Escape)
    hand.activate()
    assert opened(hand).settings == ExportSettings(".svg", FIGURE_PRESETS["Poster"])
    assert export_controller.load_export_settings() == ExportSettings(
        ".svg", FIGURE_PRESETS["Poster"]
    )


def test_a_figure_is_copied_as_pixels_and_as_an_svg(hand: Hand) -> None:
    dialog = opened(hand)
    choose(dialog, dialog.figure.preset, "Slide")
    hand.click(dialog.copy)
    hand.until(lambda: not hand.window.controllers.export_controller.exporter.is_working)
    data = QGuiApplication.clipboard().mimeData()
    image = QGuiApplication.clipboard().image()
    assert (image.width(), image.height()) == (1920, 1080)
    assert bytes(data.data("image/svg+xml").data()).startswith(b"<?xml")
    assert hand.window.controllers.export_controller.dialog is dialog  # saving is also enabled
    said = hand.window.statusBar().currentMessage()
    assert said == "Copied an image of 1,920 × 1,080 pixels"


def test_an_image_is_copied_by_keyboard(hand: Hand) -> None:
    shift = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    hand.settle()
    hand.press(Qt.Key.Key_I, shift)
    hand.until(lambda: not hand.window.controllers.export_controller.exporter.is_working)
    assert not QGuiApplication.clipboard().image().isNull()


def save_svg_as(hand: Hand, path: Path) -> ExportDialog:
    dialog = opened(hand)
    choose(dialog, dialog.format, ".svg")
    seen(hand, dialog)
    hand.click(dialog.save)
    (question,) = dialog.findChildren(QFileDialog)
    hand.until(question.isVisible)
    name_file(question, path)
    return dialog


def test_a_name_is_requested_and_takes_the_suffix(hand: Hand, tmp_path: Path) -> None:
    save_svg_as(hand, tmp_path / "drawn")
    hand.until(lambda: not hand.window.controllers.export_controller.exporter.is_working)
    assert (tmp_path / "drawn.svg").read_bytes().startswith(b"<?xml")
    assert hand.window.statusBar().currentMessage() == f"Exported to {tmp_path / 'drawn.svg'}"
    assert hand.window.controllers.export_controller.dialog is None
    assert hand.window.controllers.export_controller.folder == tmp_path


@pytest.mark.parametrize("name", [".drawn", "drawn."])
def test_a_completed_name_replaces_no_file_without_a_question(
    name: str, hand: Hand, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.svg"
    path.write_bytes(b"old")
    dialog = save_svg_as(hand, tmp_path / name)
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert box.text() == f"“{path.name}” already exists. Choose another name."
    assert path.read_bytes() == b"old"
    hand.click(box.buttons()[0])
    assert hand.window.controllers.export_controller.dialog is dialog  # the dialog stays open


def test_render_errors_appear_next_to_the_preview(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialog = opened(hand)
    shown = dialog.pane.shown
    monkeypatch.setattr(rasterization, "QImage", NoImage)
    choose(dialog, dialog.figure.preset, "Poster")
    hand.until(dialog.problem.isVisible)
    assert "export numerical data" in dialog.problem.text()
    assert dialog.pane.shown is shown  # the last preview remains
    assert not dialog.save.isEnabled()
    monkeypatch.undo()
    choose(dialog, dialog.figure.preset, "Slide")
    hand.until(dialog.save.isEnabled)


def test_an_export_can_be_cancelled(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = threading.Event()

    def write(
        page: object, snapshot: object, figure_settings: object, file: object, progress: object
    ) -> None:
        assert callable(progress)
        while not going.wait(0.01):  # not every call results in a preview
            progress(1, 4)
        progress(2, 4)

    monkeypatch.setattr(writers, "FIGURE_WRITERS", {".png": write})
    saving, snapshot = (
        hand.window.controllers.export_controller.progress.widget,
        hand.window.workspace.snapshot,
    )
    assert snapshot
    assert not saving.isVisible()
    hand.window.controllers.export_controller.exporter.write_file(
        tmp_path / "a.png", snapshot, FigureSettings()
    )
    hand.until(saving.isVisible)
    hand.until(lambda: (saving.line.value(), saving.line.maximum()) == (1, 4))
    hand.click(saving.cancel)
    going.set()
    hand.until(lambda: not hand.window.controllers.export_controller.exporter.is_working)
    assert not saving.isVisible()
    assert list(tmp_path.glob("*.png")) == []
    assert hand.window.statusBar().currentMessage() == CANCELLED_MESSAGE


def test_a_long_text_is_seen_first_and_written_exactly(
    hand: Hand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("MAX_FULL_MATRIX_BYTES", "MIN_BLOCKWISE_BYTES"):
        monkeypatch.setattr(attention_run, name, 0)
    hand.type_sentence("abcdefg " * 25)
    dialog = opened(hand)
    choose(dialog, dialog.figure.extent, FigureExtent.CELLS)
    assert not dialog.figure.width_.isVisible()
    image = seen(hand, dialog)
    assert image is not None
    assert image.width() == image.height()
    hand.until(lambda: "25 × 25 pixels; each pixel shows one cell · preview" in dialog.size_.text())
    choose(dialog, dialog.format, ".csv")
    hand.until(lambda: dialog.pane.shown is not None and "abcdefg" in dialog.pane.shown.text)
    choose(dialog, dialog.format, ".gif")
    hand.until(lambda: "not available for long texts" in dialog.film.description.text())
    choose(dialog, dialog.format, ".png")
    seen(hand, dialog)
    hand.click(dialog.save)
    box = hand.window.findChild(QFileDialog)
    assert box
    name_file(box, tmp_path / "cells.png")
    hand.until(lambda: not hand.window.controllers.export_controller.exporter.is_working)
    assert QImage(str(tmp_path / "cells.png")).size() == QSize(25, 25)
