"""A file of settings: shared, survived when damaged, kept in memory where it cannot be written."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.errors import InputError
from visualizer.storage.private_json_file import LARGEST, read_private_json, write_private_json
from visualizer.storage.settings_file import SettingsFile

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
        assert program.keys == expected.keys()
        for key, value in expected.items():
            assert program.value(key) == value
            assert type(program.value(key)) is type(value)
        assert program.value("none has so long a name") is None


def test_nobody_waits_for_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy one takes seconds, and the window's thread stores settings."""
    waited: list[int] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, waited.append, raising=False)
    SettingsFile(path).store({"a": 1})
    assert SettingsFile(path).value("a") == 1
    assert waited == []


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"7", b"null", b"\xff", b'{"a": 1', b'{"a": 1}x', b"[" * 100_000),
        *(b'{"a": ' + b"9" * 5_000 + b"}", b'{"a": "' + b"x" * LARGEST + b'"}'),
    ],
    ids=lambda content: content[:8],
)
def test_a_damaged_file_has_no_values_and_is_replaced(path: Path, content: bytes) -> None:
    file = SettingsFile(path)
    file.store({"a": 1})
    path.write_bytes(content)
    assert file.value("a") is None
    file.store({"b": 2})
    assert file.keys == {"b"}
    assert SettingsFile(path).value("b") == 2


def test_what_cannot_be_written_is_kept_in_memory(path: Path) -> None:
    path.parent.write_text("no folder")
    file = SettingsFile(path)
    with pytest.raises(InputError, match=r"^“settings.json” could not be written to .*new: .*\.$"):
        file.store({"a": 1})
    with pytest.raises(InputError):
        file.store({"b": 2})
    assert (file.value("a"), file.value("b")) == (1, 2)
    path.parent.unlink()
    file.store({"c": 3})
    assert SettingsFile(path).keys == {"a", "b", "c"}


def test_all_are_deleted(path: Path) -> None:
    file = SettingsFile(path)
    file.clear()
    file.store({"a": 1})
    file.clear()
    assert (file.keys, path.exists()) == (frozenset(), False)
    path.mkdir()
    with pytest.raises(OSError, match="director"):
        file.clear()


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions on Windows")
def test_a_new_file_is_the_users_alone(path: Path) -> None:
    write_private_json(path, {"a": ["b"]})
    assert read_private_json(path) == {"a": ["b"]}
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]
