"""The list of recent files is sorted and limited, and is empty if its file is damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from visualizer.documents.recent_files import (
    MAX_RECENT_FILES,
    add_recent_file,
    load_recent_files,
    remove_recent_file,
)


def test_the_newest_is_first_and_once(tmp_path: Path) -> None:
    a, b = Path("/x/a.attention"), Path("/x/猫.attention")
    add_recent_file(tmp_path, a)
    add_recent_file(tmp_path, b)
    assert add_recent_file(tmp_path, a) == load_recent_files(tmp_path) == (a, b)
    assert remove_recent_file(tmp_path, a) == load_recent_files(tmp_path) == (b,)


def test_nobody_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy disk can take several seconds, and the list is stored on the GUI thread."""
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    add_recent_file(tmp_path, Path("one"))
    assert load_recent_files(tmp_path) == (Path("one").absolute(),)
    assert waited == []


def test_so_many_are_kept(tmp_path: Path) -> None:
    for number in range(MAX_RECENT_FILES + 3):
        add_recent_file(tmp_path / "new", Path(f"/x/{number}"))
    assert load_recent_files(tmp_path / "new") == tuple(Path(f"/x/{at}") for at in range(12, 2, -1))


def test_a_path_is_kept_whole(tmp_path: Path) -> None:
    assert add_recent_file(tmp_path, Path("a")) == (Path("a").absolute(),)
    strange = Path("/x/\udcff\n\"'")
    add_recent_file(tmp_path, strange)
    assert load_recent_files(tmp_path)[0] == strange


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1, null, {}]", b"[" * 100_000, b"\xff", b'["", "\\u0000"]', b"3"]
)
def test_a_damaged_list_is_empty(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "recent.json").write_bytes(content)
    assert load_recent_files(tmp_path) == ()
    assert add_recent_file(tmp_path, Path("/a")) == (Path("/a"),)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "recent.json").mkdir()
    assert load_recent_files(tmp_path) == ()
    with pytest.raises(OSError, match="it is not a file, but a folder"):
        add_recent_file(tmp_path, Path("/a"))
