"""Tensors in a file work like tensors in memory, and the last one deletes the file."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest
import torch

from tests.support.mapped_files import mapped_of, opened_of
from visualizer.attention.mapped_tensors import (
    ALIGNMENT_MARGIN_BYTES,
    TemporaryTensorFile,
    is_in_tensor_file,
)
from visualizer.progress import CancelledError, cancel_when

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
TYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
SIZE = 3 * 2**22 + 4096
MAP = """
import sys
from pathlib import Path
import torch
from visualizer.attention.mapped_tensors import TemporaryTensorFile

file = TemporaryTensorFile(Path(sys.argv[1]), 2**22)
file.allocate((2**22,), torch.uint8).fill_(7)
print("mapped", flush=True)
sys.stdin.read()
"""


def test_each_has_its_own_type_and_its_own_numbers(tmp_path: Path) -> None:
    file = TemporaryTensorFile(tmp_path, 2**16)
    wanted = [torch.randn(3, 5, 7, dtype=dtype) for dtype in TYPES]
    found = [file.allocate(one.shape, one.dtype).copy_(one) for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype is other.dtype
        assert one.is_contiguous()
        assert torch.equal(one, other)
        assert is_in_tensor_file(one)
        assert not is_in_tensor_file(other)
    assert mapped_of(tmp_path) == [2**16 + ALIGNMENT_MARGIN_BYTES]


def test_they_free_it_together(tmp_path: Path) -> None:
    file = TemporaryTensorFile(tmp_path, 2**16)
    one, other = (file.allocate((4, 4), torch.float32) for _ in range(2))
    row = one[2]
    del file, one
    assert mapped_of(tmp_path)
    assert is_in_tensor_file(other)
    del other
    assert mapped_of(tmp_path)
    assert not row.any()
    del row
    assert (mapped_of(tmp_path), opened_of(tmp_path)) == ([], [])


def test_more_than_was_reserved_has_a_file_of_its_own(tmp_path: Path) -> None:
    file = TemporaryTensorFile(tmp_path, 0)
    within, beyond = (
        file.allocate((size,), torch.uint8) for size in (ALIGNMENT_MARGIN_BYTES, 4096)
    )
    assert sorted(mapped_of(tmp_path)) == [4096, ALIGNMENT_MARGIN_BYTES]
    within.fill_(1)
    beyond.fill_(2)
    assert (int(within.sum()), int(beyond.sum())) == (ALIGNMENT_MARGIN_BYTES, 2 * 4096)
    del beyond
    assert mapped_of(tmp_path) == [ALIGNMENT_MARGIN_BYTES]


def test_a_copy_is_in_memory_and_holds_its_own_numbers_alone(tmp_path: Path) -> None:
    one = TemporaryTensorFile(tmp_path, 2**20).allocate((10,), torch.float32).fill_(3)
    written = pickle.dumps(one)
    copied = pickle.loads(written)
    assert torch.equal(copied, one)
    assert not is_in_tensor_file(copied)
    assert len(written) < 2000


# ----------------------------------------------------------------------------------------- the file


@pytest.fixture(params=["by Linux", "by its name", "by writing"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on a file system with or without unnamed files and reservations."""
    if request.param == "by its name":
        monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)
    if request.param == "by writing":

        def is_not_there(*_: int) -> None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

        monkeypatch.setattr(os, "posix_fallocate", is_not_there)
    return tmp_path / "cache"


@pytest.fixture
def one_mebibyte() -> Iterator[None]:
    """Limit the size of files, as ``ulimit -f`` does."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_all_of_it_is_reserved_and_has_no_name(folder: Path) -> None:
    file = TemporaryTensorFile(folder, SIZE - ALIGNMENT_MARGIN_BYTES)
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700
    assert mapped_of(folder) == [SIZE]
    (status,) = opened_of(folder)
    assert status.st_nlink == 0
    assert status.st_blocks * 512 >= SIZE
    tensor = file.allocate((SIZE,), torch.uint8)
    assert mapped_of(folder) == [SIZE]
    tensor[-1] = 1
    assert (int(tensor[0]), tensor[-2:].tolist()) == (0, [0, 1])


@pytest.mark.usefixtures("one_mebibyte")
def test_a_limit_of_the_process_is_an_error_and_leaves_nothing(folder: Path) -> None:
    with pytest.raises(OSError, match="File too large"):
        TemporaryTensorFile(folder, SIZE)
    assert list(folder.iterdir()) == []
    assert (mapped_of(folder), opened_of(folder)) == ([], [])
    TemporaryTensorFile(folder, 2**20 - ALIGNMENT_MARGIN_BYTES)


def test_a_full_disk_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        TemporaryTensorFile(folder, SIZE)
    assert list(folder.iterdir()) == []
    assert (mapped_of(folder), opened_of(folder)) == ([], [])


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a stranger's")
    with pytest.raises(FileExistsError):
        TemporaryTensorFile(tmp_path / "cache", SIZE)
    assert (tmp_path / "cache").read_text() == "a stranger's"


@pytest.mark.parametrize("folder", ["by writing"], indirect=True)
def test_writing_is_stopped(folder: Path) -> None:
    asked: list[bool] = []

    def is_third() -> bool:
        asked.append(True)
        return len(asked) == 3

    with cancel_when(is_third), pytest.raises(CancelledError):
        TemporaryTensorFile(folder, SIZE)
    assert list(folder.iterdir()) == []
    assert opened_of(folder) == []


@pytest.mark.slow
def test_nothing_is_left_of_a_process_that_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    command = [sys.executable, "-c", MAP, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "mapped\n"
        assert mapped_of(folder, process.pid) == [2**22 + ALIGNMENT_MARGIN_BYTES]
        assert list(folder.iterdir()) == []
        process.kill()
    assert list(folder.iterdir()) == []
