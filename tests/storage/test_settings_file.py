"""The settings file is shared by programs, and keeps values in memory if it cannot be written."""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.storage.regular_file import read_file_version
from visualizer.storage.settings_file import (
    MAX_BYTES,
    SettingsFile,
    read_private_json,
    write_private_json,
)

if TYPE_CHECKING:
    from pathlib import Path

KEYS = st.text(max_size=8)
VALUES = st.text(st.characters(exclude_categories=()), max_size=8) | st.booleans() | st.integers()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "settings.json"


@given(stored=st.lists(st.dictionaries(KEYS, VALUES, max_size=4), max_size=4))
def test_the_newest_value_of_each_key_is_read_by_any_program(
    stored: list[dict[str, str | int | bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("settings") / "settings.json"
    programs = SettingsFile(path), SettingsFile(path)
    expected: dict[str, object] = {}
    for at, values in enumerate(stored):
        programs[at % 2].store(values)
        expected |= values
    for program in (*programs, SettingsFile(path)):
        assert read_private_json(path) == (expected or None)
        for key, value in expected.items():
            assert program.value(key) == value
            assert type(program.value(key)) is type(value)
        assert program.value("none has so long a name") is None


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "refused")


@pytest.mark.parametrize("may_link", [True, False])
def test_nobody_waits_for_the_disk(
    path: Path, may_link: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy disk can take several seconds, and settings are stored on the GUI thread."""
    waited: list[int] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, waited.append, raising=False)
    if not may_link:  # as in some containers
        monkeypatch.setattr(os, "link", refuse)
    SettingsFile(path).store({"a": 1})
    assert SettingsFile(path).value("a") == 1
    assert waited == []


def test_a_file_is_written_only_where_something_changes(path: Path) -> None:
    file = SettingsFile(path)
    file.store({"a": 1, "b": True})
    version = read_file_version(path)
    file.store({"b": True})
    SettingsFile(path).store({"a": 1})
    assert read_file_version(path) == version
    file.store({"b": 1})
    assert read_file_version(path) != version


def test_a_file_that_cannot_be_read_for_once_is_not_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SettingsFile(path).store({"a": 1})
    file = SettingsFile(path)
    with monkeypatch.context() as broken:
        broken.setattr(os, "open", refuse)
        assert file.value("a") is None
        with pytest.raises(OSError, match="refused"):
            file.store({"b": 2})
        assert file.value("b") == 2
    assert file.value("a") == 1
    file.store({"c": 3})
    assert [SettingsFile(path).value(key) for key in "abc"] == [1, 2, 3]


def test_only_settings_are_read(path: Path) -> None:
    write_private_json(path, {"a": [["b"]], "c": {"d": 1}, "e": None, "f": 1.5, "g": "h"})
    file = SettingsFile(path)
    assert [file.value(key) for key in "acefg"] == [None, None, None, None, "h"]
    file.store({"i": True})
    assert read_private_json(path) == {"g": "h", "i": True}


def test_what_is_too_long_to_be_read_is_not_written(path: Path) -> None:
    file = SettingsFile(path)
    file.store({"a": 1})
    with pytest.raises(OSError, match="too large"):
        file.store({"b": "x" * MAX_BYTES})
    assert read_private_json(path) == {"a": 1}


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_file_that_is_a_link_stays_one(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    SettingsFile(target).store({"a": 1})
    path.parent.mkdir()
    path.symlink_to(target)
    SettingsFile(path).store({"b": 2})
    assert path.is_symlink()
    assert read_private_json(target) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"7", b"null", b"\xff", b'{"a": 1', b'{"a": 1}x', b"[" * 100_000),
        *(b'{"a": ' + b"9" * 5_000 + b"}", b'{"a": "' + b"x" * MAX_BYTES + b'"}'),
    ],
    ids=lambda content: content[:8],
)
def test_a_damaged_file_has_no_values_and_is_replaced(path: Path, content: bytes) -> None:
    file = SettingsFile(path)
    file.store({"a": 1})
    path.write_bytes(content)
    assert file.value("a") is None
    file.store({"b": 2})
    assert read_private_json(path) == {"b": 2}


def test_what_cannot_be_written_is_kept_in_memory(path: Path) -> None:
    path.mkdir(parents=True)
    file = SettingsFile(path)
    for values in ({"a": 1}, {"b": 2}):
        with pytest.raises(OSError, match="it is not a file, but a folder"):
            file.store(values)
    assert (file.value("a"), file.value("b")) == (1, 2)
    path.rmdir()
    SettingsFile(path).store({"d": 4})
    assert (file.value("a"), file.value("d")) == (1, 4)
    file.store({"c": 3})
    assert read_private_json(path) == {"d": 4, "a": 1, "b": 2, "c": 3}


def test_all_are_deleted(path: Path) -> None:
    file = SettingsFile(path)
    file.clear()
    file.store({"a": 1})
    file.clear()
    assert file.value("a") is None
    assert not path.exists()
    path.mkdir()
    with pytest.raises((IsADirectoryError, PermissionError)):
        file.clear()


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions on Windows")
def test_a_new_file_is_the_users_alone(path: Path) -> None:
    write_private_json(path, {"a": ["b"]})
    assert read_private_json(path) == {"a": ["b"]}
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]
