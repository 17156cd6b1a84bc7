"""Choosing, opening, cancelling and downloading a model in the dialog, with mouse and keyboard."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget
from shiboken6 import isValid

import visualizer
from tests.support.background_work import worker_of
from tests.support.hub_folders import cache_config, cache_folder
from tests.support.hub_server import HubServer, files_of, serving
from visualizer.attention import device as attention_device
from visualizer.attention.run import USABLE_MEMORY_SHARE
from visualizer.attention.spec import Device, ModelDtype
from visualizer.errors import InputError
from visualizer.features.model_chooser.presenter import DOWNLOADED_MESSAGE, EMPTY_FOLDER_MESSAGE
from visualizer.models import hub_download
from visualizer.models.forward_runner import DISK_STAGES_NOTICE
from visualizer.models.model_folder import read_model_folder
from visualizer.optional_packages import missing_package_message
from visualizer.session import model_opening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.window_input import Hand
    from visualizer.attention.spec import Device as AnyDevice
    from visualizer.features.model_chooser.controller import ModelChooserController
    from visualizer.features.model_chooser.dialog import ModelChooserDialog
    from visualizer.progress import Progress

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn of such small models
LLAMA = {"model_type": "llama", "num_hidden_layers": 3, "num_attention_heads": 4}
TEXT = "the cat sat"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "hub"


def chooser(hand: Hand) -> ModelChooserController:
    return hand.window.controllers.model_chooser_controller


def opened(hand: Hand) -> ModelChooserDialog:
    """Open the dialog with its command, and wait for the list."""
    hand.window.actions_.by_id["model.open"].trigger()
    dialog = chooser(hand).dialog
    assert dialog is not None
    hand.until(dialog.isActiveWindow)
    hand.until(lambda: bool(dialog.device_label.text()))
    QApplication.processEvents()  # lays out the list
    return dialog


def press(dialog: ModelChooserDialog, key: Qt.Key) -> None:
    """Press a key in the focused widget of the dialog."""
    QTest.keyClick(dialog.focusWidget(), key)


def idle(hand: Hand) -> None:
    """Wait until no model is being opened or downloaded."""
    hand.until(lambda: not chooser(hand).is_working)


class HeldOpening:
    """Replaces the opening of a model; reports progress until it is released or cancelled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.goes_on, self.error = threading.Event(), None
        self.asked: list[tuple[Path, AnyDevice, ModelDtype]] = []
        monkeypatch.setattr(model_opening, "open_model_source", self._open)

    def _open(
        self, path: Path, device: AnyDevice, dtype: ModelDtype, text: str, progress: Progress,
        *, is_from_disk: bool,
    ) -> NoReturn:  # fmt: skip
        assert not is_from_disk
        self.asked.append((path, device, dtype))
        while not self.goes_on.wait(0.01):
            progress(120_000_000, 538_000_000)
        raise InputError("model", "It <b>cannot</b> be opened.")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldOpening]:
    made = HeldOpening(monkeypatch)
    yield made
    made.goes_on.set()


def test_a_cached_model_is_opened_with_the_keyboard(
    hand: Hand, cache: Path, tiny_model_folder: Path
) -> None:
    hand.type_sentence(TEXT)
    hand.settle()
    snapshot = cache_folder(cache, "org/tiny", tiny_model_folder)
    cache_config(cache, "a/code", {**LLAMA, "auto_map": {}})
    dialog = opened(hand)
    assert [row.cells[:3] for row in dialog.table.rows] == [
        ("a/code", "–", "–"), ("org/tiny", "llama", "2 × 4"),
    ]  # fmt: skip
    assert dialog.table.currentRow() == 1
    assert dialog.device_label.text() == "Runs on the CPU, in float32 if it fits in memory."
    press(dialog, Qt.Key.Key_Up)
    assert "custom code" in dialog.note.text()
    assert not dialog.open_button.isEnabled()
    press(dialog, Qt.Key.Key_Return)
    assert not chooser(hand).is_working
    press(dialog, Qt.Key.Key_Down)
    assert not dialog.note.isVisible()
    press(dialog, Qt.Key.Key_Return)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    model = hand.window.workspace.document.model
    assert model
    assert (model.folder, model.name) == (str(snapshot), "org/tiny")
    hand.until(lambda: chooser(hand).dialog is None)
    hand.window.actions_.by_id["workspace.undo"].trigger()
    hand.settle()
    assert hand.window.workspace.document.has_module


