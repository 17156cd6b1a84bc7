"""Control that starts and stops measuring the heads of a long text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QProgressBar, QPushButton, QWidget

from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import plain_tooltip
from visualizer.widgets.layouts import row_layout

if TYPE_CHECKING:
    from visualizer.session.model_pane_options import MeasurementStatus

START_LABEL = "Measure heads"


class MeasurementControl(QWidget):
    """Start button, or progress bar and stop button; hidden if measuring is not offered."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    toggled = Signal()
    """Emitted when the start or stop button is clicked."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(START_LABEL)
        self.start, self.stop = QPushButton(START_LABEL), QPushButton("Stop")
        self.progress = QProgressBar()
        self.start.setToolTip(
            plain_tooltip("Compute the head measures for the long text, row by row")
        )
        self.stop.setToolTip(plain_tooltip("Stop and discard the partial results"))
        self.progress.setAccessibleName("Measured rows")
        self.progress.setTextVisible(False)
        self.progress.setFixedHeight(round(6 * text_scale()))
        self.progress.setRange(0, 100)
        row = row_layout(self, (0, 0, 0, 0), spacing=6)
        row.addWidget(self.start)
        row.addWidget(self.progress, 1)
        row.addWidget(self.stop)
        self._stretch = QWidget()
        row.addWidget(self._stretch, 1)
        for button in (self.start, self.stop):
            button.clicked.connect(self.toggled)
        self.show_measurement_status(None)

    def show_measurement_status(self, offer: MeasurementStatus | None) -> None:
        """Show the offer to measure the heads, or the progress; None hides the control."""
        had_focus = self.start.hasFocus() or self.stop.hasFocus()
        is_measuring = offer is not None and offer.is_measuring
        self.setVisible(offer is not None)
        self.progress.setValue(offer.share if offer else 0)
        for part in (self.start, self._stretch):
            part.setVisible(not is_measuring)
        for part in (self.progress, self.stop):
            part.setVisible(is_measuring)
        if had_focus and offer:
            (self.stop if is_measuring else self.start).setFocus()
