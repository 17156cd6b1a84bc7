"""Fixtures for all tests of language models."""

from __future__ import annotations

import pytest

from visualizer.language import training_run
from visualizer.language.training_run import VALIDATION_TOKENS
from visualizer.language.training_settings import FINAL_EVALUATION_BATCHES


@pytest.fixture(autouse=True)
def quick_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate only a few batches, because evaluation takes longer than training in tests."""
    monkeypatch.setattr(training_run, "FINAL_EVALUATION_BATCHES", 5)
    monkeypatch.setattr(training_run, "VALIDATION_TOKENS", 400)


@pytest.fixture
def full_evaluation(quick_evaluation: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate as many batches as the program does."""
    monkeypatch.setattr(training_run, "FINAL_EVALUATION_BATCHES", FINAL_EVALUATION_BATCHES)
    monkeypatch.setattr(training_run, "VALIDATION_TOKENS", VALIDATION_TOKENS)
