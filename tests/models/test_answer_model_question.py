"""Tests that questions about a text are answered with the edits of its run."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from visualizer.attention.model_forward_pass import (
    AblationResult,
    AnalysisKind,
    AnalysisRequest,
    DeferredResult,
    LogitAttributionResult,
    LogitLensResult,
    ModelAnswer,
)
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models import answer_model_question as answering
from visualizer.models.head_edits import context_edits
from visualizer.models.model_source import CutEdges, HeadEdit, HeadEditKind, ModelSource
from visualizer.models.model_text_runs import read_text
from visualizer.models.opened_model import OpenedModel
from visualizer.progress import ignore_progress

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.model_forward_pass import ModelForwardPass

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "the cat sat on the mat the cat"
OFF = ((0, 1), (1, 3))


@pytest.fixture
def reading(tiny_model_folder: Path) -> ModelForwardPass:
    source = ModelSource(
        str(tiny_model_folder), "tiny", "0" * 64, tuple(HeadEdit(*place) for place in sorted(OFF))
    )
    read = read_text(source, TEXT, Device.CPU).reading
    assert read
    return read


def answer(reading: ModelForwardPass, question: AnalysisRequest) -> ModelAnswer:
    return answering.answer_model_question(reading, question, ignore_progress, lambda _: None)


def test_the_lens_ends_with_the_prediction_of_the_ablated_model(reading: ModelForwardPass) -> None:
    lens = answer(reading, AnalysisRequest(AnalysisKind.LENS))
    assert isinstance(lens, LogitLensResult)
    model = reading.model
    assert isinstance(model, OpenedModel)
    logs = model.next_token_log_probabilities(TEXT, dict.fromkeys(OFF, 0.0))
    best = logs.exp().topk(5)
    np.testing.assert_allclose(lens.probabilities[-1, -1], best.values, atol=1e-6)
    assert lens.words[-1][-1] == tuple(model.token_text(int(at)) for at in best.indices)
    plain = model.next_token_log_probabilities(TEXT).exp()
    assert abs(float(plain.max()) - lens.probabilities[-1, -1, 0]) > 1e-6


def test_logit_parts_of_ablated_heads_are_zero(reading: ModelForwardPass) -> None:
    found = answer(reading, AnalysisRequest(AnalysisKind.PARTS, "mat"))
    assert isinstance(found, LogitAttributionResult)
    assert found.token == "mat"
    assert found.parts.layers == (0, 1)
    assert found.parts.sum_of_parts == pytest.approx(found.parts.logit, abs=2e-6)
    for place in OFF:
        assert found.parts.heads[place] == 0
    assert np.count_nonzero(found.parts.heads) == 6


EDITS = (
    HeadEdit(0, 1, HeadEditKind.SCALED, -1.5),
    HeadEdit(0, 2, HeadEditKind.MEAN),
    HeadEdit(1, 0, HeadEditKind.PATCHED, text="the dog sat on the mat the dog"),
    HeadEdit(1, 3),
)
CUTS = (CutEdges(0, 3, ((8, 2), (8, 5))), CutEdges(1, 0, ((4, 1),)))


def test_answers_include_edits_and_cut_edges(tiny_model_folder: Path) -> None:
    source = ModelSource(str(tiny_model_folder), "tiny", "0" * 64, EDITS, CUTS)
    run = read_text(source, TEXT, Device.CPU)
    plain = read_text(replace(source, edits=(), cuts=()), TEXT, Device.CPU)
    assert run.reading
    assert plain.reading
    model = run.reading.model
    assert isinstance(model, OpenedModel)
    shares = {row.token: row.probability for row in run.reading.next_tokens}
    lens = answer(run.reading, AnalysisRequest(AnalysisKind.LENS))
    assert isinstance(lens, LogitLensResult)
    for word, share in zip(lens.words[-1][-1], lens.probabilities[-1, -1], strict=True):
        assert share == pytest.approx(shares[word], abs=1e-6)
    found = answer(run.reading, AnalysisRequest(AnalysisKind.PARTS))
    assert isinstance(found, LogitAttributionResult)
    assert found.probability == pytest.approx(shares[found.token], abs=1e-6)
    assert found.parts.sum_of_parts == pytest.approx(found.parts.logit, abs=2e-6)
    question, number = AnalysisRequest(AnalysisKind.ABLATIONS, "mat"), model.token_id("mat")
    before = model.next_token_log_probabilities(TEXT, run.reading.context_edits, run.reading.cuts)
    lost = answer(run.reading, question)
    assert isinstance(lost, AblationResult)
    others = answer(plain.reading, question)
    assert isinstance(others, AblationResult)
    for place in np.ndindex(2, 4):
        edits = tuple(each for each in EDITS if each.layer_and_head != place)
        off = (*edits, HeadEdit(*place))
        again = context_edits(model, TEXT, off)
        logs = model.next_token_log_probabilities(TEXT, again, run.reading.cuts)
        wanted = float(logs[number] - before[number])
        assert lost.changes[place] == pytest.approx(wanted, abs=2e-6)
    assert lost.changes[1, 3] == pytest.approx(0, abs=2e-6)  # this head was already ablated
    assert np.abs(lost.changes - others.changes).max() > 1e-4


def test_ablations_continue_from_known_results(reading: ModelForwardPass) -> None:
    question = AnalysisRequest(AnalysisKind.ABLATIONS, "mat")
    whole = answer(reading, question)
    assert isinstance(whole, AblationResult)
    reading.answers.known[question] = AblationResult("mat", (0, 1), np.full((2, 4), 7.0))
    again = answer(reading, question)
    assert isinstance(again, AblationResult)
    assert (again.changes == 7).all()


def test_a_costly_lens_is_deferred_with_a_warning(
    reading: ModelForwardPass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "MAX_CHEAP_PRODUCTS", 1000)
    said = answer(reading, AnalysisRequest(AnalysisKind.LENS))
    assert isinstance(said, DeferredResult)
    assert "18 predictions (2 layers × 9 tokens) over a vocabulary of 331 tokens" in said.sentence
    lens = answer(reading, AnalysisRequest(AnalysisKind.LENS, is_costly=True))
    assert isinstance(lens, LogitLensResult)


def test_questions_about_chat_messages_are_rejected(reading: ModelForwardPass) -> None:
    given = replace(reading, is_text_alone=False)
    with pytest.raises(InputError, match="“Treat text as a user message” and remove"):
        answer(given, AnalysisRequest(AnalysisKind.LENS))


def test_a_text_of_several_tokens_is_rejected_as_token(reading: ModelForwardPass) -> None:
    with pytest.raises(InputError, match="“the cat” into 2 tokens"):
        answer(reading, AnalysisRequest(AnalysisKind.PARTS, "the cat"))


@pytest.mark.slow
def test_two_threads_can_use_a_model_without_mixing_their_results(
    reading: ModelForwardPass,
) -> None:
    model = reading.model
    assert isinstance(model, OpenedModel)
    wanted = model.attend("a dog ran to the log")[0].run.trace.read("weights")
    question, wrong = AnalysisRequest(AnalysisKind.PARTS), []

    def ask() -> None:
        with torch.inference_mode():
            for _ in range(20):
                found = answer(reading, question)
                assert isinstance(found, LogitAttributionResult)
                if abs(found.parts.sum_of_parts - found.parts.logit) > 1e-5:
                    wrong.append(found)

    asking = Thread(target=ask)
    asking.start()
    while asking.is_alive():
        read = model.attend("a dog ran to the log")[0].run.trace
        np.testing.assert_array_equal(read.read("weights"), wanted)
        assert "residual" in read
    asking.join()
    assert not wrong
