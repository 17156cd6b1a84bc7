"""The Next token pane: probability bars and head edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QWidget,
)

from visualizer.features.next_token.presenter import NEXT_TOKEN_PANEL, NextTokenPanel
from visualizer.generation.token_bars_widget import NextTokenProbabilityBars
from visualizer.models.model_source import MAX_HEAD_SCALE, MAX_SOURCE_LENGTH, HeadEditKind
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.setting_controls import create_combo_box

if TYPE_CHECKING:
    from visualizer.session.screen import Screen
    from visualizer.widgets.theme import Theme

PANE_WIDTH_PX = 252
LEGEND = "Bars: with edits. Thin lines and grey numbers: without edits."
UNEDITED = ""
"""Value of the choice that removes the edits of the heads."""
EDIT_CHOICES = (
    (UNEDITED, "Unedited"),
    (HeadEditKind.OFF, "Ablate (zeros)"),
    (HeadEditKind.MEAN, "Ablate (mean over the text)"),
    (HeadEditKind.SCALED, "Scale"),
    (HeadEditKind.PATCHED, "Patch from another text"),
)
IMAGE_MEAN_LABEL = "Ablate (mean over the image)"


class NextTokenPane(QScrollArea):
    """Controls for head edits above bars of next-token probabilities."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    kindChosen = Signal(str)
    """Emitted with the kind of edit for the shown heads; empty to remove the edit."""
    factorTyped = Signal(float)
    sourceTyped = Signal(str)
    settled = Signal()
    restoreAllRequested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Next token")
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its child widgets take the focus
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        self.message, self.heads, self.problem = (PlainTextLabel() for _ in range(3))
        self.key, self.edits, self.changes, self.hint = (PlainTextLabel() for _ in range(4))
        self.bars = NextTokenProbabilityBars()
        self.kind = create_combo_box("Edit of the shown heads", EDIT_CHOICES)
        self.kind.activated.connect(self._emit_kind_chosen)
        self.kind.setMinimumContentsLength(12)  # lets the combo box shrink to the width of the pane
        self.factor, self.source = self._create_factor_box(), self._create_source_field()
        self.restore_all_button = QPushButton("Restore all heads")
        self.restore_all_button.setToolTip(
            plain_tooltip("Remove all head edits and restore all cut edges")
        )
        self.restore_all_button.clicked.connect(self.restoreAllRequested)
        inner = QWidget()
        column = column_layout(inner, (12, 8, 8, 8), spacing=8)
        labels = (self.message, self.heads, self.problem, self.key, self.edits, self.changes)
        for label in (*labels, self.hint):
            label.setWordWrap(True)
        for label in (self.key, self.hint):
            label.setProperty("role", "quiet")
        self.problem.setProperty("role", "warning")
        for part in (
            self.message, self.heads, self.kind, self.factor, self.source, self.problem,
            self.restore_all_button, self.changes, self.key, self.bars, self.edits, self.hint,
        ):  # fmt: skip
            column.addWidget(part)
        column.addStretch(1)
        self.setWidget(inner)
        self._shown: tuple[NextTokenPanel, Theme] | None = None

    def _create_factor_box(self) -> QDoubleSpinBox:
        box = QDoubleSpinBox()
        install_input_filters(box)
        box.setAccessibleName("Scale factor of the shown heads")
        box.setToolTip(plain_tooltip("Multiply the output of the shown heads by this factor"))
        box.setRange(-MAX_HEAD_SCALE, MAX_HEAD_SCALE)
        box.setSingleStep(0.25)
        box.setDecimals(3)
        box.setPrefix("× ")
        box.valueChanged.connect(self.factorTyped)
        box.editingFinished.connect(self.settled)
        return box

    def _create_source_field(self) -> QLineEdit:
        field = QLineEdit()
        install_input_filters(field)
        field.setAccessibleName("Source text with the same number of tokens")
        field.setPlaceholderText("Text with the same number of tokens")
        field.setMaxLength(MAX_SOURCE_LENGTH)
        field.textEdited.connect(self.sourceTyped)
        field.editingFinished.connect(self.settled)
        return field

    def focus_value_field(self) -> None:
        """Focus the factor or the source text or, if neither is visible, the list of edits."""
        fields = (self.factor, self.source)
        field = next((each for each in fields if each.isVisibleTo(self)), self.kind)
        field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        if not isinstance(field, QComboBox):
            field.selectAll()
        self.ensureWidgetVisible(field)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        panel = screen.panel(NEXT_TOKEN_PANEL)
        if self._shown == (panel, theme):
            return
        self._shown = (panel, theme)
        for label, words in (
            (self.message, panel.message),
            (self.heads, f"{panel.heads_description}:" if panel.heads else ""),
            (self.problem, panel.problem),
            (self.edits, "\n".join(panel.edit_descriptions)),
            (self.key, LEGEND if panel.rows and panel.is_edited else ""),
            (self.changes, panel.changes_description),
            (self.hint, panel.hint),
        ):
            label.setText(words)
            label.setVisible(bool(words))
        self._show_choice(panel)
        self.bars.show_rows(panel.rows, panel.is_edited, theme)
        self.restore_all_button.setVisible(panel.has_edits)

    def _show_choice(self, panel: NextTokenPanel) -> None:
        """Show the edit of the shown heads and its field; select no edit if the edits differ."""
        kind, edit = panel.kind, panel.edit
        self.kind.setVisible(bool(panel.heads))
        self._update_kind_choices(takes_image=panel.takes_image)
        index = -1 if panel.is_mixed else self.kind.findData(kind or UNEDITED)
        self.kind.setCurrentIndex(index)
        self.factor.setVisible(kind is HeadEditKind.SCALED)
        self.source.setVisible(kind is HeadEditKind.PATCHED)
        if edit and kind is HeadEditKind.SCALED and self.factor.value() != edit.factor:
            with QSignalBlocker(self.factor):
                self.factor.setValue(edit.factor)
        if edit and kind is HeadEditKind.PATCHED and self.source.text() != edit.text:
            self.source.setText(edit.text)

    def _update_kind_choices(self, *, takes_image: bool) -> None:
        names, at = dict(EDIT_CHOICES), self.kind.findData(HeadEditKind.PATCHED)
        if at >= 0 and takes_image:
            self.kind.removeItem(at)
        elif at < 0 and not takes_image:
            self.kind.addItem(names[HeadEditKind.PATCHED], HeadEditKind.PATCHED)
        mean = IMAGE_MEAN_LABEL if takes_image else names[HeadEditKind.MEAN]
        self.kind.setItemText(self.kind.findData(HeadEditKind.MEAN), mean)

    def _emit_kind_chosen(self) -> None:
        self.kindChosen.emit(self.kind.currentData())
        self.focus_value_field()
