"""Tests that ablating heads in batches gives the same changes as one by one, and can resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.examples import others_slow
from tests.support.tiny_models import save_tiny_model
from visualizer.models import head_edits
from visualizer.models.head_edits import ablation_changes
from visualizer.models.opened_model import OpenedModel, open_model
from visualizer.progress import CancelledError

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.model_reading import AblationAnswer

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "the cat sat on the mat the cat"


def opened(folder: Path, kind: str = "llama") -> OpenedModel:
    return open_model(save_tiny_model(folder / kind, kind))


@pytest.mark.parametrize("kind", others_slow(["llama", "gpt2", "opt", "gemma2", "mixtral"]))
@pytest.mark.parametrize("most", others_slow([20, 512, 1]))
def test_batched_ablations_equal_single_ablations(
    tmp_path: Path, kind: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_edits, "MAX_BATCH_TOKENS", most)
    model, off = opened(tmp_path, kind), {(0, 2): 0.0}
    for edits in ({}, off):
        before = model.next_token_log_probabilities(TEXT, edits)
        number = int(before.argmax())
        answer = ablation_changes(model, TEXT, None, edits)
        assert answer.is_complete
        assert (answer.token, answer.layers) == (model.token_text(number), (0, 1))
        for place in np.ndindex(2, 4):
            after = model.next_token_log_probabilities(TEXT, {**edits, place: 0.0})
            wanted = float(after[number] - before[number])
            assert answer.changes[place] == pytest.approx(wanted, abs=2e-6)
    assert answer.changes[0, 2] == pytest.approx(0, abs=2e-6)  # this head was already ablated


def test_a_cancelled_ablation_resumes_where_it_stopped(tmp_path: Path) -> None:
    model = opened(tmp_path)
    whole = ablation_changes(model, TEXT, "mat")
    seen: list[AblationAnswer] = []

    def stop_at_second_layer(done: int, of: int) -> None:
        assert of == 8
        if done >= 4:
            raise CancelledError

    with pytest.raises(CancelledError):
        ablation_changes(model, TEXT, "mat", progress=stop_at_second_layer, report=seen.append)
    (part,) = seen
    assert (part.done, part.is_complete) == (4, False)
    marked = replace(part, changes=np.where(np.isnan(part.changes), np.nan, 5.0))
    rest = ablation_changes(model, TEXT, "mat", known=marked)
    assert (rest.changes[0] == 5).all()  # known values are not recomputed
    np.testing.assert_allclose(rest.changes[1], whole.changes[1], atol=1e-6)
