"""Screenshots of the language lab, empty and with a small run that is trained for them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTreeWidget

from tests.behaviour_snapshots.driver import (
    Driver,
    bury,
    choose,
    forget_settings,
    key,
    linger,
    number,
    point_at,
    start,
    write,
)
from visualizer.lab.training.process_controller import TrainingProcess
from visualizer.lab.training.run_state import OPEN_PHASES
from visualizer.lab.window import LabWindow
from visualizer.session.cell_address import Cell
from visualizer.widgets.app_settings import user_data_folder

if TYPE_CHECKING:
    from tests.behaviour_snapshots.driver import Step

    Scenes = dict[str, tuple[Step, ...]]
    """Scenes that are drawn in order in one window; each continues the previous scene."""

SMALL = ("--block=8", "--batch=4", "--size=4000", "--threads=1")
NARROW = ("--width=8", "--heads=2")
RUNS = {"small": ("--steps=120", *NARROW), "other": ("--steps=60", "--seed=5", *NARROW),
        "bigram": ("--steps=60", "--model=bigram")}  # fmt: skip
TRAINED_AT = 1_600_000_000
"""Modification time of the runs, in seconds since 1970."""
PROBE = "Probe text"


class Lab(Driver):
    """The lab's window, controlled by a driver."""

    def __init__(self, runs: Path, size: tuple[int, int]) -> None:
        forget_settings()
        home = _home()
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(runs, home)
        self.lab = LabWindow()
        super().__init__(self.lab)
        self.lab.resize(*size)
        self.lab.show()
        self.settle()

    def is_idle(self) -> bool:
        window, lab, probe_controller = self.lab, self.lab.lab, self.lab.probe_controller
        if window.show_timer.isActive() or not super().is_idle():
            return False
        if lab.run is None:
            return True
        is_read = probe_controller.result is not None and probe_controller.text == lab.view.probe
        is_there = is_read and not probe_controller.is_waiting
        return lab.run.phase in OPEN_PHASES and (
            is_there or bool(probe_controller.refusal_reason) or not lab.view.probe
        )

    def open(self, name: str) -> None:
        self.lab.open_run(_home() / name)
        self.settle()

    def tick(self, name: str) -> None:
        """Overlay the losses of a run on the plot."""
        tree = self.find(QTreeWidget, "Runs")
        (item,) = tree.findItems(name, Qt.MatchFlag.MatchExactly)
        tree.setCurrentItem(item)
        item.setCheckState(0, Qt.CheckState.Checked)
        self.settle()

    def place(self, layer: int, *place: int) -> QPoint:
        """Return the position of a cell of a head."""
        area = self.lab.attention.board.area_of_cell(Cell(f"layer {layer}", place))
        if area is None:
            raise LookupError(f"no panel shows {place} of layer {layer}")
        return area.center()

    def hover(self, layer: int, *place: int) -> None:
        """Move the pointer over a cell of a head."""
        board = self.lab.attention.board
        point_at(board.viewport(), self.place(layer, *place))
        self.settle()

    def pin(self, layer: int, *place: int) -> None:
        """Click a cell of a head."""
        board = self.lab.attention.board
        where = self.place(layer, *place)
        QTest.mouseClick(board.viewport(), Qt.MouseButton.LeftButton, pos=where)
        self.settle()

    def close(self) -> None:
        """Close the window and wait until its training process has ended."""
        for dialog in self._tops()[:0:-1]:
            dialog.close()
        self.lab.lab.close_run()
        application = QApplication.instance()
        while application and application.findChildren(TrainingProcess):
            linger(20)
        if not self.lab.close():
            raise RuntimeError("the lab refused to close")
        bury(self.lab)


def _home() -> Path:
    """Return the folder of the lab's runs."""
    return user_data_folder() / "runs"


def open_run(name: str) -> Step:
    return lambda on: on.open(name)


