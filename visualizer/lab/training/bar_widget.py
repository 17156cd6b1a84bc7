"""The training bar, and the notices of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QProgressBar,
    QPushButton,
    QSpinBox,
    QToolButton,
    QWidget,
)

from visualizer.lab.screen_presenter import ALL_MAIN_BUTTON_TEXTS
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.buttons import FixedWidthToolButton
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import ElidedLabel, PlainTextLabel
from visualizer.widgets.layouts import column_layout, row_layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QAction

    from visualizer.lab.screen_presenter import TrainingBarState
    from visualizer.lab.training.run_state import RunFailure

MORE_STEPS = 1_000


class TrainingBar(QWidget):
    """The training bar, with buttons and progress."""

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar

    def __init__(self, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        self.setAccessibleName("Training")
        self.progress_bar, self.progress_label = QProgressBar(), ElidedLabel()
        self.progress_bar.setRange(0, 1_000)
        self.progress_bar.setTextVisible(False)
        self.progress_bar.setFixedHeight(3)
        self.progress_bar.setAccessibleName("Training progress")
        self.more_steps_box = QSpinBox()
        self.more_steps_box.setRange(1, 10_000_000)
        self.more_steps_box.setValue(MORE_STEPS)
        self.more_steps_box.setStepType(QAbstractSpinBox.StepType.AdaptiveDecimalStepType)
        self.more_steps_box.setAccessibleName("Additional steps")
        self.more_steps_box.setSuffix(" steps")
        install_input_filters(self.more_steps_box)
        row = row_layout(margins=(16, 4, 16, 4), spacing=6)
        self.buttons = {
            name: _create_action_button(actions[name]) for name in ("step", "stop", "more")
        }
        self.buttons["toggle"] = _create_action_button(
            actions["toggle"], FixedWidthToolButton(ALL_MAIN_BUTTON_TEXTS)
        )
        self.buttons["toggle"].setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.buttons["more"].setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        for name in ("toggle", "step", "stop"):
            row.addWidget(self.buttons[name])
        row.addSpacing(8)
        row.addWidget(self.progress_label, 1)
        row.addWidget(self.more_steps_box)
        row.addWidget(self.buttons["more"])
        column = column_layout(self, (0, 0, 0, 0), spacing=0)
        column.addWidget(self.progress_bar)
        column.addLayout(row)

    def show_progress(self, progress: TrainingBarState) -> None:
        """Show the progress, and the controls that have an effect."""
        self.progress_bar.setValue(round(1_000 * progress.share))
        self.progress_label.show_text(progress.line)
        for widget in (*self.buttons.values(), self.more_steps_box):
            widget.setVisible(progress.has_controls)
        self.more_steps_box.setEnabled(progress.can_train_more)
        set_accessible_value(self, progress.line)


def _create_action_button(action: QAction, button: QToolButton | None = None) -> QToolButton:
    button = button or QToolButton()
    button.setDefaultAction(action)
    button.setAutoRaise(True)
    button.setIconSize(QSize(20, 20) * text_scale())
    return button


def create_text_button(action: QAction, words: str) -> QToolButton:
    """Create a button for an action, with a text that is shorter than that of the action."""
    action.setIconText(words)
    button = _create_action_button(action)
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
    button.setAutoRaise(False)
    return button


class RunNoticesWidget(QWidget):
    """Notices below the heatmaps; hidden if there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.label, self.copy_button = PlainTextLabel(), QPushButton("Copy details")
        self.label.setProperty("role", "notice")
        self.label.setWordWrap(True)
        self.copy_button.clicked.connect(self._copy_details)
        self._details = ""
        row = row_layout(self, (0, 0, 16, 0))
        row.addWidget(self.label, 1)
        row.addWidget(self.copy_button)

    def show_notices(self, notices: tuple[str, ...], failure: RunFailure | None) -> None:
        """Show the failure, followed by the notices."""
        sentences = (*([failure.sentence] if failure else []), *notices)
        self._details = failure.details if failure else ""
        self.label.setText("\n".join(sentences))
        self.copy_button.setVisible(bool(self._details))
        self.setVisible(bool(sentences))

    def _copy_details(self) -> None:
        QApplication.clipboard().setText(self._details)
