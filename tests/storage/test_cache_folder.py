"""The cache folder is where the system has such folders."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from visualizer.storage.cache_folder import cache_folder, free_bytes, is_in_memory


def test_the_environment_may_name_it(tmp_path: Path) -> None:
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "attention-visualizer"


@pytest.mark.skipif(sys.platform != "linux", reason="the places of other systems are others")
@pytest.mark.parametrize("environment", [{}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "a/b"}])
def test_a_folder_that_is_no_whole_path_does_not_count(environment: dict[str, str]) -> None:
    assert cache_folder(environment) == Path.home() / ".cache" / "attention-visualizer"


def test_a_user_without_a_home_folder_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_there(_: type[Path]) -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", classmethod(none_there))
    with pytest.raises(OSError, match="no home folder"):
        cache_folder({})


def test_the_room_of_a_folder_that_is_not_made_yet_is_that_of_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage, asked = shutil.disk_usage, list[Path]()

    def noted(path: Path) -> object:
        asked.append(path)
        return usage(path)

    monkeypatch.setattr(shutil, "disk_usage", noted)
    assert 0 < free_bytes(tmp_path / "a" / "b") <= usage(tmp_path).total
    assert asked == [tmp_path]


@pytest.mark.skipif(not Path("/dev/shm").is_mount(), reason="only Linux has this folder")
def test_a_folder_in_memory_is_known(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/shm")
    assert is_in_memory(Path("/dev/shm/none/there"))
    assert is_in_memory(tmp_path / "link" / "none")
    assert not is_in_memory(Path("/none/there"))
