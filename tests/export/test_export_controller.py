"""Exports contain the displayed content; a failed export is reported and destroys nothing."""

from __future__ import annotations

import errno
import io
import os
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.examples import others_slow
from tests.support.window_input import PATIENCE_MS
from visualizer.export import export_controller, writers
from visualizer.export.figure_settings import FigureSettings, FigureTheme
from visualizer.export.figures import rasterization
from visualizer.export.figures.figure_page import create_figure_content, lay_out_page
from visualizer.export.figures.png_writer import save_png_image
from visualizer.export.figures.rasterization import MAX_SIDE_PX, render_page
from visualizer.export.formats import FORMATS, FormatKind, add_suffix, format_of_file, list_suffixes
from visualizer.export.progress_controller import CLOSING_NOTICE
from visualizer.export.writers import WRITERS, export_file
from visualizer.heatmap.board import Board
from visualizer.session.computation_caption import describe_value_origin
from visualizer.widgets.theme import DARK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.window_input import Hand
    from visualizer.export.figures.figure_page import FigurePage
    from visualizer.progress import Progress
    from visualizer.session.export_snapshot import ExportSnapshot

    Answer = Callable[..., None]

SUFFIXES = [each.suffix for each in FORMATS]
PNG, NPZ = (f"{each.words} (*{each.suffix})" for each in FORMATS if each.suffix in {".png", ".npz"})


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Answer the file dialog with a path."""

    def answer_(path: object) -> None:
        def ask(
            parent: object, settings: object, folder: object, take: Callable[[str], None]
        ) -> None:
            if path:
                take(str(path))

        monkeypatch.setattr(export_controller, "ask_export_path", ask)

    return answer_


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the texts of warnings without showing them."""
    said: list[str] = []
    monkeypatch.setattr(export_controller, "show_warning", lambda *parts: said.append(parts[-1]))
    return said


class NoImage(QImage):
    """An image for which there is not enough memory."""

    def __init__(self, *_: object) -> None:
        super().__init__()


class Slow:
    """An export that waits until it is released, and that can fail on request."""

    def __init__(self) -> None:
        self.passes = threading.Event()
        self.error: Exception | None = None
        self.count = 0
        self.thread = 0

    def __call__(
        self,
        path: Path,
        snapshot: ExportSnapshot,
        figure_settings: FigureSettings,
        progress: Progress,
    ) -> Path:
        self.count += 1
        self.thread = threading.get_ident()
        self.passes.wait(PATIENCE_MS / 1000)
        if self.error:
            raise self.error
        return export_file(path, snapshot, figure_settings, progress)


def press_save(hand: Hand, suffix: str = ".png") -> None:
    """Open the dialog by its shortcut, choose a format, and click the Save button."""
    hand.activate()
    hand.press(Qt.Key.Key_E)
    hand.until(lambda: hand.window.controllers.export_controller.dialog is not None)
    dialog = hand.window.controllers.export_controller.dialog
    assert dialog
    hand.until(dialog.isActiveWindow)
    formats = dialog.format
    formats.setFocus()
    QTest.keyClick(formats, Qt.Key.Key_Home)
    while formats.currentData() != suffix:
        QTest.keyClick(formats, Qt.Key.Key_Down)
    hand.until(dialog.save.isEnabled)
    hand.click(dialog.save)


def export_by_hand(hand: Hand, suffix: str = ".png") -> None:
    """Export the displayed content, and wait until the export has finished or failed."""
    press_save(hand, suffix)
    hand.until(lambda: not hand.window.controllers.export_controller.exporter.is_working)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_an_image_works_without_extras(hand: Hand, answer: Answer, tmp_path: Path) -> None:
    answer(tmp_path / "attention.png")
    export_by_hand(hand)
    image = QImage(str(tmp_path / "attention.png"))
    assert min(image.width(), image.height()) > 500
    assert image.pixelColor(0, 0).name() == "#ffffff"
    run = hand.window.workspace.run
    assert run
    assert image.text("Description").startswith(describe_value_origin(run))
    assert hand.window.statusBar().currentMessage() == f"Exported to {tmp_path / 'attention.png'}"


