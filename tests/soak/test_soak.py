"""Random use of the program is reproducible, and failures are reported."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from PySide6.QtWidgets import QMessageBox, QWidget

from tests.soak.__main__ import ROOT
from tests.soak.faults import Faults, make_documents
from tests.soak.watch import Watch
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.session.zoom_ranges import ZoomRange
from visualizer.widgets.dialogs import show_exception

if TYPE_CHECKING:
    from pathlib import Path

    from pytestqt.qtbot import QtBot

FAULTS = 60


@pytest.fixture
def told() -> list[str]:
    """Lines that are printed."""
    return []


@pytest.fixture
def watch(told: list[str]) -> Watch:
    return Watch(told.append)


def test_a_failure_is_told_once(watch: Watch, told: list[str]) -> None:
    watch.fail("an error", "its traceback")
    watch.fail("an error", "its traceback")
    assert told == ["its traceback\nFAILURE an error"]


def test_a_document_that_would_not_open_is_a_failure(watch: Watch, told: list[str]) -> None:
    watch.read_saved(Document(), View(zoom=ZoomRange(range(2), range(2))))
    assert told == []
    watch.read_saved(Document(), View(zoom=ZoomRange(range(-1, 1), range(2))))
    assert told[0].endswith("FAILURE a document is saved that does not open")


def test_a_bug_that_the_program_reports_is_a_failure(
    watch: Watch, told: list[str], qtbot: QtBot
) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    show_exception(window, "Traceback …\nZeroDivisionError: by zero")
    watch.look()
    assert told == ["Traceback …\nZeroDivisionError: by zero\nFAILURE ZeroDivisionError: by zero"]
    assert not any(box.isVisible() for box in window.findChildren(QMessageBox))


@pytest.mark.usefixtures("qapp")
def test_what_holds_a_large_tensor_is_told_where_much_is_held(
    watch: Watch, told: list[str]
) -> None:
    holder = {"the one that holds": torch.zeros(2**20, 9)}
    watch.rest(windows=0)
    *_, at_rest = told
    assert "in use of malloc's" in at_rest, "as much as at other rests"
    watch.resting[:] = [1, 1, 1]
    watch.rest(windows=0)
    *_, at_work = told
    assert "holding (1048576, 9) of torch.float32, held by\ndict the one that holds" in at_work
    assert len(holder) == 1


@pytest.mark.slow
def test_faults_are_the_same_for_a_seed_and_are_mended(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        place = tmp_path / name / "documents"
        place.parent.mkdir()
        chance = random.Random(7)
        make_documents(place, chance)
        faults = Faults(place, chance)
        made.append([faults.make() for _ in range(FAULTS)])
        faults.mend()
        (place / "can be written").write_bytes(bytes(100_000))
    assert made[0] == made[1]
    assert {"a full disk", "a read-only folder: documents"} <= {*made[0]} or sys.platform == "win32"


@pytest.mark.slow
def test_the_program_survives_a_quarter_of_a_minute() -> None:
    options = "--seed 1 --minutes 0.25 --longest-gap 10"  # because other tests run at the same time
    ended = subprocess.run(
        [sys.executable, "-m", "tests.soak", *options.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "0 failures" in ended.stdout
