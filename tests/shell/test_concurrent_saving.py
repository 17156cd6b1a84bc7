"""If input is faster than saving and computing, no request is lost."""

from __future__ import annotations

import threading
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from PySide6.QtCore import Qt

from tests.shell.test_document_controller import (
    ELSEWHERE,
    answer,
    asked,
    asks_about,
    at_rest,
    crashed,
    drop,
    of_files,
    read,
    recovery,
    save_as,
    type_name,
    written,
)
from tests.support.window_input import CONTROL, PATIENCE_MS, SHIFT, Hand
from visualizer.documents.document_file import DOCUMENT_SUFFIX, read_document
from visualizer.documents.recovery_file import find_crash_recovery_files
from visualizer.errors import InputError
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.shell import document_recovery
from visualizer.shell.document_io import NUMBERS_LATE_NOTICE
from visualizer.storage import atomic_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

    from pytestqt.qtbot import QtBot

    from tests.support.window_fixtures import Gate
    from visualizer.shell.window import MainWindow
    from visualizer.shell.window_manager import WindowManager

pytestmark = pytest.mark.slow  # parallel programs


__all__ = ["crashed"]
LOOKED = View(pinned=Cell("weights", (0, 1, 1)))


@pytest.fixture
def window(fresh_window: MainWindow) -> MainWindow:
    """Open a window that has no file yet and that the test may close."""
    return fresh_window


