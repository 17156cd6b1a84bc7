"""What of a run is saved as a file of its own: the weights, and a film of its training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.state.colouring import Colouring
from visualizer.state.formats import FORMATS, Kind, why_not
from visualizer.state.lab.film import TrainingLook
from visualizer.ui.ask_file import ask_to_save
from visualizer.ui.lab.filmer import Filmer

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

    from visualizer.language.wire import Message
    from visualizer.ui.lab.lab import Lab

WEIGHTS = "Weights (*.safetensors)"
FILMS = tuple(each for each in FORMATS if each.kind is Kind.FILM and not why_not(each.suffix))


class Saver(QObject):
    """Asks where to, and has it written while all goes on."""

    said = Signal(str)

    def __init__(self, lab: Lab, window: QWidget) -> None:
        super().__init__(window)
        self._lab, self._window = lab, window
        self.filmer = Filmer(lab, self)
        self.filmer.said.connect(self._say)
        self.filmer.refused.connect(self.said)
        self.filmer.progressed.connect(self._count)
        self.colouring = Colouring()
        """How weights are coloured in a film: as in the window."""
        self._saving: tuple[str, Path] | None = None
        self._saves = 0
        lab.answered.connect(self._take)

    def save_weights(self) -> None:
        """Ask where the weights that are looked at are to be saved."""
        run, view = self._lab.run, self._lab.view
        if run:
            step = run.step if view.step is None else view.step
            self._ask("Save the weights", f"step-{step}.safetensors", WEIGHTS, self._save)

    def save_film(self) -> None:
        """Ask where a film of the training is to be saved."""
        kinds = ";;".join(f"{each.words} (*{each.suffix})" for each in FILMS)
        self._ask("Save a film of the training", f"training{FILMS[0].suffix}", kinds, self._film)

    def _ask(self, title: str, name: str, kinds: str, then: Callable[[str], object]) -> None:
        run = self._lab.run
        if run:
            ask_to_save(self._window, title, Path.home() / f"{run.name}-{name}", kinds, then)

    def _save(self, name: str) -> None:
        self._saves += 1
        self._saving = (f"save {self._saves}", Path(name))
        self._lab.ask("save", id=self._saving[0], path=name, step=self._lab.view.step)

    def _film(self, name: str) -> None:
        run = self._lab.run
        look = TrainingLook(title=run.name if run else "", colouring=self.colouring)
        self.filmer.film(Path(name), look)

    def _take(self, message: Message) -> None:
        if self._saving is None or message.values.get("id") != self._saving[0]:
            return
        (_, path), self._saving = self._saving, None
        refused = message.values.get("sentence")
        self.said.emit(str(refused) if refused else f"The weights are in {path}.")

    def _say(self, sentence: str, _: int) -> None:
        self.said.emit(sentence)

    def _count(self, done: int, of: int) -> None:
        self.said.emit(f"The film: {done:,} of {of:,}")

    def close(self) -> None:
        """Have what is being written written to its end."""
        self.filmer.close()
