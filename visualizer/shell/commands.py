"""The main window's command table: text, shortcuts, actions and conditions of each command."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from PySide6.QtGui import QKeySequence

from visualizer.attention.custom_weights import are_all_weights_custom
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.spec import DropoutMode
from visualizer.features.comparison_bar.presenter import COMPARISON_PANEL
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.features.lessons.presenter import LESSON_PANEL
from visualizer.features.logit_attribution.presenter import ATTRIBUTION_PANEL, ablation_question
from visualizer.features.mask_editor.presenter import MASK_EDIT_PANEL
from visualizer.features.next_token.presenter import NEXT_TOKEN_PANEL
from visualizer.features.playback.presenter import PLAYBACK_PANEL
from visualizer.features.setup.presenter import SETUP_PANEL
from visualizer.features.shapes.presenter import SHAPES_PANEL
from visualizer.features.token_strip.presenter import TOKENS_PANEL
from visualizer.features.view_bar.presenter import VIEW_CONTROLS_PANEL
from visualizer.heatmap.board import stage_and_side
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.comparison_state import ComparisonKind
from visualizer.session.head_order import HeadOrder
from visualizer.session.model_pane_options import MeasurementStatus, measurement_status
from visualizer.session.timeline import StepSize
from visualizer.session.view import CodeDialect
from visualizer.session.view_options import (
    COLOUR_MAPS,
    ColourCurve,
    ColourLimits,
    ColourMapKind,
    colour_maps_of_kind,
)
from visualizer.shell.controllers import WindowControllers
from visualizer.shell.pane_table import PANES
from visualizer.widgets import dialogs
from visualizer.widgets.commands import Command, CommandAppearance, shortcuts_by_menu
from visualizer.widgets.dialogs import ShortcutGroup
from visualizer.widgets.theme import ColourScheme

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QMainWindow

    from visualizer.features.model_generation.presenter import ModelGenerationPanel
    from visualizer.session.document import Document
    from visualizer.session.pane_spec import PaneSpec
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.screen import PanelId, Screen
    from visualizer.session.timeline import PlaybackState
    from visualizer.session.view import View
    from visualizer.session.view_options import ColourMap, ColourOptions

Panel = TypeVar("Panel")


class WindowState(Struct, frozen=True, eq=False):
    """State of a window that determines which commands are enabled and which are checked.

    A condition is evaluated again when a part of the state that it reads has been replaced.
    """

    screen: Screen
    document: Document
    view: View
    scheme: ColourScheme
    can_undo: bool
    can_redo: bool
    undo_description: str
    redo_description: str
    can_keep_weights: bool
    can_export: bool
    can_copy_script: bool
    saves_numbers: bool
    can_revert: bool
    is_presenting: bool
    is_motion_reduced: bool
    visible_panes: frozenset[str]
    generation_widget: ModelGenerationPanel

    def panel(self, wanted: PanelId[Panel]) -> Panel:
        return self.screen.panel(wanted)

    @property
    def resolved(self) -> ResolvedView | None:
        return self.screen.resolved

    @property
    def colouring(self) -> ColourOptions:
        return self.view.colouring

    @property
    def playhead(self) -> PlaybackState:
        return self.view.playhead

    @property
    def measurement(self) -> MeasurementStatus | None:
        """The possible or running measurement of heads; it can change although the run does not."""
        return measurement_status(self.resolved.run) if self.resolved else None


def window_state(c: WindowControllers, scheme: ColourScheme) -> WindowState:
    """Return the state of a window on which its commands depend."""
    workspace, screen = c.workspace, c.workspace.screen
    has_panels = bool(screen.panel(BOARD_CONTENTS).board.columns)
    can_export = has_panels and not c.export_controller.exporter.is_working
    return WindowState(
        screen,
        workspace.document,
        workspace.view,
        scheme,
        can_undo=workspace.history.can_undo,
        can_redo=workspace.history.can_redo,
        undo_description=workspace.history.undo_description(workspace.document),
        redo_description=workspace.history.redo_description(workspace.document),
        can_keep_weights=c.setup_controller.can_fix_weights,
        can_export=can_export,
        can_copy_script=can_export and not screen.panel(SETUP_PANEL).captured,
        saves_numbers=c.document_controller.saves_numbers,
        can_revert=c.document_controller.can_revert,
        is_presenting=c.presenter_mode.is_on,
        is_motion_reduced=c.reduced_motion_controller.is_on,
        visible_panes=c.docks.visible_pane_ids,
        generation_widget=c.model_generation_controller.panel,
    )


def _has_module(state: WindowState) -> bool:
    """Return whether the run has a module; captured attention consists only of weights."""
    return not state.panel(SETUP_PANEL).captured


def _can_edit_heads(state: WindowState) -> bool:
    return bool(state.panel(NEXT_TOKEN_PANEL).heads)


def _has_run(state: WindowState) -> bool:
    return state.resolved is not None


def _has_leading_axes(state: WindowState) -> bool:
    resolved = state.resolved
    return resolved is not None and bool(resolved.run.trace.axes)


def _is_zoomed(state: WindowState) -> bool:
    return bool(state.panel(VIEW_CONTROLS_PANEL).part)


def _can_step_cell_history(state: WindowState, way: int) -> bool:
    resolved = state.resolved
    return resolved is not None and way in resolved.history_directions


def _can_mark_prediction(state: WindowState) -> bool:
    resolved = state.resolved
    pinned = resolved.reached_pinned_cell if resolved else None
    return bool(resolved and pinned and pinned.stage in resolved.hidden_stages)


def _can_paint_pinned_cell(state: WindowState) -> bool:
    pinned, painting = state.panel(BOARD_CONTENTS).cursor.pinned, state.panel(MASK_EDIT_PANEL)
    return bool(painting and pinned and stage_and_side(pinned) in painting.targets)


def _has_head_split(state: WindowState) -> bool:
    split = state.panel(SHAPES_PANEL).split
    return split is not None and split.heads > 1


def _can_reveal_prediction(state: WindowState) -> bool:
    bar = state.panel(PLAYBACK_PANEL)
    return bar.question is not None and not bar.is_revealed


def _has_next_lesson_page(state: WindowState) -> bool:
    lesson = state.panel(LESSON_PANEL)
    return bool(lesson and lesson.has_next)


def _has_previous_lesson_page(state: WindowState) -> bool:
    lesson = state.panel(LESSON_PANEL)
    return bool(lesson and lesson.number > 1)


def _is_lesson_page_changed(state: WindowState) -> bool:
    lesson = state.panel(LESSON_PANEL)
    return bool(lesson and lesson.is_changed)


def _can_ablate(state: WindowState) -> bool:
    resolved = state.resolved
    question = ablation_question(resolved.run if resolved else None, "")
    return question is not None and not state.panel(ATTRIBUTION_PANEL).is_complete


def _can_swap_sides(state: WindowState) -> bool:
    bar = state.panel(COMPARISON_PANEL)
    return bar is not None and bar.can_swap


def _has_largest_difference(state: WindowState) -> bool:
    bar = state.panel(COMPARISON_PANEL)
    return bar is not None and bar.largest is not None


def _dropout_sample_count(state: WindowState) -> int:
    """Return the number of dropout samples in the comparison, or 0 for other comparisons."""
    bar = state.panel(COMPARISON_PANEL)
    return bar.count if bar and bar.against is ComparisonKind.SAMPLES else 0


def _can_add_dropout_samples(state: WindowState) -> bool:
    bar = state.panel(COMPARISON_PANEL)
    return bar is not None and 0 < _dropout_sample_count(state) < bar.max_count


def _can_use_chat_template(state: WindowState) -> bool:
    """Return whether the text can be treated as a chat message or is already treated as one."""
    model, resolved = state.document.model, state.resolved
    reading = resolved.run.reading if resolved else None
    has_template = reading is not None and reading.has_chat_template
    return model is not None and (model.is_chat or has_template)


def _history_appearance(name: str, change: str) -> CommandAppearance:
    """Return the appearance of Undo or Redo, whose menu text includes the name of the change."""
    text = f"&{name.capitalize()}"
    entry = f"{text}: {change.replace('&', '&&')}" if change else text
    return CommandAppearance(name, entry=entry)


def _play_or_pause_appearance(state: WindowState) -> CommandAppearance:
    name = "pause" if state.playhead.is_playing else "play"
    return CommandAppearance(name, tip=name.capitalize())


def _open_documentation(window: QMainWindow) -> None:
    from visualizer.widgets.documentation_window import open_documentation  # slow to import

    open_documentation(window)


def _copy_diagnostics(window: QMainWindow) -> None:
    from visualizer.widgets.diagnostics import copy_diagnostics  # slow to import

    copy_diagnostics(window)


def _edit_shortcuts(c: WindowControllers) -> None:
    from visualizer.lab.commands import LAB_COMMANDS  # slow to import
    from visualizer.widgets.shortcut_editor import ShortcutEditor

    editor = ShortcutEditor(c.window, {"Main window": COMMANDS, "Lab": LAB_COMMANDS})
    editor.changed.connect(c.settings_controller.shortcutsChosen)
    editor.open()


WindowCommand = Command[WindowControllers, WindowState]
Key = QKeySequence.StandardKey

FILE, EDIT, MODULE, PLAY, COMPARE = "&File", "&Edit", "&Module", "&Play", "&Compare"
VIEW, LESSONS, LAB, HELP = "&View", "&Lessons", "L&ab", "&Help"
RECENT_MENU = "&File>Open &recent"
GENERATE_MENU = "&Module>&Generate text"
PAN, LAYOUT, WEIGHTS = "&View>Pa&n", "&View>Layou&t", "&View>Wei&ghts"
COLOURS, OPEN_PANES = "&View>Co&lours", "&View>Pan&es"


def _choice_command_factory(
    id_: str,
    menu: str,
    group: str,
    choose: Callable[[WindowControllers, Any], object],
    chosen: Callable[[WindowState], object],
) -> Callable[..., WindowCommand]:
    """Return a function that creates the command for one value of a choice."""

    def create_command(value: str, text: str, **options: Any) -> WindowCommand:
        return WindowCommand(
            f"{id_} {value}",
            menu,
            text,
            lambda c: choose(c, value),
            group=group,
            is_checked=lambda state: chosen(state) == value,
            **options,
        )

    return create_command


# fmt: off
_grain_command = _choice_command_factory("playback.set_grain", PLAY, "grain",
    lambda c, grain: c.playback_controller.set_step_size(grain), lambda state: state.playhead.grain)
_weight_transform_command = _choice_command_factory("view.set_weight_transform", WEIGHTS, "lens",
    lambda c, transform: c.view_controller.set_weight_transform(transform),
    lambda state: state.view.lens)
_curve_command = _choice_command_factory("view.set_curve", COLOURS, "curve",
    lambda c, curve: c.view_controller.set_colour_curve(curve), lambda state: state.colouring.curve)
_limits_command = _choice_command_factory("view.set_limits", COLOURS, "limits",
    lambda c, limits: c.view_controller.set_colour_limits(limits),
        lambda state: state.colouring.limits)
_dialect_command = _choice_command_factory("view.set_dialect", VIEW, "dialect",
    lambda c, dialect: c.view_controller.set_code_dialect(dialect),
        lambda state: state.view.dialect)
_sequential_map_command = _choice_command_factory("view.set_map", COLOURS, "map",
    lambda c, id_: c.view_controller.set_sequential_map(id_),
    lambda state: state.colouring.sequential)
_diverging_map_command = _choice_command_factory("view.set_diverging", COLOURS, "signed",
    lambda c, id_: c.view_controller.set_diverging_map(id_),
    lambda state: state.colouring.diverging)
_scheme_command = _choice_command_factory("theme.set_scheme", VIEW, "scheme",
    lambda c, scheme: c.settings_controller.choose_colour_scheme(scheme),
        lambda state: state.scheme)
# fmt: on


def _colour_map_command(each: ColourMap) -> WindowCommand:
    """Create the command that selects a colour map; a separator precedes the first of each kind."""
    create_command = (
        _sequential_map_command if each.kind is ColourMapKind.SEQUENTIAL else _diverging_map_command
    )
    is_first = each is colour_maps_of_kind(each.kind)[0]
    return create_command(each.id, each.menu_text, has_separator=is_first)


def _pane_command(pane: PaneSpec) -> WindowCommand:
    """Create the command that brings a pane to the front, or closes the front pane."""
    return WindowCommand(
        f"pane.toggle {pane.id}",
        OPEN_PANES,
        pane.title,
        lambda c: c.docks.toggle_pane(pane.id),
        is_checked=lambda state: pane.id in state.visible_panes,
        tip=pane.tip,
    )


# fmt: off
COMMANDS: tuple[WindowCommand, ...] = (
    WindowCommand("document.new_window", FILE, "&New window",
        lambda c: c.document_controller.new_window(), ("Ctrl+N",), standard=Key.New),
    WindowCommand("document.open", FILE, "&Open…",
        lambda c: c.document_controller.choose_and_open_file(),
        ("Ctrl+O",), standard=Key.Open, icon="open", tip="Open a document, tensor file or text"),
    WindowCommand("model.open", FILE, "Open a &model…",
        lambda c: c.model_chooser_controller.open_dialog()),
    WindowCommand("model.connect", FILE, "Connec&t to a model…",
        lambda c: c.model_connection_controller.open_dialog(),
        tip="Connect to a model that is served on another machine"),
    WindowCommand("model_image.choose", FILE, "Choose an &image…",
        lambda c: c.model_image_controller.choose_image(),
        is_enabled=lambda state: state.panel(SETUP_PANEL).image is not None,
        tip="Choose the input image of a vision model"),
    WindowCommand("recent_files.clear", RECENT_MENU, "&Clear list",
        lambda c: c.recent_files_controller.clear()),
    WindowCommand("document.save", FILE, "&Save", lambda c: c.document_controller.save(),
        ("Ctrl+S",), standard=Key.Save, icon="save", has_separator=True),
    WindowCommand("document.save_as", FILE, "Save &as…", lambda c: c.document_controller.save_as(),
        ("Ctrl+Shift+S",), standard=Key.SaveAs),
    WindowCommand("document.revert", FILE, "Re&vert to saved",
        lambda c: c.document_controller.revert(),
        is_enabled=lambda state: state.can_revert),
    WindowCommand("document.toggle_numbers", FILE, "Incl&ude numbers when saving",
        lambda c: c.document_controller.toggle_saving_numbers(),
        is_checked=lambda state: state.saves_numbers),
    WindowCommand("export.open", FILE, "&Export…",
        lambda c: c.export_controller.open_export_dialog(),
        ("Ctrl+E",), icon="export", is_enabled=lambda state: state.can_export),
    WindowCommand("window.close", FILE, "&Close window", lambda c: c.window.close(), ("Ctrl+W",),
        standard=Key.Close, has_separator=True),
    WindowCommand("application.quit", FILE, "&Quit", lambda c: c.document_controller.quit(),
        ("Ctrl+Q",), standard=Key.Quit),
    WindowCommand("workspace.undo", EDIT, "&Undo", lambda c: c.workspace.undo(), ("Ctrl+Z",),
        standard=Key.Undo, icon="undo", is_enabled=lambda state: state.can_undo,
        appearance=lambda state: _history_appearance("undo", state.undo_description)),
    WindowCommand("workspace.redo", EDIT, "&Redo", lambda c: c.workspace.redo(),
        ("Ctrl+Shift+Z", "Ctrl+Y"), standard=Key.Redo, icon="redo",
        is_enabled=lambda state: state.can_redo,
        appearance=lambda state: _history_appearance("redo", state.redo_description)),
    WindowCommand("cell.copy", EDIT, "&Copy cell", lambda c: c.docks.run_command("cell.copy"),
        ("Ctrl+C",), standard=Key.Copy, has_local_shortcut=True, icon="copy", has_separator=True,
        is_enabled=lambda state: state.panel(CELL_PANEL) is not None),
    WindowCommand("export.copy_picture", EDIT, "Copy as &image",
        lambda c: c.export_controller.copy_figure(),
        is_enabled=lambda state: state.can_export),
    WindowCommand("export.copy_script", EDIT, "Copy as scri&pt",
        lambda c: c.export_controller.copy_script(),
        is_enabled=lambda state: state.can_copy_script,
        tip="Copy a Python script that computes these numbers with torch only"),
    WindowCommand("cell.unpin", EDIT, "Unpi&n cell",
        lambda c: c.cell_selection_controller.unpin_cell(), icon="pin",
        is_enabled=lambda state: state.panel(BOARD_CONTENTS).cursor.is_pinned),
    WindowCommand("text.edit", EDIT, "Edit &sentence", lambda c: c.settings_bar.focus_text(),
        ("Ctrl+L",), has_separator=True,
        is_enabled=lambda state: state.panel(SETUP_PANEL).image is None),
    WindowCommand("text.edit_second", EDIT, "Edit second te&xt",
        lambda c: c.settings_bar.focus_second_text(),
        is_enabled=lambda state: state.panel(SETUP_PANEL).second is not None,
        tip="Edit the second text of a pair, or the beginning of the decoder’s text"),
    WindowCommand("token_selection.find", EDIT, "&Find token",
        lambda c: c.docks.open_and_run("token_selection.find"), ("Ctrl+F",), standard=Key.Find),
    WindowCommand("token_selection.go_to_largest_weight", EDIT, "Go to next largest &weight",
        lambda c: c.docks.open_and_run("token_selection.go_to_largest_weight"),
        is_enabled=lambda state: state.panel(TOKENS_PANEL).weights is not None,
        tip="Go to the token with the largest weight; press again for the next largest"),
    WindowCommand("token_selection.switch_role", EDIT, "Switch t&oken role (query or key)",
        lambda c: c.token_selection_controller.switch_role(),
        tip="Show what the tokens attend to, or what attends to them"),
    WindowCommand("token_selection.clear", EDIT, "Deselect &tokens",
        lambda c: c.token_selection_controller.deselect_all(),
        is_enabled=lambda state: bool(state.panel(TOKENS_PANEL).chosen)),
    WindowCommand("settings.open", EDIT, "S&ettings…",
        lambda c: c.settings_controller.open_settings(),
        ("Ctrl+,",), standard=Key.Preferences, icon="settings", has_separator=True),
    WindowCommand("shortcuts.edit", EDIT, "Change &keyboard shortcuts…", _edit_shortcuts),
    WindowCommand("module.toggle_causal_mask", MODULE, "Causal &mask",
        lambda c: c.setup_controller.toggle_causal_mask(), ("Ctrl+M",), is_enabled=_has_module,
        is_checked=lambda state: bool(state.document.get_setting("causal")),
        tip="Prevent tokens from attending to later tokens"),
    WindowCommand("mask_edit.toggle", MODULE, "&Paint the mask or cut edges",
        lambda c: c.mask_edit_controller.toggle_editing(),
        is_enabled=lambda state: _has_module(state) or _can_edit_heads(state),
        is_checked=lambda state: state.view.painting.is_on),
    WindowCommand("mask_edit.paint_pinned", MODULE, "Allow or block pinned &cell",
        lambda c: c.mask_edit_controller.toggle_pinned_cell(), ("X",), has_local_shortcut=True,
        is_enabled=_can_paint_pinned_cell,
        tip="Change the pinned cell in the mask; in a model, cut or restore its edge"),
    WindowCommand("module.toggle_training_mode", MODULE, "&Training mode (with dropout)",
        lambda c: c.setup_controller.toggle_dropout_mode(), is_enabled=_has_module,
        is_checked=lambda state: state.document.spec.mode is DropoutMode.TRAIN),
    WindowCommand("workspace.resample dropout_seed", MODULE, "&Resample dropout",
        lambda c: c.setup_controller.resample("dropout_seed"), icon="resample",
        is_enabled=_has_module),
    WindowCommand("workspace.resample seed", MODULE, "Resample &weights",
        lambda c: c.setup_controller.resample("seed"), is_enabled=_has_module),
    WindowCommand("workspace.keep_weights", MODULE, "&Keep these weights",
        lambda c: c.setup_controller.toggle_fixed_weights(),
        is_enabled=lambda state: state.can_keep_weights,
        is_checked=lambda state: are_all_weights_custom(state.document.spec)),
    WindowCommand("head_edit.toggle", MODULE, "Ablate shown &head",
        lambda c: c.head_edit_controller.toggle_shown_head_ablation(),
        has_separator=True,
        is_enabled=lambda state: state.panel(NEXT_TOKEN_PANEL).head is not None,
        is_checked=lambda state: state.panel(NEXT_TOKEN_PANEL).is_head_edited),
    WindowCommand("head_edit.set_mean", MODULE, "Mea&n-ablate shown heads",
        lambda c: c.head_edit_controller.set_edit_kind("mean"),
        is_enabled=_can_edit_heads),
    WindowCommand("head_edit.scale", MODULE, "Sc&ale shown heads…",
        lambda c: c.head_edit_controller.set_edit_kind("scaled"),
        is_enabled=_can_edit_heads),
    WindowCommand("head_edit.patch", MODULE, "Patch shown heads from another te&xt…",
        lambda c: c.head_edit_controller.set_edit_kind("patched"),
        is_enabled=lambda state: _can_edit_heads(state) and not state.document.takes_image),
    WindowCommand("head_edit.restore_all", MODULE, "Rest&ore all heads",
        lambda c: c.head_edit_controller.remove_all_edits(),
        is_enabled=lambda state: state.panel(NEXT_TOKEN_PANEL).has_edits,
        tip="Undo all head edits and cut edges"),
    WindowCommand("head_edit.sort_by_change", MODULE, "Sort heads b&y change",
        lambda c: c.view_controller.set_head_order(HeadOrder.CHANGED),
        is_enabled=lambda state: state.panel(NEXT_TOKEN_PANEL).is_edited,
        tip="Sort the Layers pane by how much the edits changed the weights"),
    WindowCommand("model.show_next_part", MODULE, "Next attention kin&d",
        lambda c: c.setup_controller.show_next_attention_kind(),
        is_enabled=lambda state: bool(state.panel(SETUP_PANEL).parts.choices),
        tip="Switch between encoder, decoder and cross-attention"),
    WindowCommand("attribution.toggle_ablations", MODULE, "Ablate &each head or stop",
        lambda c: c.attribution_controller.toggle_ablations(),
        is_enabled=_can_ablate, is_checked=lambda state: state.panel(ATTRIBUTION_PANEL).is_ablating,
        tip="Run the model once per head, without this head, and show the effects in the "
        "Attribution pane"),
    WindowCommand("head_measurement.toggle", MODULE, "Measure heads o&f a long text or stop",
        lambda c: c.head_measurement_controller.toggle_measurement(),
        is_enabled=lambda state: state.measurement is not None,
        is_checked=lambda state: bool(state.measurement and state.measurement.is_measuring),
        tip="Compute the head measures row by row for the Heads and Scatter panes"),
    WindowCommand("model_generation.toggle", GENERATE_MENU, "&Generate or stop",
        lambda c: c.model_generation_controller.toggle_generation(),
        is_enabled=lambda state: state.generation_widget.can_run,
        is_checked=lambda state: state.generation_widget.generation.is_running,
        tip="Generate the number of tokens set in the Continue pane, or stop"),
    WindowCommand("model_generation.sample", GENERATE_MENU, "S&ample a token",
        lambda c: c.model_generation_controller.sample_token(),
        is_enabled=lambda state: state.generation_widget.can_sample),
    WindowCommand("model_generation.step_back", GENERATE_MENU, "Step &back",
        lambda c: c.model_generation_controller.step_back(),
        is_enabled=lambda state: state.generation_widget.generation.can_step_back),
    WindowCommand("model_generation.step_forward", GENERATE_MENU, "Step &forward",
        lambda c: c.model_generation_controller.step_forward(),
        is_enabled=lambda state: state.generation_widget.generation.can_step_forward),
    WindowCommand("model_generation.switch_branch", GENERATE_MENU, "Next alte&rnative",
        lambda c: c.model_generation_controller.switch_branch(),
        is_enabled=lambda state: state.generation_widget.generation.can_switch_branch,
        tip="Go to another token that was sampled at this position"),
    WindowCommand("model_generation.use_as_text", GENERATE_MENU, "&Use as text",
        lambda c: c.model_generation_controller.use_as_document_text(),
        is_enabled=lambda state: state.generation_widget.can_use_as_text,
        tip="Replace the sentence with the generated text and show its attention"),
    WindowCommand("model_generation.toggle_chat", GENERATE_MENU, "Treat text as a user &message",
        lambda c: c.model_generation_controller.toggle_chat_template(),
        has_separator=True,
        is_enabled=_can_use_chat_template,
        is_checked=lambda state: bool(state.document.model and state.document.model.is_chat),
        tip="Apply the model’s chat template, up to the beginning of the answer"),
    WindowCommand("model_generation.start_again", GENERATE_MENU, "&Start over",
        lambda c: c.model_generation_controller.discard_generated_tokens(),
        is_enabled=lambda state: state.generation_widget.last_step > 0,
        tip="Discard all generated tokens"),
    WindowCommand("module.open_settings", MODULE, "All &settings…",
        lambda c: c.settings_bar.open_other_settings(), has_separator=True,
        is_enabled=_has_module,
        tip="Change the scale, positions, masks, seeds, precision and all other module settings"),
    WindowCommand("playback.toggle", PLAY, "&Play or pause",
        lambda c: c.playback_controller.toggle_playback(), ("Space",), icon="play",
        has_local_shortcut=True,
        appearance=_play_or_pause_appearance),
    WindowCommand("playback.step 1", PLAY, "Step &forward",
        lambda c: c.playback_controller.step_by(1),
        ("PgDown",), icon="step-on"),
    WindowCommand("playback.step -1", PLAY, "Step &back",
        lambda c: c.playback_controller.step_by(-1),
        ("PgUp",), icon="step-back"),
    WindowCommand("playback.go_to_start", PLAY, "Go to &start",
        lambda c: c.playback_controller.go_to_start(), ("Home",), icon="to-start",
        has_local_shortcut=True),
    WindowCommand("playback.go_to_end", PLAY, "Go to &end",
        lambda c: c.playback_controller.go_to_end(), ("End",), icon="to-end",
        has_local_shortcut=True),
    WindowCommand("playback.skip 1", PLAY, "&Next stage",
        lambda c: c.playback_controller.skip_stages(1), has_local_shortcut=True),
    WindowCommand("playback.skip -1", PLAY, "Pre&vious stage",
        lambda c: c.playback_controller.skip_stages(-1), has_local_shortcut=True),
    _grain_command(StepSize.TOUR, "To&ur", has_separator=True),
    _grain_command(StepSize.STAGE, "By s&tage"),
    _grain_command(StepSize.ROW, "By &row"),
    _grain_command(StepSize.CELL, "By &cell"),
    WindowCommand("playback.change_speed 1", PLAY, "F&aster",
        lambda c: c.playback_controller.change_speed(1), has_separator=True),
    WindowCommand("playback.change_speed -1", PLAY, "Slo&wer",
        lambda c: c.playback_controller.change_speed(-1)),
    WindowCommand("playback.toggle_loop", PLAY, "&Loop",
        lambda c: c.playback_controller.toggle_loop(), icon="loop",
        is_checked=lambda state: state.playhead.loops),
    WindowCommand("playback.predict", PLAY, "Predict this sta&ge",
        lambda c: c.playback_controller.toggle_prediction(), icon="predict",
        has_separator=True,
        is_enabled=_has_run,
        is_checked=lambda state: state.panel(PLAYBACK_PANEL).question is not None),
    WindowCommand("cell.mark", PLAY, "&Mark pinned cell",
        lambda c: c.cell_selection_controller.toggle_prediction_mark(), ("Return", "Enter"),
        has_local_shortcut=True,
        is_enabled=_can_mark_prediction, tip="Mark the pinned cell as a prediction"),
    WindowCommand("playback.reveal", PLAY, "Reveal &hidden stage",
        lambda c: c.playback_controller.reveal_prediction(),
        is_enabled=_can_reveal_prediction,
        tip="Show the stage and check the predictions"),
    WindowCommand("comparison.keep_as_a", COMPARE, "Keep these numbers as &A",
        lambda c: c.comparison_controller.keep_as_side_a(), is_enabled=_has_run,
        tip="Keep the current numbers as side A of a comparison"),
    WindowCommand("comparison.swap", COMPARE, "&Swap A and B",
        lambda c: c.comparison_controller.swap_sides(), is_enabled=_can_swap_sides),
    WindowCommand("comparison.compare_heads", COMPARE, "Compare two &heads",
        lambda c: c.comparison_controller.compare_heads(), has_separator=True,
        is_enabled=_has_run),
    WindowCommand("comparison.compare_samples", COMPARE, "Compare &dropout samples",
        lambda c: c.comparison_controller.compare_dropout_samples(),
        is_enabled=_has_run,
        tip="Compare the mean of dropout samples with the weights before dropout"),
    WindowCommand("comparison.scale_samples 1", COMPARE, "Double sa&mple count",
        lambda c: c.comparison_controller.scale_samples(1),
        is_enabled=_can_add_dropout_samples),
    WindowCommand("comparison.scale_samples -1", COMPARE, "Hal&ve sample count",
        lambda c: c.comparison_controller.scale_samples(-1),
        is_enabled=lambda state: _dropout_sample_count(state) > 1),
    WindowCommand("comparison.add_sample", COMPARE, "Add &one sample",
        lambda c: c.comparison_controller.add_sample(),
        is_enabled=_can_add_dropout_samples),
    WindowCommand("comparison.go_to_largest", COMPARE, "&Go to largest difference",
        lambda c: c.comparison_controller.go_to_largest(), has_separator=True,
        is_enabled=_has_largest_difference),
    WindowCommand("comparison.stop", COMPARE, "Stop &comparing",
        lambda c: c.comparison_controller.end_comparison(),
        is_enabled=lambda state: state.panel(COMPARISON_PANEL) is not None),
    WindowCommand("view.step_leading 1", VIEW, "Next layer or text",
        lambda c: c.view_controller.step_text_or_layer(1), ("Ctrl+PgDown",),
        is_enabled=_has_leading_axes),
    WindowCommand("view.step_leading -1", VIEW, "&Previous layer or text",
        lambda c: c.view_controller.step_text_or_layer(-1), ("Ctrl+PgUp",),
        is_enabled=_has_leading_axes),
    WindowCommand("view.toggle_side_by_side", VIEW, "Layers or te&xts side by side",
        lambda c: c.view_controller.toggle_side_by_side(),
        is_enabled=_has_leading_axes, is_checked=lambda state: state.view.spread),
    WindowCommand("cell.go -1", VIEW, "Prev&ious cell",
        lambda c: c.cell_selection_controller.go_through_history(-1),
        icon="back", has_separator=True,
        is_enabled=lambda state: _can_step_cell_history(state, -1)),
    WindowCommand("cell.go 1", VIEW, "Next &cell",
        lambda c: c.cell_selection_controller.go_through_history(1), icon="chevron-right",
        is_enabled=lambda state: _can_step_cell_history(state, 1)),
    WindowCommand("view.zoom_in", VIEW, "Zoo&m in", lambda c: c.view_controller.zoom_in(),
        ("Ctrl++", "Ctrl+="), standard=Key.ZoomIn, has_separator=True),
    WindowCommand("view.zoom_out", VIEW, "Zoom o&ut", lambda c: c.view_controller.zoom_out(),
        ("Ctrl+-",), standard=Key.ZoomOut, is_enabled=_is_zoomed),
    WindowCommand("view.reset_zoom", VIEW, "Reset &zoom", lambda c: c.view_controller.reset_zoom(),
        ("Ctrl+0",), is_enabled=_is_zoomed),
    WindowCommand("view.pan -1 0", PAN, "&Up",
        lambda c: c.view_controller.pan_by_fraction(-1, 0)),
    WindowCommand("view.pan 1 0", PAN, "&Down",
        lambda c: c.view_controller.pan_by_fraction(1, 0)),
    WindowCommand("view.pan 0 -1", PAN, "&Left",
        lambda c: c.view_controller.pan_by_fraction(0, -1)),
    WindowCommand("view.pan 0 1", PAN, "&Right",
        lambda c: c.view_controller.pan_by_fraction(0, 1)),
    WindowCommand("view.show_flow", LAYOUT, "&Flow of one head",
        lambda c: c.show_flow(), ("Ctrl+1",)),
    WindowCommand("view.show_all_panels", LAYOUT, "&Stages × heads",
        lambda c: c.view_controller.show_all_panels(), ("Ctrl+2",)),
    WindowCommand("view.show_one_stage", LAYOUT, "&One stage, all heads",
        lambda c: c.view_controller.show_one_stage(), ("Ctrl+3",)),
    WindowCommand("view.step_head 1", LAYOUT, "&Next head",
        lambda c: c.view_controller.step_head(1), has_local_shortcut=True,
        tip="Show the next head only"),
    WindowCommand("view.step_head -1", LAYOUT, "&Previous head",
        lambda c: c.view_controller.step_head(-1), has_local_shortcut=True,
        tip="Show the previous head only"),
    WindowCommand("view.toggle_aggregate mean", LAYOUT, "Heads: &mean",
        lambda c: c.view_controller.toggle_head_aggregate(HeadAggregate.MEAN),
        has_separator=True, is_checked=lambda state: HeadAggregate.MEAN in state.view.folds,
        tip="Show the mean of all heads, cell by cell, next to the heads"),
    WindowCommand("view.toggle_aggregate max", LAYOUT, "Heads: ma&ximum",
        lambda c: c.view_controller.toggle_head_aggregate(HeadAggregate.MAX),
        is_checked=lambda state: HeadAggregate.MAX in state.view.folds,
        tip="Show the maximum of all heads, cell by cell, next to the heads"),
    _weight_transform_command(WeightTransform.PLAIN, "&Unmodified"),
    _weight_transform_command(WeightTransform.WITHOUT_FIRST, "Without the &first token"),
    _weight_transform_command(WeightTransform.TIMES_VALUE, "Weights × &value norm",
        is_enabled=lambda state: state.panel(VIEW_CONTROLS_PANEL).has_values),
    _curve_command(ColourCurve.LINEAR, "Colour scale: l&inear"),
    _curve_command(ColourCurve.LOG, "Colour scale: lo&garithmic"),
    _curve_command(ColourCurve.RANK, "Colour scale: &rank"),
    _limits_command(ColourLimits.AUTO, "Range: &automatic", has_separator=True),
    _limits_command(ColourLimits.UNIT, "Range: &0 to 1"),
    _limits_command(ColourLimits.ROW, "Range: per ro&w"),
    _limits_command(ColourLimits.PANEL, "Range: per pa&nel"),
    _limits_command(ColourLimits.SHARED, "Range: shared b&y all heads"),
    _limits_command(ColourLimits.TYPED, "Range: cus&tom…"),
    _dialect_command(CodeDialect.BOOK, "Code: b&ook notation", has_separator=True),
    _dialect_command(CodeDialect.LECTURE, "Code: lecture not&ation"),
    _dialect_command(CodeDialect.SDPA, "Code: single P&yTorch call"),
    WindowCommand("shapes.toggle_split", VIEW, "Split or &join head columns",
        lambda c: c.docks.run_command("shapes.toggle_split"), has_separator=True,
        is_enabled=_has_head_split, tip="Move the heads’ columns apart or back together"),
    *map(_colour_map_command, COLOUR_MAPS),
    *map(_pane_command, PANES),
    _scheme_command(ColourScheme.SYSTEM, "Theme: &system", icon="theme",
        has_separator=True),
    _scheme_command(ColourScheme.LIGHT, "Theme: lig&ht"),
    _scheme_command(ColourScheme.DARK, "Theme: &dark"),
    WindowCommand("focus_cycle.go 1", VIEW, "Focus next area",
        lambda c: c.focus_cycle.move_focus(1),
        ("F6",), has_separator=True),
    WindowCommand("focus_cycle.go -1", VIEW, "Focus previous area",
        lambda c: c.focus_cycle.move_focus(-1),
        ("Shift+F6",)),
    WindowCommand("layout.reset", VIEW, "Reset layout", lambda c: c.reset_layout()),
    WindowCommand("window.toggle_full_screen", VIEW, "Full screen",
        lambda c: c.toggle_full_screen(),
        ("F11",), standard=Key.FullScreen, has_separator=True),
    WindowCommand("presenter_mode.toggle", VIEW, "Presenter mode (&video projector)",
        lambda c: c.presenter_mode.toggle(), ("F5",),
        is_checked=lambda state: state.is_presenting),
    WindowCommand("presenter_mode.blank", VIEW, "Blan&k the screen",
        lambda c: c.presenter_mode.blank_screen(), ("B", "."), has_local_shortcut=True,
        is_enabled=lambda state: state.is_presenting),
    WindowCommand("reduced_motion.toggle", VIEW, "&Reduce motion",
        lambda c: c.settings_controller.toggle_reduced_motion(),
        is_checked=lambda state: state.is_motion_reduced,
        tip="Show panes, menus and lists without animation"),
    WindowCommand("lesson.step 1", LESSONS, "&Next page",
        lambda c: c.lesson_controller.turn_pages(1),
        ("Alt+Right",), has_separator=True, is_enabled=_has_next_lesson_page),
    WindowCommand("lesson.step -1", LESSONS, "&Previous page",
        lambda c: c.lesson_controller.turn_pages(-1), ("Alt+Left",),
        is_enabled=_has_previous_lesson_page),
    WindowCommand("lesson.restore_page", LESSONS, "&Restore page",
        lambda c: c.lesson_controller.restore_page_settings(),
        is_enabled=_is_lesson_page_changed, tip="Undo the changes made since the page was opened"),
    WindowCommand("lesson.close", LESSONS, "&Close lesson",
        lambda c: c.lesson_controller.close_lesson(),
        is_enabled=lambda state: state.panel(LESSON_PANEL) is not None),
    WindowCommand("lesson.open_folder", LESSONS, "Open lessons &folder",
        lambda c: c.lesson_controller.open_lessons_folder(), has_separator=True),
    WindowCommand("lab.open", LAB, "&Language lab", lambda c: c.open_lab()),
    WindowCommand("start_page.open", HELP, "&Start page", lambda c: c.start_page.open_page()),
    WindowCommand("command_palette.open", HELP, "&Find command…",
        lambda c: c.open_command_palette(), ("Ctrl+Shift+P",)),
    WindowCommand("documentation.open", HELP, "&Documentation",
        lambda c: _open_documentation(c.window), ("F1",)),
    WindowCommand("shortcuts.show", HELP, "&Keyboard shortcuts",
        lambda c: dialogs.show_shortcuts(c.window, list_shortcuts(), partial(_edit_shortcuts, c)),
        ("Ctrl+?",)),
    WindowCommand("diagnostics.copy", HELP, "Copy dia&gnostic information",
        lambda c: _copy_diagnostics(c.window),
        tip="Copy versions, screens, devices and the last log messages for a bug report"),
    WindowCommand("about.show", HELP, "&About", lambda c: dialogs.show_about(c.window)),
)
# fmt: on


_UNCOVERED = {
    *(FILE, RECENT_MENU, LAB, HELP),
    *("reduced_motion.toggle", "settings.open", "shortcuts.edit"),
    "scheme",
}
"""Menus, commands and groups that do not affect the content under the start page."""
START_PAGE_CLOSING_COMMANDS = tuple(
    row.id for row in COMMANDS if not {row.menu, row.id, row.group} & _UNCOVERED
)
"""Commands that affect the content under the start page and therefore close the page."""

WIDGET_SHORTCUTS = (
    ("Pin a cell; move to the next cell, head or stage", "arrow keys"),
    ("During playback, if no cell is pinned: step or change the stage", "arrow keys"),
    ("Unpin the cell", "Esc"),
    ("Bring a head to the front, or show all heads", "1 to 9, 0 on the flow board"),
    ("While painting the mask: apply the pinned cell’s state to the next cell", "Shift+arrow keys"),
    ("Leave presenter mode, if no cell is pinned", "Esc"),
    ("Move between tokens, or select several", "arrow keys, Shift+arrow keys in the token strip"),
    ("Select or deselect a token, or deselect all tokens", "Space, Esc in the token strip"),
    ("Go to the next match, or close the search", "Enter, Esc in the search field"),
    ("Show one head, sort by column, or copy the table", "Enter, Space, Ctrl+C in the Heads pane"),
    ("Show a layer or a head, or copy the table", "Enter, Ctrl+C in Lens, Attribution, Scatter"),
    ("Type, copy or paste numbers", "Enter, Ctrl+C, Ctrl+V in the Numbers pane"),
    ("Step through generated tokens, or sample a token", "arrow keys, Enter in the Continue pane"),
)
"""Keys handled by widgets themselves, without a command."""


def list_shortcuts() -> list[ShortcutGroup]:
    """List all keyboard shortcuts."""
    return [
        *shortcuts_by_menu(COMMANDS),
        ShortcutGroup("In the focused widget", WIDGET_SHORTCUTS),
    ]
