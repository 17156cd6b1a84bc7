"""Settings of one window apply to all windows, and closed windows leave nothing in memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QUrl
from PySide6.QtGui import QFileOpenEvent, QImage
from PySide6.QtWidgets import QApplication

from tests.benchmarks import children
from tests.support.window_input import PATIENCE_MS
from visualizer import app
from visualizer.cli.options import create_parser
from visualizer.documents.document_file import document_bytes
from visualizer.session.document import Document
from visualizer.session.view import WINDOW_VIEW
from visualizer.widgets.theme import DARK, LIGHT, ColourScheme

if TYPE_CHECKING:
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from visualizer.documents.document_file import SavedDocument
    from visualizer.shell.application import Application
    from visualizer.shell.window import MainWindow
    from visualizer.shell.window_manager import WindowManager
    from visualizer.widgets.theme import Theme


def paper(window: MainWindow) -> str:
    """Return the painted colour of the bar below the board."""
    bar = window.statusBar()
    image = QImage(bar.size(), QImage.Format.Format_RGB32)
    image.fill(0)
    bar.render(image)
    return image.pixelColor(4, bar.height() // 2).name().upper()


def are_alike(windows: list[MainWindow], theme: Theme) -> bool:
    """Return whether all windows have the given theme and are painted."""
    return all(
        window.updatesEnabled() and window.theme is theme and paper(window) == theme.side
        for window in windows
    )


def test_data_of_a_closed_window_are_freed_on_another_thread(
    windows: WindowManager, qtbot: QtBot
) -> None:
    class Large:
        def __del__(self) -> None:
            where.append(threading.get_ident())

    where: list[int] = []
    window = windows.open_window(Document())
    qtbot.waitUntil(lambda: window.workspace.run is not None)
    qtbot.waitUntil(lambda: not window.workspace.is_working)
    workspace = window.workspace
    workspace.show_document(workspace.document, workspace.view, opened_model=Large())
    window.close()
    qtbot.waitUntil(lambda: bool(where))
    assert where != [threading.get_ident()]


def test_a_document_that_the_desktop_requests_is_opened_once(
    windows: WindowManager, qapp: Application, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "requested.attention"
    path.write_bytes(document_bytes(replace(Document(), text="asked for"), WINDOW_VIEW))
    qapp.fileRequested.connect(windows.open_file)
    for _ in range(2):  # macOS sends this event; the second time, the document is already open
        QApplication.sendEvent(qapp, QFileOpenEvent(str(path)))
        qtbot.waitUntil(lambda: windows.all[-1].workspace.document.text == "asked for")
        qtbot.waitUntil(lambda: not windows.all[-1].workspace.is_working)
    qapp.fileRequested.disconnect(windows.open_file)
    (window,) = windows.all
    assert window.controllers.document_controller.path == path
    assert not QApplication.sendEvent(qapp, QFileOpenEvent(QUrl("attention://nothing")))


def test_a_model_of_the_command_line_is_opened_in_the_window(
    windows: WindowManager, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    def show(saved: SavedDocument, path: Path) -> int:
        windows.open_first_window(saved, path)
        return 0

    monkeypatch.setattr(app, "show_window", show)
    assert (
        app.open_or_export_document(
            create_parser().parse_args([str(tiny_model_folder), "--text", "a cat"])
        )
        == 0
    )
    (window,) = windows.all
    assert window.controllers.model_chooser_controller.is_working
    dialog = window.controllers.model_chooser_controller.dialog
    assert dialog is not None
    assert dialog.isVisible()
    assert window.workspace.document.model is None
    qtbot.waitUntil(lambda: window.workspace.document.model is not None, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: not window.workspace.is_working)
    run = window.workspace.run
    assert run
    assert run.texts == (("<s>", "a", "cat"),)


def test_a_folder_that_holds_no_model_is_rejected_before_a_window_opens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    assert app.open_or_export_layers(create_parser().parse_args([str(tmp_path)])) == 2
    assert capsys.readouterr().err.endswith(
        "FILE: “config.json” is damaged: it is not valid JSON.\n"
    )


@pytest.mark.slow
def test_a_theme_is_that_of_all_windows(windows: WindowManager, qtbot: QtBot) -> None:
    opened = [windows.open_window(Document()) for _ in range(3)]
    opened[1].controllers.settings_controller.choose_colour_scheme(ColourScheme.DARK)
    qtbot.waitUntil(lambda: are_alike(opened, DARK))
    opened[1].controllers.settings_controller.choose_colour_scheme(ColourScheme.LIGHT)
    qtbot.waitUntil(lambda: are_alike(opened, LIGHT))
    assert [window.scheme for window in opened] == [ColourScheme.LIGHT] * 3


@pytest.mark.slow
def test_the_last_of_two_themes_stays_though_the_first_was_not_everywhere(
    windows: WindowManager, qtbot: QtBot
) -> None:
    opened = [windows.open_window(Document()) for _ in range(3)]
    opened[0].controllers.settings_controller.choose_colour_scheme(ColourScheme.DARK)
    opened[2].controllers.settings_controller.choose_colour_scheme(ColourScheme.LIGHT)
    qtbot.waitUntil(lambda: are_alike(opened, LIGHT))
    windows.all[1].close()
    windows.all[0].controllers.settings_controller.choose_colour_scheme(ColourScheme.DARK)
    qtbot.waitUntil(lambda: are_alike(windows.all, DARK))
    assert [window.scheme for window in windows.all] == [ColourScheme.DARK] * 2


@pytest.mark.slow
def test_memory_of_closed_windows_is_freed() -> None:
    """The results of the first window are included; memory does not grow with further windows."""
    kept = children.python("-m", "tests.support.closed_windows", "10")
    assert (kept["first"], kept["others"]) == (0, 0)
    taken = kept["bytes"]
    assert len(taken) > 2
    assert taken[-1] <= 1.025 * taken[0], taken
