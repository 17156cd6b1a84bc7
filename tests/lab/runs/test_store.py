"""Stored runs are listed, named, renamed and deleted; nothing else is changed."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.recordings import METADATA, a_recording
from visualizer.errors import InputError
from visualizer.lab.runs.store import (
    choose_run_folder,
    delete_run,
    list_runs,
    read_losses,
    read_stored_probe,
    rename_run,
    store_probe,
)
from visualizer.lab.settings.definitions import replace_setting
from visualizer.lab.settings.text_preview_controller import read_text_sample
from visualizer.lab.training.background_controller import is_training
from visualizer.language.corpora.corpus import load_corpus
from visualizer.language.recording import RecordingWriter
from visualizer.language.run_folder import RunFolder, RunMetadata
from visualizer.language.training_settings import CorpusKind, TrainingSettings
from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

if TYPE_CHECKING:
    from pathlib import Path


def a_run(folder: Path, when: float = 1_000.0) -> Path:
    RunFolder(folder).create_run(
        RunMetadata(TrainingSettings(), ("a", "b"), 1.0, 0.5, "abab", "print")
    )
    os.utime(RunFolder(folder).metadata_file.path, (when, when))
    return folder


def test_runs_are_listed_newest_first_and_nothing_else(tmp_path: Path) -> None:
    a_run(tmp_path / "old", 1_000)
    a_run(tmp_path / "new", 2_000)
    (tmp_path / "no run").mkdir()
    assert [run.name for run in list_runs(tmp_path)] == ["new", "old"]
    assert list_runs(tmp_path / "nowhere") == ()


def test_a_recorded_run_is_listed_and_deleted_without_other_files(tmp_path: Path) -> None:
    a_run(tmp_path / "trained", 1_000)
    own_names = ("model.bin", "lock", "probe.txt", "stop")
    (tmp_path / "mixed").mkdir()
    for name in own_names:
        (tmp_path / "mixed" / name).write_text("my own", encoding="utf-8")
    for name in ("recorded", "mixed"):
        a_recording(tmp_path / name, 0, 10)
    assert {run.name for run in list_runs(tmp_path)} == {"trained", "recorded", "mixed"}
    rename_run(tmp_path / "recorded", "renamed")
    delete_run(tmp_path / "renamed")
    delete_run(tmp_path / "mixed")
    assert [run.name for run in list_runs(tmp_path)] == ["trained"]
    assert not (tmp_path / "renamed").exists()
    assert {
        path.name: path.read_text("utf-8") for path in (tmp_path / "mixed").iterdir()
    } == dict.fromkeys(own_names, "my own")


def test_a_run_that_is_being_recorded_is_in_use(tmp_path: Path) -> None:
    writer = RecordingWriter(RunFolder(tmp_path), METADATA)
    assert is_training(tmp_path)
    writer.close()
    assert not is_training(tmp_path)


def test_runs_are_listed_while_one_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(tmp_path / "kept")
    gone, stat = a_run(tmp_path / "gone"), SymlinkSafeFile.stat

    def stat_as_it_goes(self: SymlinkSafeFile) -> os.stat_result:
        found = stat(self)
        if self.path.parent == gone:
            shutil.rmtree(gone, ignore_errors=True)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(SymlinkSafeFile, "stat", stat_as_it_goes)
        assert {run.name for run in list_runs(tmp_path)} == {"kept", "gone"}
    assert [run.name for run in list_runs(tmp_path)] == ["kept"]


def test_a_new_run_gets_a_unique_name(tmp_path: Path) -> None:
    first = choose_run_folder(tmp_path, TrainingSettings())
    assert first.name == "repeat-attention-only-1"
    a_run(first)
    second = choose_run_folder(tmp_path, TrainingSettings())
    assert second.name == "repeat-attention-only-2"
    third = choose_run_folder(tmp_path, TrainingSettings(), {second})
    assert third.name == "repeat-attention-only-3"


def test_a_run_is_renamed(tmp_path: Path) -> None:
    folder = rename_run(a_run(tmp_path / "old"), " two words ")
    assert folder == tmp_path / "two words"
    assert [run.name for run in list_runs(tmp_path)] == ["two words"]
    assert rename_run(folder, "two words") == folder


@pytest.mark.parametrize("name", ["", "  ", "..", "a/b", "a\\b", "a:b", "taken"])
def test_invalid_names_are_rejected(tmp_path: Path, name: str) -> None:
    a_run(tmp_path / "taken")
    folder = a_run(tmp_path / "run")
    with pytest.raises(InputError):
        rename_run(folder, name)
    assert len(list_runs(tmp_path)) == 2


def test_only_runs_are_deleted(tmp_path: Path) -> None:
    delete_run(a_run(tmp_path / "run"))
    assert list_runs(tmp_path) == ()
    own = tmp_path / "photographs"
    own.mkdir()
    with pytest.raises(InputError, match="does not contain a run"):
        delete_run(own)
    assert own.is_dir()


@pytest.mark.parametrize("deleted", range(5))
def test_a_partly_deleted_run_can_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    folder = RunFolder(a_run(tmp_path / "run"))
    for file in (folder.loss_log_file, folder.checkpoint_file, *map(folder.snapshot_file, (0, 10))):
        file.path.write_bytes(b"")
    left = iter(range(deleted))
    unlink = os.unlink

    def unlink_some(*args: Any, **options: Any) -> None:
        if next(left, None) is None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        unlink(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink_some)
        with pytest.raises(InputError, match="“run” could not be deleted: Permission denied"):
            delete_run(folder.path)
    assert [run.name for run in list_runs(tmp_path)] == ["run"]
    delete_run(folder.path)
    assert not folder.path.exists()


def test_losses_are_read_or_rejected(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "run")
    with pytest.raises(InputError, match="Cannot read"):
        read_losses(folder)
    RunFolder(folder).loss_log_file.path.write_text(
        "step,training,validation,rate,seconds\n0,3.5,,0.1,0.000\n"
    )
    assert read_losses(folder).training.tolist() == [3.5]


def test_the_preview_is_the_beginning_of_the_file_or_task(tmp_path: Path) -> None:
    file = tmp_path / "poem.txt"
    file.write_text("Tyger Tyger", encoding="utf-8")
    own = replace_setting(
        replace_setting(TrainingSettings(), "kind", CorpusKind.FILE), "path", str(file)
    )
    assert read_text_sample(own) == "Tyger Tyger"
    assert read_text_sample(TrainingSettings()) == load_corpus(TrainingSettings()).text[:600]
    assert read_text_sample(replace_setting(TrainingSettings(), "heads", 3)) == ""
    with pytest.raises(InputError, match="Cannot read"):
        read_text_sample(replace_setting(own, "path", str(tmp_path)))


@pytest.mark.parametrize("text", ["a b", "“é” ␣ 字\t", "x" * 10_000])
def test_the_probe_is_stored_with_the_run(tmp_path: Path, text: str) -> None:
    folder = a_run(tmp_path / "one")
    assert read_stored_probe(folder) == ""
    store_probe(folder, text)
    store_probe(folder, "")
    assert read_stored_probe(folder) == text
    store_probe(tmp_path / "none", text)
    assert not (tmp_path / "none").exists()
    RunFolder(folder).probe_file.path.write_bytes(b"\xff\xfe")
    assert read_stored_probe(folder) == ""
