"""An untrusted run in the lab: viewing does not change it and never leaves its folder."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt

from tests.support.examples import others_slow
from tests.support.lab_input import FAKE, NONE, LabUser
from tests.support.planted_links import KINDS, make_outside, plant, tree
from visualizer.errors import InputError
from visualizer.lab.training import background_controller
from visualizer.lab.window import LabWindow
from visualizer.language.run_folder import RunFolder, RunMetadata
from visualizer.language.training_settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from PySide6.QtWidgets import QApplication
    from pytestqt.qtbot import QtBot

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links take a right on Windows")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = RunFolder(tmp_path / "from elsewhere")
    metadata = RunMetadata(
        TrainingSettings(steps=50), tuple("abcdefgh"), 2.0, 1.5, "abcdabcd", "print"
    )
    made.create_run(metadata)
    made.loss_log_file.append(b"step,training,validation,rate,seconds\n")
    return made.path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return make_outside(tmp_path / "outside")


def see(user: LabUser, folder: Path) -> None:
    user.window.open_run(folder)
    user.until(lambda: user.window.probe_controller.result is not None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "age", [None, 0, -(10**6)], ids=["no orders", "new orders", "of the future"]
)
def test_viewing_a_run_does_not_change_it(
    application: QApplication, qtbot: QtBot, close_lab: Callable[[LabWindow], None],
    folder: Path, monkeypatch: pytest.MonkeyPatch, age: int | None,
) -> None:  # fmt: skip
    monkeypatch.setattr(background_controller, "MAX_START_S", 1.0)
    if age is not None:
        (folder / "orders").touch()
        when = time.time() - age
        os.utime(folder / "orders", (when, when))
    before = tree(folder)
    window = LabWindow(FAKE)
    qtbot.addWidget(window, before_close_func=close_lab)
    window.show()
    user = LabUser(qtbot, window)
    see(user, folder)
    assert user.button != "Pause"  # training does not continue by itself
    window.close()
    close_lab(window)
    assert tree(folder) == before


@pytest.mark.parametrize("kind", others_slow(KINDS))
@pytest.mark.parametrize("name", ["orders", "snapshots"])  # a file and a folder
def test_a_run_with_links_is_rejected(
    user: LabUser, folder: Path, outside: Path, name: str, kind: str
) -> None:
    plant(folder / name, kind, outside)
    before = tree(outside), tree(folder)
    user.window.open_run(folder)
    assert user.window.lab.run is None
    refused = user.window.lab.refused
    assert refused
    assert refused.sentence.startswith(f"Cannot use “{name}” in {folder}: it is ")
    assert (tree(outside), tree(folder)) == before


@pytest.mark.parametrize("kind", others_slow(KINDS))
@pytest.mark.parametrize("name", ["lock", "orders", "losses.csv", "snapshots"])
def test_a_run_with_links_is_listed_and_deleted(
    user: LabUser, folder: Path, outside: Path, name: str, kind: str
) -> None:
    home = user.window.lab.runs_folder
    own = shutil.copytree(folder, home / "run")
    plant(own / name, kind, outside)
    before = tree(outside)
    user.window.run_controller.refresh_runs()
    user.window.run_controller.set_overlaid("run", True)
    if name == "losses.csv":
        user.until(lambda: "it is " in user.window.statusBar().currentMessage())
    else:
        user.until(lambda: "run" in user.window.run_controller.overlaid_runs)
    user.press(Qt.Key.Key_2)
    user.press(Qt.Key.Key_Down, NONE)
    user.window.run_controller.delete_run("run")
    user.until(lambda: not own.exists())
    assert tree(outside) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["orders", "background.log"])
def test_background_training_does_not_follow_a_link(
    folder: Path, outside: Path, name: str, kind: str
) -> None:
    plant(folder / name, kind, outside)
    before = tree(outside)
    with pytest.raises(InputError, match=r"Cannot continue training.*: it is "):
        background_controller.continue_in_background(folder, ("/nowhere/python",))
    background_controller.withdraw_orders(folder)
    background_controller.request_stop(folder)
    assert tree(outside) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_request_does_not_follow_a_link(folder: Path, outside: Path, kind: str) -> None:
    plant(folder / "stop", kind, outside)
    before = tree(outside)
    background_controller.request_stop(folder)
    assert tree(outside) == before


def test_background_training_reads_its_orders_and_writes_its_log(
    application: QApplication, qtbot: QtBot, folder: Path
) -> None:
    (folder / "background.log").write_text("of another time, and much longer")
    copy = "import sys; sys.stderr.buffer.write(sys.stdin.buffer.read())"
    background_controller.continue_in_background(folder, (sys.executable, "-S", "-c", copy))
    orders, log = (folder / name for name in ("orders", "background.log"))
    qtbot.waitUntil(lambda: log.read_bytes() == orders.read_bytes(), timeout=30_000)
    assert str(folder).encode() in log.read_bytes()


def type_and_leave(user: LabUser, text: str) -> None:
    user.type_probe(text)
    user.until(lambda: user.window.probe_controller.text == text)
    user.window.lab.close_run()


@pytest.mark.slow
def test_the_probe_of_a_viewed_run_is_kept_in_memory(user: LabUser, folder: Path) -> None:
    see(user, folder)
    before = tree(folder)
    type_and_leave(user, "hgf")
    assert tree(folder) == before
    see(user, folder)
    assert user.window.probe.text() == "hgf"
    assert tree(folder) == before


@pytest.mark.slow
def test_the_probe_of_a_trained_run_is_stored(user: LabUser, folder: Path) -> None:
    see(user, folder)
    type_and_leave(user, "abc")
    see(user, folder)
    user.click("toggle")
    user.until_said("Done")
    type_and_leave(user, "hgf")
    assert (folder / "probe.txt").read_text() == "hgf"
    see(user, folder)
    assert user.window.probe.text() == "hgf"


@pytest.mark.slow
def test_the_probe_of_a_listed_run_is_stored(user: LabUser, folder: Path) -> None:
    home = user.window.lab.runs_folder
    home.mkdir(parents=True, exist_ok=True)
    own = folder.rename(home / "own")
    see(user, own)
    type_and_leave(user, "hgf")
    assert (own / "probe.txt").read_text() == "hgf"