class SlowDisk:
    """Delays writes to a file until they are released by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._goes_on, self.write = threading.Event(), atomic_file.write_atomically
        self.restart = 0
        monkeypatch.setattr(atomic_file, "write_atomically", self._held)

    def _held(self, path: Path, fill: Callable[[BinaryIO], object], **more: Any) -> None:
        self.restart += 1
        self._goes_on.wait(PATIENCE_MS / 1000)
        self.write(path, fill, **more)

    def let_go(self) -> None:
        self._goes_on.set()


def _fail(path: Path, fill: Callable[[BinaryIO], object], **more: object) -> None:
    raise InputError("export", f"{path.name} could not be written: the disk is full.")


def change(hand: Hand) -> None:
    hand.press(Qt.Key.Key_M)
    hand.settle()


def hold_a_save(hand: Hand, path: Path, monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    """Save a document, change it and save it again, while the disk delays both writes."""
    save_as(hand, path)
    hand.activate()
    disk = SlowDisk(monkeypatch)
    change(hand)
    hand.press(Qt.Key.Key_S)
    hand.until(lambda: disk.restart == 1)
    return disk


def open_a_lesson(hand: Hand) -> None:
    hand.window.controllers.lesson_controller.load_lesson_menu()
    hand.window.controllers.lesson_controller.open_lesson(1)
    hand.settle()


# --------------------------------------------------------------------------- saving


def test_changes_during_a_save_are_saved_by_the_next_one(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = hold_a_save(hand, tmp_path / "mine", monkeypatch)
    hand.type_sentence("said last")
    hand.settle()
    hand.press(Qt.Key.Key_S)
    disk.let_go()
    at_rest(hand)
    assert read(tmp_path / f"mine{DOCUMENT_SUFFIX}").document.text == "said last"
    assert not hand.window.isWindowModified()


def test_the_user_is_asked_about_a_concurrent_change_of_the_file(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"mine{DOCUMENT_SUFFIX}"
    save_as(hand, path)
    hand.activate()
    disk = SlowDisk(monkeypatch)
    change(hand)
    hand.press(Qt.Key.Key_S)
    hand.until(lambda: disk.restart == 1)
    content = written(path, ELSEWHERE).read_bytes()
    disk.let_go()
    asks_about(hand, path)
    answer(hand, "Cancel")
    at_rest(hand)
    assert path.read_bytes() == content
    assert hand.window.isWindowModified()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_window_that_is_closed_while_it_saves_waits_and_does_not_ask(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_as(hand, tmp_path / "mine")
    hand.activate()
    disk = SlowDisk(monkeypatch)
    change(hand)
    hand.press(Qt.Key.Key_S)
    hand.window.close()
    assert hand.boxes() == []
    assert hand.window.isVisible()
    disk.let_go()
    hand.until(lambda: not hand.window.isVisible())
    assert read(tmp_path / f"mine{DOCUMENT_SUFFIX}").document.spec.mask == "none"


def test_a_window_that_is_to_open_a_file_after_it_has_saved_can_be_closed(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = written(tmp_path / f"other{DOCUMENT_SUFFIX}", Document(text="opened after it"))
    disk = hold_a_save(hand, tmp_path / "mine", monkeypatch)
    hand.window.controllers.document_controller.open(other)
    hand.window.close()
    assert hand.window.isVisible()
    disk.let_go()
    hand.until(lambda: not hand.window.isVisible())
    assert read(tmp_path / f"mine{DOCUMENT_SUFFIX}").document.spec.mask == "none"


def test_a_lesson_that_is_opened_while_it_is_saved_is_not_written_into_the_file(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = hold_a_save(hand, tmp_path / "mine", monkeypatch)
    hand.type_sentence("said last")
    hand.settle()
    hand.press(Qt.Key.Key_S)
    open_a_lesson(hand)
    disk.let_go()
    at_rest(hand)
    assert read(tmp_path / f"mine{DOCUMENT_SUFFIX}").document.text == "said last"
    assert hand.window.controllers.document_controller.is_saved


def test_in_a_lesson_too_the_own_document_replaces_what_another_program_wrote(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"mine{DOCUMENT_SUFFIX}"
    save_as(hand, path)
    hand.activate()
    disk = SlowDisk(monkeypatch)
    hand.type_sentence("said here")
    hand.settle()
    hand.press(Qt.Key.Key_S)
    hand.until(lambda: disk.restart == 1)
    written(path, ELSEWHERE)
    open_a_lesson(hand)
    disk.let_go()
    asks_about(hand, path)
    answer(hand, "Overwrite")
    hand.until(lambda: hand.window.controllers.document_controller.is_saved)
    assert read(path).document.text == "said here"


def test_no_other_question_keeps_a_window_that_closes_as_soon_as_it_has_saved(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_as(hand, tmp_path / "mine")
    hand.activate()
    disk = SlowDisk(monkeypatch)
    change(hand)
    hand.press(Qt.Key.Key_S)
    hand.window.close()
    hand.press(Qt.Key.Key_S, CONTROL | SHIFT)
    (dialog,) = asked(hand)
    dialog.reject()
    assert hand.window.isVisible()
    disk.let_go()
    hand.until(lambda: not hand.window.isVisible())


def test_the_recovery_file_has_the_new_name(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_kept_as(name: str) -> bool:
        found = list(recovery().glob("*.recovery"))
        return bool(found) and name.encode() in found[0].read_bytes().splitlines()[0]

    save_as(hand, tmp_path / "first")
    hand.activate()
    change(hand)
    disk = SlowDisk(monkeypatch)
    hand.press(Qt.Key.Key_S, CONTROL | SHIFT)
    type_name(hand, tmp_path / "second")
    hand.until(lambda: disk.restart == 1)
    hand.type_sentence("said last")
    hand.until(lambda: is_kept_as("first"))
    assert not is_kept_as("second")
    disk.let_go()
    hand.until(lambda: is_kept_as("second"))


def test_a_window_whose_saving_fails_while_it_is_closed_stays(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_as(hand, tmp_path / "mine")
    hand.activate()
    disk = SlowDisk(monkeypatch)
    hand.press(Qt.Key.Key_S)
    hand.window.close()
    monkeypatch.setattr(disk, "write", _fail)
    disk.let_go()
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert "the disk is full" in box.text()
    assert hand.window.isVisible()


def test_the_user_is_asked_about_changes_while_a_closing_window_saves(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_as(hand, tmp_path / "mine")
    hand.activate()
    disk = SlowDisk(monkeypatch)
    change(hand)
    hand.press(Qt.Key.Key_S)
    hand.window.close()
    change(hand)
    disk.let_go()
    answer(hand, "Cancel")
    assert hand.window.isVisible()


@pytest.fixture
def waiting(
    open_window: Callable[[], MainWindow], gate: Gate, tmp_path: Path, qtbot: QtBot
) -> Hand:
    """Open a window that saves “mine” with numbers that the gate delays."""
    gate.let_through()
    hand = Hand(qtbot, open_window())
    hand.settle()
    hand.window.controllers.document_controller.toggle_saving_numbers()
    save_as(hand, tmp_path / "mine")
    hand.activate()
    hand.press(Qt.Key.Key_M)
    hand.press(Qt.Key.Key_S)
    return hand


def test_numbers_that_are_on_their_way_are_waited_for(
    waiting: Hand, gate: Gate, tmp_path: Path
) -> None:
    gate.open()
    at_rest(waiting)
    saved = read(tmp_path / f"mine{DOCUMENT_SUFFIX}")
    assert saved.document.spec.mask == "none"
    assert saved.recorded


def test_numbers_that_a_lesson_comes_before_are_said_not_to_be_in_the_file(
    waiting: Hand, gate: Gate, tmp_path: Path
) -> None:
    waiting.window.controllers.lesson_controller.load_lesson_menu()
    waiting.window.controllers.lesson_controller.open_lesson(1)
    gate.open()
    at_rest(waiting)
    assert waiting.window.statusBar().currentMessage().endswith(NUMBERS_LATE_NOTICE)
    saved = read(tmp_path / f"mine{DOCUMENT_SUFFIX}")
    assert saved.document.spec.mask == "none"
    assert saved.recorded is None


# --------------------------------------------------------------------------- opening


def test_all_files_that_are_dropped_are_opened(
    windows: WindowManager, tmp_path: Path, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, windows.open_window(Document()))
    hand.until(lambda: hand.window.workspace.run is not None)
    texts = ("one", "two")
    drop(
        hand,
        of_files(
            *(written(tmp_path / f"{it}{DOCUMENT_SUFFIX}", Document(text=it)) for it in texts)
        ),
    )
    hand.until(lambda: len(windows.all) == 2)
    assert {window.workspace.document.text for window in windows.all} == set(texts)


def test_typing_before_the_numbers_of_a_document_keeps_how_it_is_viewed(
    open_window: Callable[[], MainWindow], gate: Gate, tmp_path: Path, qtbot: QtBot
) -> None:
    path = written(tmp_path / f"a{DOCUMENT_SUFFIX}", Document(text="one two three"), LOOKED)
    hand = Hand(qtbot, open_window())  # the gate delays its results
    hand.until(lambda: len(gate.asked) == 1)
    hand.window.controllers.document_controller.open(path)
    at_rest(hand)
    hand.until(lambda: hand.window.workspace.document.text == "one two three")
    hand.window.workspace.change_setting("causal", False)
    gate.open()
    hand.settle()
    assert hand.window.workspace.requested_view.pinned == LOOKED.pinned


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_document_that_is_saved_before_its_numbers_are_there_keeps_its_view(
    open_window: Callable[[], MainWindow],
    gate: Gate,
    tmp_path: Path,
    qtbot: QtBot,
    is_refused: bool,
) -> None:
    document = Document(text="one two three")
    document = (
        document.with_setting("heads", 3).with_setting("d_out", 4) if is_refused else document
    )
    path = written(tmp_path / f"a{DOCUMENT_SUFFIX}", document, LOOKED)
    gate.let_through()
    hand = Hand(qtbot, open_window())
    hand.settle()
    hand.window.controllers.document_controller.open(path)
    hand.until(lambda: hand.window.controllers.document_controller.path == path)
    hand.window.controllers.document_controller.save()
    gate.open()
    at_rest(hand)
    saved = read(path)
    assert saved.document == document
    assert saved.view.pinned == LOOKED.pinned


# --------------------------------------------------------------------------- several windows


def test_quitting_asks_one_window_after_the_other(windows: WindowManager, qtbot: QtBot) -> None:
    made = [windows.open_window(Document()) for _ in range(3)]
    qtbot.waitUntil(lambda: all(window.workspace.run for window in made))
    for window in made[:2]:
        window.workspace.change_setting("causal", False)
    made[2].controllers.document_controller.quit()
    answer(Hand(qtbot, made[0]), "Don’t save")
    assert windows.all == made[1:]
    answer(Hand(qtbot, made[1]), "Don’t save")
    assert windows.all == []


def test_a_file_is_open_in_one_window_only(
    windows: WindowManager, tmp_path: Path, qtbot: QtBot
) -> None:
    path = written(tmp_path / f"a{DOCUMENT_SUFFIX}", Document(text="only here"))
    first, second = (Hand(qtbot, windows.open_window(Document())) for _ in range(2))
    first.window.controllers.document_controller.open(path)
    first.until(lambda: first.chips == ("only", "here"))
    second.window.controllers.document_controller.open(tmp_path / "." / path.name)
    second.until(
        lambda: "is already open in this window" in first.window.statusBar().currentMessage()
    )
    assert second.window.controllers.document_controller.path is None
    assert not second.window.controllers.document_controller.is_busy
    second.window.controllers.document_controller.save_to(str(path))
    (box,) = second.boxes()
    assert "another window" in box.text()
    assert read(path).document.text == "only here"
    first.window.controllers.document_controller.save_to(str(path))  # the window's own file
    at_rest(first)
    assert first.boxes() == []


# --------------------------------------------------------------------------- after a crash


def test_slow_autosaves_are_less_frequent(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((0.0, 3.0))
    monkeypatch.setattr(document_recovery, "perf_counter", lambda: next(times))
    change(hand)
    hand.until(
        lambda: (
            hand.window.controllers.document_controller.autosave_controller.autosave_delay_ms
            == 60_000
        )
    )
    assert list(recovery().glob("*.recovery"))


def test_a_recovery_file_is_kept_until_the_next_autosave(
    windows: WindowManager, crashed: Document, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, windows.open_window(Document()))
    hand.until(lambda: hand.window.workspace.run is not None)
    (left,) = find_crash_recovery_files(recovery())
    hand.window.controllers.recovery_prompt.ask_to_recover([left])
    answer(hand, "Recover")
    assert left.file.exists()
    hand.until(lambda: not left.file.exists())
    (kept,) = recovery().glob("*.recovery")
    content = kept.read_bytes().partition(b"\n")[2]
    assert read_document(BytesIO(content)).document == crashed


def test_a_recovered_document_keeps_the_path_of_its_file(
    windows: WindowManager, crashed: Document, tmp_path: Path, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, windows.open_window(Document()))
    hand.window.controllers.document_controller.open(
        written(tmp_path / f"old{DOCUMENT_SUFFIX}", Document(text="as it was"))
    )
    hand.until(lambda: hand.chips == ("as", "it", "was"))
    hand.window.controllers.recovery_prompt.ask_to_recover(find_crash_recovery_files(recovery()))
    answer(hand, "Recover")
    hand.until(lambda: hand.chips == ("what", "was", "lost"))
    assert windows.all == [hand.window]
    assert hand.window.workspace.document == crashed
    assert hand.window.isWindowModified()
