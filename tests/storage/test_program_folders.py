"""The program's folders are in the locations that the system defines."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from visualizer import app
from visualizer.storage.file_lock import FileLock
from visualizer.storage.program_folders import (
    cache_folder,
    data_folder,
    free_bytes,
    is_memory_backed,
    move_old_folders,
    settings_path,
)
from visualizer.storage.symlink_safe_folder import make_private_folder
from visualizer.widgets import app_settings
from visualizer.widgets.theme import ColourScheme

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="other systems, other folders")


def test_the_environment_may_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("WIN_PD_OVERRIDE_LOCAL_APPDATA", str(tmp_path))
    assert cache_folder().is_relative_to(tmp_path / "attention-visualizer")


@linux_only
@pytest.mark.parametrize("named", ["", "a/b"])
def test_a_relative_path_in_the_environment_does_not_count(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert cache_folder() == Path.home() / ".cache" / "attention-visualizer"


@linux_only
def test_a_user_without_a_home_folder_can_store_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(OSError, match="no home folder"):
        cache_folder()
    with pytest.raises(OSError, match="Not a directory"):
        make_private_folder(app_settings.user_data_folder())
    app_settings.set_motion_reduced(True)
    assert app_settings.is_motion_reduced()


# ----------------------------------------------------------------------------- earlier versions


@pytest.fixture
def old_data() -> Path:
    """Folder in which an earlier version has stored data and, on Linux, settings."""
    home = data_folder().parent
    folder = home / "Attention Visualizer" / "Attention Visualizer"
    (folder / "runs" / "run").mkdir(parents=True)
    (folder / "recovery").mkdir()
    (folder / "runs" / "run" / "run.json").write_text("a run")
    return folder


def test_data_of_earlier_versions_is_moved(old_data: Path) -> None:
    assert data_folder() == old_data
    move_old_folders()
    assert data_folder() == old_data.parents[1] / "attention-visualizer"
    assert (data_folder() / "runs" / "run" / "run.json").read_text() == "a run"
    assert (old_data / "runs" / "run" / "run.json").read_text() == "a run", "documents name it"
    move_old_folders()
    assert not data_folder().is_symlink()


@linux_only
def test_settings_of_earlier_versions_are_moved() -> None:
    path = settings_path()
    old = path.parents[1] / "Attention Visualizer" / "Attention Visualizer" / path.name
    old.parent.mkdir(parents=True)
    old.write_text('{"scheme": "dark"}')
    move_old_folders()
    assert app_settings.load_scheme() is ColourScheme.DARK
    old.write_text('{"scheme": "light"}')
    move_old_folders()
    assert app_settings.load_scheme() is ColourScheme.DARK


@linux_only
def test_settings_of_earlier_versions_are_reset() -> None:
    path = settings_path()
    old = path.parents[1] / "Attention Visualizer" / "Attention Visualizer" / path.name
    old.parent.mkdir(parents=True)
    old.write_text('{"scheme": "dark"}')
    assert app.main(["--reset-settings"]) == 0
    move_old_folders()
    assert app_settings.load_scheme() is ColourScheme.SYSTEM


@pytest.mark.parametrize("lock", ["runs/run/lock", "recovery/0123.lock"])
def test_data_in_use_is_moved_at_a_later_start(old_data: Path, lock: str) -> None:
    held = FileLock(old_data / lock)
    move_old_folders()
    assert data_folder() == old_data
    held.release()
    move_old_folders()
    assert data_folder() != old_data


def test_data_is_not_moved_over_newer_data(old_data: Path) -> None:
    new = old_data.parents[1] / "attention-visualizer"
    (new / "runs").mkdir(parents=True)
    move_old_folders()
    assert data_folder() == new
    assert not list((new / "runs").iterdir())
    assert (old_data / "runs" / "run" / "run.json").exists()


# ---------------------------------------------------------------------------------------- disks


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
    assert is_memory_backed(Path("/dev/shm/none/there"))
    assert is_memory_backed(tmp_path / "link" / "none")
    assert not is_memory_backed(Path("/none/there"))
