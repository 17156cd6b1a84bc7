"""Shares of a batch have the dropout masks that torch would draw for the whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn import functional

from tests.support.small_trainings import quick
from visualizer.language.language_models import build_model
from visualizer.language.trainer import WholeBatchDropout
from visualizer.language.training_settings import ModelKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

ROWS = 6


def in_shares(compute: Callable[[Tensor], Tensor], batch: Tensor, count: int) -> Tensor:
    """Compute equal shares of a batch one after another, each with the same random state."""
    found, state, size = [], torch.get_rng_state(), len(batch) // count
    for first in range(0, len(batch), size):
        rows = slice(first, first + size)
        torch.set_rng_state(state)
        with WholeBatchDropout(rows, len(batch)):
            found.append(compute(batch[rows]))
    return torch.cat(found)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(5)


@pytest.mark.parametrize("count", [1, 3])
def test_the_same_numbers_are_kept(count: int) -> None:
    batch = torch.randn(ROWS, 4, 5)
    state = torch.get_rng_state()
    expected, after = functional.dropout(batch, 0.4), torch.get_rng_state()
    assert 0.2 < (expected == 0).double().mean() < 0.6
    torch.set_rng_state(state)
    assert torch.equal(
        in_shares(lambda rows: functional.dropout(rows, 0.4), batch, count), expected
    )
    assert torch.equal(torch.get_rng_state(), after)


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_same_weights_are_kept(is_causal: bool) -> None:
    batch = torch.randn(ROWS, 3, 7, 4, dtype=torch.float64)  # row head token d_head

    def attend(rows: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(
            rows, 2 * rows, -rows, dropout_p=0.4, is_causal=is_causal, scale=0.3
        )

    state = torch.get_rng_state()
    expected, after = attend(batch), torch.get_rng_state()
    torch.set_rng_state(state)
    torch.testing.assert_close(in_shares(attend, batch, 3), expected)
    assert torch.equal(torch.get_rng_state(), after)


@pytest.mark.parametrize("model", [ModelKind.TRANSFORMER, ModelKind.ATTENTION_ONLY])
def test_models_use_no_other_dropout(model: ModelKind) -> None:
    """Models use no other dropout functions of torch, so their shares equal those of the batch."""
    built = build_model(quick(model=model, dropout=0.3), 11).double()
    batch = torch.randint(11, (ROWS, built.settings.block))
    state = torch.get_rng_state()
    expected = built(batch, fused=True)
    torch.set_rng_state(state)
    found = in_shares(lambda rows: built(rows, fused=True), batch, 3)
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(expected, built.eval()(batch, fused=True))


def test_nothing_is_dropped_in_evaluation() -> None:
    batch = torch.randn(ROWS, 4)
    dropout = torch.nn.Dropout(0.4).eval()
    assert torch.equal(in_shares(dropout, batch, 2), batch)
