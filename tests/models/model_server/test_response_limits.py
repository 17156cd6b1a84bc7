"""A response that exceeds the size limit is replaced by an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tiny_models import save_tiny_model
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models.model_protocol.requests import NextTokenRequest
from visualizer.models.model_server import served_model
from visualizer.models.model_server.served_model import ServedModel
from visualizer.models.text_reading import open_source

if TYPE_CHECKING:
    from pathlib import Path

LAYERS, HEADS = 3, 4
TEXT = "the cat sat on a mat"
LONGER = f"{TEXT} ."


@pytest.fixture
def served(tmp_path: Path) -> ServedModel:
    folder = save_tiny_model(
        tmp_path / "llama", num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=2,
    )  # fmt: skip
    return ServedModel(*open_source(folder, Device.CPU), Device.CPU)


def test_generation_ends_when_the_rows_exceed_the_response_limit(
    served: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, arrays = served.next_token(NextTokenRequest(TEXT))
    sent = [rows.nbytes for name, rows in arrays.items() if name.startswith("rows/")]
    monkeypatch.setattr(served_model, "MAX_ROW_BYTES", sum(sent))
    assert len(sent) == LAYERS
    served.next_token(NextTokenRequest(TEXT, is_chat=False, factors=((0, 1, 0.5),)))
    with pytest.raises(InputError) as refused:
        served.next_token(NextTokenRequest(LONGER))
    tokens = len(values["words"]) + 1
    assert refused.value.field == "text"
    assert refused.value.sentence == served_model.TOO_MANY_ROWS_ERROR.format(tokens=tokens)
    served.next_token(NextTokenRequest(LONGER, numbers=(values["names"][0][0],)))  # only one row
