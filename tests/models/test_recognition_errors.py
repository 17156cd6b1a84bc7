"""Tests that stages that cannot be inferred are left out, and that weights are still shown."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from torch.overrides import TorchFunctionMode

from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models import opened_model, recorded_runs, surrounding_stages
from visualizer.models import surrounding_stages as layer_stages
from visualizer.models.model_loading import LoadedModel
from visualizer.models.opened_model import OpenedModel, open_model
from visualizer.models.recognition_errors import infer_or_none
from visualizer.progress import CancelledError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import torch

    from visualizer.models.recorded_runs import LayerGroupRun

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "the cat sat on the mat"
NOTICES = (recorded_runs.SCORES_UNKNOWN_NOTICE, layer_stages.STAGES_UNKNOWN_NOTICE)
ODD = (RuntimeError("odd"), AttributeError("odd"), IndexError("odd"), RecursionError("odd"))


@pytest.fixture(scope="module")
def folder(tiny_model_folder: Path) -> Path:
    return tiny_model_folder


@pytest.fixture(scope="module")
def plain(folder: Path) -> np.ndarray:
    (found,) = open_model(folder, Device.CPU).attend(TEXT)
    return found.run.trace.read("weights")


@pytest.fixture
def model(folder: Path) -> OpenedModel:
    return open_model(folder, Device.CPU)


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the logged errors, which must have a traceback, and clear the log."""
    found = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert all(record.exc_info and record.exc_info[0] for record in found)
    caplog.clear()
    return found


def are_shown(runs: tuple[LayerGroupRun, ...], plain: np.ndarray) -> bool:
    shown = np.concatenate([each.run.trace.read("weights").reshape(-1) for each in runs])
    return bool((np.sort(shown) == np.sort(plain.reshape(-1))).all())


class RaisesAt(TorchFunctionMode):
    """Counts calls of torch functions, and raises an error at one of them."""

    def __init__(self, at: int, error: Exception) -> None:
        super().__init__()
        self.at, self.error, self.count = at, error, 0

    def __torch_function__(
        self, function: Any, types: Any, given: Any = (), named: Any = None
    ) -> Any:
        self.count += 1
        if self.count == self.at:
            raise self.error
        return function(*given, **(named or {}))


STEPS = (
    (surrounding_stages, "add_surrounding_stages"),
    (opened_model, "group_calls"),
    (recorded_runs, "create_layered_run"),
)


@pytest.mark.parametrize(("module", "step"), STEPS)
@pytest.mark.parametrize("places", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_errors_during_inference_do_not_stop_a_run(
    model: OpenedModel,
    plain: np.ndarray,
    module: Any,
    step: str,
    places: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    infer = getattr(module, step)

    def attend(at: int, error: Exception) -> tuple[tuple[LayerGroupRun, ...], int]:
        mode = RaisesAt(at, error)

        def odd(*given: Any) -> Any:
            with mode:
                return infer(*given)

        monkeypatch.setattr(module, step, odd)
        reader = OpenedModel(LoadedModel(model.folder, model.model, model.tokenizer, model.device))
        return reader.attend(TEXT), mode.count  # a new object has no recognized steps

    _, count = attend(0, RuntimeError())
    assert logged(caplog) == []
    for at in np.unique(np.linspace(1, count, places).astype(int)).tolist():
        runs, _ = attend(at, ODD[at % len(ODD)])
        assert are_shown(runs, plain)
        if logged(caplog):  # an error may also only exclude one candidate step
            assert any(said in NOTICES for each in runs for said in each.notices)


def test_a_module_without_accessible_weights_is_not_explained(
    model: OpenedModel, plain: np.ndarray, caplog: pytest.LogCaptureFixture
) -> None:
    def odd(*given: Any, **named: Any) -> Any:
        raise RuntimeError("odd")

    model.model.model.layers[1].mlp.down_proj.named_parameters = odd
    (found,) = model.attend(TEXT)
    assert are_shown((found,), plain)
    assert layer_stages.STAGES_UNKNOWN_NOTICE in found.notices
    assert "queries" in found.run.trace
    assert "feed_forward" not in found.run.trace
    (record,) = logged(caplog)
    assert "model.layers.*.self_attn" in record.getMessage()


class OddNumber:
    """A number that is not a Python number, passed as an argument to attention."""

    def __init__(self, number: float) -> None:
        self.number = number

    def __rmul__(self, other: torch.Tensor) -> torch.Tensor:
        return other * self.number


def test_an_unknown_argument_leaves_only_the_weights(
    model: OpenedModel, plain: np.ndarray, caplog: pytest.LogCaptureFixture
) -> None:
    for layer in model.model.model.layers:
        layer.self_attn.scaling = OddNumber(layer.self_attn.scaling)
    (found,) = model.attend(TEXT)
    assert are_shown((found,), plain)
    assert found.run.trace.names == ("weights",)
    assert recorded_runs.SCORES_UNKNOWN_NOTICE in found.notices
    assert len(logged(caplog)) == 2  # one per layer


def test_input_errors_and_cancellations_are_passed_on() -> None:
    for error in (InputError("text", "Use less text."), CancelledError()):
        with pytest.raises(type(error)):
            infer_or_none("nothing", raising(error))


def test_running_out_of_memory_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert infer_or_none("nothing", raising(MemoryError())) is None
    assert logged(caplog) == []


def raising(error: Exception) -> Callable[[], None]:
    def infer() -> None:
        raise error

    return infer
