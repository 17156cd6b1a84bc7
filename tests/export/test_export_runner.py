"""Exports free their memory when they have finished, and write nothing if they are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.project_graph import ROOT
from visualizer.export import export_runner
from visualizer.export.export_runner import ExportRunner

if TYPE_CHECKING:
    from pathlib import Path

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


pytestmark = pytest.mark.slow


@pytest.mark.skipif(not hasattr(os, "fork"), reason="programs are forked to be killed")
def test_a_program_that_is_killed_leaves_whole_exports() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killed_export", "12"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "'kills': 12" in done.stdout
