"""The lab's window, which builds the panes, shows the state and connects signals to intents."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QMainWindow,
    QScrollArea,
    QSizePolicy,
    QTabWidget,
    QWidget,
)

from visualizer.generation.generated_tokens_widget import GenerationPane
from visualizer.generation.token_choice_widget import NextTokenChoicePane
from visualizer.lab.attention_view.probe_controller import ProbeController
from visualizer.lab.attention_view.widget import LabAttentionView
from visualizer.lab.collapse_controller import CollapsedSectionsController
from visualizer.lab.commands import LAB_COMMANDS, LabCommandState, LabControllers
from visualizer.lab.controller import LabStateController
from visualizer.lab.generation_controller import LabGenerationController
from visualizer.lab.loss_plot.controller import LossPlotController
from visualizer.lab.loss_plot.widget import LossPlotPane
from visualizer.lab.runs.controller import RunController
from visualizer.lab.runs.export_controller import RunExportController
from visualizer.lab.runs.widget import RunsPane
from visualizer.lab.settings.text_preview_controller import TextPreviewController
from visualizer.lab.settings.widget import SettingsPane
from visualizer.lab.snapshot_bar.widget import SnapshotBar
from visualizer.lab.training.bar_widget import RunNoticesWidget, TrainingBar
from visualizer.lab.training.process_controller import TRAINING_COMMAND
from visualizer.lab.training_views_controller import TrainingViewsController, TrainingWidgets
from visualizer.language.run_folder import RunFolder
from visualizer.widgets import accessibility, app_settings, dialogs
from visualizer.widgets.commands import CommandMenus
from visualizer.widgets.context_menu import add_context_menu, handle_menu_shortcut
from visualizer.widgets.focus_ring import FocusRing
from visualizer.widgets.icons import icon
from visualizer.widgets.input_filters import is_escape
from visualizer.widgets.labels import PlainTextLabel
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.setting_controls import create_combo_box
from visualizer.widgets.size_keeping_splitter import SizeKeepingSplitter
from visualizer.widgets.status_bar import add_status_bar
from visualizer.widgets.theme import ColourScheme, apply_theme, create_style_sheet, theme_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from PySide6.QtGui import QAction, QCloseEvent, QKeyEvent, QShowEvent


INITIAL_WIDTHS_PX = [320, 620, 340]
"""Initial widths of the settings, of the plot with the heatmaps, and of the text panes."""
INITIAL_HEIGHTS_PX = [172, 508]
"""Initial heights of the loss plot and of the heatmaps."""
INITIAL_TEXT_HEIGHTS_PX = [530, 190]
"""Initial heights of the next-token pane and of the generation pane."""
AXIS_COMMANDS = {name: f"loss_plot.toggle_axis_scale {name}" for name in ("losses", "steps")}
TRAINING_COMMANDS = {
    "toggle": "training.toggle",
    "step": "training.step",
    "stop": "training.stop",
    "more": "training.train_more",
}
RUN_COMMANDS = {"open_chosen": "runs.open_selected", "rename": "runs.rename",
           "delete": "runs.delete"}  # fmt: skip


class LabWindow(QMainWindow):
    """The window in which language models are trained and can be watched as they learn."""

    closed = Signal(object)
    appearanceChosen = Signal()
    """Emitted when the colour scheme of all windows must be changed to that of this window."""
    layerOpened = Signal(object)
    """Emitted with the `SavedDocument` of a layer to open in a separate window."""
    modelRequested = Signal(object, str)
    """Emitted with the path of a model to open in the visualizer, and with the probe."""

    def __init__(
        self, command: Sequence[str] = TRAINING_COMMAND, settings_pane: SettingsPane | None = None
    ) -> None:
        super().__init__()
        accessibility.install_accessible_interface()
        self.scheme = app_settings.load_scheme()
        self.theme = theme_of(self.scheme)
        self.setWindowIcon(icon("app", "#000000"))
        self.lab = LabStateController(command, self)
        self.probe_controller = ProbeController(self.lab)
        self.text_preview_controller = TextPreviewController(self.lab)
        self.menus = CommandMenus(self, LAB_COMMANDS)
        self.settings_pane = settings_pane or SettingsPane()
        self.runs_pane = RunsPane(self._actions_by_name(RUN_COMMANDS))
        self.menus.enable_shortcuts(self.runs_pane.list)
        run_actions = self._actions_by_name(RUN_COMMANDS).values()
        add_context_menu(self.runs_pane.list, [*run_actions])
        self.run_controller = RunController(self.lab, self.runs_pane, self)
        self.run_export_controller = RunExportController(self.lab, self)
        self.training_bar, self.notices = (
            TrainingBar(self._actions_by_name(TRAINING_COMMANDS)),
            RunNoticesWidget(),
        )
        self.attention = LabAttentionView()
        self.snapshot_bar = SnapshotBar(self.menus.by_id["heatmaps.toggle_reference"])
        self.probe, self.probe_problem, self.facts = QLineEdit(), PlainTextLabel(), PlainTextLabel()
        self.text_box = create_combo_box("Recorded text", ())
        status_bar = add_status_bar(self, self.facts)
        status_bar.addPermanentWidget(self.run_export_controller.progress.widget)
        self.next_tokens_pane, self.generation_pane = NextTokenChoicePane(), GenerationPane()
        self.generation_controller = LabGenerationController(self.lab, self.probe_controller)
        self.plot_pane = LossPlotPane(self._actions_by_name(AXIS_COMMANDS))
        self.loss_plot_controller = LossPlotController(
            self.lab, self.run_controller, self.plot_pane
        )
        self._add_context_menus()
        self.left_tabs = QTabWidget()
        self.setCentralWidget(self._build_central_widget())
        self.training_views_controller = TrainingViewsController(
            self.lab,
            self.probe_controller,
            self.generation_controller,
            TrainingWidgets(
                self.probe,
                self.text_box,
                self.probe_problem,
                self.attention,
                self.snapshot_bar,
                self.text_splitter,
                self.next_tokens_pane,
                self.generation_pane,
            ),
        )
        self.collapse_controller = CollapsedSectionsController(self, self.left_tabs, self.plot_pane)
        self.menus.set_controllers(self._collect_controllers())
        # Several changes in the same iteration of the event loop are shown only once.
        self.show_timer = QTimer(self, singleShot=True, interval=0)
        self.show_timer.timeout.connect(self.show_screen)
        self.focus_ring = FocusRing(self)
        _connect_run_signals(self)
        _connect_view_signals(self)
        QApplication.styleHints().colorSchemeChanged.connect(self.follow_system_colour_scheme)
        self._show_theme()
        self._restore_geometry()
        self.collapse_controller.restore_sections()
        # The last run is selected but not opened.
        if self.runs_pane.select_run(app_settings.load_last_lab_run()):
            self.left_tabs.setCurrentWidget(self.runs_pane)
        self.text_preview_controller.refresh_sample()
        self.training_bar.buttons["toggle"].setFocus()

    def _add_context_menus(self) -> None:
        by_id = self.menus.by_id
        smoothing = (by_id[f"loss_plot.change_smoothing {way}"] for way in (1, -1))
        axes = self._actions_by_name(AXIS_COMMANDS).values()
        add_context_menu(self.plot_pane.view, [*axes], [*smoothing])
        ids = ("layer.open", "heatmaps.toggle_row_limits")
        add_context_menu(self.attention.board, [by_id[id_] for id_ in ids])

    def _actions_by_name(self, names: dict[str, str]) -> dict[str, QAction]:
        return {name: self.menus.by_id[id_] for name, id_ in names.items()}

    def _build_central_widget(self) -> QWidget:
        self.left_tabs.setDocumentMode(True)
        self.left_tabs.addTab(self.settings_pane, "Settings")
        self.left_tabs.addTab(self.runs_pane, "Runs")
        self.columns_splitter = SizeKeepingSplitter(Qt.Orientation.Horizontal, INITIAL_WIDTHS_PX, 1)
        self.columns_splitter.setObjectName("across")
        self.plot_splitter = SizeKeepingSplitter(Qt.Orientation.Vertical, INITIAL_HEIGHTS_PX, 1)
        for part in (self.plot_pane, self._build_training_panes()):
            self.plot_splitter.addWidget(part)
        self.text_splitter = SizeKeepingSplitter(
            Qt.Orientation.Vertical, INITIAL_TEXT_HEIGHTS_PX, 1
        )
        scroll_area = QScrollArea()
        scroll_area.setWidget(self.next_tokens_pane)
        scroll_area.setWidgetResizable(True)
        scroll_area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        for pane in (scroll_area, self.generation_pane):
            self.text_splitter.addWidget(pane)
        for widget in (self.left_tabs, self.plot_splitter, self.text_splitter):
            self.columns_splitter.addWidget(widget)
        whole = QWidget()
        column = column_layout(whole, (0, 0, 0, 0), spacing=0)
        for part, stretch in (
            (self.columns_splitter, 1),
            (self.notices, 0),
            (self.training_bar, 0),
        ):
            column.addWidget(part, stretch)
        return whole

    def _build_training_panes(self) -> QWidget:
        self.probe.setPlaceholderText("Probe text")
        self.probe.setAccessibleName("Probe text")
        self.probe.setClearButtonEnabled(True)
        # A long text must not widen the window.
        self.text_box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        panes = QWidget()
        column = column_layout(panes, (0, 0, 0, 0), spacing=0)
        for part in (self.probe, self.text_box, self.probe_problem):
            column.addWidget(part)
        self.probe_problem.setProperty("role", "notice")
        self.probe_problem.setWordWrap(True)
        column.addWidget(self.attention, 1)
        column.addWidget(self.snapshot_bar)
        return panes

    def _collect_controllers(self) -> LabControllers:
        return LabControllers(
            window=self,
            lab=self.lab,
            run_controller=self.run_controller,
            run_export_controller=self.run_export_controller,
            generation_controller=self.generation_controller,
            collapse_controller=self.collapse_controller,
            loss_plot_controller=self.loss_plot_controller,
            training_views_controller=self.training_views_controller,
            snapshot_bar=self.snapshot_bar,
            train_more=self.train_more,
            open_model=self.open_model_in_visualizer,
            edit_probe=self.focus_probe,
            show_pane=self.show_pane,
            open_command_palette=self.open_command_palette,
            set_scheme=self.choose_colour_scheme,
        )

    def _restore_geometry(self) -> None:
        """Restore the geometry, or use a default size."""
        if not app_settings.restore_window(self, app_settings.LAB_WINDOW):
            screen = self.screen().availableGeometry().size()
            # The subtracted size is that of the window frame.
            self.resize(QSize(1280, 800).boundedTo(screen - QSize(8, 40)))
        for key, splitter in self.splitters.items():
            sizes = app_settings.load_splitter_sizes(key)
            if len(sizes) == splitter.count() and all(sizes):
                splitter.set_requested_sizes(sizes)

    @property
    def splitters(self) -> dict[str, SizeKeepingSplitter]:
        return {
            app_settings.ACROSS: self.columns_splitter,
            app_settings.MIDDLE: self.plot_splitter,
            app_settings.RIGHT: self.text_splitter,
        }

    # ------------------------------------------------------------------ showing

    def show_screen(self) -> None:
        screen = self.lab.screen
        self.settings_pane.show_settings(screen.setup, self.theme)
        self.training_bar.show_progress(screen.progress)
        self.notices.show_notices(screen.notices, screen.failure)
        self.show_runs()
        self.loss_plot_controller.show_losses(self.theme)
        self._show_views()
        self.update_commands()
        self.facts.setText(screen.facts)
        self.setWindowTitle(f"{screen.title or 'Language lab'} — Attention Visualizer")

    def show_runs(self) -> None:
        run = self.lab.run
        run_controller, name = self.run_controller, run.name if run else ""
        self.runs_pane.show_runs(
            run_controller.runs, run_controller.overlaid_names, run_controller.training_runs, name
        )

    def show_loss_plot(self) -> None:
        self.loss_plot_controller.show_losses(self.theme)
        self.update_commands()

    def show_training_views(self) -> None:
        self._show_views()
        self.update_commands()

    def _show_views(self) -> None:
        views = self.training_views_controller
        views.show_views(self.theme)  # discards a reference with another text
        self.run_export_controller.colouring = views.colouring
        self.run_export_controller.reference = views.reference

    def update_commands(self) -> None:
        """Enable and check the commands for the current state."""
        screen = self.lab.screen
        if self.training_bar.buttons["toggle"].hasFocus() and not screen.progress.can_toggle:
            self.attention.setFocus()  # otherwise, Qt would focus the next widget
        state = LabCommandState(
            screen,
            self.loss_plot_controller.options,
            self.training_views_controller.colouring,
            self.scheme,
            self.collapse_controller.collapsed_sections,
            has_layers=self.training_views_controller.has_attention_layers,
            can_sample=self.training_views_controller.can_sample,
            can_play=self.training_views_controller.can_play,
            is_compared=self.training_views_controller.reference is not None,
            is_filming=self.run_export_controller.film_controller.is_working,
        )
        self.menus.show_state(state, self.theme)

    def show_unexpected_error(self, details: str) -> None:
        """Show the details of an unexpected error."""
        dialogs.show_exception(self, details)

    # ------------------------------------------------------------------ actions

    def train_more(self) -> None:
        self.lab.train_more(self.training_bar.more_steps_box.value())

    def open_model_in_visualizer(self) -> None:
        """Request that the model of the selected step be opened in the visualizer."""
        run, view = self.lab.run, self.lab.view
        if run:
            snapshot = view.step is not None and RunFolder(run.folder).snapshot_file(view.step).path
            self.modelRequested.emit(snapshot or run.folder, view.probe)

    def focus_probe(self) -> None:
        """Focus the probe, or the list of texts of a recorded run."""
        if self.text_box.isVisible():
            self.text_box.setFocus()
            return
        self.probe.setFocus()
        self.probe.selectAll()

    def show_pane(self, name: str) -> None:
        """Expand and focus the settings or the runs."""
        pane = {"settings": self.settings_pane, "runs": self.runs_pane}[name]
        self.collapse_controller.expand_left()
        self.left_tabs.setCurrentWidget(pane)
        (self.runs_pane.list if pane is self.runs_pane else pane).setFocus()

    def open_command_palette(self) -> None:
        """Open the palette with all commands, settings and sections of the documentation."""
        # The module is imported here, because it is not needed at start-up.
        from visualizer.widgets.command_palette import PaletteEntry, open_command_palette

        entries = [
            PaletteEntry(
                row.setting.label,
                "Settings",
                partial(self.show_setting, name),
                is_enabled=row.control.isEnabled() and not row.isHidden(),
                id=f"training setting {name}",
            )
            for name, row in self.settings_pane.rows.items()
        ]
        open_command_palette(self, entries)

    def show_setting(self, name: str) -> None:
        """Expand the settings, and focus a setting."""
        self.show_pane("settings")
        self.settings_pane.focus_setting(name)

    def choose_colour_scheme(self, scheme: str) -> None:
        """Set the colour scheme of all windows."""
        self.set_colour_scheme(scheme)
        self.appearanceChosen.emit()

    def set_colour_scheme(self, scheme: str) -> None:
        self.scheme = ColourScheme(scheme)
        self.theme = theme_of(self.scheme)
        self.apply_style_sheet()
        self._show_theme()
        app_settings.save_scheme(self.scheme)

    def apply_style_sheet(self) -> None:
        """Apply the style sheet to the window; this takes as long as creating its panes."""
        apply_theme(
            self, self.theme, create_style_sheet() + app_settings.reduced_motion_style_sheet()
        )

    def _show_theme(self) -> None:
        self.menus.show_theme(self.theme)
        self.focus_ring.show_theme(self.theme)
        self.show_screen()

    def showEvent(self, event: QShowEvent) -> None:
        if not self.styleSheet():
            self.apply_style_sheet()
        super().showEvent(event)

    def follow_system_colour_scheme(self) -> None:
        if self.scheme is ColourScheme.SYSTEM:
            self.set_colour_scheme(self.scheme)

    def open_run(self, folder: Path) -> None:
        self.run_controller.open_run_folder(folder)

    def start_training(self) -> None:
        """Start a run with the current settings, unless a run is already open."""
        if self.lab.run is None:
            self.lab.toggle_training()

    def may_close(self, close: Callable[[], object]) -> bool:
        """Return whether the window can close now; if not, ask the user and call `close` later."""
        if not self.run_export_controller.progress.may_close(close):
            return False
        if self.lab.is_safe_to_close:
            return True
        self.run_controller.close_run(close)
        return False

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Unpin on Esc unless the focused widget handles it."""
        if is_escape(event):
            self.training_views_controller.pin_cell(None)
        elif not handle_menu_shortcut(event):
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self.may_close(self.close):
            event.ignore()
            return
        self.lab.close_run()
        app_settings.save_window(self, app_settings.LAB_WINDOW)
        for key, splitter in self.splitters.items():
            app_settings.save_splitter_sizes(key, splitter.requested_sizes)
        self.hide()
        for part in (self.text_preview_controller, self.run_export_controller, self.run_controller):
            part.close()
        event.accept()
        self.closed.emit(self)


