"""Reads a sample of the text that the settings select, on a worker thread."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from visualizer.errors import InputError, system_error_reason
from visualizer.language.corpora.corpus import load_corpus
from visualizer.language.tokenizers import tokenize
from visualizer.language.training_settings import (
    CorpusKind,
    TrainingSettings,
    find_settings_problems,
)
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from visualizer.lab.controller import LabStateController

MAX_PREVIEW_CHARACTERS = 600
MAX_GENERATED_SAMPLE_TOKENS = 5_000_000
"""Maximum number of tokens to generate for a sample; generating them takes 1 or 2 seconds."""


class TextPreviewController(QObject):
    """Shows the beginning of the text while the settings are edited."""

    failed = Signal(str)

    def __init__(self, lab: LabStateController) -> None:
        super().__init__(lab)
        self._lab = lab
        self._sampled_settings: TrainingSettings | None = None
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._on_sample)
        self._worker.failed.connect(self._on_failure)
        lab.changed.connect(self.refresh_sample)

    @property
    def is_reading(self) -> bool:
        return self._worker.is_working

    def refresh_sample(self) -> None:
        """Read the sample again if the settings select another text."""
        draft, sampled = self._lab.draft, self._sampled_settings
        is_same = sampled and (sampled.source, sampled.block) == (draft.source, draft.block)
        if self._lab.run is None and not is_same:
            self._sampled_settings = draft
            self._worker.submit(partial(_read_sample, draft))

    def _on_sample(self, answer: tuple[TrainingSettings, str | InputError]) -> None:
        settings, sample = answer
        if settings is not self._sampled_settings:
            return
        if self._lab.run is not None:
            self._sampled_settings = None  # the sample is read again once the settings are unlocked
        elif isinstance(sample, InputError):
            self._lab.show_sample("")
            self._lab.show_error(sample)
        else:
            self._lab.show_sample(sample)

    def _on_failure(self, error: Exception) -> None:
        self.failed.emit(log_unexpected_error(error))

    def close(self) -> None:
        """Stop reading."""
        self._worker.abandon()


def _read_sample(settings: TrainingSettings) -> tuple[TrainingSettings, str | InputError]:
    try:
        sample = read_text_sample(settings)
        tokenize(sample, settings.source.effective_tokenizer)  # this imports the tokenizer early
        return settings, sample
    except InputError as refused:
        return settings, refused


def read_text_sample(settings: TrainingSettings) -> str:
    """Return the beginning of the text, or "" if the settings are invalid.

    Raises
    ------
    InputError
        If the text cannot be read.
    """
    if find_settings_problems(settings):
        return ""
    source = settings.source
    if source.kind is CorpusKind.FILE:
        return _read_file_beginning(Path(source.path))
    source = replace(source, size=min(MAX_GENERATED_SAMPLE_TOKENS, source.size))
    return load_corpus(replace(settings, source=source)).text[:MAX_PREVIEW_CHARACTERS]


def _read_file_beginning(path: Path) -> str:
    try:
        with open_regular_file(path) as file:
            content = file.read(4 * MAX_PREVIEW_CHARACTERS)
    except OSError as error:
        sentence = f"Cannot read “{path.name}”: {system_error_reason(error)}."
        raise InputError("path", sentence) from error
    return content.decode("utf-8-sig", errors="replace")[:MAX_PREVIEW_CHARACTERS]
