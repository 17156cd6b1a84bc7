"""Controller of the Setup pane: applies its input to the document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from visualizer.attention.spec import Device, DropoutMode
from visualizer.documents.open_document import permitted_start, text_length_problem
from visualizer.errors import FIRST_CHARACTERS
from visualizer.features.setup.presenter import SETUP_PANEL
from visualizer.session.document import truncate_to_tokens
from visualizer.widgets.app_settings import save_device

if TYPE_CHECKING:
    from visualizer.session.workspace import Workspace


class SetupController(QObject):
    """Changes the settings of a workspace's document."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace

    def change_setting(self, name: str, value: object, going_on: bool) -> None:
        """Set a setting; `going_on` is true during a drag or while typing.

        The device is also saved as the default for new documents.
        """
        if name == "device":
            save_device(Device(str(value)))
        if name == "own_mask":
            self._workspace.write_mask(str(value))
        else:
            # The control already shows the value.
            self._workspace.set(name, value, going_on=going_on, is_seen=True)

    def remedy(self, field: str) -> None:
        """Apply the fix offered for an error of a setting or a text."""
        panel = self._workspace.screen.panel(SETUP_PANEL)
        problem = panel.second.problem if field == "second" and panel.second else panel.problem
        if field in {"text", "second"} and problem.remedy:
            self._workspace.set_text(self._first_part(*problem.remedy), field)
            return
        for shown in panel.settings:
            if shown.setting.name == field and shown.problem and shown.problem.remedy:
                self._workspace.set(*shown.problem.remedy)
                return

    def _first_part(self, kind: str, value: object) -> str:
        if kind == FIRST_CHARACTERS:
            return str(value)
        document, tokens = self._workspace.document, int(str(value))
        return truncate_to_tokens(document, tokens)

    def replace_text(self, text: str) -> None:
        """Replace the text by a dropped one."""
        if sentence := text_length_problem(text):
            self._workspace.report_long_text(sentence, permitted_start(text))
        else:
            self._workspace.set_text(text)

    def choose_part(self, name: str) -> None:
        """Show one of the kinds of attention of a model, by its name in the model."""
        self._workspace.history.seal()
        self._workspace.set("part", name)

    def show_next_part(self) -> None:
        """Show the next kind of attention of a model."""
        parts = self._workspace.screen.panel(SETUP_PANEL).parts
        names = [name for name, _ in parts.choices]
        if names:
            self.choose_part(names[(names.index(parts.shown) + 1) % len(names)])

    def toggle_mask(self) -> None:
        is_causal = self._workspace.document.get("causal")
        self._workspace.set("causal", not is_causal, is_seen=True)

    def toggle_mode(self) -> None:
        """Toggle between training and evaluation mode of dropout."""
        trains = self._workspace.document.spec.mode is DropoutMode.TRAIN
        self._workspace.set("mode", DropoutMode.EVAL if trains else DropoutMode.TRAIN)
