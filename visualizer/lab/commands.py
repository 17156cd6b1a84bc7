"""The lab's table of commands, with their texts, shortcuts, actions and conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtGui import QKeySequence

from visualizer.lab.collapse_controller import LEFT, LOSSES
from visualizer.lab.loss_plot.model import AxisScale
from visualizer.session.view_options import ColourLimits
from visualizer.widgets import dialogs
from visualizer.widgets.commands import Command, CommandAppearance, shortcuts_by_menu
from visualizer.widgets.dialogs import ShortcutGroup
from visualizer.widgets.theme import ColourScheme

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QMainWindow

    from visualizer.lab.collapse_controller import CollapsedSectionsController
    from visualizer.lab.controller import LabStateController
    from visualizer.lab.generation_controller import LabGenerationController
    from visualizer.lab.loss_plot.controller import LossPlotController
    from visualizer.lab.loss_plot.model import PlotOptions
    from visualizer.lab.runs.controller import RunController
    from visualizer.lab.runs.export_controller import RunExportController
    from visualizer.lab.screen_presenter import LabScreen
    from visualizer.lab.snapshot_bar.widget import SnapshotBar
    from visualizer.lab.training_views_controller import TrainingViewsController
    from visualizer.session.view_options import ColourOptions


class LabControllers(Struct, frozen=True, eq=False):
    """The controllers and functions that the lab's commands call."""

    window: QMainWindow
    lab: LabStateController
    run_controller: RunController
    run_export_controller: RunExportController
    generation_controller: LabGenerationController
    collapse_controller: CollapsedSectionsController
    loss_plot_controller: LossPlotController
    training_views_controller: TrainingViewsController
    snapshot_bar: SnapshotBar
    train_more: Callable[[], object]
    open_model: Callable[[], object]
    edit_probe: Callable[[], object]
    show_pane: Callable[[str], object]
    open_command_palette: Callable[[], object]
    set_scheme: Callable[[ColourScheme], object]


class LabCommandState(Struct, frozen=True, eq=False):
    """The state that determines which commands are enabled and which are checked."""

    screen: LabScreen
    plot_options: PlotOptions
    colouring: ColourOptions
    scheme: ColourScheme
    collapsed_sections: frozenset[str]
    has_layers: bool
    can_sample: bool
    can_play: bool
    is_compared: bool
    is_filming: bool


def _start_pause_appearance(now: LabCommandState) -> CommandAppearance:
    progress = now.screen.progress
    return CommandAppearance("pause" if progress.is_running else "play", text=progress.button)


def _open_documentation(window: QMainWindow) -> None:
    # The module is imported here, because it is not needed at start-up.
    from visualizer.widgets.documentation_window import open_documentation

    open_documentation(window, "reference/lab.md")


def _copy_diagnostics(window: QMainWindow) -> None:
    from visualizer.widgets.diagnostics import copy_diagnostics  # slow to import

    copy_diagnostics(window)


LabCommand = Command[LabControllers, LabCommandState]
Key = QKeySequence.StandardKey

RUN, TRAIN, TEXT, VIEW, HELP = "&Run", "&Train", "Te&xt", "&View", "&Help"