FRESH: Scenes = {
    "fresh": (),
    "fresh dark": ("Theme: dark",),
    "brackets": ("Theme: light", choose("Start from", "Brackets")),
    "small world": (choose("Text", "A small world"),),
    "words": (choose("Tokens", "Words"),),
    "transformer": (choose("Text", "Task: add"), choose("Model", "Transformer")),
    "width does not divide": (number("Heads", 7),),
    "block too large": (number("Heads", 1), number("Block size", 4_000)),
    "no file": (number("Block size", 8), choose("Text", "A text file")),
    "runs": ("Go to runs",),
    "without settings": ("Show settings and runs",),
    "without losses": ("Show loss plot",),
}
OPENED: Scenes = {
    "run": (open_run("small"),),
    "run dark": ("Theme: dark",),
    "run settings": ("Theme: light", "Go to settings"),
    "losses on a log axis": ("Logarithmic loss axis",),
    "steps on a log axis": ("Logarithmic step axis",),
    "rougher losses": ("Logarithmic loss axis", "Logarithmic step axis", "Less smoothing"),
    "other run laid over": ("Go to runs", lambda on: on.tick("other")),
    "cell hovered": (lambda on: on.hover(1, 0, 4, 2),),
    "cell pinned": (lambda on: on.pin(2, 1, 5, 3),),
    "cell walked": (key("Attention of all layers and heads", Qt.Key.Key_Up),),
    "colours of rows": ("Colour range per row",),
    "first moment": (key("Training timeline", Qt.Key.Key_Home),),
    "moment later": (key("Training timeline", Qt.Key.Key_PageDown),),
    "now": (key("Training timeline", Qt.Key.Key_End),),
    "text typed": (write(PROBE, "abcabca"),),
    "text refused": (write(PROBE, "ab7"),),
    "text too long": (write(PROBE, "abcdefghijkl" * 3),),
    "text drawn": (write(PROBE, "abc"), *["Sample a token"] * 4),
    "text stepped back": ("Step back", "Step back"),
    "text of another branch": ("Sample a token", "Step back", "Next alternative"),
    "run without settings": ("Show settings and runs",),
    "run without losses": ("Show loss plot",),
    "shortcuts": ("Keyboard shortcuts",),
}
BIGRAM: Scenes = {"model without attention": (open_run("bigram"),)}
LARGE: Scenes = {"run large": (open_run("small"),)}
SESSIONS = ((FRESH, (1280, 800)), (OPENED, (1280, 800)), (BIGRAM, (1280, 800)),
            (LARGE, (1920, 1080)))  # fmt: skip


def main(folder: Path) -> int:
    """Draw all scenes and print which failed; return 1 if any failed."""
    start()
    runs = Path.cwd() / "runs"
    for name, options in RUNS.items():
        train(runs / name, options)
    failed = [scenes for scenes, size in SESSIONS if not _draws(scenes, size, runs, folder)]
    return int(bool(failed))


def train(folder: Path, options: tuple[str, ...]) -> None:
    """Train a small model, and change its files as if each step had taken a second."""
    command = [sys.executable, "-m", "visualizer", "train", "repeat", "--out", str(folder)]
    subprocess.run([*command, *SMALL, *options, "--quiet"], check=True, capture_output=True)
    losses, checkpoint = folder / "losses.csv", folder / "checkpoint.safetensors"
    losses.write_text(re.sub(r"^(\d+)(,.*,)[\d.]+$", r"\1\2\1", losses.read_text(), flags=re.M))
    checkpoint.write_bytes(re.sub(rb'(seconds\\": )([\d.]+)', _a_minute, checkpoint.read_bytes()))
    for file in folder.glob("*.*"):
        os.utime(file, (TRAINED_AT, TRAINED_AT))


def _a_minute(found: re.Match[bytes]) -> bytes:
    """Return the time as a minute with the same number of digits, to keep the header's length."""
    return found[1] + b"60.".ljust(len(found[2]), b"0")


def _draws(scenes: Scenes, size: tuple[int, int], runs: Path, folder: Path) -> bool:
    on, name = Lab(runs, size), ""
    try:
        if scenes is FRESH:
            (folder / "actions.txt").write_text("\n".join(on.listed_actions()) + "\n")
        for name, steps in scenes.items():
            on.act(steps)
            on.take(folder / name)
    except Exception as error:  # noqa: BLE001 - it is named, and the other sessions are drawn
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return False
    finally:
        on.close()
    return True


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
