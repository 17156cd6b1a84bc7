"""If a program is killed while it draws and exports a long text, its files are complete."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.project_graph import ROOT
from tests.support.long_texts import long_text
from visualizer.documents.open_document import open_document
from visualizer.documents.recovery_file import find_crash_recovery_files

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

TOKENS = 600
PROGRAM = f"""
import os, sys
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import QTimer

from tests.support.long_texts import long_text
from visualizer.app import run_event_loop
from visualizer.attention import run
from visualizer.export.figure_settings import FigureExtent, FigureSettings
from visualizer.session import worker_jobs
from visualizer.session.document import Document
from visualizer.shell import document_recovery

run.MAX_FULL_MATRIX_BYTES = run.MIN_BLOCKWISE_BYTES = 0
worker_jobs.REFINEMENT_S = 0.0
document_recovery.AUTOSAVE_DELAY_MS = 1
TEXT = long_text({TOKENS})


def begin(windows):
    window = windows.open_window(Document())
    timer = QTimer(window)
    timer.timeout.connect(lambda: go_on(window))
    timer.start(5)


def go_on(window):
    workspace, exporter = window.workspace, window.controllers.export_controller.exporter
    if workspace.run is None:
        return
    if workspace.document.text != TEXT:
        workspace.set_text(TEXT)
    elif workspace.computed == workspace.document:
        kept = window.controllers.document_controller.autosave_controller._kept
        if kept and kept[0] is workspace.document and not exporter.is_working:
            os.write(1, b".")
            exporter.write_file(Path(sys.argv[1]), workspace.snapshot, FigureSettings(dpi=300))
        workspace.change_view(zoom=None)


run_event_loop(begin)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signals")
def test_files_after_ctrl_c_are_complete_and_offered_again(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "out" / "a.png"
    target.parent.mkdir()
    environment = os.environ | {
        "QT_QPA_PLATFORM": "offscreen",
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "settings"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TMPDIR": str(tmp_path),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(target)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout
    assert process.stdout.read(1), process.communicate()
    select.select([], [], [], random.Random(1).random() * 0.8)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT, said
    assert b"Traceback" not in said
    left = {path for path in tmp_path.rglob("*") if path.is_file() and home not in path.parents}
    assert {path for path in left if path.suffix != ".part"} <= {target}
    if target.exists():
        assert open_document(target).document.text == long_text(TOKENS)
    (recovery,) = home.rglob("recovery")
    (offered,) = find_crash_recovery_files(recovery)
    assert offered.read().document.text == long_text(TOKENS)
    names = {path.suffix for path in recovery.iterdir()}
    assert names <= {".recovery", ".lock"}
