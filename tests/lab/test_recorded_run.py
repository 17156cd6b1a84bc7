"""A run that another program records is opened in the lab: texts, snapshots, layers and films."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolButton

from tests.support.recordings import METADATA, TEXTS, a_recording, weights_at, write_step
from visualizer.errors import InputError
from visualizer.file_opening import open_as_document
from visualizer.language.recording import RecordingWriter
from visualizer.language.run_folder import RunFolder
from visualizer.session.document import Document

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lab_input import LabUser
    from visualizer.documents.document_file import SavedDocument


def shown_step(user: LabUser) -> int:
    result = user.window.probe_controller.result
    return -1 if result is None else result.step


def shown_weights(user: LabUser) -> np.ndarray:
    """Return the weights in the heatmaps, [layer, head, query, key]."""
    columns = user.window.training_views_controller.panel.board.columns
    return np.array([[panel.values for panel in column] for column in columns]).swapaxes(0, 1)


def click_button(user: LabUser, text: str) -> None:
    buttons = user.window.snapshot_bar.findChildren(QToolButton)
    (button,) = (each for each in buttons if each.text() == text)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    user.wait_until_shown()


def open_recording(user: LabUser, folder: Path) -> None:
    user.window.open_run(folder)
    user.until(lambda: bool(user.window.training_views_controller.panel.board.columns))
    user.wait_until_shown()


def test_heads_are_shown_over_the_steps_of_a_recorded_run(user: LabUser, tmp_path: Path) -> None:
    open_recording(user, a_recording(tmp_path / "gpt", 0, 10, 20).path)
    window = user.window
    assert shown_step(user) == 20
    assert np.array_equal(shown_weights(user), weights_at(20, 0))
    assert not window.training_bar.buttons["toggle"].isEnabled()
    assert not window.probe.isVisible()
    assert not window.text_splitter.isVisible()
    window.snapshot_bar.track.setFocus()
    user.press(Qt.Key.Key_Home, Qt.KeyboardModifier.NoModifier)
    user.until(lambda: shown_step(user) == 0)
    assert np.array_equal(shown_weights(user), weights_at(0, 0))
    user.press(Qt.Key.Key_L)  # the command that edits the probe
    assert window.text_box.hasFocus()
    user.press(Qt.Key.Key_Down, Qt.KeyboardModifier.NoModifier)
    user.until(lambda: window.probe_controller.text == TEXTS[1][0])
    assert np.array_equal(shown_weights(user), weights_at(0, 1))
    opened: list[SavedDocument] = []
    window.layerOpened.connect(opened.append)
    window.attention.setFocus()
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Return):  # pins a cell, and opens its layer
        user.press(key, Qt.KeyboardModifier.NoModifier)
    user.until(lambda: bool(opened))
    captured = opened[0].document.captured
    assert captured is not None
    assert captured.query_tokens == TEXTS[1][1]
    assert np.array_equal(captured.to_array(), weights_at(0, 1))


def test_a_model_without_parameters_has_a_snapshot_bar(user: LabUser, tmp_path: Path) -> None:
    writer = RecordingWriter(RunFolder(tmp_path / "own"), replace(METADATA, parameters=0))
    write_step(writer, 0)
    writer.close()
    open_recording(user, tmp_path / "own")
    assert "(before training)" in user.window.snapshot_bar.description_label.text()


def test_steps_are_compared_with_one_of_them(user: LabUser, tmp_path: Path) -> None:
    open_recording(user, a_recording(tmp_path / "gpt", 0, 10, 20).path)
    window = user.window
    click_button(user, "Compare")
    assert not shown_weights(user).any()  # the step is compared with itself
    window.snapshot_bar.track.setFocus()
    user.press(Qt.Key.Key_Home, Qt.KeyboardModifier.NoModifier)
    user.until(lambda: shown_step(user) == 0)
    assert np.array_equal(shown_weights(user), weights_at(0, 0) - weights_at(20, 0))
    panel = window.training_views_controller.panel
    assert all(each.colour.low == -each.colour.high for each in panel.board.heatmaps)
    assert "step 20." in window.snapshot_bar.description_label.text()
    window.attention.setFocus()
    user.press(Qt.Key.Key_Right, Qt.KeyboardModifier.NoModifier)
    assert "from step 20 to step 0" in window.attention.description_label.text()
    click_button(user, "Compare")
    assert np.array_equal(shown_weights(user), weights_at(0, 0))


def test_an_animation_never_compares_different_texts(user: LabUser, tmp_path: Path) -> None:
    open_recording(user, a_recording(tmp_path / "gpt", 0, 10).path)
    exports = user.window.run_export_controller
    click_button(user, "Compare")
    reference = exports.reference
    assert reference is not None
    user.press(Qt.Key.Key_L)
    user.press(Qt.Key.Key_Down, Qt.KeyboardModifier.NoModifier)
    user.until(lambda: user.window.probe_controller.text == TEXTS[1][0])
    user.until(lambda: exports.reference is None)
    refusals: list[str] = []
    exports.film_controller.refused.connect(refusals.append)
    exports.film_controller.create_film(tmp_path / "film.gif", None, reference)
    user.until(lambda: bool(refusals))
    assert "cannot be compared with step 10" in refusals[0]
    assert not (tmp_path / "film.gif").exists()


@pytest.mark.slow  # the lab looks for snapshots once a second
def test_a_run_is_followed_while_it_is_recorded(user: LabUser, tmp_path: Path) -> None:
    writer = RecordingWriter(RunFolder(tmp_path / "gpt"), METADATA)
    write_step(writer, 0)
    open_recording(user, tmp_path / "gpt")
    user.until_said("Being recorded")
    write_step(writer, 10)
    user.until(lambda: shown_step(user) == 10)
    writer.close()
    user.until_said("Recorded")
    assert user.run.losses.training.tolist() == [5, 4]


def test_an_animation_of_a_recorded_run_is_written(user: LabUser, tmp_path: Path) -> None:
    open_recording(user, a_recording(tmp_path / "gpt", 0, 10, 20).path)
    controller = user.window.run_export_controller.film_controller
    controller.create_film(tmp_path / "film.gif")
    user.until(lambda: not controller.is_working)
    assert (tmp_path / "film.gif").read_bytes().startswith(b"GIF89a")


def test_the_last_snapshot_is_opened_as_a_document(tmp_path: Path) -> None:
    folder = a_recording(tmp_path / "gpt", 0, 10).path
    saved, notice = open_as_document(folder, Document())
    assert saved.document.captured is not None
    assert np.array_equal(saved.document.captured.to_array(), weights_at(10, 0))
    assert saved.document.captured.query_tokens == TEXTS[0][1]
    assert "Step 10" in notice
    with pytest.raises(InputError, match="no snapshots"):
        open_as_document(a_recording(tmp_path / "empty").path, Document())


def test_the_settings_return_when_a_new_run_is_started(user: LabUser, tmp_path: Path) -> None:
    before = user.window.lab.draft
    open_recording(user, a_recording(tmp_path / "gpt", 0).path)
    rows = user.window.settings_pane.rows
    assert not any(row.isVisible() for row in rows.values())
    user.press(Qt.Key.Key_N)
    user.until(lambda: user.window.lab.run is None)
    user.wait_until_shown()
    assert rows["model"].isVisible()
    assert user.window.lab.draft == before
