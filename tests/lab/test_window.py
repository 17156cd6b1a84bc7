"""Use of the lab's window with the mouse and the keyboard."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QKeySequence, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QMessageBox, QWidget
from shiboken6 import isValid

from tests.support.command_calls import called
from tests.support.lab_input import NONE, Student
from tests.support.window_input import CONTROL, LEFT, SHIFT, link_in, name_file, words
from visualizer.errors import InputError
from visualizer.generation.generated_tokens_presenter import RELOADING_MESSAGE
from visualizer.heatmap.colour_mapping import MAX_COLOUR_INDEX, colour_table
from visualizer.lab.commands import LAB_COMMANDS, list_shortcuts
from visualizer.lab.runs import store
from visualizer.lab.settings import preview_controller
from visualizer.lab.training import detached_controller, process_controller
from visualizer.lab.training.process_controller import TrainingProcess
from visualizer.lab.training.recorded_losses import LossHistory
from visualizer.lab.training.run_state import RunPhase
from visualizer.lab.window import LabWindow
from visualizer.language.run_folder import IDLE_STOP_CONTENT, RunFolder, RunMetadata
from visualizer.language.training_presets import PRESETS
from visualizer.language.training_settings import ModelKind, TrainingSettings
from visualizer.language.wire_format import Message
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.session.view_options import DEFAULT_MAP, ColourLimits
from visualizer.storage.file_lock import FileLock
from visualizer.widgets.theme import DARK, LIGHT, ColourScheme, palette, theme_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytestqt.qtbot import QtBot


def test_the_default_preset_is_shown_with_its_text(student: Student) -> None:
    window = student.window
    sample = window.settings_pane.sample.toPlainText()
    assert sample == window.lab.sample
    assert sample.splitlines()[0][:20].isalpha()
    assert student.button == "Start"
    assert window.bar.buttons["toggle"].hasFocus()
    assert window.lab.draft == TrainingSettings()


@pytest.mark.slow
def test_one_click_on_start_begins_training(student: Student) -> None:
    student.train(500)
    assert "step 500 of 500" in student.line
    run = student.run
    assert run.name == "repeat-attention-only-1"
    np.testing.assert_array_equal(run.losses.steps, np.arange(500))
    np.testing.assert_allclose(run.losses.training, 3 / (1 + np.arange(500) / 50))
    assert "training 0.273" in student.line


@pytest.mark.slow
def test_training_pauses_steps_resumes_and_stops(student: Student) -> None:
    student.type("steps", "100000")
    student.click("toggle")
    student.until(lambda: student.button == "Pause")
    student.click("toggle")
    student.until_said("Paused")
    assert student.button == "Resume"
    run = student.run
    student.click("step")
    student.until_said(f"step {run.step + 1:,} of")
    student.press(Qt.Key.Key_Return)
    student.until(lambda: student.button == "Pause")
    student.press(Qt.Key.Key_Return, CONTROL | SHIFT)
    student.until_said("Stopped")
    assert run.folder.joinpath("losses.csv").exists()
    assert not detached_controller.is_training(run.folder)
    student.click("toggle")  # another process continues from the last step
    student.until(lambda: student.button == "Pause")
    now = student.run
    assert now.step >= run.step


def test_more_steps_can_follow(student: Student) -> None:
    student.train(30)
    assert not student.window.bar.buttons["toggle"].isEnabled()
    student.window.bar.more_steps_box.selectAll()
    QTest.keyClicks(student.window.bar.more_steps_box, "50")
    student.click("more")
    student.until_said("step 80 of 80")
    student.until_said("Done")
    student.type("steps", "90")
    student.until(lambda: student.button == "Resume")
    student.click("toggle")
    student.until_said("step 90 of 90")


def test_more_steps_are_entered_key_by_key_in_an_open_run(student: Student) -> None:
    begin(student, "100000")
    student.click("toggle")
    student.until_said("Paused")
    box = student.window.settings_pane.rows["steps"].control
    box.setFocus(Qt.FocusReason.TabFocusReason)
    student.press(Qt.Key.Key_A)
    for key in "200000":
        student.keys(key)
        # With only the first digits, the training would end.
        assert student.window.lab.settings.steps == 100_000
    student.press(Qt.Key.Key_Return, NONE)
    student.until_said("of 200,000")
    assert student.button == "Resume"
    assert student.window.bar.buttons["toggle"].isEnabled()


def test_more_steps_of_a_stopped_run_are_sent_once_it_is_open(student: Student) -> None:
    student.train(30)
    student.click("stop")
    student.until_said("Stopped")
    student.window.bar.more_steps_box.selectAll()
    QTest.keyClicks(student.window.bar.more_steps_box, "100000")
    student.click("more")
    student.until(lambda: student.button == "Pause")
    assert "of 100,030" in student.line
    student.click("toggle")
    student.until_said("Paused")
    assert student.button == "Resume"
    assert student.window.bar.buttons["toggle"].isEnabled()


@pytest.mark.slow
def test_a_run_has_at_most_the_maximum_number_of_steps(student: Student) -> None:
    student.train(30)
    student.window.bar.more_steps_box.selectAll()
    QTest.keyClicks(student.window.bar.more_steps_box, "10000000")
    student.click("more")
    student.until_said("of 10,000,000")
    student.click("stop")
    run = student.run
    assert run.settings.steps == 10_000_000


def test_the_settings_of_a_run_are_locked_except_its_steps(student: Student) -> None:
    student.train(30)
    pane = student.window.settings_pane
    free = {name for name, row in pane.rows.items() if row.control.isEnabled()}
    assert free == {"steps"}
    assert "are fixed; only the number of steps" in pane.locked_label.text()
    QTest.mouseClick(pane.new_run_button, LEFT)
    student.schedule_autosave()
    assert student.window.lab.run is None
    assert student.window.lab.draft.steps == 30
    assert pane.rows["block"].control.isEnabled()
    student.click("toggle")
    student.until(lambda: student.window.lab.run is not None)
    run = student.run
    assert run.name == "repeat-attention-only-2"


def test_a_preview_read_during_a_start_is_shown_for_the_next_run(
    student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    def sample_of(settings: TrainingSettings) -> str:
        assert goes_on.wait(10)
        return f"the text in blocks of {settings.block}"

    monkeypatch.setattr(preview_controller, "read_text_sample", sample_of)
    student.type("block", "20")
    begin(student)
    goes_on.set()
    student.until(lambda: not student.window.text_sample_controller.is_reading)
    student.press(Qt.Key.Key_N)
    student.answer("leaving", "&Stop")
    sample = student.window.settings_pane.sample
    student.until(lambda: sample.toPlainText() == "the text in blocks of 20")


def test_problems_are_shown_at_their_settings_and_fixed(student: Student) -> None:
    student.type("heads", "3")
    assert student.problem("heads").startswith("The embedding size 64 is not divisible by 3 heads.")
    assert not student.window.bar.buttons["toggle"].isEnabled()
    rows = student.window.settings_pane.rows
    label = rows["heads"].problem
    both = rows["layers"].geometry().right() - rows["heads"].geometry().left()
    assert label.width() >= both  # the label is not limited to the width of one of the two settings
    # The layout is complete when the label has its full height.
    student.until(lambda: label.height() >= label.heightForWidth(label.width()))
    QTest.mouseClick(label, LEFT, pos=link_in(label))
    student.schedule_autosave()
    assert student.window.lab.draft.heads == 2
    assert student.problem("heads") == ""
    student.type("rate", "0.00025")
    assert student.window.lab.draft.rate == 0.00025
    student.type("rate", "500")
    assert "at most 100" in student.problem("rate")


def test_errors_of_the_training_process_are_shown_at_their_settings(student: Student) -> None:
    student.type("seed", "13")
    student.click("toggle")
    student.until(lambda: bool(student.problem("block")))
    assert student.problem("block") == "The text is too short."
    assert student.window.lab.run is None
    student.type("seed", "14")
    assert student.problem("block") == ""


def test_a_run_can_be_started_after_a_wrong_folder(student: Student, tmp_path: Path) -> None:
    student.window.open_run(tmp_path)
    student.schedule_autosave()
    assert student.notices == f"“{tmp_path}” does not contain a run."
    student.click("toggle")
    student.until(lambda: bool(student.window.lab.run and student.window.lab.run.is_open))
    assert student.notices == ""


def test_the_colour_range_ends_at_each_rows_maximum(student: Student) -> None:
    student.type("steps", "2000")
    student.click("toggle")
    views = student.window.training_views_controller
    student.until(lambda: len(views.panel.board.heatmaps) == 4)
    student.press(Qt.Key.Key_5)
    panel = views.panel.board.heatmaps[0]
    assert panel.colour.limits is ColourLimits.ROW
    assert panel.ends is not None
    np.testing.assert_array_equal(panel.ends, panel.values.max(axis=-1, keepdims=True))
    assert student.window.menus.by_id["heatmaps.toggle_row_limits"].isChecked()
    student.press(Qt.Key.Key_5)
    assert views.panel.board.heatmaps[0].colour.limits is ColourLimits.AUTO
    assert not student.window.menus.by_id["heatmaps.toggle_row_limits"].isChecked()


@pytest.mark.slow
def test_a_preset_and_a_file_are_chosen(student: Student, tmp_path: Path) -> None:
    student.choose("preset", "Generated stories: transformer")
    draft = student.window.lab.draft
    assert (draft.model, draft.layers, draft.block) == (ModelKind.TRANSFORMER, 3, 32)
    says = student.window.settings_pane.preset_label
    assert words(says) == next(
        one.description for one in PRESETS if one.name == "world-transformer"
    )
    assert not student.window.settings_pane.rows["path"].isVisible()
    student.choose("kind", "A text file")
    assert student.problem("path") == "Choose a text file to train on."
    (tmp_path / "poem.txt").write_text("Tyger Tyger, burning bright", encoding="utf-8")
    student.type("path", str(tmp_path / "nothing.txt"))
    student.until(lambda: "No such file" in student.problem("path"))
    student.type("path", str(tmp_path / "poem.txt"))
    student.until(lambda: "Tyger" in student.window.settings_pane.sample.toPlainText())
    assert student.problem("path") == ""
    assert says.isHidden()
    student.choose("preset", "Lecture notes: your text, bigram")
    assert student.window.lab.draft.source.path == str(tmp_path / "poem.txt")  # the file is kept


def test_a_task_chosen_after_word_tokens_is_continued_with_characters(student: Student) -> None:
    student.choose("preset", "Generated stories: transformer")
    student.choose("kind", "Task: repeat segments")
    student.train(40)
    student.until(lambda: student.window.generation_controller.result is not None)
    before = student.window.probe.text()
    student.press(Qt.Key.Key_T)
    after = student.window.probe.text()
    assert after[:-1] == before
    assert student.window.generation_controller.tree.tokens == tuple(after)


@pytest.mark.slow
def test_the_attention_for_the_probe_is_updated_during_training(student: Student) -> None:
    student.type("steps", "2000")
    student.click("toggle")
    views = student.window.training_views_controller
    student.until(lambda: len(views.panel.board.heatmaps) == 4)
    panel = views.panel.board.heatmaps[0]
    assert panel.rows.labels == tuple("abcdabcd")
    student.until_said("Done")
    student.type_probe("abba")
    student.until(lambda: views.panel.board.heatmaps[0].rows.labels == tuple("abba"))
    np.testing.assert_allclose(views.panel.board.heatmaps[0].values[3], 0.25)
    student.type_probe("abbaz")
    student.until(lambda: "“z” is not known." in words(student.window.probe_problem))
    # The last valid result is kept.
    assert views.panel.board.heatmaps[0].rows.labels == tuple("abba")


@pytest.mark.slow
def test_snapshots_are_selected_with_the_slider(student: Student) -> None:
    student.train(100)
    probe_controller = student.window.probe_controller
    student.until(
        lambda: probe_controller.result is not None and probe_controller.result.step == 100
    )
    student.window.snapshot_bar.track.setFocus()
    student.press(Qt.Key.Key_Home, NONE)
    student.until(lambda: probe_controller.result is not None and probe_controller.result.step == 0)
    assert "Step 0 of 100" in student.window.snapshot_bar.description_label.text()
    student.press(Qt.Key.Key_End, NONE)
    assert probe_controller.result
    assert probe_controller.result.step == 100  # the result was cached


def test_a_killed_training_is_reported_with_details_and_can_resume(student: Student) -> None:
    student.type("seed", "9")
    student.click("toggle")
    student.until(lambda: "memory ran out" in student.notices)
    QTest.mouseClick(student.window.notices.copy_button, LEFT)
    assert QApplication.clipboard().text() == "Traceback: out of cheese"
    assert student.run.phase is RunPhase.FAILED
    assert student.window.bar.buttons["toggle"].isEnabled()


@pytest.mark.slow
def test_a_killed_run_is_reopened_and_resumed(student: Student) -> None:
    student.type("steps", "1000000")
    student.click("toggle")
    student.until(lambda: bool(student.window.lab.run and student.run.step))
    training = student.training
    os.kill(training.process_id, signal.SIGKILL)
    student.until(lambda: student.button == "Reopen")
    assert (
        "No checkpoint had been saved yet: reopen the run to start from step 0." in student.notices
    )
    student.click("toggle")
    student.until(lambda: student.button == "Pause")
    assert student.notices == ""


def test_a_training_that_cannot_start_leaves_the_settings_unlocked(
    application: QApplication, qtbot: QtBot
) -> None:
    window = LabWindow((sys.executable, "-c", "raise SystemExit('no torch')"))
    window.show()
    qtbot.addWidget(window)
    student = Student(qtbot, window)
    student.press(Qt.Key.Key_Return)
    student.until(lambda: "nothing has changed" in student.notices)
    assert window.lab.run is None
    assert student.button == "Start"
    QTest.mouseClick(window.notices.copy_button, LEFT)
    assert QApplication.clipboard().text() == "no torch"
    student.type("heads", "4")
    assert student.notices == ""


BREAKING_OFF = """
from visualizer.language.wire_format import Message, open_message_sender
said = {"sentence": "Training stopped because of an internal error.", "details": "Traceback: "
"out of cheese"}
open_message_sender()(Message("failed", said))
raise SystemExit(1)
"""


def test_the_reason_for_a_failed_start_is_shown(application: QApplication, qtbot: QtBot) -> None:
    window = LabWindow((sys.executable, "-c", BREAKING_OFF))
    window.show()
    qtbot.addWidget(window)
    student = Student(qtbot, window)
    student.press(Qt.Key.Key_Return)
    student.until(lambda: window.lab.opening_failure is not None)
    student.schedule_autosave()
    assert student.notices == "Training stopped because of an internal error."
    QTest.mouseClick(window.notices.copy_button, LEFT)
    assert QApplication.clipboard().text() == "Traceback: out of cheese"
    assert window.lab.run is None


# ----------------------------------------------------------------------- closing runs, the list


def begin(student: Student, steps: str = "1000000") -> Path:
    student.type("steps", steps)
    student.click("toggle")
    student.until(lambda: bool(student.window.lab.run and student.run.step))
    return student.run.folder


def choose_first(student: Student) -> None:
    runs = student.window.runs_pane.list
    item = runs.topLevelItem(0)
    assert item
    runs.setCurrentItem(item)


def end_of_all(student: Student) -> None:
    app = QApplication.instance()
    assert app
    student.until(lambda: not [one for one in app.findChildren(TrainingProcess) if not one.is_over])


def test_closing_asks_again_after_it_was_cancelled_elsewhere(student: Student) -> None:
    begin(student)
    # Another window stays open, so all windows do.
    assert not student.window.may_close(lambda: None)
    student.answer("leaving", "&Stop")
    student.activate()
    begin(student)
    student.press(Qt.Key.Key_W)
    student.answer("leaving", "Cancel")
    assert student.window.isVisible()
    assert student.button == "Pause"


def test_the_answer_is_to_the_newest_question(student: Student, tmp_path: Path) -> None:
    folder = begin(student)
    closed: list[bool] = []
    student.window.open_run(tmp_path / "another")
    assert not student.window.may_close(lambda: closed.append(True))  # requested in another window
    student.until(lambda: len(student.window.findChildren(QMessageBox, "leaving")) == 1)
    student.answer("leaving", "&Stop")
    assert closed == [True]
    assert student.window.lab.run is None
    assert student.window.lab.refused is None  # the other run, which does not exist, was not opened
    end_of_all(student)
    assert (folder / "step.json").exists()


def test_closing_stops_with_a_checkpoint(student: Student) -> None:
    folder = begin(student)
    student.press(Qt.Key.Key_W)
    student.answer("leaving", "&Stop")
    assert not student.window.isVisible()
    end_of_all(student)
    assert (folder / "step.json").exists()
    assert not detached_controller.is_training(folder)


def test_with_a_full_disk_training_stops_only_at_the_second_request(student: Student) -> None:
    student.type("seed", "28")
    begin(student)
    student.click("stop")
    student.until_said("Paused")
    assert student.notices == "The training was not ended."
    student.click("stop")
    student.until_said("Stopped")
    student.press(Qt.Key.Key_W)  # nothing can be lost any more
    assert not student.window.isVisible()


def test_more_steps_are_not_lost_by_a_failed_stop(student: Student) -> None:
    student.type("seed", "28")
    folder = begin(student)
    steps = RunFolder(folder).read_metadata().settings.steps
    student.click("stop")
    student.window.lab.change_setting("steps", 200_000)
    student.until_said("Paused")
    student.until(lambda: RunFolder(folder).read_metadata().settings.steps != steps)
    assert RunFolder(folder).read_metadata().settings.steps == 200_000


def test_closing_an_unsaved_run_states_what_is_lost(student: Student) -> None:
    student.type("seed", "28")
    begin(student)
    student.press(Qt.Key.Key_W)
    box = student.window.findChild(QMessageBox, "leaving")
    assert box
    assert "training after step 0 will be lost" in box.text()
    student.answer("leaving", "Cancel")
    student.activate()
    student.click("toggle")
    student.until_said("Paused")
    student.press(Qt.Key.Key_W)
    box = student.window.findChild(QMessageBox, "losing")
    assert box
    assert "training after step 0 will be lost" in box.text()
    student.answer("losing", "Cancel")
    student.activate()
    student.press(Qt.Key.Key_W)
    student.answer("losing", "C&lose anyway")
    assert not student.window.isVisible()
    end_of_all(student)


@pytest.mark.slow
def test_training_continues_in_the_background_and_is_taken_over(student: Student) -> None:
    folder = begin(student)
    student.close_run()
    student.answer("leaving", "&Keep training")
    assert student.window.lab.run is None
    end_of_all(student)
    student.until(lambda: detached_controller.is_training(folder))
    student.activate()
    student.press(Qt.Key.Key_2, Qt.KeyboardModifier.AltModifier)
    runs = student.window.runs_pane.list
    assert runs.hasFocus()
    student.press(Qt.Key.Key_Down, NONE)
    choose_first(student)
    student.press(Qt.Key.Key_O, CONTROL | SHIFT)
    student.until_said("Waiting for the background training to stop")
    student.until(lambda: student.button == "Pause")  # in this case, training continues by itself
    assert student.run.folder == folder


@pytest.mark.slow
def test_a_paused_run_is_still_paused_when_reopened_immediately(student: Student) -> None:
    folder = begin(student)
    student.click("toggle")
    student.until_said("Paused")
    training, run = student.training, student.run
    number = training.process_id
    os.kill(number, signal.SIGSTOP)  # simulates a process that writes its checkpoint slowly
    student.close_run()
    student.window.open_run(folder)
    student.until_said("Waiting for")
    os.kill(number, signal.SIGCONT)
    student.until_said("Paused")
    student.click("step")
    student.until_said(f"step {run.step + 1:,} of")
    student.until_said("Paused")
    assert student.run.step == run.step + 1


def test_a_run_that_another_program_takes_over_stops_here(student: Student) -> None:
    folder = begin(student)
    student.click("toggle")
    student.until_said("Paused")
    detached_controller.request_stop(folder)
    student.until_said("Stopped")
    assert student.notices == ""
    student.click("toggle")
    student.until(lambda: student.button == "Pause")


@pytest.mark.slow
def test_closing_during_a_takeover_asks(student: Student) -> None:
    folder = begin(student)
    leave(student, "&Keep training")
    student.activate()
    wait_for(student, folder)
    lab = student.window.lab
    student.until(lambda: lab.run is not None and lab.run.phase is RunPhase.OPENING)
    student.press(Qt.Key.Key_W)
    student.answer("leaving", "Cancel")
    assert student.window.isVisible()
    student.until(lambda: student.button == "Pause")


@pytest.fixture
def done(student: Student) -> Path:
    """A completed run that is not open."""
    folder = student.train(30)
    student.close_run()
    end_of_all(student)
    return folder


def paused_and_left(student: Student) -> Path:
    """Start a run, pause it, and close it."""
    folder = begin(student)
    student.click("toggle")
    student.until_said("Paused")
    student.close_run()
    end_of_all(student)
    return folder


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a run in the same way as background training."""
    lock = FileLock(folder / "lock")
    try:
        yield
    finally:
        lock.release()


