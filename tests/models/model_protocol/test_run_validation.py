"""What a server sends of every kind of model is valid; a run that could not be drawn is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.examples import others_slow
from tests.support.tiny_models import DECODERS, ENCODERS, PAIRS, save_tiny_model
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models.model_protocol.answer_body import answer_body, read_body
from visualizer.models.model_protocol.answer_values import values_as
from visualizer.models.model_protocol.requests import ReadRequest
from visualizer.models.model_protocol.run_message import RunValues
from visualizer.models.model_protocol.run_validation import check_run
from visualizer.models.model_server.served_model import ServedModel
from visualizer.models.model_source import ModelSource
from visualizer.models.text_reading import open_source

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say of such small models

TEXT = "the cat sat on the mat"
QUICK = ("llama", "modernbert", "opt")
"""Of the second, a norm of one layer is none; the third is called a decoder, and is one alone."""
OTHERS = tuple(kind for kind in (*DECODERS, *ENCODERS, *PAIRS) if kind not in QUICK)


def read(served: ServedModel, part: str = "") -> RunValues:
    answer = served.read(1, ReadRequest(ModelSource("", "", "", part=part), TEXT))
    return values_as(RunValues, read_body(answer_body(*answer))[0])


def opened(folder: Path, kind: str, **settings: int) -> ServedModel:
    return ServedModel(
        *open_source(save_tiny_model(folder / kind, kind, **settings), Device.CPU), Device.CPU
    )


@pytest.mark.parametrize("kind", others_slow((*QUICK, *OTHERS), len(QUICK)))
def test_every_part_of_every_kind_is_valid(kind: str, tmp_path: Path) -> None:
    served = opened(tmp_path, kind)
    first = read(served)
    check_run(first)
    for name, _ in first.run.reading.parts:
        check_run(read(served, name))
    assert "weights" in first.shapes
    served._model.most_held = 1
    check_run(read(served))


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    values = read(opened(tmp_path, "llama"))
    sent, shapes = values.run, values.shapes
    first, *others = sent.stages
    header = sent.captured
    for wrong, what in (
        (replace(values, run=replace(sent, tokens=sent.tokens[1:])), "a number of tokens"),
        (replace(values, run=replace(sent, stages=())), "a set of stages"),
        (replace(values, run=replace(sent, stages=(first, first))), "a set of stages"),
        (replace(values, shapes={}), "a set of sizes"),
        (replace(values, shapes={**shapes, "values": (2, 4, 7, 10**9)}), "a size of values"),
        (replace(values, limits=(1.0, float("nan"))), "limits"),
        (replace(values, weights={}), "what makes"),
        (
            replace(values, run=replace(sent, captured=replace(header, heads=10**9))),
            "captured attention of a size",
        ),
        (
            replace(
                values, run=replace(sent, stages=(replace(first, reads=("nothing",)), *others))
            ),
            "what residual reads",
        ),
    ):
        with pytest.raises(InputError, match=f"cannot be read: it has {what}") as refused:
            check_run(wrong)
        assert refused.value.field == "server"


def test_values_of_other_types_are_refused(tmp_path: Path) -> None:
    values = msgspec.to_builtins(read(opened(tmp_path, "llama")))
    for name in ("number", "run"):
        for wrong in (float("inf"), 2**70, None, "x"):
            with pytest.raises(InputError, match="sent something that cannot be read"):
                values_as(RunValues, {**values, name: wrong})
