"""Recovery files of crashed programs are found, but not those of running programs."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.architecture.project_graph import ROOT
from tests.support.golden_documents import OWN, OWN_VIEW, PLAIN
from visualizer.documents.document_file import document_bytes
from visualizer.documents.recovery_file import RecoveryFile, find_crash_recovery_files
from visualizer.errors import InputError
from visualizer.session.view import View
from visualizer.storage.regular_file import read_file_version

if TYPE_CHECKING:
    from collections.abc import Iterator

CRASH = """
import os, sys
from pathlib import Path
from visualizer.session.document import Document
from visualizer.documents.recovery_file import RecoveryFile
from visualizer.session.view import View
keeper = RecoveryFile(Path(sys.argv[1]))
keeper.write(Document(text="half done"), View(), Path(sys.argv[2]))
print("kept", flush=True)
sys.stdin.readline()
os._exit(1)
"""


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[RecoveryFile]:
    keeper = RecoveryFile(tmp_path / "kept")
    yield keeper
    keeper.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another program, which writes a recovery file and crashes when the test tells it to."""
    with subprocess.Popen(
        [sys.executable, "-c", CRASH, str(tmp_path / "kept"), str(tmp_path / "猫.attention")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "kept\n"
        yield process
        process.kill()


def crash(process: subprocess.Popen[str]) -> None:
    process.communicate("now\n")
    assert process.returncode == 1


def files(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


def test_what_a_crash_left_is_offered(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    crash(other)
    (left,) = find_crash_recovery_files(tmp_path / "kept")
    assert left.read().document.text == "half done"
    assert left.path == tmp_path / "猫.attention"
    assert abs(datetime.now(UTC) - left.when) < timedelta(minutes=5)
    left.delete()
    assert find_crash_recovery_files(tmp_path / "kept") == []
    assert files(tmp_path / "kept") == []


def test_what_a_kill_left_half_written_is_removed_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / ".attention-0123abcd.part").write_bytes(b"half")
    assert find_crash_recovery_files(tmp_path) == []
    assert files(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions on Windows")
def test_it_is_the_users_alone(tmp_path: Path, keeper: RecoveryFile) -> None:
    keeper.write(OWN, OWN_VIEW)
    folder = tmp_path / "kept"
    found = {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert found == {"": 0o700, ".recovery": 0o600, ".lock": 0o600}


def test_the_version_of_the_file_is_the_one_that_the_program_knew(
    tmp_path: Path, keeper: RecoveryFile
) -> None:
    file = tmp_path / "猫.attention"
    file.write_bytes(b"as it was")
    known = read_file_version(file)
    file.write_bytes(b"as another program wrote it")
    keeper.write(OWN, OWN_VIEW, file, known)
    (kept,) = (tmp_path / "kept").glob("*.recovery")
    (tmp_path / "copy.recovery").write_bytes(kept.read_bytes())
    (left,) = find_crash_recovery_files(tmp_path)
    assert left.path == file
    assert left.read().version == known
    assert known not in (None, read_file_version(file))


@pytest.mark.parametrize("of", ["/folder/猫.attention", None])
def test_what_an_earlier_program_kept_is_opened(of: str | None, tmp_path: Path) -> None:
    content = json.dumps(of).encode() + b"\n" + document_bytes(OWN, OWN_VIEW)
    (tmp_path / "a.recovery").write_bytes(content)
    (left,) = find_crash_recovery_files(tmp_path)
    assert left.path == (Path(of) if of else None)
    saved = left.read()
    assert (saved.document, saved.version) == (OWN, None)


def test_what_another_program_works_on_is_not(
    tmp_path: Path, other: subprocess.Popen[str], keeper: RecoveryFile
) -> None:
    keeper.write(OWN, OWN_VIEW)
    assert find_crash_recovery_files(tmp_path / "kept") == []
    assert files(tmp_path / "kept") == [".lock", ".lock", ".recovery", ".recovery"]
    crash(other)
    assert [left.read().document.text for left in find_crash_recovery_files(tmp_path / "kept")] == [
        "half done"
    ]


def test_the_newest_is_first(tmp_path: Path) -> None:
    keepers = [RecoveryFile(tmp_path) for _ in range(3)]
    for number, keeper in enumerate(keepers):
        keeper.write(PLAIN.with_setting("text", str(number)), View())
    kept = {path: path.read_bytes() for path in tmp_path.glob("*.recovery")}
    for keeper in keepers:
        keeper.close()
    assert files(tmp_path) == []
    for path, content in kept.items():
        path.write_bytes(content)
    found = find_crash_recovery_files(tmp_path)
    assert {left.read().document.text for left in found} == {"0", "1", "2"}
    assert [left.when for left in found] == sorted((left.when for left in found), reverse=True)
    assert {left.path for left in found} == {None}


def test_one_that_ends_as_it_should_leaves_nothing(tmp_path: Path, keeper: RecoveryFile) -> None:
    keeper.write(OWN, OWN_VIEW)
    keeper.delete()
    assert files(tmp_path / "kept") == [".lock"]
    keeper.write(OWN, OWN_VIEW)
    keeper.close()
    keeper.close()
    assert files(tmp_path / "kept") == []


def test_what_is_kept_is_the_document_and_the_view(tmp_path: Path, keeper: RecoveryFile) -> None:
    keeper.write(PLAIN, View())
    keeper.write(OWN, OWN_VIEW, tmp_path / "a")
    (file,) = (tmp_path / "kept").glob("*.recovery")
    (tmp_path / "copy.recovery").write_bytes(file.read_bytes())
    (left,) = find_crash_recovery_files(tmp_path)
    saved = left.read()
    assert (saved.document, saved.view) == (OWN, OWN_VIEW)


@pytest.mark.parametrize("line", [b"[nonsense", b"{}", b"5", b'["a"]', b'["a", null, 1]'])
def test_a_damaged_one_is_offered_and_says_that_it_is(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "a.recovery").write_bytes(line + b"\nmore")
    (left,) = find_crash_recovery_files(tmp_path)
    assert left.path is None
    with pytest.raises(InputError) as refused:
        left.read()
    assert refused.value.field == "open"
    left.delete()
    with pytest.raises(InputError, match="could not be opened: No such file"):
        left.read()


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert find_crash_recovery_files(tmp_path / "missing") == []


def test_where_nothing_can_be_written_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="Unsaved changes cannot be backed up") as refused:
        RecoveryFile(tmp_path / "file")
    assert refused.value.field == "recovery"
