"""Tests that steps recognized with one text are used for other texts only if they apply."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.support.explained_values import result_of
from tests.support.tiny_models import save_tiny_model
from visualizer.attention.stages import Operation
from visualizer.explanations.explain import explain
from visualizer.models import surrounding_stages
from visualizer.models.opened_model import open_model
from visualizer.models.surrounding_stages import add_surrounding_stages

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.models.opened_model import OpenedModel
    from visualizer.models.recorded_runs import LayerRun

FIRST, OTHER = "the cat sat on the mat", "a dog ran to the log and sat"


@pytest.fixture
def opened(tmp_path: Path) -> OpenedModel:
    model = open_model(save_tiny_model(tmp_path / "llama"))
    (run,) = model.attend(FIRST)
    assert run.run.trace.stage("hidden").operation is Operation.HIDDEN_ACTIVATION
    return model


def test_layers_are_recognized_while_no_other_thread_runs_the_model(
    opened: OpenedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = []

    def watched(*given: Any) -> LayerRun:
        with ThreadPoolExecutor(1) as other:
            free.append(other.submit(opened.forward.lock.acquire, blocking=False).result())
        return add_surrounding_stages(*given)

    monkeypatch.setattr(surrounding_stages, "add_surrounding_stages", watched)
    opened.attend(OTHER)
    assert free == [False]


def stages_of(model: OpenedModel) -> dict[str, Operation]:
    (run,) = model.attend(OTHER)
    trace = run.run.trace
    cell = (1, 3, 5)
    for name in ("attended", "result"):
        assert result_of(explain(trace, name, cell)) == pytest.approx(
            float(trace.read(name, cell)), abs=1e-5
        )
    return {row.name: row.operation for row in trace.stages}


def test_a_module_skipped_for_another_text_is_not_explained(opened: OpenedModel) -> None:
    mlp = opened.model.model.layers[1].mlp

    def without_modules(stream: Any) -> Any:
        gate, up, down = (part.weight for part in (mlp.gate_proj, mlp.up_proj, mlp.down_proj))
        return (torch.nn.functional.silu(stream @ gate.T) * (stream @ up.T)) @ down.T

    mlp.forward = without_modules
    found = stages_of(opened)
    assert "hidden" not in found
    assert found["feed_forward"] is Operation.CAPTURED
    assert found["queries"] is Operation.ROTARY_POSITION
    del mlp.forward
    assert stages_of(opened)["hidden"] is Operation.HIDDEN_ACTIVATION
