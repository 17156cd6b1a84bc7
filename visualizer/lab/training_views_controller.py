"""Controls the views of a training run: attention, snapshot bar, probe and generation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QObject, Signal

from visualizer.format import shorten
from visualizer.generation.generated_tokens_presenter import present_generation
from visualizer.generation.token_choice_presenter import NextTokenChoicePanel, present_next_tokens
from visualizer.lab.attention_view.presenter import (
    TEXT_REQUIRED,
    LabAttentionPanel,
    LabCellSelection,
    layer_head_index,
    present_attention,
)
from visualizer.lab.layer_document import (
    create_layer_document,
    create_recorded_document,
)
from visualizer.lab.snapshot_bar.presenter import present_snapshots
from visualizer.lab.training.run_state import RunPhase
from visualizer.session.view_options import ColourLimits, ColourOptions
from visualizer.widgets.app_settings import NOTICE_MS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from PySide6.QtWidgets import QComboBox, QLabel, QLineEdit, QWidget

    from visualizer.generation.generated_tokens_widget import GenerationPane
    from visualizer.generation.generation_tree import GenerationTree
    from visualizer.generation.token_choice_widget import NextTokenChoicePane
    from visualizer.lab.attention_view.probe_controller import ProbeController
    from visualizer.lab.attention_view.probe_result import ProbeResult
    from visualizer.lab.attention_view.widget import LabAttentionView
    from visualizer.lab.controller import LabStateController
    from visualizer.lab.generation_controller import LabGenerationController
    from visualizer.lab.snapshot_bar.widget import SnapshotBar
    from visualizer.language.wire_format import Message
    from visualizer.session.cell_address import Cell
    from visualizer.widgets.theme import Theme

MAX_LISTED_CHARACTERS = 120
"""Maximum number of characters of a recorded text in the list of texts."""
BEFORE_TRAINING_MESSAGE = "Start training to watch the attention of every head as it forms."


class TrainingWidgets(Struct, frozen=True, eq=False):
    """The widgets that show a training run.

    Parameters
    ----------
    text_box : QComboBox
        The recorded texts, which are shown instead of the probe if the run was recorded.
    generation_widget : QWidget
        The widget that contains the next-token pane and the generation pane.
    """

    probe: QLineEdit
    text_box: QComboBox
    problem: QLabel
    attention: LabAttentionView
    snapshot_bar: SnapshotBar
    generation_widget: QWidget
    next_tokens_pane: NextTokenChoicePane
    generation_pane: GenerationPane


class TrainingViewsController(QObject):
    """Connects the views of a training run with the probe and the text generation."""

    changed = Signal()
    """Emitted when an option of the views has changed."""
    layerOpened = Signal(object)
    """Emitted with the `SavedDocument` of a layer."""
    layerRefused = Signal(str, int)
    """Emitted with an error message, and the time for which it is shown, in milliseconds."""

    def __init__(
        self,
        lab: LabStateController,
        probe_controller: ProbeController,
        generation_controller: LabGenerationController,
        widgets: TrainingWidgets,
    ) -> None:
        super().__init__(lab)
        self._lab, self._widgets = lab, widgets
        self._probe_controller = probe_controller
        self._generation_controller = generation_controller
        self.panel = LabAttentionPanel(message=BEFORE_TRAINING_MESSAGE)
        self.pointer = LabCellSelection()
        self._max_cells = 256
        self.reference: ProbeResult | None = None
        """The result with which the results of other steps are compared, if any."""
        self._change: tuple[ProbeResult, ProbeResult] | None = None
        """The result that is compared, and its change since the reference."""
        self.colouring = ColourOptions()
        """The colour options of the weights."""
        self.can_play = False
        """Whether there are snapshots to play."""
        # The values that were last shown; nothing is repainted if only the progress changes.
        self._shown_bars: tuple[object, ...] = ()
        self._shown_generation: tuple[GenerationTree, bool, bool, int, bool, Theme] | None = None
        self._folder: Path | None = None
        self._opening_count = 0
        """Number of requests to open a layer; only the newest request is handled."""

    @property
    def has_attention_layers(self) -> bool:
        return bool(self.panel.board.columns)

    @property
    def can_sample(self) -> bool:
        return self._has_model and self._generation_controller.can_sample

    def show_views(self, theme: Theme) -> None:
        """Show the attention, the snapshot bar, the probe and the generation."""
        run = self._lab.run
        if (run.folder if run else None) != self._folder:
            self._folder = run.folder if run else None
            self.pointer, self.reference = LabCellSelection(), None
            self._widgets.next_tokens_pane.discard_invalid_value()
        self.panel = self._build_attention_panel()
        self._widgets.attention.show_attention(self.panel, theme)
        self._show_probe()
        self._show_snapshot_bar(theme)
        self._show_generation(theme)

    def _build_attention_panel(self) -> LabAttentionPanel:
        lab, result = self._lab, self._probe_controller.result
        if lab.run is None:
            return LabAttentionPanel(message=BEFORE_TRAINING_MESSAGE)
        if lab.run.is_open and not lab.view.probe:
            return LabAttentionPanel(message=TEXT_REQUIRED)
        model, look = lab.run.model_kind, self.colouring
        result = self._compared_result(result) if result else None
        return present_attention(result, model, self.pointer, self._max_cells, look, self.panel)

    def _compared_result(self, result: ProbeResult) -> ProbeResult:
        """Return the change of a result since the reference, or the result without a reference."""
        if self.reference is None:
            return result
        if self._change is None or self._change[0] is not result:
            change = result.change_since(self.reference)
            if change is None:  # another text was chosen
                self.reference = None
                return result
            self._change = result, change
        return self._change[1]

    def toggle_reference(self) -> None:
        """Compare all steps with the one that is shown, or end the comparison."""
        self.reference = None if self.reference else self._probe_controller.result
        self._change = None
        self.changed.emit()

    @property
    def _is_model_known(self) -> bool:
        """Whether the model is known; False while a run is being opened for the first time."""
        run = self._lab.run
        return run is not None and run.is_known

    @property
    def _has_model(self) -> bool:
        """Whether the model can process other texts; a recorded run has only its own."""
        run = self._lab.run
        return run is not None and run.is_known and run.recording is None

    def _show_probe(self) -> None:
        probe, probe_controller = self._widgets.probe, self._probe_controller
        probe.setVisible(self._has_model)
        self._show_recorded_texts()
        if probe.text() != self._lab.view.probe:
            probe.setText(self._lab.view.probe)
        sentences = [probe_controller.refusal_reason] if probe_controller.refusal_reason else []
        if probe_controller.result and probe_controller.previous_text:
            text, step = shorten(probe_controller.previous_text), probe_controller.result.step
            sentences.append(f"The attention shown is for “{text}” at step {step:,}.")
        self._widgets.problem.setText(" ".join(sentences))
        self._widgets.problem.setVisible(bool(sentences))

    def _show_recorded_texts(self) -> None:
        box, run = self._widgets.text_box, self._lab.run
        recording = run.recording if run and run.is_known else None
        texts = [each.text for each in recording.texts] if recording else []
        if texts != [box.itemData(at) for at in range(box.count())]:
            box.clear()
            for text in texts:
                line = " ".join(text.split())
                is_long = len(line) > MAX_LISTED_CHARACTERS
                box.addItem(line[:MAX_LISTED_CHARACTERS] + "…" * is_long, text)
        box.setCurrentIndex(box.findData(self._lab.view.probe))
        box.setVisible(recording is not None)

    def choose_recorded_text(self, at: int) -> None:
        """Show the attention for another one of the recorded texts."""
        self._lab.set_probe(self._widgets.text_box.itemData(at))

    def _show_generation(self, theme: Theme) -> None:
        widgets, generation_controller = self._widgets, self._generation_controller
        run, result = self._lab.run, generation_controller.result
        widgets.generation_widget.setVisible(self._has_model)
        if run is not None and run.recording:
            return
        sampling = generation_controller.sampling
        bar_inputs = (result, sampling, theme, self._folder)
        is_pending = (
            result is None
            and generation_controller.can_sample
            and not self._probe_controller.previous_text
        )
        stays = is_pending and self._folder in self._shown_bars  # until the next values arrive
        if (
            run is not None
            and self._is_model_known
            and not stays
            and bar_inputs != self._shown_bars
        ):
            self._shown_bars = bar_inputs
            if result is None:
                bars = NextTokenChoicePanel(sampling=sampling, vocabulary=len(run.tokens))
            else:
                bars = present_next_tokens(result.tokens, result.logits, run.tokens, sampling)
            widgets.next_tokens_pane.show_bars(bars, theme)
        shown_values = (
            generation_controller.tree,
            generation_controller.is_running,
            generation_controller.can_sample,
            self._lab.settings.block,
            run is not None and run.is_open and run.phase is not RunPhase.STOPPED,
            theme,
        )
        if shown_values != self._shown_generation:
            self._shown_generation = shown_values
            widgets.generation_pane.show_generation(present_generation(*shown_values[:5]), theme)

    def _show_snapshot_bar(self, theme: Theme) -> None:
        run, view = self._lab.run, self._lab.view
        self._widgets.snapshot_bar.setVisible(self._is_model_known)
        if run is None or not run.is_known:
            self.can_play = False
            return
        losses = run.current_losses if view.step is None else run.losses_at(view.step)
        timeline = present_snapshots(
            run.snapshots,
            run.step,
            view.step,
            *losses,
            self._probe_controller.is_waiting,
            self.reference.step if self.reference else None,
            is_recorded=run.recording is not None,
        )
        self._widgets.snapshot_bar.show_timeline(timeline, theme)
        self.can_play = len(timeline.stops) > 1

    # ------------------------------------------------------------------ pointer and keys

    def hover_cell(self, cell: Cell | None) -> None:
        self._set_cell_selection(self.pointer.with_hovered_cell(cell))

    def pin_cell(self, cell: Cell | None) -> None:
        """Pin a cell, or unpin it if it is already pinned."""
        self._set_cell_selection(self.pointer.with_toggled_pin(cell))

    def move_pin(self, down: int, right: int) -> None:
        """Move the pinned cell."""
        self._set_cell_selection(self.pointer.with_moved_pin(self.panel.board, down, right))

    def _set_cell_selection(self, pointing: LabCellSelection) -> None:
        self.pointer = pointing
        self.changed.emit()

    def set_max_cells(self, room: int) -> None:
        """Set the number of cells that fit along a panel side; larger matrices are pooled."""
        if room != self._max_cells:
            self._max_cells = room
            self.changed.emit()

    def toggle_row_colour_limits(self) -> None:
        """Toggle the upper limit of the colour scale between each row's maximum and 1."""
        is_on = self.colouring.limits is ColourLimits.ROW
        self.colouring = ColourOptions(limits=ColourLimits.AUTO if is_on else ColourLimits.ROW)
        self.changed.emit()

    def open_pointed_layer(self) -> None:
        """Open the layer and head of the pinned or hovered cell or, without one, the first head."""
        places = (place for place, _ in self._pinned_and_hovered_cells())
        self.open_layer_with_head(*next(places, (0, 0)))

    def open_layer_with_head(self, layer: int, head: int) -> None:
        """Open a layer at the selected step, with one head and its pinned or hovered cell."""
        cells = (cell for place, cell in self._pinned_and_hovered_cells() if place == (layer, head))
        cell, view = next(cells, None), self._lab.view
        query_and_key = (cell.place[-2], cell.place[-1]) if cell else None
        self._opening_count += 1
        reply = partial(self._handle_layer_response, self._opening_count, head, query_and_key)
        self._lab.send_request("layer", reply, text=view.probe, step=view.step, layer=layer)

    def _handle_layer_response(
        self, number: int, head: int, cell: tuple[int, int] | None, message: Message
    ) -> None:
        if number != self._opening_count:
            return
        if message.kind == "refused":
            self.layerRefused.emit(message.values["sentence"], NOTICE_MS)
        else:
            run, tokenizer = self._lab.run, self._lab.settings.source.effective_tokenizer
            name = run.name if run else ""
            document = (
                create_recorded_document(message, head, cell, name)
                if run and run.recording
                else create_layer_document(message, tokenizer, head, cell, name)
            )
            self.layerOpened.emit(document)

    def _pinned_and_hovered_cells(self) -> Iterator[tuple[tuple[int, int], Cell]]:
        """Yield the pinned cell and then the hovered cell, with their layers and heads."""
        for cell in (self.pointer.pinned, self.pointer.hovered):
            place = layer_head_index(self.panel.board, cell) if cell else None
            if cell and place:
                yield place, cell
