"""The lab with real training: it shows the values of the model, and no training is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.architecture.project_graph import ROOT
from tests.support.lab_input import LabUser
from visualizer import app
from visualizer.heatmap.cell_lookup import cell_at
from visualizer.lab.runs.store import read_losses
from visualizer.lab.training import background_controller
from visualizer.lab.window import LabWindow
from visualizer.language.run_folder import RunFolder
from visualizer.language.training_settings import CorpusSource, TrainingSettings
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication
    from pytestqt.qtbot import QtBot

    from visualizer.documents.document_file import SavedDocument
    from visualizer.lab.controller import LabStateController

pytestmark = pytest.mark.slow

PATIENCE_MS = 180_000
"""A long timeout, because training has a lower priority than all other programs."""
SMALL = TrainingSettings(CorpusSource(size=4_000), block=8, width=8, batch=4, steps=60, threads=1)


@pytest.fixture
def real(application: QApplication, qtbot: QtBot, close_lab: object) -> LabUser:
    window = LabWindow()
    window.resize(1280, 800)
    window.lab.draft = SMALL
    window.show()
    qtbot.addWidget(window, before_close_func=close_lab)  # type: ignore[arg-type]
    qtbot.waitExposed(window)
    return LabUser(qtbot, window, PATIENCE_MS)


def test_a_layer_and_the_model_are_opened_with_the_weights_of_the_step(real: LabUser) -> None:
    real.click("toggle")
    real.until_said("Done")
    real.until(lambda: real.window.probe_controller.result is not None)
    real.until(lambda: real.window.probe_controller.result.step == 60)  # type: ignore[union-attr]
    assert_layer_is_opened(real)
    assert_model_is_opened(real)


def assert_layer_is_opened(real: LabUser) -> None:
    """Open a layer as a document, and check its weights by computing them again."""
    reading = real.window.probe_controller.result
    assert reading
    assert reading.weights is not None
    opened: list[SavedDocument] = []
    real.window.layerOpened.connect(opened.append)
    panel = real.window.training_views_controller.panel.board.columns[1][1]  # layer 2, head 2
    real.window.training_views_controller.pin_cell(cell_at(panel, 3, 2))
    real.trigger("layer.open")
    real.until(lambda: bool(opened))
    document, view = opened[0].document, opened[0].view
    assert view.pinned == Cell("weights", (1, 3, 2))
    assert document.tokens() == (reading.tokens,)
    run = app.compute(document, None)
    assert run.trace is not None
    computed = run.trace.read("weights")
    np.testing.assert_allclose(
        computed.reshape(reading.weights[1].shape), reading.weights[1], atol=1e-6
    )


def assert_model_is_opened(real: LabUser) -> None:
    """Open the final model, and the model of an earlier selected step."""
    wanted: list[tuple[Path, str]] = []
    real.window.modelRequested.connect(lambda path, text: wanted.append((path, text)))
    run = real.run
    real.trigger("run.open_model")
    real.window.lab.select_snapshot(run.snapshots[1])
    real.trigger("run.open_model")
    text = real.window.lab.view.probe
    earlier = RunFolder(run.folder).snapshot_file(run.snapshots[1]).path
    assert wanted == [(run.folder, text), (earlier, text)]
    assert earlier.is_file()


def step_of(lab: LabStateController) -> int:
    assert lab.run
    return lab.run.step


def test_a_killed_run_resumes_and_continues_in_the_background(real: LabUser) -> None:
    real.type("steps", "1000000")
    real.click("toggle")
    lab = real.window.lab
    real.until(lambda: lab.run is not None and step_of(lab) > 50)
    real.click("toggle")
    real.until(lambda: real.button == "Resume")  # a checkpoint has been written
    saved = step_of(lab)
    real.click("toggle")
    real.until(lambda: step_of(lab) > saved)
    assert lab.training
    os.kill(lab.training.process_id, signal.SIGKILL)
    real.until(lambda: real.button == "Reopen")
    assert lab.run
    step = RunFolder(lab.run.folder).checkpoint_step()
    assert step
    assert step >= saved
    said = f"The checkpoint is intact: reopen the run to resume from step {step:,}."
    assert said in real.notices
    opened: list[int] = []
    lab.opened.connect(lambda: opened.append(step_of(lab)))
    real.click("toggle")
    real.until(lambda: real.button == "Pause")
    assert opened == [step]
    real.until(lambda: step_of(lab) > step)
    assert_goes_on_in_background(real)


def assert_goes_on_in_background(real: LabUser) -> None:
    """Close a run that is being trained and reopen it; no step is missing."""
    folder = real.run.folder
    real.close_run()
    real.answer("leaving", "&Keep training")
    real.until(
        lambda: not background_controller.is_training(folder) or (folder / "orders").exists()
    )
    real.until(lambda: (folder / "orders").exists() and background_controller.is_training(folder))
    left = read_losses(folder).steps[-1]
    real.window.open_run(folder)
    real.until_said("Waiting for")
    real.until(lambda: real.button == "Pause")
    run = real.run
    assert run.step >= left
    assert (np.diff(run.losses.steps) == 1).all()


SCRIPT = """
import sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMessageBox
from visualizer import app
from tests.lab.test_real_training import SMALL
from msgspec.structs import replace

def look():
    labs = [one for one in QApplication.topLevelWidgets() if type(one).__name__ == "LabWindow"]
    if not labs or not labs[0].isVisible():
        return  # it is being made
    window, = labs
    if window.lab.run is None:
        window.lab.draft = replace(SMALL, steps=1_000_000)
        window.lab.toggle_training()
    elif window.lab.run.step:
        timer.stop()
        window.close()
        box = window.findChild(QMessageBox, "leaving")
        next(one for one in box.buttons() if one.text() == "&Stop").click()

timer = QTimer()
make = app.make_application
def made():
    application = make()
    timer.timeout.connect(look)
    timer.start(50)
    return application
app.make_application = made
sys.exit(app.main(["lab"]))
"""


def test_the_program_ends_when_the_checkpoint_is_written() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=180,
        check=False,
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (0, "")
    (folder,) = Path(os.environ["XDG_DATA_HOME"]).glob("*/runs/*")
    assert RunFolder(folder).checkpoint_file.exists()
    assert not background_controller.is_training(folder)


def test_a_run_is_named_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        app.main(["lab", str(tmp_path)])
    assert ended.value.code == 2
    assert f"'{tmp_path}': must be the folder of a training run" in capsys.readouterr().err


BROKEN = """
import sys
import visualizer.lab.window as made
from visualizer import app

def broken(*parts, **more):
    raise OSError("none can be made")

made.LabWindow = broken
sys.exit(app.main(["lab"]))
"""


def test_a_lab_that_cannot_be_created_ends_the_program() -> None:
    run = subprocess.run(
        [sys.executable, "-c", BROKEN], cwd=ROOT, capture_output=True, text=True, timeout=180,
        check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert "none can be made" in run.stderr