def wait_for(student: Student, folder: Path) -> None:
    student.window.open_run(folder)
    student.until_said("Waiting for")


def leave(student: Student, way: str) -> None:
    student.close_run()
    student.answer("leaving", way)
    assert student.window.lab.run is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks within a process")
def test_a_run_that_was_waited_for_can_stay_in_the_background(student: Student, done: Path) -> None:
    with held(done):
        wait_for(student, done)
        assert (done / "stop").exists()
        leave(student, "&Keep training")
        assert not (done / "stop").exists()
        assert not (done / "background.log").exists()  # no other process is started


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks within a process")
def test_a_run_that_is_already_stopping_is_started_again(student: Student, done: Path) -> None:
    with held(done):
        wait_for(student, done)
        (done / "stop").unlink()  # a process that stops removes the request
        leave(student, "&Keep training")
    assert (done / "background.log").exists()
    student.until(lambda: not (done / "orders").exists())  # the process has read the orders


def test_a_background_start_without_a_lock_is_stopped(student: Student, done: Path) -> None:
    detached_controller.write_orders(done)
    wait_for(student, done)
    leave(student, "&Stop")
    assert not detached_controller.is_training(done)
    assert not (done / "stop").exists()  # nothing is written to a run that is not locked


@pytest.mark.slow
def test_a_run_to_continue_is_stopped_while_its_process_ends(student: Student) -> None:
    folder = begin(student)
    training = student.training
    number = training.process_id
    os.kill(number, signal.SIGSTOP)
    leave(student, "&Keep training")
    wait_for(student, folder)
    leave(student, "&Stop")
    os.kill(number, signal.SIGCONT)
    end_of_all(student)
    assert not detached_controller.is_training(folder)