# fmt: off
LAB_COMMANDS: tuple[LabCommand, ...] = (
    LabCommand("runs.start_new", RUN, "&New run with these settings…",
        lambda c: c.run_controller.start_new_run(), ("Ctrl+N",), standard=Key.New,
        is_enabled=lambda now: now.screen.has_run),
    LabCommand("runs.open_folder", RUN, "&Open run folder…",
        lambda c: c.run_controller.ask_and_open_folder(),
        ("Ctrl+O",), standard=Key.Open, icon="open"),
    LabCommand("runs.open_selected", RUN, "Open selec&ted run",
        lambda c: c.run_controller.open_selected_run()),
    LabCommand("runs.rename", RUN, "Rena&me selected run",
        lambda c: c.run_controller.edit_selected_name(), ("F2",), has_separator=True),
    LabCommand("runs.delete", RUN, "&Delete selected run…",
        lambda c: c.run_controller.ask_delete_selected_run(), ("Del",),
        standard=Key.Delete, has_local_shortcut=True),
    LabCommand("run_export.save_weights", RUN, "&Save weights as…",
        lambda c: c.run_export_controller.save_weights(), ("Ctrl+Shift+S",),
        standard=Key.SaveAs, icon="save", has_separator=True,
        is_enabled=lambda now: now.screen.is_open and now.screen.has_model),
    LabCommand("run_export.save_film", RUN, "Save training &animation…",
        lambda c: c.run_export_controller.save_film(), ("Ctrl+E",), icon="export",
        is_enabled=lambda now: now.screen.is_open and now.has_layers and not now.is_filming),
    LabCommand("layer.open", RUN, "Open &layer in the visualizer",
        lambda c: c.training_views_controller.open_pointed_layer(),
        is_enabled=lambda now: now.has_layers),
    LabCommand("run.open_model", RUN, "Open mod&el in the visualizer", lambda c: c.open_model(),
        is_enabled=lambda now: now.has_layers and now.screen.has_model),
    LabCommand("window.close", RUN, "&Close window", lambda c: c.window.close(), ("Ctrl+W",),
        standard=Key.Close, has_separator=True),
    LabCommand("training.toggle", TRAIN, "&Start or pause training",
        lambda c: c.lab.toggle_training(), ("Ctrl+Return", "Ctrl+Enter"), icon="play",
        is_enabled=lambda now: now.screen.progress.can_toggle, appearance=_start_pause_appearance),
    LabCommand("training.step", TRAIN, "Train one s&tep", lambda c: c.lab.train_step(),
        icon="step-on",
        is_enabled=lambda now: now.screen.progress.can_step),
    LabCommand("training.stop", TRAIN, "Sto&p and save a checkpoint",
        lambda c: c.lab.stop_training(), icon="stop",
        is_enabled=lambda now: now.screen.progress.can_stop),
    LabCommand("training.train_more", TRAIN, "Train for &more steps", lambda c: c.train_more(),
        has_separator=True, is_enabled=lambda now: now.screen.progress.can_train_more),
    LabCommand("probe.edit", TEXT, "&Edit probe text", lambda c: c.edit_probe(), ("Ctrl+L",)),
    LabCommand("generation.sample", TEXT, "&Sample a token",
        lambda c: c.generation_controller.sample_token(),
        has_separator=True, is_enabled=lambda now: now.can_sample),
    LabCommand("generation.toggle", TEXT, "&Generate or stop",
        lambda c: c.generation_controller.toggle_generation(),
        is_enabled=lambda now: now.can_sample),
    LabCommand("generation.step_back", TEXT, "Step bac&k",
        lambda c: c.generation_controller.step_back()),
    LabCommand("generation.step_forward", TEXT, "Step &forward",
        lambda c: c.generation_controller.step_forward()),
    LabCommand("generation.switch_branch 1", TEXT, "Next b&ranch",
        lambda c: c.generation_controller.switch_branch(1),
        tip="Switch to another token that was generated at this position"),
    LabCommand("panes.show settings", VIEW, "Go to &settings", lambda c: c.show_pane("settings"),
        ("Ctrl+1",)),
    LabCommand("panes.show runs", VIEW, "Go to &runs", lambda c: c.show_pane("runs"), ("Ctrl+2",)),
    LabCommand("collapse.toggle left", VIEW, "Show settings and r&uns",
        lambda c: c.collapse_controller.toggle_section(LEFT), has_separator=True,
        is_checked=lambda now: LEFT not in now.collapsed_sections),
    LabCommand("collapse.toggle losses", VIEW, "Show l&oss plot",
        lambda c: c.collapse_controller.toggle_section(LOSSES),
        is_checked=lambda now: LOSSES not in now.collapsed_sections),
    LabCommand("loss_plot.toggle_axis_scale losses", VIEW, "&Logarithmic loss axis",
        lambda c: c.loss_plot_controller.toggle_axis_scale("losses"),
        has_separator=True, is_checked=lambda now: now.plot_options.losses is AxisScale.LOG),
    LabCommand("loss_plot.toggle_axis_scale steps", VIEW, "Logarithmic st&ep axis",
        lambda c: c.loss_plot_controller.toggle_axis_scale("steps"),
        is_checked=lambda now: now.plot_options.steps is AxisScale.LOG),
    LabCommand("loss_plot.change_smoothing 1", VIEW, "&More smoothing",
        lambda c: c.loss_plot_controller.change_smoothing(1)),
    LabCommand("loss_plot.change_smoothing -1", VIEW, "Less smoothin&g",
        lambda c: c.loss_plot_controller.change_smoothing(-1)),
    LabCommand("heatmaps.toggle_row_limits", VIEW, "&Colour range per row",
        lambda c: c.training_views_controller.toggle_row_colour_limits(),
        has_separator=True,
        is_checked=lambda now: now.colouring.limits is ColourLimits.ROW),
    LabCommand("heatmaps.toggle_reference", VIEW, "Co&mpare with this step",
        lambda c: c.training_views_controller.toggle_reference(),
        tip="Show how the weights of all other steps differ from those of this step",
        is_enabled=lambda now: now.has_layers, is_checked=lambda now: now.is_compared),
    LabCommand("snapshots.toggle", VIEW, "&Play or pause snapshots",
        lambda c: c.snapshot_bar.toggle_playback(), has_separator=True,
        is_enabled=lambda now: now.can_play),
    LabCommand("snapshots.change_speed 1", VIEW, "&Faster",
        lambda c: c.snapshot_bar.change_speed(1)),
    LabCommand("snapshots.change_speed -1", VIEW, "Slo&wer",
        lambda c: c.snapshot_bar.change_speed(-1)),
    LabCommand("theme.set_scheme system", VIEW, "Theme: s&ystem",
        lambda c: c.set_scheme(ColourScheme.SYSTEM), icon="theme", group="scheme",
        has_separator=True, is_checked=lambda now: now.scheme is ColourScheme.SYSTEM),
    LabCommand("theme.set_scheme light", VIEW, "Theme: lig&ht",
        lambda c: c.set_scheme(ColourScheme.LIGHT), group="scheme",
        is_checked=lambda now: now.scheme is ColourScheme.LIGHT),
    LabCommand("theme.set_scheme dark", VIEW, "Theme: &dark",
        lambda c: c.set_scheme(ColourScheme.DARK), group="scheme",
        is_checked=lambda now: now.scheme is ColourScheme.DARK),
    LabCommand("command_palette.open", HELP, "&Find command…",
        lambda c: c.open_command_palette(), ("Ctrl+Shift+P",)),
    LabCommand("documentation.open", HELP, "&Documentation",
        lambda c: _open_documentation(c.window),
        ("F1",)),
    LabCommand("shortcuts.show", HELP, "&Keyboard shortcuts",
        lambda c: dialogs.show_shortcuts(c.window, list_shortcuts()), ("Ctrl+?",)),
    LabCommand("diagnostics.copy", HELP, "Copy dia&gnostic information",
        lambda c: _copy_diagnostics(c.window),
        tip="Copy versions, screens, devices and the last log messages for a bug report"),
)
# fmt: on

WIDGET_SHORTCUTS = (
    ("Move between cells, or open the layer", "arrow keys, Enter in the heatmaps"),
    ("Unpin the cell", "Esc"),
    ("Step through generated tokens, or sample a token", "arrow keys, Enter in the generated text"),
    ("Move through the snapshots", "on the slider: arrow keys, Page Up, Page Down, Home and End"),
    (
        "Show or hide the losses of a run in the plot, or open the run",
        "Space, Enter in the run list",
    ),
)
"""Keys that widgets handle themselves, without a command."""


def list_shortcuts() -> list[ShortcutGroup]:
    """List the keyboard shortcuts."""
    return [
        *shortcuts_by_menu(LAB_COMMANDS),
        ShortcutGroup("In the focused widget", WIDGET_SHORTCUTS),
    ]
