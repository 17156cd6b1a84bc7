"""A model is opened on another thread, and closed when it is no longer referenced."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tests.architecture.project_graph import ROOT
from visualizer.session.model_opening import forget_closed_models

if TYPE_CHECKING:
    from pathlib import Path

FIRST = """
import gc
import sys
import weakref
from pathlib import Path

from visualizer.attention.spec import Device, ModelDtype
from visualizer.session.model_opening import open_model_source

assert "transformers" not in sys.modules
opened = open_model_source(Path(sys.argv[1]), Device.CPU, ModelDtype.FLOAT32, "the cat")
model = weakref.ref(opened.model)
print(model() is None)
del opened
gc.collect()
print(model() is None)
"""


def test_closed_models_are_forgotten_during_an_import_on_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "visualizer.models.model_text_runs"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))  # a module whose code has not run yet
    forget_closed_models()
    assert not vars(sys.modules[name]).keys() & {"forget_closed_models"}


@pytest.mark.slow
def test_the_first_model_is_closed_with_its_last_reference(tiny_model_folder: Path) -> None:
    """The import of transformers leaves frames that are never garbage-collected."""
    ended = subprocess.run(
        [sys.executable, "-c", FIRST, str(tiny_model_folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ended.stdout.split() == ["False", "True"]