def test_a_slow_stop_is_reported(student: Student, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_controller, "EXIT_TIMEOUT_MS", 100)
    begin(student)
    training = student.training
    os.kill(training.process_id, signal.SIGSTOP)  # simulates a long step
    student.click("stop")
    student.until(lambda: student.notices.startswith(process_controller.TERMINATED_MESSAGE))
    assert "reopen the run to start from step 0" in student.notices


def test_a_slow_run_still_continues_in_the_background(
    student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_controller, "EXIT_TIMEOUT_MS", 100)
    folder = begin(student)
    training = student.training
    os.kill(training.process_id, signal.SIGSTOP)
    leave(student, "&Keep training")
    end_of_all(student)
    assert (folder / "background.log").exists()
    student.until(lambda: not (folder / "orders").exists())  # the process has read the orders


def test_a_run_that_was_just_started_continues_in_the_background(student: Student) -> None:
    student.click("toggle")
    lab = student.window.lab
    assert lab.run
    assert lab.training
    assert not lab.training.has_opened
    folder = lab.run.folder
    leave(student, "&Keep training")
    end_of_all(student)
    assert student.window.statusBar().currentMessage() == ""
    assert (folder / "background.log").exists()
    student.until(lambda: not (folder / "orders").exists())  # the process has read the orders


