"""Documents are saved, opened and recovered after a crash, and the user is asked only once."""

from __future__ import annotations

import errno
import os
from math import nan
from threading import Event
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragMoveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QLineEdit

from tests.support.damaged_files import packed, unpacked
from tests.support.golden_documents import OWN, PLAIN, run_of
from tests.support.window_input import CONTROL, PATIENCE_MS, SHIFT, Hand, name_file
from visualizer import app
from visualizer.attention.captured_attention import CapturedAttention
from visualizer.attention.mechanisms import mechanism_of
from visualizer.attention.model_forward_pass import ModelForwardPass
from visualizer.cli.document_options import build_document
from visualizer.cli.options import create_parser
from visualizer.documents import recovery_file
from visualizer.documents.document_file import (
    DOCUMENT_SUFFIX,
    SavedDocument,
    document_bytes,
    read_document,
    write_document,
)
from visualizer.documents.recovery_file import (
    CrashRecoveryFile,
    RecoveryFile,
    find_crash_recovery_files,
)
from visualizer.errors import InputError
from visualizer.export.figure_settings import FigureSettings
from visualizer.export.writers import export_file
from visualizer.features.setup.presenter import SETUP_PANEL
from visualizer.file_opening import open_as_document
from visualizer.models.model_source import ModelSource
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document, default_document
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.view import View
from visualizer.shell import document_controller, document_recovery
from visualizer.shell.commands import RECENT_MENU
from visualizer.shell.document_io import NUMBERS_GONE_NOTICE, FileWriteResult, write_saved_document
from visualizer.widgets import app_settings
from visualizer.widgets.app_settings import user_data_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

    from pytestqt.qtbot import QtBot

    from visualizer.shell.window import MainWindow
    from visualizer.shell.window_manager import WindowManager

ALT = Qt.KeyboardModifier.AltModifier


def asked(hand: Hand) -> list[QFileDialog]:
    """Return the visible file dialogs."""
    return [each for each in hand.window.findChildren(QFileDialog) if each.isVisible()]


def type_name(hand: Hand, path: Path) -> None:
    """Enter a file name in the file dialog and press Enter."""
    hand.until(lambda: bool(asked(hand)))
    (dialog,) = asked(hand)
    name_file(dialog, path)


def at_rest(hand: Hand) -> None:
    hand.until(lambda: not hand.window.controllers.document_controller.is_busy)
    QApplication.processEvents()


def save_as(hand: Hand, path: Path) -> None:
    hand.activate()
    hand.press(Qt.Key.Key_S, CONTROL | SHIFT)
    type_name(hand, path)
    at_rest(hand)


def read(path: Path) -> SavedDocument:
    with path.open("rb") as file:
        return read_document(file)


def answer(hand: Hand, words: str) -> None:
    """Click a button of the only message box."""
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    (button,) = (each for each in box.buttons() if each.text().replace("&", "") == words)
    hand.click(button)
    QApplication.processEvents()


def drop(hand: Hand, data: QMimeData) -> None:
    """Drop data on the heatmaps."""
    window, place = hand.window, hand.window.rect().center()
    left, copy = Qt.MouseButton.LeftButton, Qt.DropAction.CopyAction
    none = Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPoint(place), copy, data, left, none)
    QApplication.sendEvent(window, enter)
    assert enter.isAccepted()
    QApplication.sendEvent(window, QDropEvent(QPointF(place), copy, data, left, none))


