"""On all systems, no file in a folder is accessed through a link."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.planted_links import KINDS, LINKS, make_outside, plant, tree
from visualizer.storage.file_lock import FileLock, is_held
from visualizer.storage.symlink_safe_folder import (
    LINK_ERROR,
    SymlinkSafeFile,
    SymlinkSafeFolder,
    escapes_folder,
    path_of_open_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links take a right on Windows")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return make_outside(tmp_path / "outside")


@pytest.fixture
def folder(tmp_path: Path) -> SymlinkSafeFolder:
    made = SymlinkSafeFolder(tmp_path / "folder")
    made.create_folder()
    return made


ACTS: dict[str, Callable[[SymlinkSafeFile], object]] = {
    "read": lambda file: file.read_bytes(100),
    "write": lambda file: file.write(lambda opened: opened.write(b"new")),
    "append": lambda file: file.append(b"new"),
    "touch": lambda file: file.touch(),
    "create": lambda file: file.create().close(),
    "stat": lambda file: file.stat(),
    "lock": lambda file: FileLock(file.path),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_refused(
    folder: SymlinkSafeFolder, outside: Path, act: str, kind: str
) -> None:
    file, before = folder.file("a"), tree(outside)
    plant(file.path, kind, outside)
    planted = tree(folder.path)
    with pytest.raises(OSError, match="it is not a file" if kind == "pipe" else LINK_ERROR):
        ACTS[act](file)
    assert (tree(outside), tree(folder.path)) == (before, planted)
    assert file.exists()
    assert not file.is_file()
    with pytest.raises(OSError, match="it is not a file" if kind == "pipe" else LINK_ERROR):
        is_held(file.path)


@pytest.mark.parametrize("act", [act for act in ACTS if act != "lock"])
@pytest.mark.parametrize("kind", LINKS)
def test_no_folder_on_the_way_may_be_a_link(
    folder: SymlinkSafeFolder, outside: Path, act: str, kind: str
) -> None:
    below, before = SymlinkSafeFolder(folder.path, "below"), tree(outside)
    plant(below.path, kind, outside)
    file = below.file("00000003.safetensors")
    acts: list[Callable[[], object]] = [
        partial(ACTS[act], file),
        file.unlink,
        below.create_folder,
        below.list_names,
    ]
    for refused in acts:
        with pytest.raises(OSError, match=LINK_ERROR):
            refused()
    assert tree(outside) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_is_removed_and_what_it_leads_to_stays(
    folder: SymlinkSafeFolder, outside: Path, kind: str
) -> None:
    before = tree(outside)
    plant(folder.path / ".attention-0123abcd.part", kind, outside)
    plant(folder.path / "a", kind, outside)
    folder.remove_temporary_files()
    assert folder.list_names() == ("a",)
    folder.file("a").unlink()
    folder.file("a").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        folder.file("a").unlink()
    assert folder.list_names() == ()
    assert tree(outside) == before


def test_files_are_written_read_and_removed(tmp_path: Path) -> None:
    below = SymlinkSafeFolder(tmp_path / "a" / "b", "c")
    file = below.file("file")
    assert below.list_names() == ()
    assert not file.exists()
    below.create_folder()
    below.create_folder()
    file.append(b"one")
    file.append(b" two")
    file.touch()
    assert file.read_bytes(100) == b"one two"
    file.write(lambda opened: opened.write(b"three"))
    assert (tmp_path / "a" / "b" / "c" / "file").read_bytes() == b"three"
    assert below.list_names() == ("file",)
    with file.create() as made:
        made.write(b"four")
    assert file.read_bytes(100) == b"four"
    file.unlink()
    assert not file.exists()


def test_the_folder_itself_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    SymlinkSafeFolder(tmp_path / "link").file("a").append(b"content")
    assert (tmp_path / "real" / "a").read_bytes() == b"content"


def test_a_file_with_a_name_elsewhere_is_not_appended_to(
    folder: SymlinkSafeFolder, outside: Path
) -> None:
    file = folder.file("a")
    os.link(outside / "file", file.path)
    before = tree(outside)
    with pytest.raises(OSError, match="a hard link"):
        file.append(b"new")
    assert tree(outside) == before
    file.write(lambda opened: opened.write(b"new"))
    assert (outside / "file").read_bytes() == b"precious"
    assert file.read_bytes(100) == b"new"


def test_what_is_too_large_is_not_read(folder: SymlinkSafeFolder) -> None:
    folder.file("a").append(b"0123456789")
    assert folder.file("a").read_bytes(10) == b"0123456789"
    with pytest.raises(OSError, match="it is larger than"):
        folder.file("a").read_bytes(9)


def test_what_could_not_be_appended_whole_is_taken_back(
    folder: SymlinkSafeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder.file("a")
    file.append(b"a whole row\n")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            file.append(b"half a r")
    assert file.read_bytes(100) == b"a whole row\n"
    file.append(b"another\n")
    assert file.read_bytes(100) == b"a whole row\nanother\n"


def test_a_link_that_comes_after_the_check_is_not_followed(
    folder: SymlinkSafeFolder, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, file = tree(outside), folder.file("a")

    def find_nothing(_: SymlinkSafeFile) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(SymlinkSafeFile, "stat", find_nothing)
    for kind in LINKS:
        plant(file.path, kind, outside)
        for act in ("read", "append", "touch"):
            with pytest.raises(OSError, match="Too many levels"):
                ACTS[act](file)
        file.write(lambda opened: opened.write(b"new"))  # replaces the link
        assert not file.path.is_symlink()
    assert tree(outside) == before


def test_a_lock_is_seen_without_writing(folder: SymlinkSafeFolder) -> None:
    file = folder.file("lock")
    assert not is_held(file.path)
    file.touch()
    before = tree(folder.path)
    assert not is_held(file.path)
    assert tree(folder.path) == before
    held = FileLock(file.path)
    assert is_held(file.path)
    held.release()
    assert not file.exists()


def test_the_path_of_an_open_file_leads_to_it(folder: SymlinkSafeFolder, outside: Path) -> None:
    file = folder.file("a")
    file.append(b"content")
    with file.open(100) as opened:
        plant(file.path, "link to a file", outside)
        assert Path(path_of_open_file(opened, file)).read_bytes() == b"content"


def test_only_what_is_in_a_folder_can_lead_out_of_it(
    folder: SymlinkSafeFolder, outside: Path
) -> None:
    plant(folder.path / "link", "link to a file", outside)
    plant(folder.path / "below", "link to a folder", outside)
    (folder.path.parent / "way").symlink_to(folder.path)
    assert escapes_folder(folder.path, folder.path / "link")
    assert escapes_folder(folder.path, folder.path / "below" / "new")
    assert escapes_folder(folder.path, folder.path.parent / "way" / "link")
    assert not escapes_folder(folder.path, folder.path / "new")
    assert not escapes_folder(folder.path, folder.path.parent / "way" / "new")
    assert not escapes_folder(folder.path, outside / "file")