# ----------------------------------------------------------- signals and intents


def _connect_run_signals(window: LabWindow) -> None:
    lab, run_controller = window.lab, window.run_controller
    lab.changed.connect(window.show_timer.start)
    for broken in (window.text_preview_controller, run_controller):
        broken.failed.connect(window.show_unexpected_error)
    pane = window.settings_pane
    pane.chosen.connect(lab.change_setting)
    pane.remedyRequested.connect(lab.apply_remedy)
    pane.newRunRequested.connect(run_controller.start_new_run)
    run_controller.changed.connect(window.show_timer.start)
    window.collapse_controller.changed.connect(window.update_commands)
    run_controller.settingsRequested.connect(partial(window.show_pane, "settings"))
    for part in (lab, run_controller, window.run_export_controller):
        part.messageReported.connect(window.statusBar().showMessage)
    window.run_export_controller.film_controller.failed.connect(window.show_unexpected_error)
    window.run_export_controller.film_controller.changed.connect(window.update_commands)
    runs = window.runs_pane
    # The connections are queued because the handlers rebuild the list, which is impossible while
    # one of its rows changes.
    for signal, intent in (
        (runs.opened, run_controller.open_run_named),
        (runs.overlayToggled, run_controller.set_overlaid),
        (runs.renamed, run_controller.rename_run),
    ):
        signal.connect(intent, Qt.ConnectionType.QueuedConnection)


