"""The preview pane of the export dialog."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, Signal
from PySide6.QtGui import QAccessible, QColor, QFontDatabase, QPainter
from PySide6.QtWidgets import QPlainTextEdit, QSizePolicy, QWidget

from visualizer.export.dialog.preview_controller import frame_of, preview
from visualizer.widgets.accessible_roles_and_values import set_accessible_value
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtGui import QPaintEvent

    from visualizer.export.dialog.preview_controller import ExportPreview
    from visualizer.export.export_settings import ExportSettings
    from visualizer.export.films.animation_frames import AnimationFrames
    from visualizer.progress_callback import Progress
    from visualizer.session.exportable_snapshot import Snapshot
    from visualizer.widgets.theme import Theme
MIN_SIZE = QSize(360, 320)


class PreviewPane(QWidget):
    """Shows the latest preview."""

    ACCESSIBLE_ROLE = QAccessible.Role.Graphic
    resized = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.shown: ExportPreview | None = None
        self._theme = LIGHT
        self.setAccessibleName("Preview")
        self.setMinimumSize(MIN_SIZE)
        self.text = QPlainTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName("Beginning of the file")
        self.text.hide()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def maker(
        self, snapshot: Snapshot, settings: ExportSettings
    ) -> Callable[[Progress], ExportPreview]:
        """Return a function that renders a preview at the size of this pane."""
        return partial(preview, snapshot, settings, self._available_size, self.devicePixelRatioF())

    def frame_maker(
        self, animation: AnimationFrames, frame: int
    ) -> Callable[[Progress], ExportPreview]:
        """Return a function that paints a frame at the size of this pane."""
        return partial(frame_of, animation, frame, self._available_size, self.devicePixelRatioF())

    @property
    def _available_size(self) -> QSize:
        return self.size() - QSize(2, 2)

    def show_preview(self, made: ExportPreview, theme: Theme) -> None:
        """Show a preview."""
        self.shown, self._theme = made, theme
        set_accessible_value(self, made.said)
        self.text.setVisible(made.image is None)
        if self.text.toPlainText() != made.text:
            self.text.setPlainText(made.text)
        self.update()

    def resizeEvent(self, _: object) -> None:
        self.text.setGeometry(self.rect())
        self.resized.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if self.shown and self.shown.image:
            image = self.shown.image
            size = image.deviceIndependentSize()
            left, top = (self.width() - size.width()) / 2, (self.height() - size.height()) / 2
            at = QPointF(round(left), round(top))
            painter.drawImage(at, image)
            painter.setPen(QColor(self._theme.border))
            painter.drawRect(QRectF(at, size).adjusted(-1, -1, 0, 0))
        painter.end()
