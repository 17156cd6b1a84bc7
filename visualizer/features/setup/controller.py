"""Controller of the settings bar: applies its input to the document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject

from visualizer.attention.custom_weights import are_all_weights_custom, custom_weights_of
from visualizer.attention.masks import parse_mask
from visualizer.attention.spec import Device, DropoutMode
from visualizer.documents.open_document import longest_permitted_prefix, text_length_problem
from visualizer.errors import FIRST_CHARACTERS, InputError
from visualizer.features.setup.presenter import SETUP_PANEL
from visualizer.session.document import truncate_text_to_tokens
from visualizer.session.provenance import describe_provenance
from visualizer.widgets.app_settings import save_device

if TYPE_CHECKING:
    from visualizer.session.workspace import Workspace


class SetupController(QObject):
    """Controller that changes the settings of a workspace's document."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace

    def change_setting(
        self, name: str, value: object, is_continued_edit: bool, is_seen: bool = False
    ) -> None:
        """Set a setting, with the arguments of `SettingControl.chosen`.

        The device is also saved as the default for new documents.
        """
        if name == "device":
            save_device(Device(str(value)))
        if name == "own_mask":
            self._set_mask(str(value))
        else:
            self._workspace.change_setting(
                name, value, is_continued_edit=is_continued_edit, is_seen=is_seen
            )

    def _set_mask(self, text: str) -> None:
        """Set the custom mask from rows of 0s and 1s; each valid mask is an undo step."""
        try:
            mask = parse_mask(text)
        except InputError as refused:
            self._workspace.show_error(refused)
        else:
            self._workspace.change_setting("own_mask", mask)

    def apply_remedy(self, field: str) -> None:
        """Apply the remedy that is offered for the error of a setting or a text."""
        panel = self._workspace.screen.panel(SETUP_PANEL)
        problem = panel.second.problem if field == "second" and panel.second else panel.problem
        if field in {"text", "second"} and problem.remedy:
            self._workspace.set_text(self._first_part_of_text(*problem.remedy), field)
            return
        for shown in panel.settings:
            if shown.setting.name == field and shown.problem and shown.problem.remedy:
                self._workspace.change_setting(*shown.problem.remedy)
                return

    def _first_part_of_text(self, kind: str, value: object) -> str:
        if kind == FIRST_CHARACTERS:
            return str(value)
        document, tokens = self._workspace.document, int(str(value))
        return truncate_text_to_tokens(document, tokens)

    def replace_text(self, text: str) -> None:
        """Replace the text with a dropped text."""
        if sentence := text_length_problem(text):
            self.report_long_text(sentence, longest_permitted_prefix(text))
        else:
            self._workspace.set_text(text)

    def report_long_text(self, sentence: str, first_part: str, name: str = "text") -> None:
        """Report that a text is too long, and offer its first part; keep the current text."""
        remedy = (FIRST_CHARACTERS, first_part)
        self._workspace.show_error(InputError(name, sentence, remedy))

    def choose_attention_kind(self, name: str) -> None:
        """Show one of a model's kinds of attention, given its name in the model."""
        self._workspace.change_setting("part", name)

    def show_next_attention_kind(self) -> None:
        """Show a model's next kind of attention."""
        parts = self._workspace.screen.panel(SETUP_PANEL).parts
        names = [name for name, _ in parts.choices]
        if names:
            self.choose_attention_kind(names[(names.index(parts.shown) + 1) % len(names)])

    @property
    def can_fix_weights(self) -> bool:
        """Whether the weights of the current module can be fixed."""
        workspace, document = self._workspace, self._workspace.document
        has_weights = bool(document.spec.weight_names) and document.has_module
        return workspace.run is not None and workspace.computed == document and has_weights

    def toggle_fixed_weights(self) -> None:
        """Toggle between fixing the current weights for all modules and sampling them again."""
        workspace, run = self._workspace, self._workspace.run
        if are_all_weights_custom(workspace.document.spec):
            workspace.change_setting("own_weights", ())
        elif run and self.can_fix_weights:
            try:
                kept = workspace.document.with_setting("own_weights", custom_weights_of(run.trace))
            except InputError as refused:
                workspace.show_error(refused)
                return
            kept = replace(kept, weights_source=describe_provenance(run))
            workspace.show_document(kept, workspace.requested_view)

    def resample(self, name: str) -> None:
        """Advance a seed by one."""
        self._workspace.change_setting(
            name, (self._workspace.document.get_setting(name) + 1) % 2**31
        )

    def toggle_causal_mask(self) -> None:
        is_causal = self._workspace.document.get_setting("causal")
        self._workspace.change_setting("causal", not is_causal, is_seen=True)

    def toggle_dropout_mode(self) -> None:
        """Toggle between the training and evaluation modes of dropout."""
        trains = self._workspace.document.spec.mode is DropoutMode.TRAIN
        self._workspace.change_setting("mode", DropoutMode.EVAL if trains else DropoutMode.TRAIN)
