"""Reads how the text begins that the settings name, off the GUI thread."""

from __future__ import annotations

import traceback
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.attention.errors import InputError
from visualizer.language.tokenizers import tokenize
from visualizer.state.lab.sample import sample_of
from visualizer.ui.worker import Worker

if TYPE_CHECKING:
    from visualizer.language.settings import Settings
    from visualizer.ui.lab.lab import Lab


class Sampler(QObject):
    """Shows the beginning of the text while the settings are being chosen."""

    broke = Signal(str)

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self._lab = lab
        self._of: Settings | None = None
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)
        lab.changed.connect(self.look)

    def look(self) -> None:
        """Read the text anew where the settings name another one."""
        draft, is_free = self._lab.draft, self._lab.run is None
        made_of = draft.source, draft.block
        if is_free and (self._of is None or made_of != (self._of.source, self._of.block)):
            self._of = draft
            self._worker.ask(partial(_read, draft))

    def _take(self, answer: tuple[Settings, str | InputError]) -> None:
        settings, read = answer
        if settings is not self._of or self._lab.run is not None:
            return
        if isinstance(read, InputError):
            self._lab.show_sample("")
            self._lab.refuse(read)
        else:
            self._lab.show_sample(read)

    def _fail(self, error: Exception) -> None:
        self.broke.emit("".join(traceback.format_exception(error)))

    def close(self) -> None:
        """Wait for what is being read, and read no more."""
        self._worker.stop()


def _read(settings: Settings) -> tuple[Settings, str | InputError]:
    try:
        sample = sample_of(settings)
        tokenize(sample, settings.source.tokenizer)  # what that loads is not loaded while one types
        return settings, sample
    except InputError as refused:
        return settings, refused
