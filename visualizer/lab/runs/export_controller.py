"""Exports a run's weights, or an animation of its training, to a file that the user chooses."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.export.formats import FORMATS, FormatKind, unavailable_reason
from visualizer.export.progress_controller import CLOSING_NOTICE, ExportProgressController
from visualizer.lab.training_film.controller import TrainingFilmController
from visualizer.lab.training_film.writer import TrainingFilmSettings
from visualizer.session.view_options import ColourOptions
from visualizer.widgets.dialogs import ask_save_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

    from visualizer.lab.attention_view.probe_result import ProbeResult
    from visualizer.lab.controller import LabStateController
    from visualizer.language.wire_format import Message


WEIGHTS_FILE_FILTER = "Weights (*.safetensors)"
FILM_FORMATS = tuple(
    each for each in FORMATS if each.kind is FormatKind.FILM and not unavailable_reason(each.suffix)
)


class RunExportController(QObject):
    """Asks for a file, and writes it in the background."""

    messageReported = Signal(str)

    def __init__(self, lab: LabStateController, window: QWidget) -> None:
        super().__init__(window)
        self._lab, self._window = lab, window
        self.film_controller = TrainingFilmController(lab, self)
        self.film_controller.messageReported.connect(self.messageReported)
        self.film_controller.refused.connect(self.messageReported)
        self.film_controller.progressReported.connect(self._show_progress)
        self.progress = ExportProgressController(self.film_controller, self)
        self.colouring = ColourOptions()
        """Colour options of animations, which are those of the window."""
        self.reference: ProbeResult | None = None
        """The result with which the steps are compared in the window, if any."""

    def save_weights(self) -> None:
        """Ask for a file and save the weights of the selected step."""
        run, view = self._lab.run, self._lab.view
        if run:
            step = run.step if view.step is None else view.step
            name = f"step-{step}.safetensors"
            self._ask_for_path("Save weights", name, WEIGHTS_FILE_FILTER, self.save_weights_to)

    def save_film(self) -> None:
        kinds = ";;".join(f"{each.words} (*{each.suffix})" for each in FILM_FORMATS)
        self._ask_for_path(
            "Save training animation", f"training{FILM_FORMATS[0].suffix}", kinds, self._start_film
        )

    def _ask_for_path(
        self, title: str, name: str, kinds: str, then: Callable[[str], object]
    ) -> None:
        run = self._lab.run
        if run:
            ask_save_path(self._window, title, Path.home() / f"{run.name}-{name}", kinds, then)

    def save_weights_to(self, name: str) -> None:
        self._lab.send_request(
            "save", partial(self._on_saved, Path(name)), path=name, step=self._lab.view.step
        )

    def _start_film(self, name: str) -> None:
        run = self._lab.run
        title = run.name if run else ""
        if self.reference:
            title = f"{title}: change since step {self.reference.step:,}"
        settings = TrainingFilmSettings(title=title, colouring=self.colouring)
        self.film_controller.create_film(Path(name), settings, self.reference)

    def _on_saved(self, path: Path, message: Message) -> None:
        self.messageReported.emit(message.values.get("sentence") or f"Weights saved to {path}.")

    def _show_progress(self, done: int, of: int) -> None:
        what = CLOSING_NOTICE if self.progress.is_closing else "Saving animation"
        self.messageReported.emit(f"{what}: {done:,} of {of:,}")

    def close(self) -> None:
        """Stop the thread; this must not be called while an animation is being written."""
        self.film_controller.close()
