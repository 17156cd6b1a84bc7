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
from PySide6.QtGui import QColor, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QMessageBox, QWidget
from shiboken6 import isValid

from tests.support.command_calls import called
from tests.support.context_menus import close_menu, entry_ids, open_context_menu
from tests.support.lab_input import NONE, LabUser
from tests.support.window_input import LEFT, link_in, name_file, words
from visualizer.errors import InputError
from visualizer.generation.generated_tokens_presenter import RELOADING_MESSAGE
from visualizer.heatmap.colour_mapping import MAX_COLOUR_INDEX, colour_table
from visualizer.lab.commands import LAB_COMMANDS, list_shortcuts
from visualizer.lab.runs import store
from visualizer.lab.settings import text_preview_controller
from visualizer.lab.training import background_controller, process_controller
from visualizer.lab.training.loss_history import LossHistory
from visualizer.lab.training.process_controller import TrainingProcess
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


def test_the_default_preset_is_shown_with_its_text(user: LabUser) -> None:
    window = user.window
    sample = window.settings_pane.sample.toPlainText()
    assert sample == window.lab.sample
    assert sample.splitlines()[0][:20].isalpha()
    assert user.button == "Start"
    assert window.training_bar.buttons["toggle"].hasFocus()
    assert window.lab.draft == TrainingSettings()


@pytest.mark.slow
def test_one_click_on_start_begins_training(user: LabUser) -> None:
    user.train(500)
    assert "step 500 of 500" in user.line
    run = user.run
    assert run.name == "repeat-attention-only-1"
    np.testing.assert_array_equal(run.losses.steps, np.arange(500))
    np.testing.assert_allclose(run.losses.training, 3 / (1 + np.arange(500) / 50))
    assert "training 0.273" in user.line


@pytest.mark.slow
def test_training_pauses_steps_resumes_and_stops(user: LabUser) -> None:
    user.type("steps", "100000")
    user.click("toggle")
    user.until(lambda: user.button == "Pause")
    user.click("toggle")
    user.until_said("Paused")
    assert user.button == "Resume"
    run = user.run
    user.click("step")
    user.until_said(f"step {run.step + 1:,} of")
    user.press(Qt.Key.Key_Return)
    user.until(lambda: user.button == "Pause")
    user.trigger("training.stop")
    user.until_said("Stopped")
    assert run.folder.joinpath("losses.csv").exists()
    assert not background_controller.is_training(run.folder)
    user.click("toggle")  # another process continues from the last step
    user.until(lambda: user.button == "Pause")
    now = user.run
    assert now.step >= run.step


def test_more_steps_can_follow(user: LabUser) -> None:
    user.train(30)
    assert not user.window.training_bar.buttons["toggle"].isEnabled()
    user.window.training_bar.more_steps_box.selectAll()
    QTest.keyClicks(user.window.training_bar.more_steps_box, "50")
    user.click("more")
    user.until_said("step 80 of 80")
    user.until_said("Done")
    user.type("steps", "90")
    user.until(lambda: user.button == "Resume")
    user.click("toggle")
    user.until_said("step 90 of 90")


def test_more_steps_are_entered_key_by_key_in_an_open_run(user: LabUser) -> None:
    begin(user, "100000")
    user.click("toggle")
    user.until_said("Paused")
    box = user.window.settings_pane.rows["steps"].control
    box.setFocus(Qt.FocusReason.TabFocusReason)
    user.press(Qt.Key.Key_A)
    for key in "200000":
        user.keys(key)
        # With only the first digits, the training would end.
        assert user.window.lab.settings.steps == 100_000
    user.press(Qt.Key.Key_Return, NONE)
    user.until_said("of 200,000")
    assert user.button == "Resume"
    assert user.window.training_bar.buttons["toggle"].isEnabled()


def test_more_steps_of_a_stopped_run_are_sent_once_it_is_open(user: LabUser) -> None:
    user.train(30)
    user.click("stop")
    user.until_said("Stopped")
    user.window.training_bar.more_steps_box.selectAll()
    QTest.keyClicks(user.window.training_bar.more_steps_box, "100000")
    user.click("more")
    user.until(lambda: user.button == "Pause")
    assert "of 100,030" in user.line
    user.click("toggle")
    user.until_said("Paused")
    assert user.button == "Resume"
    assert user.window.training_bar.buttons["toggle"].isEnabled()


@pytest.mark.slow
def test_a_run_has_at_most_the_maximum_number_of_steps(user: LabUser) -> None:
    user.train(30)
    user.window.training_bar.more_steps_box.selectAll()
    QTest.keyClicks(user.window.training_bar.more_steps_box, "10000000")
    user.click("more")
    user.until_said("of 10,000,000")
    user.click("stop")
    run = user.run
    assert run.settings.steps == 10_000_000


def test_the_settings_of_a_run_are_locked_except_its_steps(user: LabUser) -> None:
    user.train(30)
    pane = user.window.settings_pane
    free = {name for name, row in pane.rows.items() if row.control.isEnabled()}
    assert free == {"steps"}
    assert "are fixed; only the number of steps" in pane.locked_label.text()
    QTest.mouseClick(pane.new_run_button, LEFT)
    user.wait_until_shown()
    assert user.window.lab.run is None
    assert user.window.lab.draft.steps == 30
    assert pane.rows["block"].control.isEnabled()
    user.click("toggle")
    user.until(lambda: user.window.lab.run is not None)
    run = user.run
    assert run.name == "repeat-attention-only-2"


