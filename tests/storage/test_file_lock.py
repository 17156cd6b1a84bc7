"""A lock has one holder until it is released or its process ends; queries change nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from visualizer.storage.file_lock import FileLock, is_held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = """
import sys
from pathlib import Path
from visualizer.storage.file_lock import FileLock

lock = FileLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "a")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "a")
    with pytest.raises(BlockingIOError) as refused:
        FileLock(tmp_path / "a")
    assert refused.value.strerror
    assert is_held(tmp_path / "a")
    lock.release()
    assert not (tmp_path / "a").exists()
    FileLock(tmp_path / "a").release()


def test_another_program_holds_it_until_it_is_killed(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    assert is_held(tmp_path / "a")
    with pytest.raises(BlockingIOError):
        FileLock(tmp_path / "a")
    other.kill()
    other.wait()
    assert (tmp_path / "a").exists()
    assert not is_held(tmp_path / "a")
    FileLock(tmp_path / "a").release()
    assert list(tmp_path.iterdir()) == []


def test_what_is_locked_keeps_its_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a stranger's")
    lock = FileLock(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "a stranger's"
    lock.release()


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_not_followed(tmp_path: Path, is_there: bool) -> None:
    target = tmp_path / "target"
    if is_there:
        target.write_text("precious")
    (tmp_path / "a").symlink_to(target)
    with pytest.raises(OSError, match="are not followed"):
        FileLock(tmp_path / "a")
    assert (tmp_path / "a").is_symlink()
    assert target.exists() == is_there
    assert not is_there or target.read_text() == "precious"
    with pytest.raises(OSError, match="are not followed"):
        is_held(tmp_path / "a")


def test_looking_makes_writes_and_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_held(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").write_text("left by one that was killed")
    opened, flags = os.open, list[int]()

    def watched(path: Path, flag: int, *given: int, **where: int) -> int:
        flags.append(flag)
        return opened(path, flag, *given, **where)

    monkeypatch.setattr(os, "open", watched)
    before = (tmp_path / "a").stat()
    assert not is_held(tmp_path / "a")
    after = (tmp_path / "a").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert (tmp_path / "a").read_text() == "left by one that was killed"
    assert all(not flag & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) for flag in flags)
    assert flags


@pytest.mark.skipif(sys.platform == "win32", reason="there, who looks takes the lock alone")
def test_two_that_only_look_do_not_see_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    closed, seen = os.close, list[bool]()

    def look_too(file: int) -> None:
        if not seen:  # while the first query still holds its lock
            seen.append(True)
            seen[:] = [is_held(tmp_path / "a")]
        closed(file)

    monkeypatch.setattr(os, "close", look_too)
    assert not is_held(tmp_path / "a")
    assert seen == [False]


@pytest.mark.parametrize("place", ["folder", "missing/a"])
def test_what_cannot_be_held_says_why(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"it is not a file|No such file|denied") as refused:
        FileLock(tmp_path / place)
    assert refused.value.strerror
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="who may do anything is refused nothing"
)
def test_in_a_folder_that_cannot_be_written_it_can_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert not is_held(tmp_path / "a")
        with pytest.raises(PermissionError):
            FileLock(tmp_path / "a")
    finally:
        tmp_path.chmod(0o755)
