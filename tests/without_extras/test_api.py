"""Without the optional packages, the Python API raises an error that names the missing package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import visualizer
from visualizer.errors import InputError
from visualizer.language.example_run import EXAMPLE_FOLDER as TRAINED_RUN
from visualizer.optional_packages import PACKAGE_FIELD, missing_package_message

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as refused:
        call()
    assert refused.value.field == PACKAGE_FIELD
    return refused.value.sentence


def test_a_video_names_its_missing_package(tmp_path: Path) -> None:
    figure = visualizer.attend("a b").figure("weights")
    said = error_of(lambda: figure.save(tmp_path / "film.mp4"))
    assert said == missing_package_message("av", "MP4")
    assert [*tmp_path.iterdir()] == []


def test_a_model_names_its_missing_packages() -> None:
    said = error_of(lambda: visualizer.open_model(TRAINED_RUN))
    assert said == missing_package_message("transformers", "Opening models")


def test_a_model_in_memory() -> None:
    def capture() -> None:
        with visualizer.capture(torch.nn.Linear(2, 2)):
            pytest.fail("nothing is recorded")

    assert error_of(capture) == missing_package_message("transformers", "Recording a model")