def test_a_preview_read_during_a_start_is_shown_for_the_next_run(
    user: LabUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    def sample_of(settings: TrainingSettings) -> str:
        assert goes_on.wait(10)
        return f"the text in blocks of {settings.block}"

    monkeypatch.setattr(text_preview_controller, "read_text_sample", sample_of)
    user.type("block", "20")
    begin(user)
    goes_on.set()
    user.until(lambda: not user.window.text_preview_controller.is_reading)
    user.press(Qt.Key.Key_N)
    user.answer("leaving", "&Stop")
    sample = user.window.settings_pane.sample
    user.until(lambda: sample.toPlainText() == "the text in blocks of 20")


def test_problems_are_shown_at_their_settings_and_fixed(user: LabUser) -> None:
    user.type("heads", "3")
    assert user.problem("heads").startswith("The embedding size 64 cannot be split into 3 heads.")
    assert not user.window.training_bar.buttons["toggle"].isEnabled()
    rows = user.window.settings_pane.rows
    label = rows["heads"].problem
    both = rows["layers"].geometry().right() - rows["heads"].geometry().left()
    assert label.width() >= both  # the label is not limited to the width of one of the two settings
    # The layout is complete when the label has its full height.
    user.until(lambda: label.height() >= label.heightForWidth(label.width()))
    QTest.mouseClick(label, LEFT, pos=link_in(label))
    user.wait_until_shown()
    assert user.window.lab.draft.heads == 2
    assert user.problem("heads") == ""
    user.type("rate", "0.00025")
    assert user.window.lab.draft.rate == 0.00025
    user.type("rate", "500")
    assert "at most 100" in user.problem("rate")


def test_errors_of_the_training_process_are_shown_at_their_settings(user: LabUser) -> None:
    user.type("seed", "13")
    user.click("toggle")
    user.until(lambda: bool(user.problem("block")))
    assert user.problem("block") == "The text is too short."
    assert user.window.lab.run is None
    user.type("seed", "14")
    assert user.problem("block") == ""


def test_a_run_can_be_started_after_a_wrong_folder(user: LabUser, tmp_path: Path) -> None:
    user.window.open_run(tmp_path)
    user.wait_until_shown()
    assert user.notices == f"“{tmp_path}” does not contain a run."
    user.click("toggle")
    user.until(lambda: bool(user.window.lab.run and user.window.lab.run.is_open))
    assert user.notices == ""


def test_the_colour_range_ends_at_each_rows_maximum(user: LabUser) -> None:
    user.type("steps", "2000")
    user.click("toggle")
    views = user.window.training_views_controller
    user.until(lambda: len(views.panel.board.heatmaps) == 4)
    user.trigger("heatmaps.toggle_row_limits")
    panel = views.panel.board.heatmaps[0]
    assert panel.colour.limits is ColourLimits.ROW
    assert panel.ends is not None
    np.testing.assert_array_equal(panel.ends, panel.values.max(axis=-1, keepdims=True))
    assert user.window.menus.by_id["heatmaps.toggle_row_limits"].isChecked()
    user.trigger("heatmaps.toggle_row_limits")
    assert views.panel.board.heatmaps[0].colour.limits is ColourLimits.AUTO
    assert not user.window.menus.by_id["heatmaps.toggle_row_limits"].isChecked()


@pytest.mark.slow
def test_a_preset_and_a_file_are_chosen(user: LabUser, tmp_path: Path) -> None:
    user.choose("preset", "Generated stories: transformer")
    draft = user.window.lab.draft
    assert (draft.model, draft.layers, draft.block) == (ModelKind.TRANSFORMER, 3, 32)
    says = user.window.settings_pane.preset_label
    assert words(says) == next(
        one.description for one in PRESETS if one.name == "world-transformer"
    )
    assert not user.window.settings_pane.rows["path"].isVisible()
    user.choose("kind", "A text file")
    assert user.problem("path") == "Choose a text file to train on."
    (tmp_path / "poem.txt").write_text("Tyger Tyger, burning bright", encoding="utf-8")
    user.type("path", str(tmp_path / "nothing.txt"))
    user.until(lambda: "No such file" in user.problem("path"))
    user.type("path", str(tmp_path / "poem.txt"))
    user.until(lambda: "Tyger" in user.window.settings_pane.sample.toPlainText())
    assert user.problem("path") == ""
    assert says.isHidden()
    user.choose("preset", "Lecture notes: your text, bigram")
    assert user.window.lab.draft.source.path == str(tmp_path / "poem.txt")  # the file is kept


def test_a_task_chosen_after_word_tokens_is_continued_with_characters(user: LabUser) -> None:
    user.choose("preset", "Generated stories: transformer")
    user.choose("kind", "Task: repeat segments")
    user.train(40)
    user.until(lambda: user.window.generation_controller.result is not None)
    before = user.window.probe.text()
    user.trigger("generation.sample")
    after = user.window.probe.text()
    assert after[:-1] == before
    assert user.window.generation_controller.tree.tokens == tuple(after)


@pytest.mark.slow
def test_the_attention_for_the_probe_is_updated_during_training(user: LabUser) -> None:
    user.type("steps", "2000")
    user.click("toggle")
    views = user.window.training_views_controller
    user.until(lambda: len(views.panel.board.heatmaps) == 4)
    panel = views.panel.board.heatmaps[0]
    assert panel.rows.labels == tuple("abcdabcd")
    user.until_said("Done")
    user.type_probe("abba")
    user.until(lambda: views.panel.board.heatmaps[0].rows.labels == tuple("abba"))
    np.testing.assert_allclose(views.panel.board.heatmaps[0].values[3], 0.25)
    user.type_probe("abbaz")
    user.until(lambda: "“z” is not known." in words(user.window.probe_problem))
    # The last valid result is kept.
    assert views.panel.board.heatmaps[0].rows.labels == tuple("abba")


@pytest.mark.slow
def test_snapshots_are_selected_with_the_slider(user: LabUser) -> None:
    user.train(100)
    probe_controller = user.window.probe_controller
    user.until(lambda: probe_controller.result is not None and probe_controller.result.step == 100)
    user.window.snapshot_bar.track.setFocus()
    user.press(Qt.Key.Key_Home, NONE)
    user.until(lambda: probe_controller.result is not None and probe_controller.result.step == 0)
    assert "Step 0 of 100" in user.window.snapshot_bar.description_label.text()
    user.press(Qt.Key.Key_End, NONE)
    assert probe_controller.result
    assert probe_controller.result.step == 100  # the result was cached


def test_a_killed_training_is_reported_with_details_and_can_resume(user: LabUser) -> None:
    user.type("seed", "9")
    user.click("toggle")
    user.until(lambda: "memory ran out" in user.notices)
    QTest.mouseClick(user.window.notices.copy_button, LEFT)
    assert QApplication.clipboard().text() == "Traceback: out of cheese"
    assert user.run.phase is RunPhase.FAILED
    assert user.window.training_bar.buttons["toggle"].isEnabled()


@pytest.mark.slow
def test_a_killed_run_is_reopened_and_resumed(user: LabUser) -> None:
    user.type("steps", "1000000")
    user.click("toggle")
    user.until(lambda: bool(user.window.lab.run and user.run.step))
    training = user.training
    os.kill(training.process_id, signal.SIGKILL)
    user.until(lambda: user.button == "Reopen")
    assert "No checkpoint had been saved yet: reopen the run to start from step 0." in user.notices
    user.click("toggle")
    user.until(lambda: user.button == "Pause")
    assert user.notices == ""


def test_a_training_that_cannot_start_leaves_the_settings_unlocked(
    application: QApplication, qtbot: QtBot
) -> None:
    window = LabWindow((sys.executable, "-c", "raise SystemExit('no torch')"))
    window.show()
    qtbot.addWidget(window)
    user = LabUser(qtbot, window)
    user.press(Qt.Key.Key_Return)
    user.until(lambda: "nothing has changed" in user.notices)
    assert window.lab.run is None
    assert user.button == "Start"
    QTest.mouseClick(window.notices.copy_button, LEFT)
    assert QApplication.clipboard().text() == "no torch"
    user.type("heads", "4")
    assert user.notices == ""


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
    user = LabUser(qtbot, window)
    user.press(Qt.Key.Key_Return)
    user.until(lambda: window.lab.opening_failure is not None)
    user.wait_until_shown()
    assert user.notices == "Training stopped because of an internal error."
    QTest.mouseClick(window.notices.copy_button, LEFT)
    assert QApplication.clipboard().text() == "Traceback: out of cheese"
    assert window.lab.run is None


# ----------------------------------------------------------------------- closing runs, the list


def begin(user: LabUser, steps: str = "1000000") -> Path:
    user.type("steps", steps)
    user.click("toggle")
    user.until(lambda: bool(user.window.lab.run and user.run.step))
    return user.run.folder


def choose_first(user: LabUser) -> None:
    runs = user.window.runs_pane.list
    item = runs.topLevelItem(0)
    assert item
    runs.setCurrentItem(item)


def end_of_all(user: LabUser) -> None:
    app = QApplication.instance()
    assert app
    user.until(lambda: not [one for one in app.findChildren(TrainingProcess) if not one.is_over])


def test_closing_asks_again_after_it_was_cancelled_elsewhere(user: LabUser) -> None:
    begin(user)
    # Another window stays open, so all windows do.
    assert not user.window.may_close(lambda: None)
    user.answer("leaving", "&Stop")
    user.activate()
    begin(user)
    user.press(Qt.Key.Key_W)
    user.answer("leaving", "Cancel")
    assert user.window.isVisible()
    assert user.button == "Pause"


def test_the_answer_is_to_the_newest_question(user: LabUser, tmp_path: Path) -> None:
    folder = begin(user)
    closed: list[bool] = []
    user.window.open_run(tmp_path / "another")
    assert not user.window.may_close(lambda: closed.append(True))  # requested in another window
    user.until(lambda: len(user.window.findChildren(QMessageBox, "leaving")) == 1)
    user.answer("leaving", "&Stop")
    assert closed == [True]
    assert user.window.lab.run is None
    assert user.window.lab.refused is None  # the other run, which does not exist, was not opened
    end_of_all(user)
    assert (folder / "step.json").exists()


def test_closing_stops_with_a_checkpoint(user: LabUser) -> None:
    folder = begin(user)
    user.press(Qt.Key.Key_W)
    user.answer("leaving", "&Stop")
    assert not user.window.isVisible()
    end_of_all(user)
    assert (folder / "step.json").exists()
    assert not background_controller.is_training(folder)


def test_with_a_full_disk_training_stops_only_at_the_second_request(user: LabUser) -> None:
    user.type("seed", "28")
    begin(user)
    user.click("stop")
    user.until_said("Paused")
    assert user.notices == "The training was not ended."
    user.click("stop")
    user.until_said("Stopped")
    user.press(Qt.Key.Key_W)  # nothing can be lost any more
    assert not user.window.isVisible()


def test_more_steps_are_not_lost_by_a_failed_stop(user: LabUser) -> None:
    user.type("seed", "28")
    folder = begin(user)
    steps = RunFolder(folder).read_metadata().settings.steps
    user.click("stop")
    user.window.lab.change_setting("steps", 200_000)
    user.until_said("Paused")
    user.until(lambda: RunFolder(folder).read_metadata().settings.steps != steps)
    assert RunFolder(folder).read_metadata().settings.steps == 200_000


def test_closing_an_unsaved_run_states_what_is_lost(user: LabUser) -> None:
    user.type("seed", "28")
    begin(user)
    user.press(Qt.Key.Key_W)
    box = user.window.findChild(QMessageBox, "leaving")
    assert box
    assert "training after step 0 will be lost" in box.text()
    user.answer("leaving", "Cancel")
    user.activate()
    user.click("toggle")
    user.until_said("Paused")
    user.press(Qt.Key.Key_W)
    box = user.window.findChild(QMessageBox, "losing")
    assert box
    assert "training after step 0 will be lost" in box.text()
    user.answer("losing", "Cancel")
    user.activate()
    user.press(Qt.Key.Key_W)
    user.answer("losing", "C&lose anyway")
    assert not user.window.isVisible()
    end_of_all(user)


@pytest.mark.slow
def test_training_continues_in_the_background_and_is_taken_over(user: LabUser) -> None:
    folder = begin(user)
    user.close_run()
    user.answer("leaving", "&Keep training")
    assert user.window.lab.run is None
    end_of_all(user)
    user.until(lambda: background_controller.is_training(folder))
    user.activate()
    user.press(Qt.Key.Key_2)
    runs = user.window.runs_pane.list
    assert runs.hasFocus()
    user.press(Qt.Key.Key_Down, NONE)
    choose_first(user)
    user.trigger("runs.open_selected")
    user.until_said("Waiting for the background training to stop")
    user.until(lambda: user.button == "Pause")  # in this case, training continues by itself
    assert user.run.folder == folder


@pytest.mark.slow
def test_a_paused_run_is_still_paused_when_reopened_immediately(user: LabUser) -> None:
    folder = begin(user)
    user.click("toggle")
    user.until_said("Paused")
    training, run = user.training, user.run
    number = training.process_id
    os.kill(number, signal.SIGSTOP)  # simulates a process that writes its checkpoint slowly
    user.close_run()
    user.window.open_run(folder)
    user.until_said("Waiting for")
    os.kill(number, signal.SIGCONT)
    user.until_said("Paused")
    user.click("step")
    user.until_said(f"step {run.step + 1:,} of")
    user.until_said("Paused")
    assert user.run.step == run.step + 1


def test_a_run_that_another_program_takes_over_stops_here(user: LabUser) -> None:
    folder = begin(user)
    user.click("toggle")
    user.until_said("Paused")
    background_controller.request_stop(folder)
    user.until_said("Stopped")
    assert user.notices == ""
    user.click("toggle")
    user.until(lambda: user.button == "Pause")


@pytest.mark.slow
def test_closing_during_a_takeover_asks(user: LabUser) -> None:
    folder = begin(user)
    leave(user, "&Keep training")
    user.activate()
    wait_for(user, folder)
    lab = user.window.lab
    user.until(lambda: lab.run is not None and lab.run.phase is RunPhase.OPENING)
    user.press(Qt.Key.Key_W)
    user.answer("leaving", "Cancel")
    assert user.window.isVisible()
    user.until(lambda: user.button == "Pause")


@pytest.fixture
def done(user: LabUser) -> Path:
    """A completed run that is not open."""
    folder = user.train(30)
    user.close_run()
    end_of_all(user)
    return folder


def paused_and_left(user: LabUser) -> Path:
    """Start a run, pause it, and close it."""
    folder = begin(user)
    user.click("toggle")
    user.until_said("Paused")
    user.close_run()
    end_of_all(user)
    return folder


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a run in the same way as background training."""
    lock = FileLock(folder / "lock")
    try:
        yield
    finally:
        lock.release()


def wait_for(user: LabUser, folder: Path) -> None:
    user.window.open_run(folder)
    user.until_said("Waiting for")


def leave(user: LabUser, way: str) -> None:
    user.close_run()
    user.answer("leaving", way)
    assert user.window.lab.run is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks within a process")
def test_a_run_that_was_waited_for_can_stay_in_the_background(user: LabUser, done: Path) -> None:
    with held(done):
        wait_for(user, done)
        assert (done / "stop").exists()
        leave(user, "&Keep training")
        assert not (done / "stop").exists()
        assert not (done / "background.log").exists()  # no other process is started


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks within a process")
def test_a_run_that_is_already_stopping_is_started_again(user: LabUser, done: Path) -> None:
    with held(done):
        wait_for(user, done)
        (done / "stop").unlink()  # a process that stops removes the request
        leave(user, "&Keep training")
    assert (done / "background.log").exists()
    user.until(lambda: not (done / "orders").exists())  # the process has read the orders


def test_a_background_start_without_a_lock_is_stopped(user: LabUser, done: Path) -> None:
    background_controller.write_training_orders(done)
    wait_for(user, done)
    leave(user, "&Stop")
    assert not background_controller.is_training(done)
    assert not (done / "stop").exists()  # nothing is written to a run that is not locked


@pytest.mark.slow
def test_a_run_to_continue_is_stopped_while_its_process_ends(user: LabUser) -> None:
    folder = begin(user)
    training = user.training
    number = training.process_id
    os.kill(number, signal.SIGSTOP)
    leave(user, "&Keep training")
    wait_for(user, folder)
    leave(user, "&Stop")
    os.kill(number, signal.SIGCONT)
    end_of_all(user)
    assert not background_controller.is_training(folder)


def test_a_slow_stop_is_reported(user: LabUser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_controller, "EXIT_TIMEOUT_MS", 100)
    begin(user)
    training = user.training
    os.kill(training.process_id, signal.SIGSTOP)  # simulates a long step
    user.click("stop")
    user.until(lambda: user.notices.startswith(process_controller.TERMINATED_MESSAGE))
    assert "reopen the run to start from step 0" in user.notices


def test_a_slow_run_still_continues_in_the_background(
    user: LabUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_controller, "EXIT_TIMEOUT_MS", 100)
    folder = begin(user)
    training = user.training
    os.kill(training.process_id, signal.SIGSTOP)
    leave(user, "&Keep training")
    end_of_all(user)
    assert (folder / "background.log").exists()
    user.until(lambda: not (folder / "orders").exists())  # the process has read the orders


def test_a_run_that_was_just_started_continues_in_the_background(user: LabUser) -> None:
    user.click("toggle")
    lab = user.window.lab
    assert lab.run
    assert lab.training
    assert not lab.training.has_opened
    folder = lab.run.folder
    leave(user, "&Keep training")
    end_of_all(user)
    assert user.window.statusBar().currentMessage() == ""
    assert (folder / "background.log").exists()
    user.until(lambda: not (folder / "orders").exists())  # the process has read the orders


def test_a_run_whose_process_ends_during_the_question_continues(user: LabUser) -> None:
    folder = begin(user)
    user.close_run()
    training = user.training
    os.kill(training.process_id, signal.SIGKILL)
    user.until(lambda: user.window.lab.training is None)
    user.answer("leaving", "&Keep training")
    assert user.window.lab.run is None
    user.until(lambda: (folder / "background.log").exists())
    user.until(lambda: not (folder / "orders").exists())


def test_more_steps_of_an_opening_run_are_not_lost_on_closing(user: LabUser, done: Path) -> None:
    user.window.open_run(done)
    lab = user.window.lab
    assert lab.run
    assert lab.run.phase is RunPhase.OPENING
    lab.change_setting("steps", 60)
    lab.close_run()
    end_of_all(user)
    assert RunFolder(done).read_metadata().settings.steps == 60


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks within a process")
def test_a_run_paused_by_another_program_stays_paused(user: LabUser) -> None:
    folder = paused_and_left(user)
    with held(folder):
        wait_for(user, folder)
        # A process that is not training does this.
        RunFolder(folder).stop_file.append(IDLE_STOP_CONTENT)
    user.until_said("Paused")
    assert not (folder / "stop").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks within a process")
def test_a_run_trained_on_the_command_line_continues_after_a_takeover(user: LabUser) -> None:
    folder = paused_and_left(user)
    with held(folder):
        wait_for(user, folder)
        assert (folder / "stop").exists()  # the command line does not remove the file
    user.until(lambda: user.button == "Pause")
    assert not (folder / "stop").exists()


def test_a_background_start_is_stopped_before_it_begins(user: LabUser) -> None:
    user.click("toggle")
    lab = user.window.lab
    assert lab.run
    folder = lab.run.folder
    leave(user, "&Keep training")
    assert background_controller.is_training(folder)
    background_controller.withdraw_orders(folder)
    end_of_all(user)
    assert not background_controller.is_training(folder)
    assert not (folder / "background.log").exists()


def test_a_run_that_cannot_continue_in_the_background_stays_open(user: LabUser) -> None:
    folder = begin(user)
    (folder / "orders").mkdir()  # a folder in place of the file
    user.press(Qt.Key.Key_W)
    user.answer("leaving", "&Keep training")
    said = user.window.statusBar().currentMessage()
    assert "in the background: " in said
    assert user.window.isVisible()
    assert user.button == "Pause"
    (folder / "orders").rmdir()


@pytest.mark.slow
def test_a_background_start_counts_as_training_before_it_locks_the_run(user: LabUser) -> None:
    folder = begin(user)
    # This process never locks the run.
    user.window.lab.command = (sys.executable, "-S", "-c", "pass")
    user.close_run()
    user.answer("leaving", "&Keep training")
    end_of_all(user)
    assert background_controller.is_training(folder)
    choose_first(user)
    item = user.window.runs_pane.list.topLevelItem(0)
    assert item
    assert (item.text(0), item.text(1)) == (folder.name, "training")
    user.window.run_controller.rename_run(folder.name, "other")
    assert "is training in the background" in user.window.statusBar().currentMessage()
    background_controller.withdraw_orders(folder)
    assert not background_controller.is_training(folder)
    # The runs are checked again after an interval.
    user.until(lambda: not user.window.run_controller.training_runs)


def test_a_wrong_folder_leaves_the_current_run_open(user: LabUser, tmp_path: Path) -> None:
    folder = begin(user)
    user.window.open_run(tmp_path)
    assert user.window.statusBar().currentMessage() == f"“{tmp_path}” does not contain a run."
    assert user.window.findChild(QMessageBox, "leaving") is None
    assert user.run.folder == folder
    assert user.button == "Pause"


def test_a_failed_background_start_is_reported(user: LabUser) -> None:
    folder = begin(user)
    user.window.lab.command = ("/nowhere/python",)
    user.close_run()
    user.answer("leaving", "&Keep training")
    user.until(lambda: "Cannot continue training" in user.window.statusBar().currentMessage())
    message = user.window.statusBar().currentMessage()
    assert "It can be resumed from its last checkpoint" in message
    assert not background_controller.is_training(folder)


@pytest.mark.slow
def test_training_can_be_stopped_immediately_after_resuming(user: LabUser) -> None:
    """The process takes several seconds to start; a stop during this time must have an effect."""
    begin(user)
    user.click("stop")
    user.until_said("Stopped")
    user.press(Qt.Key.Key_Return)
    run = user.run
    assert run.phase is RunPhase.OPENING
    step = run.step
    user.trigger("training.stop")
    assert user.run.phase is RunPhase.ENDING
    user.until_said("Stopped")
    assert user.run.step == step
    assert user.notices == ""
    assert user.button == "Resume"
    end_of_all(user)
    user.press(Qt.Key.Key_Return)
    user.until(lambda: user.button == "Pause")


@pytest.mark.slow
def test_a_new_run_can_be_stopped_immediately(user: LabUser) -> None:
    user.press(Qt.Key.Key_Return)
    user.trigger("training.stop")
    user.until_said("Stopped")
    assert user.run.step == 0
    assert user.notices == ""
    end_of_all(user)
    user.wait_until_shown()
    assert user.line.startswith("Stopped")  # a suggested probe does not start the process again
    generation = user.window.generation_controller
    count = len(generation.tree.tokens)
    user.trigger("generation.sample")
    user.until(lambda: len(generation.tree.tokens) == count + 1)


@pytest.mark.slow
def test_generation_continues_after_a_stop_and_shows_that_it_waits(user: LabUser) -> None:
    begin(user)
    window = user.window
    user.until(lambda: window.generation_controller.result is not None)
    user.click("stop")
    count = len(window.generation_controller.tree.tokens)
    user.trigger("generation.toggle")
    user.until(lambda: words(window.generation_pane.status_label) == RELOADING_MESSAGE)
    user.until(lambda: len(window.generation_controller.tree.tokens) > count + 3)
    assert words(window.generation_pane.status_label).endswith("added")
    user.trigger("generation.toggle")
    assert not window.generation_controller.is_running


def test_escape_unpins_the_cell_with_any_focus(user: LabUser) -> None:
    user.train(100)
    window, views = user.window, user.window.training_views_controller
    user.until(lambda: views.has_attention_layers)
    tried = 0
    for widget in window.findChildren(QWidget):
        is_reached = widget.focusPolicy() != Qt.FocusPolicy.NoFocus and not widget.focusProxy()
        if not (is_reached and widget.isVisible() and widget.isEnabled()):
            continue
        window.attention.board.setFocus()
        user.press(Qt.Key.Key_Down, NONE)
        assert views.pointer.pinned is not None
        widget.setFocus()
        user.press(Qt.Key.Key_Escape, NONE)
        if widget is window.plot_pane.view and views.pointer.pinned is not None:
            user.press(Qt.Key.Key_Escape, NONE)  # Esc first selects the current model
        assert views.pointer.pinned is None, widget
        tried += 1
    assert tried > 20


@pytest.mark.slow
def test_requests_during_the_end_are_handled_afterwards(user: LabUser, tmp_path: Path) -> None:
    begin(user)
    user.click("stop")
    run = user.run
    assert run.phase is RunPhase.ENDING
    user.window.run_export_controller.save_weights_to(str(tmp_path / "own.safetensors"))
    user.until((tmp_path / "own.safetensors").exists)
    user.until(lambda: "Weights saved to" in user.window.statusBar().currentMessage())


def test_a_run_with_a_rejected_step_during_the_end_stays_open(user: LabUser) -> None:
    folder = begin(user)
    training = user.training
    user.click("stop")
    sentence = "The loss is no number any more."
    said = {"id": None, "field": "rate", "sentence": sentence, "remedy": None}
    # The response to the last step arrives before the end of the process is known.
    training.messageReceived.emit(Message("refused", said))
    user.until_said("Stopped")
    assert user.run.folder == folder
    assert user.notices == sentence


def test_requests_to_a_failing_run_are_rejected(user: LabUser, tmp_path: Path) -> None:
    begin(user)
    training = user.training
    os.kill(training.process_id, signal.SIGSTOP)
    user.click("stop")
    user.window.run_export_controller.save_weights_to(str(tmp_path / "own.safetensors"))
    os.kill(training.process_id, signal.SIGKILL)
    user.until(lambda: "terminated" in user.window.statusBar().currentMessage())
    assert not (tmp_path / "own.safetensors").exists()


@pytest.mark.slow
def test_runs_are_renamed_overlaid_and_deleted(user: LabUser) -> None:
    user.train(40)
    user.close_run()
    end_of_all(user)
    user.press(Qt.Key.Key_2)
    runs = user.window.runs_pane.list
    choose_first(user)
    date = runs.visualRect(runs.model().index(0, 1))
    QTest.mouseClick(runs.viewport(), LEFT, NONE, date.center())
    user.press(Qt.Key.Key_F2, NONE)
    user.press(Qt.Key.Key_F2, NONE)  # the name is already being edited
    user.keys("first try")
    user.press(Qt.Key.Key_Return, NONE)
    home = user.window.lab.runs_folder
    user.until(lambda: (home / "first try" / "run.json").exists())
    item = runs.topLevelItem(0)
    assert item
    assert item.text(0) == "first try"
    choose_first(user)
    user.press(Qt.Key.Key_Space, NONE)
    user.until(lambda: "first try" in user.window.run_controller.overlaid_runs)
    assert user.window.run_controller.overlaid_runs["first try"].steps[-1] == 39
    choose_first(user)
    user.press(Qt.Key.Key_Delete, NONE)
    user.answer("delete", "&Delete")
    user.until(lambda: not (home / "first try").exists())
    assert runs.topLevelItemCount() == 0
    assert user.window.run_controller.overlaid_runs == {}


@pytest.mark.slow
def test_overlaid_losses_are_read_on_another_thread(
    user: LabUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.train(40)
    home, run_controller = user.window.lab.runs_folder, user.window.run_controller
    user.close_run()
    end_of_all(user)
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
    user.until(lambda: run_controller.overlaid_runs.keys() == names)
    assert threading.get_ident() not in threads


def test_outdated_losses_are_not_shown(user: LabUser, monkeypatch: pytest.MonkeyPatch) -> None:
    user.train(40)
    name, run_controller = "repeat-attention-only-1", user.window.run_controller
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
    user.until(lambda: bool(arrived))
    QApplication.processEvents()
    assert run_controller.overlaid_runs == {}
    assert run_controller.overlaid_names == set()


def test_closing_does_not_wait_for_reading(user: LabUser, monkeypatch: pytest.MonkeyPatch) -> None:
    user.train(40)
    run_controller, begun = user.window.run_controller, threading.Event()

    def reading(folder: Path, rest: Callable[[], None]) -> LossHistory:
        begun.set()
        while True:
            rest()

    monkeypatch.setattr(store, "read_losses", reading)
    run_controller.set_overlaid("repeat-attention-only-1", True)
    assert begun.wait(10)
    workers = run_controller.findChildren(NewestRequestWorker)
    assert workers
    user.window.close()
    user.until(lambda: not any(map(isValid, workers)))  # the threads have ended


def test_the_chosen_theme_applies_to_the_program(user: LabUser) -> None:
    for scheme in ("dark", "light"):
        # Another window has set this palette.
        QApplication.setPalette(palette(DARK if scheme == "light" else LIGHT))
        user.window.set_colour_scheme(scheme)
        paper = QApplication.palette().color(QPalette.ColorRole.Window).name()
        theme = theme_of(ColourScheme(scheme))
        assert paper == theme.paper.lower()
        bar = user.window.statusBar().grab().toImage()
        assert bar.pixelColor(2, bar.height() // 2).name() == theme.side.lower()


def test_the_open_run_is_not_deleted(user: LabUser) -> None:
    folder = user.train(40)
    user.press(Qt.Key.Key_2)
    choose_first(user)
    user.press(Qt.Key.Key_Delete, NONE)
    user.answer("delete", "&Delete")
    user.until(lambda: "is open" in user.window.statusBar().currentMessage())
    assert folder.exists()


def delete_first(user: LabUser) -> None:
    user.press(Qt.Key.Key_2)  # shows the list of runs
    choose_first(user)
    user.press(Qt.Key.Key_Delete, NONE)
    user.answer("delete", "&Delete")
    user.activate()


@pytest.fixture
def held_deleting(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Deleting runs blocks until this event is set."""
    goes_on, delete = threading.Event(), store.delete_run

    def deleting(folder: Path) -> None:
        assert goes_on.wait(10)
        delete(folder)

    monkeypatch.setattr(store, "delete_run", deleting)
    return goes_on


def stored(user: LabUser, *names: str) -> list[Path]:
    """Store completed runs, and show them in the list."""
    folders = [user.window.lab.runs_folder / name for name in names]
    for folder in folders:
        RunFolder(folder).create_run(
            RunMetadata(TrainingSettings(), ("a", "b"), 1.0, 0.5, "abab", "print")
        )
    user.window.run_controller.refresh_runs()
    user.wait_until_shown()
    return folders


def test_the_window_does_not_wait_until_runs_are_deleted(
    user: LabUser, held_deleting: threading.Event
) -> None:
    folders = stored(user, "one", "two", "three")
    runs = user.window.runs_pane.list
    for left in (2, 1, 0):
        delete_first(user)
        assert runs.topLevelItemCount() == left
    assert all(folder.exists() for folder in folders)
    held_deleting.set()
    user.until(lambda: not any(folder.exists() for folder in folders))


def test_a_run_that_cannot_be_deleted_is_reported_and_listed_again(
    user: LabUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(user, "one")

    def deleting(folder: Path) -> None:
        raise InputError("folder", f"“{folder.name}” could not be deleted: it is in use.")

    monkeypatch.setattr(store, "delete_run", deleting)
    delete_first(user)
    user.until(lambda: "it is in use" in user.window.statusBar().currentMessage())
    user.wait_until_shown()
    assert user.window.runs_pane.list.topLevelItemCount() == 1


def test_runs_are_deleted_after_the_window_is_closed(
    user: LabUser, held_deleting: threading.Event
) -> None:
    folders = stored(user, "one", "two")
    for _ in folders:
        delete_first(user)
    workers = user.window.run_controller.findChildren(NewestRequestWorker)
    assert workers
    user.window.close()
    held_deleting.set()
    user.until(lambda: not any(map(isValid, workers)))  # the threads have ended
    assert not any(folder.exists() for folder in folders)


@pytest.mark.slow
def test_a_run_is_reopened_unchanged(user: LabUser) -> None:
    folder = user.train(40)
    user.close_run()
    end_of_all(user)
    user.window.open_run(folder)
    user.until_said("Done")
    run = user.run
    assert run.step == 40
    assert len(run.losses) == 40


def open_first(user: LabUser) -> None:
    user.press(Qt.Key.Key_2)
    choose_first(user)
    user.press(Qt.Key.Key_Return, NONE)


def test_a_failed_run_is_reopened_from_the_list(user: LabUser) -> None:
    user.type("seed", "9")
    user.click("toggle")
    user.until(lambda: "reopen the run" in user.notices)
    open_first(user)
    user.until_said("Paused")
    assert user.notices == ""


def test_a_run_changed_elsewhere_is_reopened_from_the_list(user: LabUser) -> None:
    user.train(40)
    lab = user.window.lab
    process = lab.training
    open_first(user)
    assert lab.training is process  # the process can continue
    lab.show_error(InputError("held", "The run has changed since it was opened. Reopen it."))
    open_first(user)
    user.until(lambda: lab.training is not process)
    user.until_said("Done")
    assert user.notices == ""


# ------------------------------------------------------------------------------------ commands


def test_every_command_works_and_every_shortcut_is_listed(user: LabUser) -> None:
    keys = [key for command in LAB_COMMANDS for key in command.default_shortcuts]
    assert len(keys) == len(set(keys))
    for command in LAB_COMMANDS:
        # These open other windows.
        if command.id not in {"documentation.open", "shortcuts.show", "diagnostics.copy"}:
            controllers = user.window.menus.by_id[command.id].controllers
            assert callable(called(command, controllers))
    listed = [row for group in list_shortcuts() for row in group.rows]
    assert {keys for _, said in listed for keys in said.split(", ")} >= {*keys}


def test_runs_plots_and_heatmaps_have_context_menus(user: LabUser) -> None:
    window = user.window
    user.press(Qt.Key.Key_2)  # shows the list of runs
    for widget, command in (
        (window.runs_pane.list, "runs.rename"),
        (window.plot_pane.view, "loss_plot.toggle_axis_scale losses"),
        (window.attention.board, "layer.open"),
    ):
        menu = open_context_menu(widget)
        assert command in entry_ids(menu)
        close_menu(menu)
        user.activate()


def test_themes_are_selected_in_the_menu(user: LabUser) -> None:
    for name in ("dark", "light"):
        user.window.menus.by_id[f"theme.set_scheme {name}"].trigger()
        assert user.window.theme.name == name


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
def test_the_weights_and_an_animation_are_saved(user: LabUser, tmp_path: Path) -> None:
    user.train(40)
    user.until(lambda: user.window.probe_controller.result is not None)
    files = (
        ("run_export.save_weights", "own.safetensors"),
        ("run_export.save_film", "own.gif"),
        ("run_export.save_film", "row.gif"),
    )
    for command, name in files:
        if name == "row.gif":
            user.trigger("heatmaps.toggle_row_limits")  # this also applies to animations
        user.trigger(command)
        dialog = user.window.findChild(QFileDialog)
        assert dialog
        name_file(dialog, tmp_path / name)
        user.until(lambda: user.window.findChild(QFileDialog) is None)
        user.until((tmp_path / name).exists)
        user.activate()
        user.until(lambda: not user.window.run_export_controller.film_controller.is_working)
    assert (tmp_path / "own.safetensors").read_bytes() == b"weights"
    assert (tmp_path / "own.gif").read_bytes()[:3] == b"GIF"
    assert share_of_largest(tmp_path / "row.gif") > 3 * share_of_largest(tmp_path / "own.gif") > 0
