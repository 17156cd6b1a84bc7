"""The probe text of a newly opened run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.lab.runs.run_store import kept_probe
from visualizer.language.first_probe_text import first_probe_of

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.language.training_settings import TrainingSettings


def opening_probe(folder: Path, sample: str, settings: TrainingSettings) -> str:
    """Return the first probe of an opened run: the stored one, or one from the sample."""
    return kept_probe(folder) or first_probe_of(sample, settings)
