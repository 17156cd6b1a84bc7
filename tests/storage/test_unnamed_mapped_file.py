"""Of a mapped file nothing is left: no name, no descriptor, no mapping, however a process ends."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from tests.support.mapped_files import mapped_of, opened_of
from visualizer.progress import CancelledError, stopped_when
from visualizer.storage.unnamed_mapped_file import map_unnamed_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
SIZE = 3 * 2**22 + 4096
MAP = """
import sys
from pathlib import Path
from visualizer.storage.unnamed_mapped_file import map_unnamed_file

mapped = map_unnamed_file(Path(sys.argv[1]), 2**22)
mapped[:] = bytes(range(256)) * 2**14
print("mapped", flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["by Linux", "by its name", "by writing"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a file system that has files without names, or none, or reserves nothing."""
    if request.param == "by its name":
        monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)
    if request.param == "by writing":

        def is_not_there(*_: int) -> None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

        monkeypatch.setattr(os, "posix_fallocate", is_not_there)
    return tmp_path / "cache"


@pytest.fixture
def one_mebibyte() -> Iterator[None]:
    """Files may have no more, as by ``ulimit -f``."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_all_of_it_is_reserved_and_has_no_name(folder: Path) -> None:
    mapped = map_unnamed_file(folder, SIZE)
    assert len(mapped) == SIZE
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700
    assert mapped_of(folder) == [SIZE]
    (status,) = opened_of(folder)
    assert status.st_nlink == 0
    assert status.st_blocks * 512 >= SIZE
    mapped[-1:] = b"x"
    assert mapped[:1] + mapped[-2:] == b"\0\0x"


def test_it_is_gone_with_the_mapping(folder: Path) -> None:
    mapped = map_unnamed_file(folder, SIZE)
    view = memoryview(mapped)
    del mapped
    assert mapped_of(folder) == [SIZE]  # what is made of it holds it
    del view
    assert (mapped_of(folder), opened_of(folder)) == ([], [])


@pytest.mark.usefixtures("one_mebibyte")
def test_a_limit_of_the_process_is_an_error_and_leaves_nothing(folder: Path) -> None:
    with pytest.raises(OSError, match="File too large"):
        map_unnamed_file(folder, SIZE)
    assert list(folder.iterdir()) == []
    assert (mapped_of(folder), opened_of(folder)) == ([], [])
    assert len(map_unnamed_file(folder, 2**20)) == 2**20


def test_a_full_disk_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        map_unnamed_file(folder, SIZE)
    assert list(folder.iterdir()) == []
    assert (mapped_of(folder), opened_of(folder)) == ([], [])


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a stranger's")
    with pytest.raises(FileExistsError):
        map_unnamed_file(tmp_path / "cache", SIZE)
    assert (tmp_path / "cache").read_text() == "a stranger's"


@pytest.mark.parametrize("folder", ["by writing"], indirect=True)
def test_writing_is_stopped(folder: Path) -> None:
    asked: list[bool] = []

    def is_third() -> bool:
        asked.append(True)
        return len(asked) == 3

    with stopped_when(is_third), pytest.raises(CancelledError):
        map_unnamed_file(folder, SIZE)
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
        assert mapped_of(folder, process.pid) == [2**22]
        assert list(folder.iterdir()) == []
        process.kill()
    assert list(folder.iterdir()) == []