def _connect_view_signals(window: LabWindow) -> None:
    lab, views = window.lab, window.training_views_controller
    window.probe_controller.changed.connect(window.show_timer.start)
    window.probe.textEdited.connect(lab.set_probe)
    window.text_box.activated.connect(views.choose_recorded_text)
    attention = window.attention
    attention.cellHovered.connect(views.hover_cell)
    attention.cellClicked.connect(views.pin_cell)
    attention.moved.connect(views.move_pin)
    attention.roomChanged.connect(views.set_max_cells)
    attention.layerRequested.connect(views.open_layer_with_head)
    window.generation_controller.changed.connect(window.show_training_views)
    window.generation_controller.connect_panes(window.next_tokens_pane, window.generation_pane)
    plot = window.plot_pane
    plot.optionsChosen.connect(window.loss_plot_controller.set_options)
    plot.view.stepSelected.connect(window.loss_plot_controller.select_step)
    plot.view.currentModelSelected.connect(partial(lab.select_snapshot, None))
    window.loss_plot_controller.changed.connect(window.show_loss_plot)
    views.changed.connect(window.show_training_views)
    views.layerOpened.connect(window.layerOpened)
    views.layerRefused.connect(window.statusBar().showMessage)
    window.snapshot_bar.stepSelectionChanged.connect(lab.select_snapshot)
