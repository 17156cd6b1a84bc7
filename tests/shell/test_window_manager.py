"""What is set in one window is that of all, and each is painted again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QImage

from visualizer.session.document import Document
from visualizer.widgets.theme import DARK, LIGHT, Scheme

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from visualizer.shell.window import MainWindow
    from visualizer.shell.window_manager import WindowManager
    from visualizer.widgets.theme import Theme


def paper(window: MainWindow) -> str:
    """Give the colour of the bar below, as it is painted."""
    bar = window.statusBar()
    image = QImage(bar.size(), QImage.Format.Format_RGB32)
    image.fill(0)
    bar.render(image)
    return image.pixelColor(4, bar.height() // 2).name().upper()


def are_alike(windows: list[MainWindow], theme: Theme) -> bool:
    """Whether all have a theme, and are painted."""
    return all(
        window.updatesEnabled() and window.theme is theme and paper(window) == theme.paper
        for window in windows
    )


def test_a_theme_is_that_of_all_windows(windows: WindowManager, qtbot: QtBot) -> None:
    opened = [windows.open(Document()) for _ in range(3)]
    opened[1].settings_controller.choose_scheme(Scheme.DARK)
    qtbot.waitUntil(lambda: are_alike(opened, DARK))
    opened[1].settings_controller.choose_scheme(Scheme.LIGHT)
    qtbot.waitUntil(lambda: are_alike(opened, LIGHT))
    assert [window.scheme for window in opened] == [Scheme.LIGHT] * 3


def test_the_last_of_two_themes_stays_though_the_first_was_not_everywhere(
    windows: WindowManager, qtbot: QtBot
) -> None:
    opened = [windows.open(Document()) for _ in range(3)]
    opened[0].settings_controller.choose_scheme(Scheme.DARK)
    opened[2].settings_controller.choose_scheme(Scheme.LIGHT)
    qtbot.waitUntil(lambda: are_alike(opened, LIGHT))
    windows.all[1].close()
    windows.all[0].settings_controller.choose_scheme(Scheme.DARK)
    qtbot.waitUntil(lambda: are_alike(windows.all, DARK))
    assert [window.scheme for window in windows.all] == [Scheme.DARK] * 2