def test_a_run_whose_process_ends_during_the_question_continues(student: Student) -> None:
    folder = begin(student)
    student.close_run()
    training = student.training
    os.kill(training.process_id, signal.SIGKILL)
    student.until(lambda: student.window.lab.training is None)
    student.answer("leaving", "&Keep training")
    assert student.window.lab.run is None
    student.until(lambda: (folder / "background.log").exists())
    student.until(lambda: not (folder / "orders").exists())


def test_more_steps_of_an_opening_run_are_not_lost_on_closing(student: Student, done: Path) -> None:
    student.window.open_run(done)
    lab = student.window.lab
    assert lab.run
    assert lab.run.phase is RunPhase.OPENING
    lab.change_setting("steps", 60)
    lab.close_run()
    end_of_all(student)
    assert RunFolder(done).read_metadata().settings.steps == 60


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks within a process")
def test_a_run_paused_by_another_program_stays_paused(student: Student) -> None:
    folder = paused_and_left(student)
    with held(folder):
        wait_for(student, folder)
        RunFolder(folder).stop.append(IDLE_STOP_CONTENT)  # a process that is not training does this
    student.until_said("Paused")
    assert not (folder / "stop").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks within a process")
def test_a_run_trained_on_the_command_line_continues_after_a_takeover(student: Student) -> None:
    folder = paused_and_left(student)
    with held(folder):
        wait_for(student, folder)
        assert (folder / "stop").exists()  # the command line does not remove the file
    student.until(lambda: student.button == "Pause")
    assert not (folder / "stop").exists()


