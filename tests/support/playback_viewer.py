"""Operates the playback bar and reads the heatmaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QToolButton

if TYPE_CHECKING:
    from PySide6.QtGui import QImage

    from tests.support.window_input import Hand
    from visualizer.features.playback.presenter import PlaybackBarContents
    from visualizer.session.timeline import PlaybackPosition
    from visualizer.shell.window import MainWindow

NONE = Qt.KeyboardModifier.NoModifier


class Viewer:
    """Operates the playback bar and reads the heatmaps."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.window: MainWindow = hand.window
        self.bar = hand.window.playback_bar
        hand.board.setFocus()

    @property
    def shown(self) -> PlaybackBarContents:
        assert self.bar.shown is not None
        return self.bar.shown[0]

    @property
    def place(self) -> PlaybackPosition | None:
        return self.shown.playhead.place

    @property
    def displayed_stage(self) -> tuple[range, range] | None:
        """The queries and keys in the zoomed area."""
        zoom = self.window.workspace.screen.view.zoom
        return (zoom.queries, zoom.keys) if zoom else None

    @property
    def said(self) -> str:
        return self.bar.caption.full_text

    def key(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
        self.hand.press(key, modifiers)
        self.hand.settle()

    def click(self, action: str) -> None:
        """Click the button of an action on the bar."""
        wanted = self.window.actions_.by_id[action]
        buttons = self.bar.findChildren(QToolButton)
        (button,) = (one for one in buttons if one.defaultAction() is wanted)
        self.hand.click(button)
        self.hand.settle()

    def choose(self, name: str, words_: str) -> None:
        self.hand.choose(name, words_)
        self.hand.settle()

    def picture(self) -> QImage:
        """The painted heatmaps, after the layout and all animations are complete."""
        for _ in range(3):
            QApplication.processEvents()
            self.hand.settle()
        self.hand.board.motion.skip_motion()
        return self.hand.board.viewport().grab().toImage()