def test_a_device_that_is_not_available_is_rejected(
    hand: Hand, cache: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_folder(cache, "org/tiny", tiny_model_folder)
    monkeypatch.setattr(attention_device, "available_devices", lambda: (Device.CPU,))
    dialog = opened(hand)
    dialog.device.setCurrentIndex(dialog.device.findData(Device.CUDA))
    dialog.device.activated.emit(dialog.device.currentIndex())
    dialog.open_button.click()
    idle(hand)
    assert "A CUDA GPU is not available" in dialog.problem.text()
    assert hand.window.workspace.document.model is None


def test_a_model_larger_than_memory_is_streamed_from_disk(
    hand: Hand, cache: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand.type_sentence(TEXT)
    hand.settle()
    cache_folder(cache, "org/tiny", tiny_model_folder)
    found = read_model_folder(tiny_model_folder)
    wanted = visualizer.open_model(tiny_model_folder).attend(TEXT)["weights"]
    room = (4 * found.parameters - 100) / USABLE_MEMORY_SHARE
    monkeypatch.setattr(attention_device, "free_device_bytes", lambda device: room)
    dialog = opened(hand)
    assert dialog.disk_button.isHidden()
    press(dialog, Qt.Key.Key_Return)
    idle(hand)
    assert dialog.problem.text().endswith("is available.")
    assert "Each pass reads" in dialog.estimate.text()
    assert dialog.disk_button.isVisible()
    dialog.disk_button.click()
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    run = hand.window.workspace.run
    assert run
    assert DISK_STAGES_NOTICE in run.notices
    np.testing.assert_array_equal(run.trace.read("weights"), wanted)


def test_the_offer_to_stream_from_disk_is_withdrawn(
    hand: Hand, cache: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_folder(cache, "org/tiny", tiny_model_folder)
    room = (4 * read_model_folder(tiny_model_folder).parameters - 100) / USABLE_MEMORY_SHARE
    monkeypatch.setattr(attention_device, "free_device_bytes", lambda device: room)
    dialog = opened(hand)
    press(dialog, Qt.Key.Key_Return)
    idle(hand)
    assert dialog.disk_button.isVisible()
    dialog.dtype.setFocus()
    press(dialog, Qt.Key.Key_Down)
    assert dialog.disk_button.isHidden()
    assert not dialog.estimate.isVisible()
    assert not dialog.problem.isVisible(), "it was said of another choice"


@pytest.mark.slow
def test_a_model_runs_in_the_chosen_data_type(
    hand: Hand, cache: Path, tiny_model_folder: Path
) -> None:
    hand.type_sentence(TEXT)
    hand.settle()
    cache_folder(cache, "org/tiny", tiny_model_folder)
    dialog = opened(hand)
    for box, times in ((dialog.dtype, 2), (dialog.device, 1)):
        box.setFocus()
        for _ in range(times):
            press(dialog, Qt.Key.Key_Down)
    assert dialog.device_label.text() == "Runs in float64 on the CPU."
    QTest.mouseClick(dialog.open_button, Qt.MouseButton.LeftButton)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    run = hand.window.workspace.run
    assert run
    assert hand.window.workspace.document.spec.device is Device.CPU
    assert str(run.trace.read("weights").dtype) == "float64"


def test_opening_shows_progress_and_can_be_cancelled(
    hand: Hand, cache: Path, held: HeldOpening
) -> None:
    snapshot = cache_config(cache, "org/tiny", LLAMA)
    before = hand.window.workspace.document, hand.window.workspace.run
    dialog = opened(hand)
    at = dialog.table.visualRect(dialog.table.model().index(0, 0)).center()
    QTest.mouseClick(dialog.table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    QTest.mouseDClick(dialog.table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    hand.until(lambda: dialog.status_label.text() == "Opening org/tiny: 120 of 538 MB")
    assert held.asked == [(snapshot, Device.AUTO, ModelDtype.AUTO)]
    assert dialog.line.value() == round(dialog.line.maximum() * 120 / 538)
    hand.activate()  # the window remains usable
    hand.type_sentence(TEXT)
    hand.settle()
    dialog.activateWindow()
    QTest.mouseClick(dialog.cancel_button, Qt.MouseButton.LeftButton)
    idle(hand)
    assert dialog.isVisible()
    assert not dialog.status_label.isVisible()
    assert dialog.open_button.isEnabled()
    workspace = hand.window.workspace
    assert (workspace.document, workspace.run) != before
    assert workspace.document.text == TEXT
    assert workspace.document.model is None
    press(dialog, Qt.Key.Key_Escape)
    hand.until(lambda: chooser(hand).dialog is None or not dialog.isVisible())


def test_escape_cancels_and_then_closes(hand: Hand, cache: Path, held: HeldOpening) -> None:
    cache_config(cache, "org/tiny", LLAMA)
    dialog = opened(hand)
    press(dialog, Qt.Key.Key_Return)
    hand.until(lambda: "of 538 MB" in dialog.status_label.text())
    press(dialog, Qt.Key.Key_Escape)
    assert dialog.status_label.text() == "Cancelling…"
    idle(hand)
    assert dialog.isVisible()
    press(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_errors_are_shown_as_plain_text_in_the_dialog(
    hand: Hand, cache: Path, held: HeldOpening
) -> None:
    cache_config(cache, "org/<i>tiny", LLAMA)
    before = hand.window.workspace.run
    dialog = opened(hand)
    held.goes_on.set()
    press(dialog, Qt.Key.Key_Return)
    hand.until(dialog.problem.isVisible)
    assert dialog.problem.text() == "It <b>cannot</b> be opened."
    assert dialog.problem.textFormat() is Qt.TextFormat.PlainText
    item = dialog.table.item(0, 0)
    assert item
    assert "<i>" in item.text()
    assert "<i>" not in item.toolTip()
    assert hand.window.workspace.run is before
    dialog.close()


def test_a_dropped_folder_is_opened_in_the_dialog(hand: Hand, cache: Path, tmp_path: Path) -> None:
    cache_config(cache, "org/tiny", LLAMA)
    (tmp_path / "none").mkdir()
    hand.window.drop_handler.fileDropped.emit(tmp_path / "none")
    dialog = chooser(hand).dialog
    assert dialog is not None
    hand.until(dialog.problem.isVisible)
    assert "no config.json" in dialog.problem.text()
    hand.until(lambda: len(dialog.table.rows) == 1)
    dialog.close()


def test_the_last_of_several_dropped_folders_is_opened(
    hand: Hand, cache: Path, tmp_path: Path, held: HeldOpening
) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        hand.window.drop_handler.fileDropped.emit(tmp_path / name)
        hand.until(lambda: bool(held.asked))
    hand.until(lambda: len(held.asked) == 2)
    assert [path.name for path, *_ in held.asked] == ["one", "three"]
    dialog = chooser(hand).dialog
    assert dialog is not None
    assert dialog.status_label.text().startswith("Opening three")
    hand.window.drop_handler.fileDropped.emit(tmp_path / "two")
    press(dialog, Qt.Key.Key_Escape)  # cancels both actions
    idle(hand)
    assert len(held.asked) == 2
    dialog.close()


def test_missing_models_and_libraries_are_explained(
    hand: Hand, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialog = opened(hand)
    assert dialog.message.text() == EMPTY_FOLDER_MESSAGE
    assert dialog.message.geometry().bottom() < dialog.height() / 4, "it is where the list would be"
    assert not dialog.table.isVisible()
    dialog.close()
    QApplication.processEvents()
    hand.activate()
    monkeypatch.setattr(model_opening, "can_open_models", lambda: False)
    dialog = opened(hand)
    assert dialog.message.text() == missing_package_message("transformers", "Opening models")
    assert not dialog.folder_button.isEnabled()
    dialog.close()


def test_a_model_is_downloaded_and_opened(
    hand: Hand, cache: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand.type_sentence(TEXT)
    hand.settle()
    server = HubServer("org/tiny", files_of(tiny_model_folder))
    with serving(server) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        dialog = opened(hand)
        dialog.repository.setFocus()
        QTest.keyClicks(dialog.repository, "org/other")
        press(dialog, Qt.Key.Key_Return)
        hand.until(dialog.problem.isVisible)
        assert "Repository “org/other” does not exist" in dialog.problem.text()
        dialog.repository.selectAll()
        QTest.keyClicks(dialog.repository, "org/tiny")
        press(dialog, Qt.Key.Key_Return)
        idle(hand)
        assert dialog.offer.text().startswith("org/tiny: 5 files, ")
        assert dialog.download_button.text().startswith("Download ")
        assert server.downloads == []
        server.continued_note.clear()
        QTest.mouseClick(dialog.download_button, Qt.MouseButton.LeftButton)
        hand.until(lambda: "model.safetensors" in server.downloads)
        hand.until(lambda: " of " in dialog.status_label.text())
        press(dialog, Qt.Key.Key_Escape)
        server.continued_note.set()
        idle(hand)
        server.asked.clear()
        QTest.mouseClick(dialog.download_button, Qt.MouseButton.LeftButton)
        hand.until(lambda: dialog.offer.text() == DOWNLOADED_MESSAGE)
        hand.until(lambda: len(dialog.table.rows) == 1)
        # Complete files are not downloaded again; the rest may have arrived before Esc was handled.
        assert {*server.downloads} <= {"model.safetensors"}
        assert not dialog.repository.text()
    assert dialog.table.currentRow() == 0
    QTest.mouseClick(dialog.open_button, Qt.MouseButton.LeftButton)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()


def test_an_unresponsive_hub_can_be_cancelled_immediately(
    fresh_window: object, hand: Hand, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_download, "TIMEOUT_S", 60.0)
    server = HubServer("org/tiny", {})
    server.answers.clear()
    with serving(server) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        dialog = opened(hand)
        dialog.repository.setFocus()
        QTest.keyClicks(dialog.repository, "org/tiny")
        press(dialog, Qt.Key.Key_Return)
        hand.until(lambda: len(server.asked) == 1)
        press(dialog, Qt.Key.Key_Escape)
        idle(hand)
        assert dialog.problem.text() == ""
        press(dialog, Qt.Key.Key_Return)
        hand.until(lambda: len(server.asked) == 2)
        worker = worker_of(chooser(hand))
        hand.window.controllers.document_controller.discard_unsaved_changes()
        hand.window.close()
        hand.until(lambda: not isValid(worker))  # the thread has ended


def test_nothing_is_requested_before_download_is_pressed(
    hand: Hand, cache: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def refuse(self: object, address: object, *more: object) -> None:
        asked.append(address)
        raise OSError("the network was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    cache_folder(cache, "org/tiny", tiny_model_folder)
    dialog = opened(hand)
    QTest.keyClicks(dialog.repository, "org/tiny")
    QTest.mouseClick(dialog.open_button, Qt.MouseButton.LeftButton)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    assert asked == []


def test_all_controls_are_reachable_by_tab_and_have_names(hand: Hand, cache: Path) -> None:
    cache_config(cache, "org/tiny", LLAMA)
    dialog = opened(hand)
    QTest.keyClicks(dialog.repository, "a/b")
    met = []
    for _ in range(12):
        met.append(dialog.focusWidget())
        press(dialog, Qt.Key.Key_Tab)
    wanted: set[QWidget] = {
        dialog.table, dialog.folder_button, dialog.device, dialog.dtype, dialog.repository,
        dialog.download_button, dialog.open_button,
    }  # fmt: skip
    assert wanted <= {*met}
    names = (QAccessible.queryAccessibleInterface(each) for each in wanted)
    assert all(each.text(QAccessible.Text.Name) for each in names)
    assert not any(isinstance(each, QFileDialog) for each in QApplication.topLevelWidgets())
    dialog.close()


def test_closing_the_window_cancels_the_opening(
    fresh_window: object, hand: Hand, cache: Path, held: HeldOpening
) -> None:
    cache_config(cache, "org/tiny", LLAMA)
    dialog = opened(hand)
    press(dialog, Qt.Key.Key_Return)
    hand.until(lambda: bool(held.asked))
    worker = worker_of(chooser(hand))
    hand.window.controllers.document_controller.discard_unsaved_changes()
    hand.window.close()
    assert not hand.window.isVisible()
    hand.until(lambda: not isValid(worker))  # the thread has ended