def test_a_background_start_is_stopped_before_it_begins(student: Student) -> None:
    student.click("toggle")
    lab = student.window.lab
    assert lab.run
    folder = lab.run.folder
    leave(student, "&Keep training")
    assert detached_controller.is_training(folder)
    detached_controller.withdraw_order(folder)
    end_of_all(student)
    assert not detached_controller.is_training(folder)
    assert not (folder / "background.log").exists()


def test_a_run_that_cannot_continue_in_the_background_stays_open(student: Student) -> None:
    folder = begin(student)
    (folder / "orders").mkdir()  # a folder in place of the file
    student.press(Qt.Key.Key_W)
    student.answer("leaving", "&Keep training")
    said = student.window.statusBar().currentMessage()
    assert "in the background: " in said
    assert student.window.isVisible()
    assert student.button == "Pause"
    (folder / "orders").rmdir()


@pytest.mark.slow
def test_a_background_start_counts_as_training_before_it_locks_the_run(student: Student) -> None:
    folder = begin(student)
    # This process never locks the run.
    student.window.lab.command = (sys.executable, "-S", "-c", "pass")
    student.close_run()
    student.answer("leaving", "&Keep training")
    end_of_all(student)
    assert detached_controller.is_training(folder)
    choose_first(student)
    item = student.window.runs_pane.list.topLevelItem(0)
    assert item
    assert (item.text(0), item.text(1)) == (folder.name, "training")
    student.window.run_controller.rename_to(folder.name, "other")
    assert "is training in the background" in student.window.statusBar().currentMessage()
    detached_controller.withdraw_order(folder)
    assert not detached_controller.is_training(folder)
    # The runs are checked again after an interval.
    student.until(lambda: not student.window.run_controller.training_runs)


