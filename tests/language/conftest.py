"""Fixtures of all tests of language models."""

from __future__ import annotations

import pytest

from visualizer.language import training_run


@pytest.fixture(autouse=True)
def quick_evaluation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate few batches: evaluation takes longer than a test's few steps of training."""
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(training_run, "BATCHES_AT_END", 5)
        monkeypatch.setattr(training_run, "MEASURED_TOKENS", 400)
