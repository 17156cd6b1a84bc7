"""A server processes texts before the first request, and reports no errors of this warm-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tiny_models import WORDS, save_tiny_model
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models.forward import Forward
from visualizer.models.model_protocol.requests import ReadRequest
from visualizer.models.model_server.served_model import PROBE_TEXT, WARM_UP_TEXT, ServedModel
from visualizer.models.model_source import ModelSource
from visualizer.models.opened_model import OpenedModel
from visualizer.models.text_reading import open_source

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def opened(tmp_path: Path) -> tuple[ModelSource, OpenedModel]:
    return open_source(save_tiny_model(tmp_path), Device.CPU)


@pytest.fixture
def served(opened: tuple[ModelSource, OpenedModel]) -> ServedModel:
    return ServedModel(*opened, Device.CPU)


def test_the_warm_up_runs_the_model(served: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []
    run = Forward.run

    def counted(self: Forward, given: Any) -> Any:
        ran.append(given)
        return run(self, given)

    monkeypatch.setattr(Forward, "run", counted)
    served.warm_up_model()
    assert ran


def test_the_warm_up_determines_how_long_texts_are_processed(
    opened: tuple[ModelSource, OpenedModel], served: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.warm_up_model()
    ran: list[int] = []
    run = Forward.run

    def counted(self: Forward, given: Any) -> Any:
        ran.append(given["input_ids"].shape[-1])
        return run(self, given)

    monkeypatch.setattr(Forward, "run", counted)
    opened[1].long_texts.max_weight_bytes = 0
    asked = ReadRequest(ModelSource("", "", ""), " ".join(WORDS * 3))
    with served.job():
        values, _ = served.read(1, asked)
    assert values["owners"], "it is read as a long one"
    assert len(ran) == 1


def test_a_model_that_rejects_the_warm_up_is_still_served(
    served: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refused(self: OpenedModel, text: str, *, by_blocks: bool) -> None:
        assert by_blocks
        asked.append(text)
        raise InputError("model", "It reads nothing.")

    monkeypatch.setattr(OpenedModel, "read", refused)
    served.warm_up_model()
    assert asked == [PROBE_TEXT, WARM_UP_TEXT]