def test_the_numbers_match(hand: Hand, answer: Answer, tmp_path: Path) -> None:
    answer(tmp_path / "numbers.npz")
    export_by_hand(hand, ".npz")
    with np.load(tmp_path / "numbers.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["weights"][1], hand.panel("weights", 1).values)
        assert arrays["tokens"].tolist() == list(hand.chips)


@pytest.mark.parametrize(
    ("name", "chosen", "written"),
    [
        ("a", PNG, "a.png"),
        ("a", NPZ, "a.npz"),
        ("a.npz", PNG, "a.npz"),
        ("a.PNG", NPZ, "a.PNG"),
        ("a", "", "a.png"),
        ("attention v1.2", PNG, "attention v1.2.png"),
    ],
)
def test_a_name_without_a_suffix_takes_the_chosen_one(name: str, chosen: str, written: str) -> None:
    assert add_suffix(name, chosen).name == written


def test_no_file_name_cancels_the_export(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path
) -> None:
    answer("")
    export_by_hand(hand)
    dialog = hand.window.controllers.export_controller.dialog
    assert dialog is not None  # the user can enter another name
    hand.key(Qt.Key.Key_Escape)
    assert hand.window.controllers.export_controller.dialog is None
    assert warnings == []
    assert left(tmp_path) == []


def test_a_completed_name_that_is_too_long_is_said_to_be(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path
) -> None:
    answer(tmp_path / f"{'a' * 250}.v2")
    export_by_hand(hand)
    hand.until(lambda: bool(warnings))
    assert warnings[0].startswith("Cannot write")
    assert "too long" in warnings[0]
    assert left(tmp_path) == []


def test_an_unknown_format_is_reported(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path
) -> None:
    answer(tmp_path / "attention.bmp")
    export_by_hand(hand)
    assert warnings == [f"Unsupported export format “.bmp”. Supported: {list_suffixes()}."]
    assert all(suffix in warnings[0] for suffix in SUFFIXES)
    assert left(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "suffix", [each.suffix for each in FORMATS if each.kind != FormatKind.FILM]
)
@pytest.mark.parametrize("code", others_slow([errno.ENOSPC, errno.EACCES, errno.EROFS]))
def test_write_errors_are_reported_and_the_old_file_stays(
    hand: Hand,
    answer: Answer,
    warnings: list[str],
    suffix: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / f"attention{suffix}"
    path.write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    answer(path)
    board = hand.shown
    export_by_hand(hand, suffix)
    assert warnings == [f"Cannot write “{path.name}” to {tmp_path}: {os.strerror(code)}."]
    assert path.read_bytes() == b"old"
    assert hand.shown is board


def test_a_folder_that_is_not_there_is_reported(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path
) -> None:
    answer(tmp_path / "missing" / "a.png")
    export_by_hand(hand)
    assert warnings == [
        f"Cannot write “a.png” to {tmp_path / 'missing'}: No such file or directory."
    ]


def test_a_read_only_folder_is_reported(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    answer(folder / "a.png")
    export_by_hand(hand)
    folder.chmod(0o700)
    assert left(folder) in ([], ["a.png"])  # permissions do not apply to the superuser
    assert bool(warnings) == (left(folder) == [])


def test_a_failed_image_is_reported_and_the_old_file_stays(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "attention.png"
    path.write_bytes(b"old")
    answer(path)
    press = hand.window.controllers.export_controller.exporter.write_file
    monkeypatch.setattr(
        hand.window.controllers.export_controller.exporter,
        "write_file",
        lambda *asked: (monkeypatch.setattr(rasterization, "QImage", NoImage), press(*asked)),
    )
    export_by_hand(hand)
    (said,) = warnings
    assert "Show fewer stages" in said
    assert hand.window.statusBar().currentMessage() == ""
    assert path.read_bytes() == b"old"
    assert left(tmp_path) == ["attention.png"]


# ------------------------------------------------------------------------------ off the GUI thread


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Make exports wait until they are released."""
    made = Slow()
    monkeypatch.setattr(writers, "export_file", made)
    return made


def test_the_window_lives_while_a_file_is_written(
    hand: Hand, answer: Answer, slow: Slow, tmp_path: Path
) -> None:
    window, action = hand.window, hand.window.actions_.by_id["export.open"]
    answer(tmp_path / "a.png")
    press_save(hand)
    assert window.statusBar().currentMessage() == "Exporting…"
    assert not action.isEnabled()
    hand.type_sentence("another one")  # the screen is updated while the export continues
    hand.settle()
    assert not action.isEnabled()
    hand.press(Qt.Key.Key_E)
    assert left(tmp_path) == []
    slow.passes.set()
    hand.until(action.isEnabled)
    assert window.statusBar().currentMessage() == f"Exported to {tmp_path / 'a.png'}"
    assert slow.count == 1
    assert slow.thread not in {0, threading.get_ident()}
    text = QImage(str(tmp_path / "a.png")).text("Description")
    assert "6 tokens" in text  # the content at the time of the request


def test_a_second_export_is_ignored(hand: Hand, answer: Answer, slow: Slow, tmp_path: Path) -> None:
    snapshot = hand.window.workspace.snapshot
    assert snapshot
    hand.window.controllers.export_controller.exporter.write_file(
        tmp_path / "a.npz", snapshot, FigureSettings()
    )
    hand.window.controllers.export_controller.exporter.write_file(
        tmp_path / "b.npz", snapshot, FigureSettings()
    )
    slow.passes.set()
    hand.until(lambda: not hand.window.controllers.export_controller.exporter.is_working)
    assert left(tmp_path) == ["a.npz"]


def test_a_bug_is_shown_and_exporting_continues(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path, slow: Slow
) -> None:
    answer(tmp_path / "a.png")
    slow.error = ZeroDivisionError("of the export")
    slow.passes.set()
    export_by_hand(hand)
    (box,) = hand.boxes()
    assert "ZeroDivisionError: of the export" in box.detailedText()
    assert warnings == []
    box.close()
    slow.error = None
    hand.activate()
    export_by_hand(hand)
    assert left(tmp_path) == ["a.png"]


def test_closing_waits_for_what_is_being_written(
    hand: Hand, answer: Answer, tmp_path: Path, slow: Slow
) -> None:
    answer(tmp_path / "a.png")
    press_save(hand)
    hand.window.close()
    assert hand.window.isVisible()  # and does not delay it
    assert hand.window.statusBar().currentMessage() == f"{CLOSING_NOTICE}."
    hand.type_sentence("it lives")
    hand.settle()
    hand.window.controllers.document_controller.discard_unsaved_changes()
    slow.passes.set()
    hand.until(lambda: not hand.window.isVisible())
    assert not QImage(str(tmp_path / "a.png")).isNull()
    assert left(tmp_path) == ["a.png"]


def test_cancelled_previews_are_not_awaited(
    hand: Hand, answer: Answer, tmp_path: Path, slow: Slow
) -> None:
    answer(tmp_path / "a.png")
    press_save(hand)
    hand.window.close()
    hand.window.controllers.export_controller.exporter.cancel()
    slow.passes.set()
    hand.until(lambda: not hand.window.isVisible())
    assert left(tmp_path) == []


def test_closing_does_not_hide_an_error(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path
) -> None:
    answer(tmp_path / "missing" / "a.png")
    press_save(hand)
    hand.window.close()
    hand.until(lambda: bool(warnings))
    assert warnings[0].endswith("No such file or directory.")
    assert hand.window.isVisible()


# ------------------------------------------------------------------------------------ pictures


def page(hand: Hand, figure_settings: FigureSettings) -> FigurePage:
    snapshot = hand.window.workspace.snapshot
    assert snapshot
    return lay_out_page(create_figure_content(snapshot, figure_settings), figure_settings)


def test_an_image_has_its_size_and_can_be_read_back(hand: Hand) -> None:
    made = page(hand, FigureSettings())
    image = render_page(made, 300)
    assert image.dotsPerMeterX() == image.dotsPerMeterY() == round(300 / 0.0254)
    file = io.BytesIO()
    save_png_image(image, file)
    back = QImage.fromData(QByteArray(file.getvalue()))
    assert back.size() == image.size()
    assert back.convertToFormat(image.format()) == image
    assert back.text("Description") == made.figure.caption != ""


def test_an_image_can_be_dark(hand: Hand) -> None:
    image = render_page(page(hand, FigureSettings(paper=FigureTheme.DARK)), 96)
    assert image.pixelColor(0, 0).name().upper() == DARK.paper


def test_an_image_is_as_wide_as_requested(hand: Hand) -> None:
    figure_settings = FigureSettings(width_mm=85, dpi=300, points=7, is_trimmed=False)
    assert render_page(page(hand, figure_settings), figure_settings.dpi).width() == round(
        85 / 25.4 * 300
    )


@pytest.mark.slow
def test_an_image_is_never_too_large_to_be_made(hand: Hand) -> None:
    snapshot = hand.window.workspace.snapshot
    assert snapshot
    figure = create_figure_content(snapshot, FigureSettings())
    tall = replace(figure, board=Board(tuple(column * 60 for column in figure.board.columns)))
    image = render_page(lay_out_page(tall, FigureSettings()), 192)
    assert max(image.width(), image.height()) == pytest.approx(MAX_SIDE_PX, rel=0.01)


# ------------------------------------------------------------------------------------- formats


def test_every_format_has_a_writer() -> None:
    assert list(WRITERS) == SUFFIXES


@pytest.mark.parametrize(("name", "suffix"), [("a.PNG", ".png"), ("b.c.npz", ".npz")])
def test_a_format_is_found_by_a_name(name: str, suffix: str) -> None:
    found = format_of_file(name)
    assert found
    assert found.suffix == suffix


def test_a_name_without_a_format_has_none() -> None:
    assert format_of_file("a.bmp") is None
    assert format_of_file("png") is None


def test_a_window_that_closes_opens_no_dialog(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, loaded = hand.window.controllers.export_controller, threading.Event()
    monkeypatch.setattr(export_controller, "DIALOG_MODULES", ("not loaded yet",))
    monkeypatch.setattr(export_controller, "import_module", lambda _: loaded.set())
    publisher.open_export_dialog()
    assert loaded.wait(PATIENCE_MS / 1000)
    publisher.close()  # before the result arrives
    QApplication.processEvents()
    assert publisher.dialog is None