def test_a_wrong_folder_leaves_the_current_run_open(student: Student, tmp_path: Path) -> None:
    folder = begin(student)
    student.window.open_run(tmp_path)
    assert student.window.statusBar().currentMessage() == f"“{tmp_path}” does not contain a run."
    assert student.window.findChild(QMessageBox, "leaving") is None
    assert student.run.folder == folder
    assert student.button == "Pause"


def test_a_failed_background_start_is_reported(student: Student) -> None:
    folder = begin(student)
    student.window.lab.command = ("/nowhere/python",)
    student.close_run()
    student.answer("leaving", "&Keep training")
    student.until(lambda: "Cannot continue training" in student.window.statusBar().currentMessage())
    message = student.window.statusBar().currentMessage()
    assert "It can be resumed from its last checkpoint" in message
    assert not detached_controller.is_training(folder)


@pytest.mark.slow
def test_training_can_be_stopped_immediately_after_resuming(student: Student) -> None:
    """The process takes several seconds to start; a stop during this time must have an effect."""
    begin(student)
    student.click("stop")
    student.until_said("Stopped")
    student.press(Qt.Key.Key_Return)
    run = student.run
    assert run.phase is RunPhase.OPENING
    step = run.step
    student.press(Qt.Key.Key_Return, CONTROL | SHIFT)
    assert student.run.phase is RunPhase.ENDING
    student.until_said("Stopped")
    assert student.run.step == step
    assert student.notices == ""
    assert student.button == "Resume"
    end_of_all(student)
    student.press(Qt.Key.Key_Return)
    student.until(lambda: student.button == "Pause")


@pytest.mark.slow
def test_a_new_run_can_be_stopped_immediately(student: Student) -> None:
    student.press(Qt.Key.Key_Return)
    student.press(Qt.Key.Key_Return, CONTROL | SHIFT)
    student.until_said("Stopped")
    assert student.run.step == 0
    assert student.notices == ""
    end_of_all(student)
    student.schedule_autosave()
    assert student.line.startswith("Stopped")  # a suggested probe does not start the process again
    generation = student.window.generation_controller
    count = len(generation.tree.tokens)
    student.press(Qt.Key.Key_T)
    student.until(lambda: len(generation.tree.tokens) == count + 1)


@pytest.mark.slow
def test_generation_continues_after_a_stop_and_shows_that_it_waits(student: Student) -> None:
    begin(student)
    window = student.window
    student.until(lambda: window.generation_controller.result is not None)
    student.click("stop")
    count = len(window.generation_controller.tree.tokens)
    student.press(Qt.Key.Key_R)
    student.until(lambda: words(window.generation_pane.status_label) == RELOADING_MESSAGE)
    student.until(lambda: len(window.generation_controller.tree.tokens) > count + 3)
    assert words(window.generation_pane.status_label).endswith("added")
    student.press(Qt.Key.Key_R)
    assert not window.generation_controller.is_running


def test_escape_unpins_the_cell_with_any_focus(student: Student) -> None:
    student.train(100)
    window, views = student.window, student.window.training_views_controller
    student.until(lambda: views.has_layers)
    tried = 0
    for widget in window.findChildren(QWidget):
        is_reached = widget.focusPolicy() != Qt.FocusPolicy.NoFocus and not widget.focusProxy()
        if not (is_reached and widget.isVisible() and widget.isEnabled()):
            continue
        window.attention.board.setFocus()
        student.press(Qt.Key.Key_Down, NONE)
        assert views.pointer.pinned is not None
        widget.setFocus()
        student.press(Qt.Key.Key_Escape, NONE)
        if widget is window.plot_pane.view and views.pointer.pinned is not None:
            student.press(Qt.Key.Key_Escape, NONE)  # Esc first selects the current model
        assert views.pointer.pinned is None, widget
        tried += 1
    assert tried > 20


@pytest.mark.slow
def test_requests_during_the_end_are_handled_afterwards(student: Student, tmp_path: Path) -> None:
    begin(student)
    student.click("stop")
    run = student.run
    assert run.phase is RunPhase.ENDING
    student.window.run_export_controller.save_weights_to(str(tmp_path / "own.safetensors"))
    student.until((tmp_path / "own.safetensors").exists)
    student.until(lambda: "Weights saved to" in student.window.statusBar().currentMessage())


def test_a_run_with_a_rejected_step_during_the_end_stays_open(student: Student) -> None:
    folder = begin(student)
    training = student.training
    student.click("stop")
    sentence = "The loss is no number any more."
    said = {"id": None, "field": "rate", "sentence": sentence, "remedy": None}
    # The response to the last step arrives before the end of the process is known.
    training.messageReceived.emit(Message("refused", said))
    student.until_said("Stopped")
    assert student.run.folder == folder
    assert student.notices == sentence


def test_requests_to_a_failing_run_are_rejected(student: Student, tmp_path: Path) -> None:
    begin(student)
    training = student.training
    os.kill(training.process_id, signal.SIGSTOP)
    student.click("stop")
    student.window.run_export_controller.save_weights_to(str(tmp_path / "own.safetensors"))
    os.kill(training.process_id, signal.SIGKILL)
    student.until(lambda: "terminated" in student.window.statusBar().currentMessage())
    assert not (tmp_path / "own.safetensors").exists()


