"""Recordings: their files, damaged files, and the process that reads them for a window."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.recordings import (
    METADATA,
    TEXTS,
    a_recording,
    weights_at,
    write_step,
)
from visualizer.errors import InputError
from visualizer.language import run_folder
from visualizer.language.loss_log import MISSING_VALUE, LossRow
from visualizer.language.recording import OpenedRecording, RecordingWriter
from visualizer.language.recording_server import RecordingServer
from visualizer.language.run_folder import RunFolder
from visualizer.language.wire_format import Message
from visualizer.storage.symlink_safe_folder import SymlinkSafeFolder

if TYPE_CHECKING:
    from pathlib import Path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    opened = OpenedRecording(a_recording(tmp_path / "run", 0, 10, 20))
    assert opened.metadata == METADATA
    assert opened.steps() == (0, 10, 20)
    for text in range(len(TEXTS)):
        assert np.array_equal(opened.read_weights(10, text), weights_at(10, text))
    assert [(row.step, row.training) for row in opened.take_new_rows()] == [
        (0, 5),
        (10, 4),
        (20, 3),
    ]
    assert not opened.is_being_recorded
    with pytest.raises(InputError, match="Step 5 has no snapshot"):
        opened.read_weights(5, 0)


def test_a_recording_is_read_while_it_is_written(tmp_path: Path) -> None:
    writer = RecordingWriter(RunFolder(tmp_path), METADATA)
    write_step(writer, 0)
    opened = OpenedRecording(RunFolder(tmp_path))
    assert opened.is_being_recorded
    assert [row.step for row in opened.take_new_rows()] == [0]
    write_step(writer, 10)
    assert opened.steps() == (0, 10)
    assert [row.step for row in opened.take_new_rows()] == [10]
    assert opened.take_new_rows() == []
    writer.close()
    assert not opened.is_being_recorded


def test_a_folder_is_recorded_only_once_unless_it_is_resumed(tmp_path: Path) -> None:
    folder = a_recording(tmp_path / "run", 0, 10, 20)
    with pytest.raises(InputError, match=r"up to step 20.*resume=True") as refused:
        RecordingWriter(folder, METADATA)
    assert refused.value.field == "to"
    writer = RecordingWriter(folder, METADATA, 10)
    with pytest.raises(InputError, match="already being recorded"):
        RecordingWriter(folder, METADATA, 10)
    write_step(writer, 15)
    writer.close()
    opened = OpenedRecording(folder)
    assert opened.steps() == (0, 10, 15)
    assert [row.step for row in opened.take_new_rows()] == [0, 10, 15]


def test_measurements_at_the_step_of_a_resumption_are_kept_and_completed(tmp_path: Path) -> None:
    folder = a_recording(tmp_path / "run", 0, 10, 20)
    for _ in range(2):
        RecordingWriter(folder, METADATA, 10).close()
    writer = RecordingWriter(folder, METADATA, 10)
    writer.add_loss(LossRow(10, MISSING_VALUE, -3.5, MISSING_VALUE, 1.0))
    write_step(writer, 15)
    writer.close()
    rows = OpenedRecording(folder).take_new_rows()
    assert [row[:3] for row in rows[1:]] == [(10, 4, -3.5), (15, 3.5, MISSING_VALUE)]


def test_a_reader_notices_that_the_recording_was_continued(tmp_path: Path) -> None:
    folder = a_recording(tmp_path / "run", 0, 10, 20)
    opened = OpenedRecording(folder)
    opened.take_new_rows()
    writer = RecordingWriter(folder, METADATA, 10)
    writer.add_loss(LossRow(10, MISSING_VALUE, 3.5, MISSING_VALUE, 1.0))
    for step in (12, 14, 16):
        write_step(writer, step)
    writer.close()
    rows = opened.take_new_rows()
    assert [row.step for row in rows] == [0, 10, 12, 14, 16]
    assert rows[1].validation == 3.5
    assert opened.take_new_rows() == []
    folder.loss_log_file.path.write_bytes(b"")
    assert opened.take_new_rows() == []
    assert opened.take_new_rows() == []


def test_the_folder_is_not_listed_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RecordingWriter(RunFolder(tmp_path), METADATA)
    listed: list[object] = []
    list_names = SymlinkSafeFolder.list_names

    def count(folder: SymlinkSafeFolder) -> tuple[str, ...]:
        listed.append(folder)
        return list_names(folder)

    monkeypatch.setattr(SymlinkSafeFolder, "list_names", count)
    write_step(writer, 0)
    assert len(listed) == 1  # to count the snapshots
    writer.close()


def test_files_of_other_programs_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "losses.csv").write_text("my results", encoding="utf-8")
    with pytest.raises(InputError, match=r"losses\.csv"):
        RecordingWriter(RunFolder(tmp_path), METADATA)
    assert (tmp_path / "losses.csv").read_text(encoding="utf-8") == "my results"


def test_a_damaged_snapshot_leaves_the_others_readable(tmp_path: Path) -> None:
    folder = a_recording(tmp_path / "run", 0, 10, 20)
    folder.attention_file(10, 0).path.write_bytes(b"PK\3\4 damaged")
    np.savez(folder.attention_file(20, 0).path, weights=np.ones((1, 1, 9, 9)))
    folder.attention_file(20, 1).path.unlink()
    folder.attention_file(20, 1).path.symlink_to(folder.attention_file(0, 1).path)
    opened = OpenedRecording(folder)
    for step, text in ((10, 0), (20, 0), (20, 1)):
        with pytest.raises(InputError) as refused:
            opened.read_weights(step, text)
        assert refused.value.field == "folder"
    assert np.array_equal(opened.read_weights(0, 0), weights_at(0, 0))


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": 2},
        {"texts": []},
        {"texts": 2 * [{"text": "a", "tokens": ["a"]}]},
        {"every": "often"},
        {"model": None},
    ],
)
def test_damaged_metadata_is_rejected_with_the_name_of_the_file(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    folder = a_recording(tmp_path / "run", 0)
    file = folder.recording_file.path
    values = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(values | changes), encoding="utf-8")
    with pytest.raises(InputError, match=r"recording\.json"):
        OpenedRecording(folder)


def test_every_other_snapshot_is_removed_above_the_maximum_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "MAX_SNAPSHOT_BYTES", 2_000)
    folder = a_recording(tmp_path / "run", *range(0, 200, 10))
    steps = OpenedRecording(folder).steps()
    size = sum(weights_at(0, text).nbytes for text in range(len(TEXTS)))
    assert steps[0] == 0
    assert steps[-1] == 190
    assert 3 <= len(steps) <= 2_000 / size + 1


def test_the_process_answers_requests_and_reports_progress(tmp_path: Path) -> None:
    writer = RecordingWriter(RunFolder(tmp_path), METADATA)
    write_step(writer, 0)
    sent: list[Message] = []
    server = RecordingServer(sent.append)
    server.handle_message(Message("open", {"folder": str(tmp_path), "settings": None}))
    assert sent[-1].kind == "opened"
    assert sent[-1].values["state"] == "recording"
    server.report_changes()
    assert len(sent) == 1  # nothing has changed
    write_step(writer, 10)
    writer.close()
    server.report_changes()
    assert (sent[-1].kind, sent[-1].values["state"]) == ("progress", "recorded")
    assert sent[-1].values["snapshots"] == (0, 10)
    assert sent[-1].arrays["training"].tolist() == [4]
    server.handle_message(Message("read", {"id": "1", "text": "a dog", "step": None}))
    assert sent[-1].values["step"] == 10
    assert np.array_equal(sent[-1].arrays["weights"], weights_at(10, 1))
    for request in ({"text": "another", "step": 0}, {"text": "a dog", "step": 3}):
        server.handle_message(Message("read", {"id": "2", **request}))
        assert (sent[-1].kind, sent[-1].values["id"]) == ("refused", "2")
    server.handle_message(Message("run", {}))
    assert sent[-1].kind == "refused"
    server.handle_message(Message("stop", {}))
    assert server.is_ended
