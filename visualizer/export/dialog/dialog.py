"""The export dialog: format and options on the left, preview on the right."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from visualizer.export.dialog.figure_options_widget import FigureOptionsWidget
from visualizer.export.dialog.film_options_widget import SHRINKING_POLICY, AnimationOptionsWidget
from visualizer.export.dialog.preview_widget import AnimationPreviewPlayer, ExportPreviewWidget
from visualizer.export.figures.document_attachment import max_embedded_layer_bytes
from visualizer.export.formats import FORMATS, FormatKind, unavailable_reason
from visualizer.widgets import app_settings
from visualizer.widgets.focus_ring import FocusRing
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import PlainTextLabel

if TYPE_CHECKING:
    from visualizer.export.dialog.preview_widget import ExportPreview, PreviewController
    from visualizer.export.export_settings import ExportSettings, LengthUnit
    from visualizer.export.figure_settings import AnimationSettings, FigureSettings
    from visualizer.export.films.animation_frames import AnimationRenderer
    from visualizer.export.formats import ExportFormat
    from visualizer.session.export_snapshot import ExportSnapshot
    from visualizer.widgets.theme import Theme

DEFAULT_SIZE = QSize(1040, 700)
LABEL_GAP = 8
OPTIONS_WIDTH = 380


class ExportDialog(QDialog):
    """Export dialog."""

    settingsChanged = Signal(object)
    """Emitted with the new settings."""
    saveRequested = Signal()
    copyRequested = Signal()

    def __init__(
        self,
        snapshot: ExportSnapshot,
        settings: ExportSettings,
        theme: Theme,
        preview_controller: PreviewController,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Export")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.snapshot, self.settings = snapshot, settings
        self._theme, self._preview_controller = theme, preview_controller
        self.format, self.figure, self.pane = (
            QComboBox(),
            FigureOptionsWidget(),
            ExportPreviewWidget(),
        )
        self.film, self.film_player = AnimationOptionsWidget(), AnimationPreviewPlayer(self)
        self.size_, self.problem = PlainTextLabel(), PlainTextLabel()
        self.buttons = QDialogButtonBox(self)
        self.copy = self.buttons.addButton("Cop&y", QDialogButtonBox.ButtonRole.ActionRole)
        self.save = self.buttons.addButton("&Save…", QDialogButtonBox.ButtonRole.AcceptRole)
        self.buttons.addButton(QDialogButtonBox.StandardButton.Cancel)
        self._can_write, self._is_refused, self._is_over = True, False, False
        self._build_controls()
        self._connect_signals()
        self.resize((DEFAULT_SIZE * text_scale()).boundedTo(parent.size()))
        self.ring = FocusRing(self)
        self.ring.show_theme(theme)
        self._show_settings()

    # ------------------------------------------------------------------ building

    def _build_controls(self) -> None:
        for _, formats in groupby(FORMATS, key=lambda one: one.kind):
            if self.format.count():
                self.format.insertSeparator(self.format.count())
            for format_ in formats:
                self._add_format(format_)
        self.format.setAccessibleName("Format")
        self.format.setSizeAdjustPolicy(SHRINKING_POLICY)
        self.format.view().setMinimumWidth(self.format.view().sizeHintForColumn(0) + 8)
        format_form = QFormLayout()
        label = PlainTextLabel("&Format")
        label.setBuddy(self.format)
        format_form.addRow(label, self.format)
        format_form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        _align_forms(format_form, self.figure.form, self.film.form)
        self.figure.show_size_of_all_layers(max_embedded_layer_bytes(self.snapshot.run))
        for text in (self.size_, self.problem):
            text.setWordWrap(True)
        self.size_.setProperty("role", "quiet")
        self.problem.setProperty("role", "warning")
        self._lay_out(format_form)

    def _add_format(self, format_: ExportFormat) -> None:
        """Add a format; if it is not available, disable it and show the reason."""
        reason = unavailable_reason(format_.suffix)
        label = f"{format_.suffix[1:].upper()}: {format_.words}"
        self.format.addItem(f"{label}. {reason}" if reason else label, format_.suffix)
        if reason:
            model = self.format.model()
            assert isinstance(model, QStandardItemModel)
            model.item(self.format.count() - 1).setEnabled(False)

    def _lay_out(self, format_form: QFormLayout) -> None:
        options = QVBoxLayout()
        options.addLayout(format_form)
        options.addWidget(self._make_scroll_area(self._build_options()), 1)
        right = QVBoxLayout()
        right.addWidget(self.pane, 1)
        for text in (self.size_, self.film.description, self.problem):
            right.addWidget(text)
        both = QHBoxLayout()
        both.setSpacing(16)
        both.addLayout(options)
        both.addLayout(right, 1)
        column = QVBoxLayout(self)
        column.addLayout(both, 1)
        column.addWidget(self.buttons)
        self.save.setDefault(True)

    def _build_options(self) -> QWidget:
        """Stack the figure options above the animation options."""
        both = QWidget()
        column = QVBoxLayout(both)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.figure)
        column.addWidget(self.film)
        column.addStretch(1)
        return both

    def _make_scroll_area(self, widget: QWidget) -> QScrollArea:
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setFixedWidth(round(OPTIONS_WIDTH * text_scale()))
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(widget)
        return area

    def _connect_signals(self) -> None:
        self.format.activated.connect(self._choose_format)
        self.figure.chosen.connect(self._choose_figure_settings)
        self.figure.unitChosen.connect(self._choose_unit)
        self.figure.validated.connect(self._update_buttons)
        self.film.changed.connect(self._choose_animation_settings)
        self.pane.resized.connect(self._request_resized_preview)
        self.film_player.frameRequested.connect(self._request_frame)
        self.finished.connect(self.stop_background_work)
        self._preview_controller.rendered.connect(self.show_preview)
        self._preview_controller.refused.connect(self.show_error)
        self.buttons.accepted.connect(self.saveRequested)
        self.buttons.rejected.connect(self.reject)
        self.copy.clicked.connect(self.copyRequested)

    # ------------------------------------------------------------------ showing

    def _show_settings(self) -> None:
        self.format.setCurrentIndex(self.format.findData(self.settings.suffix))
        self._show_animation_options(self.settings.format.kind is FormatKind.FILM)
        self.figure.setVisible(bool(self.settings.used_field_names))
        self.figure.show_settings(self.settings)
        self._show_problem(unavailable_reason(self.settings.suffix))
        self._request_preview()

    def _show_animation_options(self, is_film: bool) -> None:
        for part in (self.film, self.film.description):
            part.setVisible(is_film)
        if is_film:
            settings = self.settings
            self.film.show_snapshot(self.snapshot, settings.figure_settings, settings.suffix)
            # If the run lacks stages of the stored range, use the range that the widget selected.
            self.settings = replace(
                settings, look=replace(settings.look, film=self.film.chosen_settings)
            )

    def _request_preview(self) -> None:
        """Request a preview; the previous preview stays visible until the new one arrives."""
        self.film_player.stop()
        self._preview_controller.request_preview(
            self.pane.create_preview_renderer(self.snapshot, self.settings)
        )

    def _request_resized_preview(self) -> None:
        """Request a preview of a different size; an animation that is playing continues."""
        shown = self.pane.shown
        if shown and shown.animation and shown.animation is self.film_player.animation:
            self._request_frame(shown.animation, shown.frame)
        else:
            self._request_preview()

    def _request_frame(self, animation: AnimationRenderer, frame: int) -> None:
        self._preview_controller.request_preview(self.pane.create_frame_renderer(animation, frame))

    def show_preview(self, preview: ExportPreview) -> None:
        self.pane.show_preview(preview, self._theme)
        self.size_.setText(preview.description)
        self.figure.show_small_text_warning(preview.small_text)
        self._show_problem(unavailable_reason(self.settings.suffix))
        if preview.animation and not app_settings.is_motion_reduced() and not self._is_over:
            self.film_player.resume(preview.animation, self.settings.look.film.loops)

    def stop_background_work(self) -> None:
        """Stop all background work for the preview."""
        self._is_over = True
        self.film_player.stop()
        self._preview_controller.cancel_request()
        self.film.stop_estimates()

    def show_error(self, sentence: str) -> None:
        """Show an error message that explains why the file cannot be written."""
        self._show_problem(sentence)

    def _show_problem(self, problem: str) -> None:
        self.problem.setText(problem)
        is_already_shown = (
            self.film.description.isVisible() and self.film.description.text() == problem
        )
        self.problem.setVisible(bool(problem) and not is_already_shown)
        self._is_refused = bool(problem)
        self._update_buttons()

    def set_writing_enabled(self, can_write: bool) -> None:
        """Enable saving and copying, or disable them during an export."""
        self._can_write = can_write
        self._update_buttons()

    def _update_buttons(self) -> None:
        kind = self.settings.format.kind
        is_valid = not self.figure.is_invalid and not self._is_refused
        self.save.setEnabled(self._can_write and is_valid)
        self.copy.setEnabled(self._can_write and is_valid and kind is FormatKind.FIGURE)

    # ------------------------------------------------------------------ choosing

    def _apply_settings(self, settings: ExportSettings) -> None:
        if settings != self.settings:
            self.settings = settings
            self.settingsChanged.emit(settings)
            self._show_settings()

    def _choose_format(self) -> None:
        self._apply_settings(replace(self.settings, suffix=self.format.currentData()))

    def _choose_figure_settings(self, figure_settings: FigureSettings) -> None:
        self._apply_settings(replace(self.settings, look=figure_settings))

    def _choose_animation_settings(self, film: AnimationSettings) -> None:
        self._apply_settings(replace(self.settings, look=replace(self.settings.look, film=film)))

    def _choose_unit(self, unit: LengthUnit) -> None:
        self._apply_settings(replace(self.settings, unit=unit))


def _align_forms(*forms: QFormLayout) -> None:
    """Align the fields of stacked forms."""
    role = QFormLayout.ItemRole.LabelRole
    items = (form.itemAt(row, role) for form in forms for row in range(form.rowCount()))
    labels = [label for item in items if item and (label := item.widget())]
    widest = max(label.sizeHint().width() for label in labels)
    for label in labels:
        label.setMinimumWidth(widest)
    for form in forms:  # the style's default spacing depends on the form's content
        form.setHorizontalSpacing(LABEL_GAP)