@pytest.mark.slow
def test_runs_are_renamed_overlaid_and_deleted(student: Student) -> None:
    student.train(40)
    student.close_run()
    end_of_all(student)
    student.press(Qt.Key.Key_2, Qt.KeyboardModifier.AltModifier)
    runs = student.window.runs_pane.list
    choose_first(student)
    date = runs.visualRect(runs.model().index(0, 1))
    QTest.mouseClick(runs.viewport(), LEFT, NONE, date.center())
    student.press(Qt.Key.Key_F2, NONE)
    student.press(Qt.Key.Key_F2, NONE)  # the name is already being edited
    student.keys("first try")
    student.press(Qt.Key.Key_Return, NONE)
    home = student.window.lab.home
    student.until(lambda: (home / "first try" / "run.json").exists())
    item = runs.topLevelItem(0)
    assert item
    assert item.text(0) == "first try"
    choose_first(student)
    student.press(Qt.Key.Key_Space, NONE)
    student.until(lambda: "first try" in student.window.run_controller.overlaid_runs)
    assert student.window.run_controller.overlaid_runs["first try"].steps[-1] == 39
    choose_first(student)
    student.press(Qt.Key.Key_Delete)
    student.answer("delete", "&Delete")
    student.until(lambda: not (home / "first try").exists())
    assert runs.topLevelItemCount() == 0
    assert student.window.run_controller.overlaid_runs == {}


