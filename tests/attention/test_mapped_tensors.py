"""Tensors in a file are like those in memory, of their own type, and free it together."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING

import pytest
import torch

from tests.support.mapped_files import mapped_of, opened_of
from visualizer.attention.mapped_tensors import LEEWAY, TensorFile, is_in_file

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
TYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def test_each_has_its_own_type_and_its_own_numbers(tmp_path: Path) -> None:
    file = TensorFile(tmp_path, 2**16)
    wanted = [torch.randn(3, 5, 7, dtype=dtype) for dtype in TYPES]
    found = [file.allocate(one.shape, one.dtype).copy_(one) for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype is other.dtype
        assert one.is_contiguous()
        assert torch.equal(one, other)
        assert is_in_file(one)
        assert not is_in_file(other)
    assert mapped_of(tmp_path) == [2**16 + LEEWAY]


def test_they_free_it_together(tmp_path: Path) -> None:
    file = TensorFile(tmp_path, 2**16)
    one, other = (file.allocate((4, 4), torch.float32) for _ in range(2))
    row = one[2]
    del file, one
    assert mapped_of(tmp_path)
    assert is_in_file(other)
    del other
    assert mapped_of(tmp_path)
    assert not row.any()
    del row
    assert (mapped_of(tmp_path), opened_of(tmp_path)) == ([], [])


def test_more_than_was_reserved_has_a_file_of_its_own(tmp_path: Path) -> None:
    file = TensorFile(tmp_path, 0)
    within, beyond = (file.allocate((size,), torch.uint8) for size in (LEEWAY, 4096))
    assert sorted(mapped_of(tmp_path)) == [4096, LEEWAY]
    within.fill_(1)
    beyond.fill_(2)
    assert (int(within.sum()), int(beyond.sum())) == (LEEWAY, 2 * 4096)
    del beyond
    assert mapped_of(tmp_path) == [LEEWAY]


def test_a_copy_is_in_memory_and_holds_its_own_numbers_alone(tmp_path: Path) -> None:
    one = TensorFile(tmp_path, 2**20).allocate((10,), torch.float32).fill_(3)
    written = pickle.dumps(one)
    copied = pickle.loads(written)
    assert torch.equal(copied, one)
    assert not is_in_file(copied)
    assert len(written) < 2000
