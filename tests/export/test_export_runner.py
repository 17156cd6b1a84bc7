"""An export leaves nothing in memory after it has finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.export import export_runner
from visualizer.export.export_runner import ExportRunner

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pytestqt.qtbot import QtBot


def test_memory_is_freed_soon_after_an_export(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done: list[str] = []
    monkeypatch.setattr("visualizer.session.newest_request_worker.IDLE_DELAY_S", 0.01)
    monkeypatch.setattr(export_runner, "trim_freed_memory", lambda: done.append("trimmed"))
    runner = ExportRunner()

    def write(progress: object) -> Path:
        done.append("written")
        return tmp_path

    runner.start_writing(write)
    qtbot.waitUntil(lambda: done[:2] == ["written", "trimmed"])
    runner.close()
    assert not runner.is_working
