"""Tests a served model in this process: its warm-up, and the size limit of its responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tiny_models import WORDS, save_tiny_model
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models.forward_runner import ForwardRunner
from visualizer.models.model_protocol.requests import NextTokenRequest, TextRunRequest
from visualizer.models.model_server import served_model
from visualizer.models.model_server.served_model import PROBE_TEXT, WARM_UP_TEXT, ServedModel
from visualizer.models.model_source import ModelSource
from visualizer.models.model_text_runs import open_model_folder
from visualizer.models.opened_model import OpenedModel

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def opened(tmp_path: Path) -> tuple[ModelSource, OpenedModel]:
    return open_model_folder(save_tiny_model(tmp_path), Device.CPU)


@pytest.fixture
def served(opened: tuple[ModelSource, OpenedModel]) -> ServedModel:
    return ServedModel(*opened, Device.CPU)


def test_the_warm_up_determines_how_long_texts_are_processed(
    opened: tuple[ModelSource, OpenedModel], served: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.warm_up_model()
    ran: list[int] = []
    run = ForwardRunner.run

    def counted(self: ForwardRunner, given: Any) -> Any:
        ran.append(given["input_ids"].shape[-1])
        return run(self, given)

    monkeypatch.setattr(ForwardRunner, "run", counted)
    opened[1].long_texts.max_weight_bytes = 0
    asked = TextRunRequest(ModelSource("", "", ""), " ".join(WORDS * 3))
    with served.job_context():
        values, _ = served.read(1, asked)
    assert values["owners"], "the text is processed as a long text"
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


def test_generation_ends_when_the_rows_exceed_the_response_limit(
    served: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, longer = "the cat sat on a mat", "the cat sat on a mat ."
    values, arrays = served.next_token(NextTokenRequest(text))
    sent = [rows.nbytes for name, rows in arrays.items() if name.startswith("rows/")]
    monkeypatch.setattr(served_model, "MAX_ROW_BYTES", sum(sent))
    assert len(sent) == 2
    served.next_token(NextTokenRequest(text, is_chat=False, factors=((0, 1, 0.5),)))
    with pytest.raises(InputError) as refused:
        served.next_token(NextTokenRequest(longer))
    tokens = len(values["words"]) + 1
    assert refused.value.field == "text"
    assert refused.value.sentence == served_model.TOO_MANY_ROWS_ERROR.format(tokens=tokens)
    served.next_token(NextTokenRequest(longer, numbers=(values["names"][0][0],)))  # only one row
