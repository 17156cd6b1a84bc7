"""A pipe, socket, device or folder in place of a file is rejected immediately.

Reading a pipe blocks until a program writes to it, and reading ``/dev/zero`` never ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication

from tests.support.window_input import Hand
from visualizer.attention.captured_attention import CapturedAttention
from visualizer.attention.importers.tensor_file_reader import READERS, read_tensor_file
from visualizer.attention.spec import AttentionSpec
from visualizer.cli.option_parser import read_text_option
from visualizer.documents.document_file import DOCUMENT_SUFFIX, SavedDocument
from visualizer.documents.open_document import open_document, read_text_file
from visualizer.documents.recent_files import add_recent_file, load_recent_files
from visualizer.documents.recovery_file import CrashRecoveryFile, find_crash_recovery_files
from visualizer.errors import InputError
from visualizer.features.lessons.claim_check import PrintedNumbers
from visualizer.features.lessons.lesson_file import load_lessons
from visualizer.file_opening import open_as_document
from visualizer.lab.settings.text_preview_controller import read_text_sample
from visualizer.language.corpora.text_file import read_text
from visualizer.language.run_folder import RunFolder
from visualizer.language.training_settings import CorpusKind, CorpusSource, TrainingSettings
from visualizer.resources import resource_path
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.storage.regular_file import open_regular_file
from visualizer.widgets.app_settings import user_data_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytestqt.qtbot import QtBot

    from visualizer.shell.window import MainWindow
    from visualizer.shell.window_manager import WindowManager

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such files on Windows")

SECONDS = 10
KINDS = ("a pipe", "a socket", "a device", "a folder")


def plant(path: Path, kind: str) -> None:
    """Create a special file or a folder with the given path."""
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "a folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)  # a full path may be too long


@contextmanager
def at_once() -> Iterator[None]:
    """Fail if the code within the context blocks in a call that a signal can interrupt."""

    def fail(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "inner"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


def of_run_folder(path: Path) -> None:
    RunFolder(path.parent).read_metadata()


def of_sample(path: Path) -> None:
    read_text_sample(TrainingSettings(source=CorpusSource(kind=CorpusKind.FILE, path=str(path))))


def of_recovery(path: Path) -> None:
    CrashRecoveryFile(path, datetime.now(UTC), None).read()


OPENERS: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "documents": (open_document, (f"a{DOCUMENT_SUFFIX}", "a.png", "a.svg", "a.pdf", "a.html", "a")),
    "texts": (read_text_file, ("a.txt",)),
    "tensors": (
        lambda path: read_tensor_file(path, AttentionSpec()),
        tuple(f"a{suffix}" for suffix in READERS),
    ),
    "any": (
        lambda path: open_as_document(path, Document()),
        ("a", "a.txt", f"a{DOCUMENT_SUFFIX}", *(f"a{suffix}" for suffix in READERS)),
    ),
    "recovery files": (of_recovery, ("a.recovery",)),
    "texts to train on": (lambda path: read_text(str(path)), ("a.txt", "a")),
    "samples of texts": (of_sample, ("a.txt",)),
    "run folders": (
        of_run_folder,
        ("run.json", "losses.csv", "checkpoint.safetensors", "lock", "probe.txt"),
    ),
}
EACH = [(title, name) for title, (_, names) in OPENERS.items() for name in names]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("title", "name"), EACH)
def test_it_is_refused_in_a_sentence(title: str, name: str, kind: str, folder: Path) -> None:
    plant(folder / name, kind)
    with at_once(), pytest.raises(InputError) as refused:
        OPENERS[title][0](folder / name)
    assert name in refused.value.sentence or title in ("recovery files", "run folders")
    assert refused.value.sentence.endswith(".")


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line_does_not_read_it(kind: str, folder: Path) -> None:
    plant(folder / "a", kind)
    with at_once(), pytest.raises(argparse.ArgumentTypeError, match=f"not a file, but {kind}"):
        read_text_option(str(folder / "a"))


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_beside_a_tensor_is_not_read(kind: str, folder: Path) -> None:
    np.save(folder / "a.npy", np.full((3, 3), 1 / 3))
    plant(folder / "a.json", kind)
    with at_once():
        found, _ = read_tensor_file(folder / "a.npy", AttentionSpec())
    assert isinstance(found, CapturedAttention)
    assert found.keys == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_lesson_is_reported(kind: str, folder: Path) -> None:
    plant(folder / "a.toml", kind)
    with at_once():
        _, errors = load_lessons(
            [folder], PrintedNumbers.read_files(resource_path("lessons", "chapter3.json"))
        )
    assert [error.sentence for error in errors] == [
        f"Cannot read the lesson: it is not a file, but {kind}."
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_the_program_are_empty(kind: str, folder: Path) -> None:
    for name in ("recent.json", "a.recovery"):
        plant(folder / name, kind)
    with at_once():
        assert load_recent_files(folder) == ()
        assert find_crash_recovery_files(folder) == []


def test_what_was_put_there_meanwhile_is_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check and the opening, another program may replace a file by a pipe."""
    (folder / "a").write_bytes(b"file")
    regular = (folder / "a").stat()
    (folder / "a").unlink()
    os.mkfifo(folder / "a")
    monkeypatch.setattr(Path, "stat", lambda *_: regular)
    with at_once(), pytest.raises(OSError, match="it is not a file, but a pipe"):
        open_regular_file(folder / "a")


def test_no_file_has_such_a_name() -> None:
    with pytest.raises(InputError, match="the file name is invalid"):
        open_document(Path("a\0b"))


# --------------------------------------------------------------------------- in the window


def drop(window: MainWindow, path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    place, copy = window.rect().center(), Qt.DropAction.CopyAction
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(window, QDragEnterEvent(place, copy, data, left, none))
    QApplication.sendEvent(window, QDropEvent(QPointF(place), copy, data, left, none))


def refuses(hand: Hand, kind: str) -> None:
    """Wait for the message box with the error, and close it."""
    hand.until(lambda: bool(hand.boxes()))
    (box,) = hand.boxes()
    assert f"it is not a file, but {kind}." in f"{box.text()} {box.informativeText()}"
    box.close()
    hand.until(lambda: not hand.boxes())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_window_says_so_and_goes_on(
    windows: WindowManager, kind: str, folder: Path, qtbot: QtBot
) -> None:
    recovery = user_data_folder() / "recovery"
    recovery.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(recovery)
        plant(recovery / "a.recovery", kind)
    names = (f"a{DOCUMENT_SUFFIX}", "a.txt", "a.npy", "a.safetensors", "a.pt")
    for name in names:
        plant(folder / name, kind)
        add_recent_file(user_data_folder(), folder / name)
    windows.open_first_window(SavedDocument(Document(), View()), None)
    window = windows.all[0]
    hand = Hand(qtbot, window)
    hand.until(lambda: window.workspace.run is not None)
    for name in names:
        drop(window, folder / name)
        refuses(hand, kind)
    menu = window.actions_.menus["&File>Open &recent"]
    menu.aboutToShow.emit()
    for action in menu.actions()[: len(names)]:
        action.trigger()
        refuses(hand, kind)
    assert hand.chips[0] == "Your"
