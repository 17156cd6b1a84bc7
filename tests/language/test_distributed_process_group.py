"""A single process of a group: its rows, and settings that the group rejects."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NoReturn

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import distributed

from tests.support.small_trainings import quick
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.language.distributed_process_group import DistributedProcessGroup
from visualizer.language.memory_estimate import ProcessCounts

if TYPE_CHECKING:
    from tests.conftest import Machine


def joined(monkeypatch: pytest.MonkeyPatch, rank: int, count: int) -> DistributedProcessGroup:
    """Return a process of a group whose other processes do not exist."""
    for name, value in {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(distributed, "init_process_group", lambda *_, **__: None)
    return DistributedProcessGroup()


@given(rows=st.integers(1, 50), count=st.integers(1, 9))
def test_shares_are_equal_and_form_the_batch(rows: int, count: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        batch = [*range(rows * count)]
        shares = [batch[joined(monkeypatch, rank, count).rows_of_process(len(batch))]
                  for rank in range(count)]  # fmt: skip
    assert [*itertools.chain(*shares)] == batch
    assert {len(share) for share in shares} == {rows}


@pytest.mark.parametrize(("batch", "said"), [(10, "9 or 12"), (11, "9 or 12"), (2, r"Use 3\.")])
def test_indivisible_batches_are_rejected(
    monkeypatch: pytest.MonkeyPatch, batch: int, said: str
) -> None:
    group = joined(monkeypatch, 0, 3)
    with pytest.raises(InputError, match=said) as refused:
        group.check_batch_and_device(quick(batch=batch, device=Device.CPU))
    name, value = refused.value.remedy or ("", 0)
    group.check_batch_and_device(quick(**{name: value}, device=Device.CPU))


def test_each_process_has_a_gpu_of_its_own(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, selected = joined(monkeypatch, 1, 2), list[int]()
    machine.set_devices(Device.CUDA, Device.CPU)
    monkeypatch.setattr(torch.cuda, "set_device", selected.append)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    group.check_batch_and_device(quick(device=Device.AUTO))
    assert selected == [1]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(
        InputError, match="2 processes need one GPU each, but this machine has 1 GPU"
    ):
        group.check_batch_and_device(quick(device=Device.AUTO))
    group.check_batch_and_device(quick(device=Device.CPU))
    machine.set_devices(Device.MPS, Device.CPU)
    with pytest.raises(InputError, match="Add --device cpu"):
        group.check_batch_and_device(quick(device=Device.AUTO))
    assert selected == [1]


def test_processes_on_one_machine_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert joined(monkeypatch, 0, 4).process_counts == ProcessCounts(4, 4)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert joined(monkeypatch, 0, 4).process_counts == ProcessCounts(4, 2)


def test_a_process_that_cannot_connect_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise distributed.DistNetworkError("The client socket has timed out\nmore")

    joined(monkeypatch, 0, 2)
    monkeypatch.setattr(distributed, "init_process_group", fail)
    with pytest.raises(InputError, match=r"timed out\. Start them with torchrun\.$"):
        DistributedProcessGroup()
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(InputError, match="could not connect to each other"):
        DistributedProcessGroup()