def of_files(*paths: Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def written(path: Path, document: Document, view: View | None = None) -> Path:
    with path.open("wb") as file:
        write_document(file, document, view or View())
    return path


def exported(path: Path, document: Document) -> Path:
    return export_file(path, ExportSnapshot(document, View(), run_of(document)), FigureSettings())


# --------------------------------------------------------------------------- saving and opening


def test_the_current_content_is_saved(hand: Hand, tmp_path: Path) -> None:
    hand.type_sentence("a word or two")
    hand.settle()
    hand.click_cell(Cell("weights", (0, 1, 0)))
    assert hand.window.isWindowModified()
    save_as(hand, tmp_path / "mine")
    saved = read(tmp_path / f"mine{DOCUMENT_SUFFIX}")
    assert saved.document == hand.window.workspace.document
    assert saved.view.pinned == Cell("weights", (0, 1, 0))
    assert saved.recorded is None
    assert not hand.window.isWindowModified()
    assert hand.window.windowTitle() == "mine[*] — Attention Visualizer"


@pytest.mark.slow
def test_saved_documents_are_restored(
    hand: Hand, tmp_path: Path, open_window: Callable[[], MainWindow], qtbot: QtBot
) -> None:
    hand.type_sentence("a word or two")
    hand.settle()
    hand.click_cell(Cell("weights", (1, 2, 1)))
    save_as(hand, tmp_path / "mine")
    document = hand.window.workspace.document
    hand.window.close()
    other = Hand(qtbot, open_window())
    other.until(lambda: other.window.workspace.run is not None)
    other.press(Qt.Key.Key_O)
    type_name(other, tmp_path / f"mine{DOCUMENT_SUFFIX}")
    other.until(lambda: other.chips == ("a", "word", "or", "two"))
    other.settle()
    assert other.window.workspace.document == document
    assert other.window.workspace.view.pinned == Cell("weights", (1, 2, 1))
    assert not other.window.workspace.history.can_undo
    assert other.window.windowTitle().startswith("mine")


@pytest.mark.parametrize("is_given", [True, False])
def test_numbers_that_a_server_does_not_give_any_more_are_not_in_the_file(
    is_given: bool, tmp_path: Path
) -> None:
    numbers = CapturedAttention.from_array("own", np.eye(2)[None, None], ("a", "b"), ("a", "b"))
    document = replace(Document(), model=ModelSource("attention://a:1", "own", 64 * "0"))
    made_of = (document.model, document.text, document.spec.device, document.spec.dtype)
    reading = ModelForwardPass(
        made_of, (0,), {}, {}, True, (), "", None, None,
        fetch_captured=lambda: numbers if is_given else None,
    )  # fmt: skip
    run = replace(run_of(PLAIN), reading=reading)
    path = tmp_path / "own.attention"
    for each, lacks in ((document, not is_given), (Document(), False)):
        done = write_saved_document(
            path, each, View(), run, page=(each, View()), replaced=None, may_replace=True
        )
        assert isinstance(done, FileWriteResult)
        assert done.missing_numbers_notice == (NUMBERS_GONE_NOTICE if lacks else "")
        assert (read(path).document.captured is not None) is (each is document and is_given)


def test_missing_layers_and_texts_are_reported(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*given: Any, **more: Any) -> object:
        return replace(
            write_saved_document(*given, **more), missing_numbers_notice=NUMBERS_GONE_NOTICE
        )

    monkeypatch.setattr(document_controller, "write_saved_document", lacking)
    save_as(hand, tmp_path / "own.attention")
    assert NUMBERS_GONE_NOTICE in hand.window.statusBar().currentMessage()


def test_numbers_are_saved_too_if_requested(hand: Hand, tmp_path: Path) -> None:
    hand.window.actions_.by_id["document.toggle_numbers"].trigger()
    save_as(hand, tmp_path / "numbers")
    recorded = read(tmp_path / f"numbers{DOCUMENT_SUFFIX}").recorded
    run = hand.window.workspace.run
    assert recorded
    assert run
    np.testing.assert_array_equal(recorded.stages["weights"], run.trace.read("weights"))


def test_numbers_that_lack_a_stage_are_computed_and_saved_again(hand: Hand, tmp_path: Path) -> None:
    made = run_of(PLAIN)
    members = unpacked(document_bytes(PLAIN, View(), made))
    del members["trace/scaled.npy"]
    path = tmp_path / f"old{DOCUMENT_SUFFIX}"
    path.write_bytes(packed(members))
    hand.window.controllers.document_controller.open(path)
    hand.until(lambda: hand.window.controllers.document_controller.path == path)
    hand.settle()
    assert hand.window.statusBar().currentMessage() == (
        f"Opened old{DOCUMENT_SUFFIX}. The file does not contain “scaled”, so these numbers "
        "were recomputed."
    )
    hand.press(Qt.Key.Key_M)
    hand.settle()
    hand.press(Qt.Key.Key_M)
    hand.settle()
    hand.press(Qt.Key.Key_S)
    at_rest(hand)
    recorded = read(path).recorded
    assert recorded
    assert recorded.missing == ()
    np.testing.assert_array_equal(recorded.stages["scaled"], made.trace.read("scaled"))


def test_saving_again_asks_for_nothing(hand: Hand, tmp_path: Path) -> None:
    save_as(hand, tmp_path / "mine")
    hand.activate()
    hand.press(Qt.Key.Key_M)
    hand.settle()
    assert hand.window.isWindowModified()
    hand.press(Qt.Key.Key_S)
    at_rest(hand)
    assert asked(hand) == []
    assert read(tmp_path / f"mine{DOCUMENT_SUFFIX}").document == hand.window.workspace.document


def test_a_lesson_is_not_written_over_the_file_that_was_open(hand: Hand, tmp_path: Path) -> None:
    save_as(hand, tmp_path / "mine")
    own = hand.window.workspace.document
    hand.activate()
    hand.window.controllers.lesson_controller.load_lesson_menu()
    hand.window.controllers.lesson_controller.open_lesson(1)
    hand.settle()
    hand.press(Qt.Key.Key_S)
    hand.until(lambda: bool(asked(hand)))
    assert read(tmp_path / f"mine{DOCUMENT_SUFFIX}").document == own
    asked(hand)[0].reject()


def assert_asks_before_replacing(hand: Hand, path: Path, typed: Path) -> None:
    """Save under a name without a suffix, and cancel the question about the existing file."""
    content = path.read_bytes()
    save_as(hand, typed)
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert box.text() == f"“{path.name}” already exists."
    answer(hand, "Cancel")
    at_rest(hand)
    assert path.read_bytes() == content


def test_a_copied_lesson_replaces_no_file_without_a_question(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / f"report.v2{DOCUMENT_SUFFIX}"
    save_as(hand, path)
    hand.window.controllers.lesson_controller.load_lesson_menu()
    hand.window.controllers.lesson_controller.open_lesson(1)
    hand.settle()
    assert_asks_before_replacing(hand, path, tmp_path / "report.v2")


def test_reading_a_lesson_leaves_nothing_to_be_saved(hand: Hand) -> None:
    hand.window.controllers.lesson_controller.open_lesson(2)
    hand.settle()
    assert not hand.window.isWindowModified()
    hand.window.close()
    assert not hand.window.isVisible()


def test_the_user_is_asked_about_changes_before_a_lesson(hand: Hand, tmp_path: Path) -> None:
    hand.type_sentence("my own words")
    hand.settle()
    hand.window.controllers.lesson_controller.open_lesson(2)
    hand.settle()
    hand.window.close()
    answer(hand, "Save")
    type_name(hand, tmp_path / "mine")
    hand.until(lambda: not hand.window.isVisible())
    assert read(tmp_path / f"mine{DOCUMENT_SUFFIX}").document.text == "my own words"


def test_taking_back_to_what_was_saved_is_saved(hand: Hand, tmp_path: Path) -> None:
    save_as(hand, tmp_path / "mine")
    hand.activate()
    hand.press(Qt.Key.Key_M)
    hand.settle()
    assert hand.window.isWindowModified()
    hand.press(Qt.Key.Key_Z)
    hand.settle()
    assert not hand.window.isWindowModified()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_errors_when_saving_are_reported_and_the_old_file_stays(
    hand: Hand, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_as(hand, tmp_path / "mine")
    old = (tmp_path / f"mine{DOCUMENT_SUFFIX}").read_bytes()
    hand.activate()
    hand.press(Qt.Key.Key_M)
    hand.settle()

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    hand.press(Qt.Key.Key_S)
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert os.strerror(code) in box.text()
    box.close()
    assert (tmp_path / f"mine{DOCUMENT_SUFFIX}").read_bytes() == old
    assert hand.window.isWindowModified()


@pytest.mark.parametrize(
    "content", [b"", b"PK\3\4nonsense", b"\x89PNG\r\n\x1a\n", b"%PDF-1.4", b"hello"]
)
def test_errors_when_opening_are_reported_and_the_result_remains(
    hand: Hand, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"bad{DOCUMENT_SUFFIX}"
    path.write_bytes(content)
    board = hand.shown
    hand.window.controllers.document_controller.open(path)
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert "bad" in box.text()
    box.close()
    assert hand.shown is board


@pytest.mark.parametrize(
    ("name", "value", "label"),
    [("d_in", 2**62, "Embedding size"), ("window", -1, "Window"), ("temperature", nan, "Temp")],
)
def test_a_setting_that_no_control_makes_is_rejected(
    hand: Hand, name: str, value: float, label: str, tmp_path: Path
) -> None:
    board = hand.shown
    drop(
        hand,
        of_files(written(tmp_path / f"a{DOCUMENT_SUFFIX}", Document().with_setting(name, value))),
    )
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert f"“a{DOCUMENT_SUFFIX}” contains an invalid value: “{label}" in box.text()
    box.close()
    assert hand.shown is board


# --------------------------------------------------------------------------- other programs


ELSEWHERE = Document(text="written elsewhere")


def retype(hand: Hand, text: str) -> None:
    """Type another sentence; restore the focus first, which a dialog may have had."""
    hand.activate()
    hand.type_sentence(text)
    hand.settle()


def change_elsewhere(hand: Hand, path: Path) -> bytes:
    """Change the document, and its file as another program would; return the file's content."""
    save_as(hand, path)
    retype(hand, "changed here")
    return written(path, ELSEWHERE).read_bytes()


def press_save(hand: Hand) -> None:
    hand.activate()
    hand.press(Qt.Key.Key_S)
    at_rest(hand)


def asks_about(hand: Hand, path: Path) -> None:
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert box.text().startswith(f"“{path.name}” has been changed by another program since")


def test_a_changed_file_is_overwritten_only_on_request(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / f"a{DOCUMENT_SUFFIX}"
    content = change_elsewhere(hand, path)
    press_save(hand)
    asks_about(hand, path)
    assert path.read_bytes() == content
    answer(hand, "Cancel")
    at_rest(hand)
    assert path.read_bytes() == content
    assert hand.window.isWindowModified()
    press_save(hand)
    asks_about(hand, path)
    answer(hand, "Overwrite")
    hand.until(lambda: not hand.window.isWindowModified())
    assert read(path).document.text == "changed here"
    retype(hand, "changed again")
    press_save(hand)  # does not ask about a file that this window has written
    assert hand.boxes() == []
    assert read(path).document.text == "changed again"


def test_a_copy_is_saved_next_to_the_changed_file(hand: Hand, tmp_path: Path) -> None:
    path, other = tmp_path / f"a{DOCUMENT_SUFFIX}", tmp_path / f"b{DOCUMENT_SUFFIX}"
    content = change_elsewhere(hand, path)
    press_save(hand)
    asks_about(hand, path)
    answer(hand, "Save as…")
    type_name(hand, other)
    at_rest(hand)
    hand.until(lambda: hand.window.controllers.document_controller.path == other)
    assert path.read_bytes() == content
    assert read(other).document.text == "changed here"


def test_a_completed_name_replaces_no_file_without_a_question(hand: Hand, tmp_path: Path) -> None:
    path = written(tmp_path / f"report.v2{DOCUMENT_SUFFIX}", ELSEWHERE)
    hand.type_sentence("changed here")
    assert_asks_before_replacing(hand, path, tmp_path / "report.v2")
    assert hand.window.isWindowModified()
    save_as(hand, tmp_path / "report.v2")
    answer(hand, "Overwrite")
    hand.until(lambda: not hand.window.isWindowModified())
    assert read(path).document.text == "changed here"
    retype(hand, "changed again")
    save_as(hand, tmp_path / "report.v2")  # the file now belongs to this window
    assert hand.boxes() == []
    assert read(path).document.text == "changed again"


def test_a_name_that_is_too_long_is_said_to_be(hand: Hand, tmp_path: Path) -> None:
    save_as(hand, tmp_path / f"{'a' * 250}.v2")
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert "Cannot write" in box.text()
    assert "too long" in box.text()


def test_a_question_that_is_closed_closes_no_window_later(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / f"a{DOCUMENT_SUFFIX}"
    change_elsewhere(hand, path)
    hand.window.close()
    answer(hand, "Save")
    asks_about(hand, path)
    (box,) = hand.boxes()
    box.close()
    press_save(hand)
    answer(hand, "Overwrite")
    hand.until(lambda: not hand.window.isWindowModified())
    assert hand.window.isVisible()


def test_closing_waits_for_the_answer_about_another_program(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / f"a{DOCUMENT_SUFFIX}"
    content = change_elsewhere(hand, path)
    hand.window.close()
    answer(hand, "Save")
    asks_about(hand, path)
    answer(hand, "Cancel")
    assert hand.window.isVisible()
    assert path.read_bytes() == content
    hand.window.close()
    answer(hand, "Save")
    asks_about(hand, path)
    answer(hand, "Overwrite")
    hand.until(lambda: not hand.window.isVisible())
    assert read(path).document.text == "changed here"


def test_a_file_that_was_opened_and_then_changed_elsewhere_is_asked_about(
    hand: Hand, tmp_path: Path
) -> None:
    path = written(tmp_path / f"a{DOCUMENT_SUFFIX}", Document(text="opened"))
    drop(hand, of_files(path))
    hand.until(lambda: hand.chips == ("opened",))
    retype(hand, "changed here")
    content = written(path, ELSEWHERE).read_bytes()
    press_save(hand)
    asks_about(hand, path)
    answer(hand, "Cancel")
    assert path.read_bytes() == content


@pytest.mark.slow
def test_a_file_that_is_gone_is_written_without_a_question(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / f"a{DOCUMENT_SUFFIX}"
    change_elsewhere(hand, path)
    path.unlink()
    press_save(hand)
    assert hand.boxes() == []
    assert read(path).document.text == "changed here"


def test_two_concurrent_saves_do_not_ask_about_each_other(hand: Hand, tmp_path: Path) -> None:
    save_as(hand, tmp_path / f"a{DOCUMENT_SUFFIX}")
    retype(hand, "changed")
    hand.window.controllers.document_controller.save()
    hand.window.controllers.document_controller.save()
    at_rest(hand)
    assert hand.boxes() == []


# --------------------------------------------------------------------------- reverting


def revert(hand: Hand) -> None:
    hand.activate()
    hand.window.actions_.by_id["document.revert"].trigger()
    at_rest(hand)


def test_changes_are_reverted_and_brought_back(hand: Hand, tmp_path: Path) -> None:
    action = hand.window.actions_.by_id["document.revert"]
    retype(hand, "as it was saved")
    assert not action.isEnabled()  # the document has no file yet
    save_as(hand, tmp_path / f"a{DOCUMENT_SUFFIX}")
    assert not action.isEnabled()  # the document is unchanged
    retype(hand, "changed here")
    hand.until(action.isEnabled)
    revert(hand)
    hand.until(lambda: hand.chips == ("as", "it", "was", "saved"))
    hand.settle()
    assert not hand.window.isWindowModified()
    assert not action.isEnabled()
    hand.press(Qt.Key.Key_Z)
    hand.until(lambda: hand.chips == ("changed", "here"))
    assert hand.window.isWindowModified()
    hand.until(action.isEnabled)


def test_reverting_takes_what_another_program_wrote(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / f"a{DOCUMENT_SUFFIX}"
    change_elsewhere(hand, path)
    revert(hand)
    hand.until(lambda: hand.chips == ("written", "elsewhere"))
    hand.settle()
    assert not hand.window.isWindowModified()
    retype(hand, "and changed here")
    press_save(hand)
    assert hand.boxes() == []
    assert read(path).document.text == "and changed here"


def test_errors_when_reverting_are_reported(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / f"a{DOCUMENT_SUFFIX}"
    change_elsewhere(hand, path)
    path.write_bytes(b"nonsense")
    revert(hand)
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert f"“a{DOCUMENT_SUFFIX}” is not an Attention Visualizer document" in box.text()
    box.close()
    assert hand.chips == ("changed", "here")
    assert hand.window.isWindowModified()


def test_a_page_of_a_lesson_is_not_reverted(hand: Hand, tmp_path: Path) -> None:
    save_as(hand, tmp_path / f"a{DOCUMENT_SUFFIX}")
    retype(hand, "changed here")
    hand.window.controllers.lesson_controller.open_lesson(2)
    hand.settle()
    assert not hand.window.actions_.by_id["document.revert"].isEnabled()


# --------------------------------------------------------------------------- dropping


def test_a_document_is_dropped(hand: Hand, tmp_path: Path) -> None:
    drop(hand, of_files(written(tmp_path / f"a{DOCUMENT_SUFFIX}", Document(text="dropped words"))))
    hand.until(lambda: hand.chips == ("dropped", "words"))
    assert hand.window.controllers.document_controller.path == tmp_path / f"a{DOCUMENT_SUFFIX}"


def test_earlier_undone_changes_are_not_redone_in_an_opened_document(
    hand: Hand, tmp_path: Path
) -> None:
    hand.press(Qt.Key.Key_M)
    hand.settle()
    hand.press(Qt.Key.Key_Z)
    hand.settle()
    assert hand.window.actions_.by_id["workspace.redo"].isEnabled()
    other = written(tmp_path / f"other{DOCUMENT_SUFFIX}", Document(text="opened words"))
    hand.window.controllers.document_controller.open(other)
    hand.until(lambda: hand.chips == ("opened", "words"))
    hand.settle()
    assert hand.window.controllers.document_controller.path == other
    assert not hand.window.actions_.by_id["workspace.undo"].isEnabled()
    assert not hand.window.actions_.by_id["workspace.redo"].isEnabled()
    hand.activate()
    hand.press(Qt.Key.Key_Z, CONTROL | SHIFT)
    hand.settle()
    assert hand.chips == ("opened", "words")
    assert not hand.window.isWindowModified()


@pytest.mark.parametrize("proposed", [Qt.DropAction.MoveAction, Qt.DropAction.LinkAction])
def test_dropped_files_are_copied_even_if_a_move_was_proposed(
    hand: Hand, tmp_path: Path, proposed: Qt.DropAction
) -> None:
    """After a move, the file manager would delete the original file."""
    data = of_files(written(tmp_path / f"a{DOCUMENT_SUFFIX}", Document(text="dropped words")))
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    place, actions = hand.window.rect().center(), Qt.DropAction.CopyAction | proposed
    events = [
        QDragEnterEvent(place, actions, data, left, none),
        QDragMoveEvent(place, actions, data, left, none),
        QDropEvent(QPointF(place), actions, data, left, none),
    ]
    for event in events:
        event.setDropAction(proposed)
        QApplication.sendEvent(hand.window, event)
        assert event.isAccepted()
        assert event.dropAction() is Qt.DropAction.CopyAction
    hand.until(lambda: hand.chips == ("dropped", "words"))
    only = QDropEvent(QPointF(place), Qt.DropAction.MoveAction, data, left, none)
    only.ignore()
    QApplication.sendEvent(hand.window, only)
    assert not only.isAccepted()


def test_a_file_on_a_field_is_left_to_the_window(hand: Hand, tmp_path: Path) -> None:
    data = of_files(tmp_path / f"a{DOCUMENT_SUFFIX}")
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    action = Qt.DropAction.MoveAction
    fields = [field for field in hand.window.findChildren(QLineEdit) if field.acceptDrops()]
    assert fields
    for field in fields:
        before, place = field.text(), QPointF(field.rect().center())
        actions = action | Qt.DropAction.CopyAction
        enter = QDragEnterEvent(place.toPoint(), actions, data, left, none)
        enter.setDropAction(action)
        QApplication.sendEvent(field, enter)
        assert enter.isAccepted()
        assert enter.dropAction() is Qt.DropAction.CopyAction, field
        QApplication.sendEvent(field, QDropEvent(place, actions, data, left, none))
        assert field.text() == before


def test_a_text_is_dropped(hand: Hand) -> None:
    data = QMimeData()
    data.setText("three dropped words")
    drop(hand, data)
    hand.until(lambda: hand.chips == ("three", "dropped", "words"))
    hand.press(Qt.Key.Key_Z)
    hand.settle()
    assert hand.chips[0] == "Your"


def test_a_novel_is_rejected(hand: Hand) -> None:
    data = QMimeData()
    data.setText(100_001 * "a")
    drop(hand, data)
    assert "100,001 characters" in hand.window.workspace.screen.panel(SETUP_PANEL).problem.sentence
    assert hand.chips[0] == "Your"


def test_a_file_is_not_written_into_the_sentence(hand: Hand, tmp_path: Path) -> None:
    assert not hand.sentence.canInsertFromMimeData(of_files(tmp_path / "a"))


# --------------------------------------------------------------------------- asked once


def test_closing_asks_once_about_what_is_not_saved(hand: Hand) -> None:
    hand.press(Qt.Key.Key_M)
    hand.settle()
    hand.window.close()
    hand.window.close()
    assert hand.window.isVisible()
    answer(hand, "Cancel")
    assert hand.window.isVisible()
    hand.window.close()
    answer(hand, "Don’t save")
    assert not hand.window.isVisible()


def test_saving_when_asked_closes_after_it_is_written(hand: Hand, tmp_path: Path) -> None:
    hand.press(Qt.Key.Key_M)
    hand.settle()
    hand.window.close()
    answer(hand, "Save")
    type_name(hand, tmp_path / "mine")
    hand.until(lambda: not hand.window.isVisible())
    assert read(tmp_path / f"mine{DOCUMENT_SUFFIX}").document.spec.mask == "none"


def test_not_choosing_a_file_does_not_close(hand: Hand, tmp_path: Path) -> None:
    hand.press(Qt.Key.Key_M)
    hand.settle()
    hand.window.close()
    answer(hand, "Save")
    (dialog,) = asked(hand)
    dialog.reject()
    save_as(hand, tmp_path / "later")
    assert hand.window.isVisible()


def test_nothing_is_asked_where_nothing_is_lost(hand: Hand) -> None:
    hand.window.close()
    assert not hand.window.isVisible()


# --------------------------------------------------------------------------- after a crash


def recovery() -> Path:
    return user_data_folder() / "recovery"


@pytest.mark.slow
def test_unsaved_changes_are_autosaved_until_they_are_saved(
    fresh_window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    hand = Hand(qtbot, fresh_window)
    hand.type_sentence("kept words")
    hand.settle()
    hand.until(lambda: bool(list(recovery().glob("*.recovery"))))
    assert find_crash_recovery_files(recovery()) == []  # the file belongs to this program
    save_as(hand, tmp_path / "mine")
    hand.until(lambda: not list(recovery().glob("*.recovery")))


@pytest.mark.slow
def test_a_failed_autosave_is_retried(
    fresh_window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_recovery, "RETRY_DELAY_MS", 50)
    hand, said, tried = Hand(qtbot, fresh_window), list[str](), list[object]()
    fresh_window.controllers.document_controller.autosave_controller.refused.connect(said.append)

    def refused(*given: object) -> NoReturn:
        tried.append(given)
        raise InputError("recovery", "The disk is full.")

    with monkeypatch.context() as full:
        full.setattr(RecoveryFile, "write", refused)
        hand.type_sentence("kept words")
        hand.until(lambda: len(tried) >= 3)
    hand.until(lambda: bool(list(recovery().glob("*.recovery"))))
    assert said == ["The disk is full."]


@pytest.mark.slow
def test_closing_leaves_nothing_behind(fresh_window: MainWindow, qtbot: QtBot) -> None:
    hand = Hand(qtbot, fresh_window)
    hand.type_sentence("kept words")
    hand.settle()
    hand.until(lambda: bool(list(recovery().glob("*.recovery"))))
    hand.window.close()
    answer(hand, "Don’t save")
    assert not hand.window.isVisible()
    hand.until(lambda: list(recovery().iterdir()) == [])


@pytest.fixture
def crashed(tmp_path: Path) -> Document:
    """Return the document on which a killed program was working."""
    document = Document(text="what was lost")
    file = RecoveryFile(recovery())
    file.write(
        document, View(pinned=Cell("weights", (0, 1, 1))), tmp_path / f"old{DOCUMENT_SUFFIX}"
    )
    left = {path: path.read_bytes() for path in recovery().iterdir()}
    file.close()
    for path, content in left.items():  # a killed program removes nothing
        path.write_bytes(content)
        path.chmod(0o600)
    return document


@pytest.mark.slow
@pytest.mark.parametrize("is_wanted", [True, False])
def test_documents_of_a_crash_are_offered(
    windows: WindowManager, crashed: Document, is_wanted: bool, qtbot: QtBot
) -> None:
    windows.open_first_window(None, None)
    hand = Hand(qtbot, windows.all[0])
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert "“old”" in box.informativeText()
    answer(hand, "Recover" if is_wanted else "Discard")
    hand.until(lambda: hand.window.workspace.run is not None)
    if is_wanted:
        hand.until(lambda: hand.chips == ("what", "was", "lost"))
        assert hand.window.workspace.document == crashed
        assert hand.window.isWindowModified()
        assert hand.window.windowTitle().startswith("old")
    hand.until(lambda: find_crash_recovery_files(recovery()) == [])


@pytest.mark.parametrize("requested", ["text", "file", "tensors"])
def test_a_requested_document_stays_in_front_of_recovered_ones(
    windows: WindowManager,
    crashed: Document,
    requested: str,
    tmp_path: Path,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(document_recovery, "AUTOSAVE_DELAY_MS", 1)
    document, path = Document(text="as requested"), None
    if requested == "file":
        path = written(tmp_path / f"mine{DOCUMENT_SUFFIX}", document)
    elif requested == "tensors":
        path = tmp_path / "weights.npy"
        np.save(path, np.eye(2))
        document = open_as_document(path, document)[0].document
    windows.open_first_window(SavedDocument(document, View()), path)
    hand = Hand(qtbot, windows.all[0])
    hand.until(lambda: bool(hand.boxes()))
    answer(hand, "Recover")
    hand.until(lambda: len(windows.all) == 2)
    hand.until(hand.window.isActiveWindow)
    assert hand.window.workspace.document == document
    assert windows.all[1].workspace.document == crashed
    hand.until(lambda: find_crash_recovery_files(recovery()) == [])


def test_text_typed_while_a_file_is_read_is_kept(
    hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights.npz"
    eye = np.eye(3, 2)
    np.savez(path, W_query=eye, W_key=eye, W_value=eye)
    controller = hand.window.controllers.document_controller
    begun, goes_on, read = Event(), Event(), controller.program.read

    def held(path: Path, document: Document) -> object:
        begun.set()
        assert goes_on.wait(PATIENCE_MS / 1000)
        return read(path, document)

    monkeypatch.setattr(controller, "program", replace(controller.program, read=held))
    controller.open(path)
    hand.until(begun.is_set)
    retype(hand, "typed meanwhile")
    goes_on.set()
    hand.until(lambda: bool(hand.window.workspace.document.spec.own_weights))
    hand.settle()
    assert hand.chips == ("typed", "meanwhile")
    assert hand.sentence.toPlainText() == "typed meanwhile"


@pytest.mark.slow
def test_a_window_continues_while_what_a_crash_left_is_read(
    windows: WindowManager, crashed: Document, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, windows.open_window(Document()))
    (left,) = find_crash_recovery_files(recovery())
    hand.window.controllers.recovery_prompt.ask_to_recover([left])
    hand.until(lambda: bool(hand.boxes()))
    begun, goes_on, read = Event(), Event(), CrashRecoveryFile.read

    def held(given: CrashRecoveryFile) -> SavedDocument:
        begun.set()
        assert goes_on.wait(PATIENCE_MS / 1000)
        return read(given)

    monkeypatch.setattr(CrashRecoveryFile, "read", held)
    answer(hand, "Recover")
    hand.until(begun.is_set)
    assert hand.window.statusBar().currentMessage() == "Opening…"
    retype(hand, "typed meanwhile")
    goes_on.set()
    hand.until(lambda: len(windows.all) == 2)
    assert hand.chips == ("typed", "meanwhile")
    assert windows.all[1].workspace.document == crashed
    hand.until(lambda: hand.window.statusBar().currentMessage() == "")


@pytest.mark.slow
def test_documents_larger_than_memory_are_reported_and_others_open(
    windows: WindowManager, crashed: Document, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, windows.open_window(Document()))
    (left,) = find_crash_recovery_files(recovery())
    large = recovery() / "large.recovery"

    def opened(path: Path) -> BinaryIO:
        if path == large:
            raise MemoryError
        return path.open("rb")

    monkeypatch.setattr(recovery_file, "open_regular_file", opened)
    hand.window.controllers.recovery_prompt.ask_to_recover([replace(left, file=large), left])
    answer(hand, "Recover")
    hand.until(lambda: hand.window.workspace.document == crashed)
    (box,) = hand.boxes()
    assert "not enough memory" in box.text()


@pytest.mark.slow
def test_a_document_without_a_new_name_is_offered_at_the_next_start(
    windows: WindowManager, crashed: Document, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, windows.open_window(Document()))

    def fail(when: object) -> NoReturn:
        raise InputError("memory", "The memory ran out.")

    monkeypatch.setattr(document_recovery, "format_date_and_time", fail)
    left = find_crash_recovery_files(recovery())
    hand.window.controllers.recovery_prompt.ask_to_recover(left * 2)
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert box.text() == "The memory ran out."
    answer(hand, "OK")
    hand.settle()
    assert len(windows.all) == 1
    assert hand.window.workspace.document != crashed
    assert find_crash_recovery_files(recovery()) == left


def test_the_user_is_asked_about_a_change_of_the_file_before_a_crash(
    windows: WindowManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    monkeypatch.setattr(document_recovery, "AUTOSAVE_DELAY_MS", 1)
    path = written(tmp_path / f"a{DOCUMENT_SUFFIX}", Document(text="opened"))
    first = Hand(qtbot, windows.open_window(Document()))
    drop(first, of_files(path))
    first.until(lambda: first.chips == ("opened",))
    content = written(path, ELSEWHERE).read_bytes()
    retype(first, "changed here")
    first.until(lambda: bool(list(recovery().glob("*.recovery"))))
    (kept,) = recovery().glob("*.recovery")
    as_it_crashed = kept.read_bytes()
    first.window.controllers.document_controller.discard_unsaved_changes()
    first.window.close()

    second = Hand(qtbot, windows.open_window(Document()))
    (recovery() / "crashed.recovery").write_bytes(as_it_crashed)
    second.window.controllers.recovery_prompt.ask_to_recover(find_crash_recovery_files(recovery()))
    answer(second, "Recover")
    second.until(second.window.isWindowModified)
    press_save(second)
    asks_about(second, path)
    answer(second, "Cancel")
    assert path.read_bytes() == content


# --------------------------------------------------------------------------- coming back


def test_the_last_document_is_reopened(
    windows: WindowManager, tmp_path: Path, qtbot: QtBot
) -> None:
    app_settings.save_last_file(
        written(tmp_path / f"a{DOCUMENT_SUFFIX}", Document(text="open last"))
    )
    windows.open_first_window(None, None)
    hand = Hand(qtbot, windows.all[0])
    hand.until(lambda: hand.chips == ("open", "last"))
    hand.window.close()
    assert app_settings.load_last_file() == tmp_path / f"a{DOCUMENT_SUFFIX}"


def test_nothing_asked_for_is_the_starting_document(windows: WindowManager, qtbot: QtBot) -> None:
    windows.open_first_window(None, None)
    hand = Hand(qtbot, windows.all[0])
    hand.settle()
    assert hand.window.workspace.document == default_document()
    assert hand.window.controllers.document_controller.is_new_and_unmodified
    hand.window.controllers.document_controller.new_window()
    assert windows.all[1].workspace.document == default_document()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--text", "asked for"),
        ("--text", Document().text),
        ("--mechanism", mechanism_of(Document().spec)),
        ("--device", Document().spec.device),
        ("--seed", str(Document().spec.seed)),
    ],
)
def test_requested_documents_take_precedence_over_the_last_document(
    windows: WindowManager,
    tmp_path: Path,
    arguments: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    qtbot: QtBot,
) -> None:
    """An option counts as given even if its value is the default."""

    def show(saved: SavedDocument | None, path: Path | None) -> int:
        windows.open_first_window(saved, path)
        return 0

    app_settings.save_last_file(
        written(tmp_path / f"a{DOCUMENT_SUFFIX}", Document(text="open last"))
    )
    monkeypatch.setattr(app, "show_window", show)
    assert app.main(arguments) == 0
    hand = Hand(qtbot, windows.all[0])
    hand.settle()
    wanted = build_document(create_parser().parse_args(arguments))
    assert hand.window.workspace.document == wanted
    assert hand.window.controllers.document_controller.path is None
    assert hand.window.controllers.start_page.page is None


@pytest.mark.parametrize("stored", ["", "/nowhere/a.attention", 7, "a\0b"])
def test_a_file_that_is_not_there_does_not_come_back(stored: str | int) -> None:
    app_settings.store_values({app_settings.LAST_FILE: stored})
    assert app_settings.load_last_file() is None


# --------------------------------------------------------------------------- several windows


@pytest.mark.slow
def test_a_new_window_is_one_of_its_own(windows: WindowManager, qtbot: QtBot) -> None:
    first = Hand(qtbot, windows.open_window(Document()))
    first.until(lambda: first.window.workspace.run is not None)
    first.press(Qt.Key.Key_N)
    second = Hand(qtbot, windows.all[1])
    second.until(lambda: second.window.workspace.run is not None)
    second.type_sentence("of its own")
    second.settle()
    assert first.chips[0] == "Your"
    assert second.chips == ("of", "its", "own")


@pytest.mark.slow
def test_a_file_is_opened_next_to_what_would_be_lost(
    windows: WindowManager, tmp_path: Path, qtbot: QtBot
) -> None:
    hand = Hand(qtbot, windows.open_window(Document()))
    hand.until(lambda: hand.window.workspace.run is not None)
    hand.press(Qt.Key.Key_M)
    hand.settle()
    hand.window.controllers.document_controller.open(
        written(tmp_path / f"a{DOCUMENT_SUFFIX}", Document(text="opened beside"))
    )
    hand.until(lambda: len(windows.all) == 2)
    other = Hand(qtbot, windows.all[1])
    other.until(lambda: other.chips == ("opened", "beside"))
    assert hand.chips[0] == "Your"
    assert other.window.windowTitle().startswith("a[*]")


def test_recent_files_are_listed_newest_first(hand: Hand, tmp_path: Path) -> None:
    for name in ("one", "two"):
        save_as(hand, tmp_path / name)
    menu = hand.window.actions_.menus[RECENT_MENU]
    menu.aboutToShow.emit()
    assert [action.text() for action in menu.actions()][:2] == [
        f"&1  two{DOCUMENT_SUFFIX}",
        f"&2  one{DOCUMENT_SUFFIX}",
    ]
    menu.actions()[1].trigger()
    hand.until(lambda: hand.window.statusBar().currentMessage().startswith("Opened"))
    hand.window.actions_.by_id["recent_files.clear"].trigger()
    menu.aboutToShow.emit()
    assert [action.text() for action in menu.actions() if not action.isSeparator()] == [
        "&Clear list"
    ]


def test_an_ampersand_in_the_name_of_a_recent_file_is_not_a_shortcut(
    hand: Hand, tmp_path: Path
) -> None:
    save_as(hand, tmp_path / "queries & keys")
    menu = hand.window.actions_.menus[RECENT_MENU]
    menu.aboutToShow.emit()
    assert menu.actions()[0].text() == f"&1  queries && keys{DOCUMENT_SUFFIX}"


# ------------------------------------------------------------------------------- data exports


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_exported_numbers_are_dropped_and_opened_as_their_document(
    suffix: str, hand: Hand, tmp_path: Path
) -> None:
    path = exported(tmp_path / f"a{suffix}", OWN)
    drop(hand, of_files(path))
    at_rest(hand)
    hand.settle()
    assert hand.window.workspace.document == OWN
    # Saving does not overwrite the exported file.
    assert hand.window.controllers.document_controller.path is None
    assert not hand.window.isWindowModified()


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_exported_numbers_are_opened_from_the_menu(suffix: str, hand: Hand, tmp_path: Path) -> None:
    path = exported(tmp_path / f"a{suffix}", OWN)
    hand.activate()
    hand.press(Qt.Key.Key_O, CONTROL)
    hand.until(lambda: bool(asked(hand)))
    (dialog,) = asked(hand)
    assert any(f"*{suffix}" in shown for shown in dialog.nameFilters()[:1])
    type_name(hand, path)
    at_rest(hand)
    hand.settle()
    assert hand.window.workspace.document == OWN
