"""Draws the lab and creates the README's animation; started by ``python -m tests.pictures``.

The module trains the model that is shown.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEventLoop, QTimer

from visualizer.app import make_application
from visualizer.lab.attention_view.probe_result import ProbeResult
from visualizer.lab.training.run_state import RunPhase
from visualizer.lab.training_film.writer import (
    TrainingFilmSettings,
    create_training_film,
    write_training_film,
)
from visualizer.lab.window import LabWindow
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from collections.abc import Collection

    from visualizer.language.wire_format import Message

FORMED = 0.9
"""Mean weight on the target above which a head counts as formed."""
FIRST_STEP = 60
"""First step of the animation; before this step, all heads have the same weights."""
FILM = TrainingFilmSettings(
    ms=200.0, width=720, title="A language model learns to repeat what came before"
)


def main(folder: Path, names: Collection[str]) -> None:
    """Train the lab's default model until a head attends to the target, and draw its formation."""
    application = make_application()
    application.setApplicationName("Attention Visualizer pictures")
    with tempfile.TemporaryDirectory() as home:
        window = LabWindow()
        window.lab.runs_folder = Path(home)
        window.set_colour_scheme("light")
        window.resize(1280, 800)
        window.show()
        window.activateWindow()
        window.lab.toggle_training()
        while not _has_formed(window):
            _pause(200)
        window.lab.toggle_training()
        while window.lab.run and window.lab.run.phase is RunPhase.RUNNING:
            _pause(200)
        _pin_best(window)
        window.attention.setFocus()
        _pause(1000)  # the current attention to the text is being computed
        if "lab.png" in names:
            window.grab().save(str(folder / "lab.png"))
        if "head-forming.webp" in names:
            _film(window, folder / "head-forming.webp")
        window.lab.close_run()
        window.close()
        _pause(2000)  # the training process writes a checkpoint


def _film(window: LabWindow, path: Path) -> None:
    """Write an animation of the formation of the heads from the saved training steps."""
    run = window.lab.run
    assert run
    readings: list[ProbeResult] = []

    def add(message: Message) -> None:
        readings.append(ProbeResult.of(message))

    steps = [step for step in run.snapshots if step >= FIRST_STEP]
    for asked, step in enumerate(steps, 1):
        window.lab.send_request("read", add, text=window.lab.view.probe, step=step)
        while len(readings) < asked:
            _pause(20)
    losses = {step: run.losses_at(step) for step in steps}
    write_training_film(
        path, create_training_film(readings, run.settings.model, run.step, losses, FILM)
    )


def _has_formed(window: LabWindow) -> bool:
    reading, run = window.probe_controller.result, window.lab.run
    assert run is None or run.phase not in {RunPhase.FAILED, RunPhase.DONE}, "no head has formed"
    if reading is None or reading.partner_weights is None or reading.best_head is None:
        return False
    return float(reading.partner_weights[reading.best_head]) > FORMED


def _pin_best(window: LabWindow) -> None:
    """Pin the largest weight of the best head for a query in the middle."""
    reading = window.probe_controller.result
    assert reading
    assert reading.best_head
    assert reading.weights is not None
    layer, head = reading.best_head
    query = 2 * len(reading.tokens) // 3
    key = int(reading.weights[layer, head, query].argmax())
    window.training_views_controller.pin_cell(Cell(f"layer {layer + 1}", (head, query, key)))


def _pause(length_ms: int) -> None:
    loop = QEventLoop()
    QTimer.singleShot(length_ms, loop.quit)
    loop.exec()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
