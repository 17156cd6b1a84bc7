"""A run on a CUDA GPU learns in the same way as on the CPU, and resumes exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from tests.support.small_trainings import begun, finish, rows_of
from tests.support.torchrun_processes import messages, train
from visualizer.attention.spec import Device
from visualizer.language.opened_run import OpenedRun
from visualizer.language.run_folder import RunFolder
from visualizer.language.training_settings import ModelKind

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA GPU here"),
]


@pytest.mark.parametrize("model", ModelKind)
def test_the_cpu_and_the_gpu_learn_in_the_same_way(tmp_path: Path, model: ModelKind) -> None:
    measured = []
    for device in (Device.CPU, Device.CUDA):
        opened = begun(tmp_path / device, model=model, device=device, dropout=0.0, steps=10)
        finish(opened)
        opened.close()
        measured.append([row.training for row in rows_of(tmp_path / device)])
    np.testing.assert_allclose(measured[0][:-1], measured[1][:-1], rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_processes_with_one_gpu_each_learn_in_the_same_way(tmp_path: Path, count: int) -> None:
    if torch.cuda.device_count() < count:
        pytest.skip(f"there are not {count} GPUs here")
    settings = (
        *("--model=transformer", "--block=10", "--width=16", "--batch=8", "--size=4000"),
        *("--steps=20", "--quiet", "--out"),
    )
    status, _, errors = train(
        count, "repeat", *settings, str(tmp_path / "several"), "--device=cuda"
    )
    assert (status, messages(errors)) == (0, [])
    status, _, errors = train(count, "repeat", *settings, str(tmp_path / "cpu"), "--device=cpu")
    assert (status, messages(errors)) == (0, [])
    one, other = ([row.training for row in rows_of(tmp_path / name)] for name in ("several", "cpu"))
    np.testing.assert_allclose(one[:-1], other[:-1], rtol=1e-3)


def test_an_interrupted_run_continues_its_dropout(tmp_path: Path) -> None:
    whole = begun(tmp_path / "whole", device=Device.CUDA, dropout=0.3, steps=12)
    finish(whole)
    whole.close()
    part = begun(tmp_path / "part", device=Device.CUDA, dropout=0.3, steps=12)
    finish(part, 5).save_checkpoint()
    part.close()
    torch.rand(3, device="cuda")  # other random numbers have no effect
    again = OpenedRun(RunFolder(tmp_path / "part"))
    finish(again)
    again.close()
    one, other = ([row.training for row in rows_of(tmp_path / name)] for name in ("whole", "part"))
    # A GPU adds numbers in a different order; with another mask, the difference would be large.
    np.testing.assert_allclose(one[:-1], other[:-1], rtol=1e-4)