@pytest.mark.slow
def test_overlaid_losses_are_read_on_another_thread(
    student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    student.train(40)
    home, run_controller = student.window.lab.home, student.window.run_controller
    student.close_run()
    end_of_all(student)
    shutil.copytree(home / "repeat-attention-only-1", home / "copy")
    run_controller.refresh_runs()
    threads: list[int] = []
    read = store.read_losses

    def reading(folder: Path, rest: Callable[[], None]) -> LossHistory:
        threads.append(threading.get_ident())
        return read(folder, rest)

    monkeypatch.setattr(store, "read_losses", reading)
    names = {"copy", "repeat-attention-only-1"}
    for name in names:
        run_controller.set_overlaid(name, True)
    assert run_controller.overlaid_names == names
    assert run_controller.overlaid_runs == {}
    student.until(lambda: run_controller.overlaid_runs.keys() == names)
    assert threading.get_ident() not in threads


def test_outdated_losses_are_not_shown(student: Student, monkeypatch: pytest.MonkeyPatch) -> None:
    student.train(40)
    name, run_controller = "repeat-attention-only-1", student.window.run_controller
    begun, goes_on = threading.Event(), threading.Event()

    def reading(folder: Path, rest: Callable[[], None]) -> LossHistory:
        begun.set()
        assert goes_on.wait(10)
        return LossHistory.of([1], [2.0], [0.1])

    monkeypatch.setattr(store, "read_losses", reading)
    arrived: list[object] = []
    for worker in run_controller.findChildren(NewestRequestWorker):
        worker.answered.connect(arrived.append)
    run_controller.set_overlaid(name, True)
    assert begun.wait(10)
    run_controller.set_overlaid(name, False)
    goes_on.set()
    student.until(lambda: bool(arrived))
    QApplication.processEvents()
    assert run_controller.overlaid_runs == {}
    assert run_controller.overlaid_names == set()


def test_closing_does_not_wait_for_reading(
    student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    student.train(40)
    run_controller, begun = student.window.run_controller, threading.Event()

    def reading(folder: Path, rest: Callable[[], None]) -> LossHistory:
        begun.set()
        while True:
            rest()

    monkeypatch.setattr(store, "read_losses", reading)
    run_controller.set_overlaid("repeat-attention-only-1", True)
    assert begun.wait(10)
    workers = run_controller.findChildren(NewestRequestWorker)
    assert workers
    student.window.close()
    student.until(lambda: not any(map(isValid, workers)))  # the threads have ended


def test_the_chosen_theme_applies_to_the_program(student: Student) -> None:
    for scheme in ("dark", "light"):
        # Another window has set this palette.
        QApplication.setPalette(palette(DARK if scheme == "light" else LIGHT))
        student.window.set_scheme(scheme)
        paper = QApplication.palette().color(QPalette.ColorRole.Window).name()
        theme = theme_of(ColourScheme(scheme))
        assert paper == theme.paper.lower()
        bar = student.window.statusBar().grab().toImage()
        assert bar.pixelColor(2, bar.height() // 2).name() == theme.side.lower()


def test_the_open_run_is_not_deleted(student: Student) -> None:
    folder = student.train(40)
    student.press(Qt.Key.Key_2, Qt.KeyboardModifier.AltModifier)
    choose_first(student)
    student.press(Qt.Key.Key_Delete)
    student.answer("delete", "&Delete")
    student.until(lambda: "is open" in student.window.statusBar().currentMessage())
    assert folder.exists()


def delete_first(student: Student) -> None:
    choose_first(student)
    student.press(Qt.Key.Key_Delete)
    student.answer("delete", "&Delete")
    student.activate()


@pytest.fixture
def held_deleting(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Deleting runs blocks until this event is set."""
    goes_on, delete = threading.Event(), store.delete_run

    def deleting(folder: Path) -> None:
        assert goes_on.wait(10)
        delete(folder)

    monkeypatch.setattr(store, "delete_run", deleting)
    return goes_on


def stored(student: Student, *names: str) -> list[Path]:
    """Store completed runs, and show them in the list."""
    folders = [student.window.lab.home / name for name in names]
    for folder in folders:
        RunFolder(folder).create_run(
            RunMetadata(TrainingSettings(), ("a", "b"), 1.0, 0.5, "abab", "print")
        )
    student.window.run_controller.refresh_runs()
    student.schedule_autosave()
    return folders


def test_the_window_does_not_wait_until_runs_are_deleted(
    student: Student, held_deleting: threading.Event
) -> None:
    folders = stored(student, "one", "two", "three")
    runs = student.window.runs_pane.list
    for left in (2, 1, 0):
        delete_first(student)
        assert runs.topLevelItemCount() == left
    assert all(folder.exists() for folder in folders)
    held_deleting.set()
    student.until(lambda: not any(folder.exists() for folder in folders))


def test_a_run_that_cannot_be_deleted_is_reported_and_listed_again(
    student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(student, "one")

    def deleting(folder: Path) -> None:
        raise InputError("folder", f"“{folder.name}” could not be deleted: it is in use.")

    monkeypatch.setattr(store, "delete_run", deleting)
    delete_first(student)
    student.until(lambda: "it is in use" in student.window.statusBar().currentMessage())
    student.schedule_autosave()
    assert student.window.runs_pane.list.topLevelItemCount() == 1


def test_runs_are_deleted_after_the_window_is_closed(
    student: Student, held_deleting: threading.Event
) -> None:
    folders = stored(student, "one", "two")
    for _ in folders:
        delete_first(student)
    workers = student.window.run_controller.findChildren(NewestRequestWorker)
    assert workers
    student.window.close()
    held_deleting.set()
    student.until(lambda: not any(map(isValid, workers)))  # the threads have ended
    assert not any(folder.exists() for folder in folders)


@pytest.mark.slow
def test_a_run_is_reopened_unchanged(student: Student) -> None:
    folder = student.train(40)
    student.close_run()
    end_of_all(student)
    student.window.open_run(folder)
    student.until_said("Done")
    run = student.run
    assert run.step == 40
    assert len(run.losses) == 40


def open_first(student: Student) -> None:
    student.press(Qt.Key.Key_2, Qt.KeyboardModifier.AltModifier)
    choose_first(student)
    student.press(Qt.Key.Key_Return, NONE)


def test_a_failed_run_is_reopened_from_the_list(student: Student) -> None:
    student.type("seed", "9")
    student.click("toggle")
    student.until(lambda: "reopen the run" in student.notices)
    open_first(student)
    student.until_said("Paused")
    assert student.notices == ""


def test_a_run_changed_elsewhere_is_reopened_from_the_list(student: Student) -> None:
    student.train(40)
    lab = student.window.lab
    process = lab.training
    open_first(student)
    assert lab.training is process  # the process can continue
    lab.show_error(InputError("held", "The run has changed since it was opened. Reopen it."))
    open_first(student)
    student.until(lambda: lab.training is not process)
    student.until_said("Done")
    assert student.notices == ""


# ------------------------------------------------------------------------------------ commands


def test_every_command_has_a_shortcut_and_works(student: Student) -> None:
    keys = [QKeySequence(key).toString() for one in LAB_COMMANDS for key in one.shortcuts]
    assert len(keys) == len(set(keys))
    for command in LAB_COMMANDS:
        assert command.shortcuts
        if command.id not in {"documentation.open", "shortcuts.show"}:  # these open other windows
            controllers = student.window.menus.by_id[command.id].controllers
            assert callable(called(command, controllers))
    listed = [row for group in list_shortcuts() for row in group.rows]
    assert len(listed) > len(LAB_COMMANDS)


def test_themes_are_selected_with_keys(student: Student) -> None:
    alt = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
    student.press(Qt.Key.Key_D, alt)
    assert student.window.theme.name == "dark"
    student.press(Qt.Key.Key_L, alt)
    assert student.window.theme.name == "light"


def share_of_largest(path: Path) -> float:
    """Return the share of an animation's last frame with the colour of the largest weights."""
    with Image.open(path) as image:
        image.seek(getattr(image, "n_frames") - 1)  # noqa: B009 - of moving pictures only
        pixels = np.array(image.convert("RGB"), int)
    highest = QColor(int(colour_table(DEFAULT_MAP, LIGHT)[MAX_COLOUR_INDEX]))
    channels = np.array([highest.red(), highest.green(), highest.blue()])
    apart = np.abs(pixels - channels).max(axis=-1)
    return float((apart < 24).mean())


@pytest.mark.slow
def test_the_weights_and_an_animation_are_saved(student: Student, tmp_path: Path) -> None:
    student.train(40)
    student.until(lambda: student.window.probe_controller.result is not None)
    files = (
        (Qt.Key.Key_S, "own.safetensors"),
        (Qt.Key.Key_E, "own.gif"),
        (Qt.Key.Key_E, "row.gif"),
    )
    for key, name in files:
        if name == "row.gif":
            student.press(Qt.Key.Key_5)  # the colour range per row also applies to animations
        student.press(key, CONTROL | SHIFT)
        dialog = student.window.findChild(QFileDialog)
        assert dialog
        name_file(dialog, tmp_path / name)
        student.until(lambda: student.window.findChild(QFileDialog) is None)
        student.until((tmp_path / name).exists)
        student.activate()
        student.until(lambda: not student.window.run_export_controller.film_controller.is_working)
    assert (tmp_path / "own.safetensors").read_bytes() == b"weights"
    assert (tmp_path / "own.gif").read_bytes()[:3] == b"GIF"
    assert share_of_largest(tmp_path / "row.gif") > 3 * share_of_largest(tmp_path / "own.gif") > 0
