"""The plot of losses under its controls: how smooth it is, which of its axes are logarithmic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from visualizer.state.lab.plotted import PlotLook
from visualizer.ui.accessible import tell
from visualizer.ui.controls import Slider
from visualizer.ui.lab.plot import LossPlotView
from visualizer.ui.lab.training_bar import text_button
from visualizer.ui.labels import PlainLabel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QAction

    from visualizer.state.lab.plotted import LossPlot
    from visualizer.ui.theme import Theme

SMOOTHINGS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
"""Each about twice as smooth as the one before."""
AXES = {"losses": "Log losses", "steps": "Log steps"}


def smoother(look: PlotLook, by: int) -> PlotLook:
    """Give a look that is smoother by so many of `SMOOTHINGS`, as far as there are."""
    at = SMOOTHINGS.index(look.smoothing) + by
    return replace(look, smoothing=SMOOTHINGS[min(max(at, 0), len(SMOOTHINGS) - 1)])


class PlotPane(QWidget):
    """The plot, and how it is looked at."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    lookChosen = Signal(object)

    def __init__(self, actions: Mapping[str, QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Losses and how they are plotted")
        self._look = PlotLook()
        self.view, self.notices, self.smoothing = LossPlotView(), PlainLabel(), Slider()
        self.notices.setProperty("role", "quiet")
        self.notices.setWordWrap(True)
        self.notices.setContentsMargins(16, 0, 16, 0)
        self.smoothing.setRange(0, len(SMOOTHINGS) - 1)
        self.smoothing.setPageStep(2)
        self.smoothing.setMaximumWidth(120)
        self.smoothing.setAccessibleName("Smoothing of the training losses")
        self.smoothing.valueChanged.connect(self._smooth)
        row = QHBoxLayout()
        row.setContentsMargins(16, 4, 16, 0)
        row.setSpacing(8)
        label = PlainLabel("Smoothing")
        label.setProperty("role", "quiet")
        label.setBuddy(self.smoothing)
        row.addWidget(label)
        row.addWidget(self.smoothing)
        row.addStretch(1)
        for name, words in AXES.items():
            row.addWidget(text_button(actions[name], words), 0, Qt.AlignmentFlag.AlignRight)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(row)
        column.addWidget(self.view, 1)
        column.addWidget(self.notices)
        self.setFocusProxy(self.view)

    def show_plot(self, plot: LossPlot, look: PlotLook, theme: Theme) -> None:
        """Show losses, and how they are looked at."""
        self._look = look
        self.smoothing.setValue(SMOOTHINGS.index(look.smoothing))
        tell(self.smoothing, f"{look.smoothing:g}")
        self.view.show_plot(plot, theme)
        self.notices.setText("\n".join(plot.notices))
        self.notices.setVisible(bool(plot.notices))

    def _smooth(self, at: int) -> None:
        if SMOOTHINGS[at] != self._look.smoothing:
            self.lookChosen.emit(replace(self._look, smoothing=SMOOTHINGS[at]))
