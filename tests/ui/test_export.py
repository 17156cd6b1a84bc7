"""What is exported is what is shown; what cannot be written is said, and nothing is lost."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog, QMessageBox

from visualizer.attention.spec import InputError
from visualizer.state import files
from visualizer.state.caption import caption
from visualizer.state.heatmaps import Board
from visualizer.ui.exports import FORMATS, export, named
from visualizer.ui.pictures import DOTS_PER_INCH, LARGEST_SIDE, picture, png
from visualizer.ui.theme import DARK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.ui.hand import Hand

    Answer = Callable[..., None]

PNG, NPZ = (f"{said} (*{suffix})" for suffix, (said, _) in FORMATS.items())


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Answer the question for a file's name."""

    def answer_(path: object, chosen: str = PNG) -> None:
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), chosen))

    return answer_


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said in warnings, instead of waiting for them to be closed."""
    said: list[str] = []
    monkeypatch.setattr(QMessageBox, "warning", lambda *parts: said.append(parts[-1]))
    return said


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_a_picture(hand: Hand, answer: Answer, tmp_path: Path) -> None:
    answer(tmp_path / "attention.png")
    hand.press(Qt.Key.Key_E)
    image = QImage(str(tmp_path / "attention.png"))
    assert min(image.width(), image.height()) > 500
    assert image.pixelColor(0, 0).name() == "#ffffff"
    run = hand.window.workspace.run
    assert run
    assert image.text("Description") == caption(run)
    assert hand.window.statusBar().currentMessage() == f"Exported to {tmp_path / 'attention.png'}"


def test_the_numbers(hand: Hand, answer: Answer, tmp_path: Path) -> None:
    answer(tmp_path / "numbers.npz", NPZ)
    hand.press(Qt.Key.Key_E)
    with np.load(tmp_path / "numbers.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["weights"][1], hand.panel("weights", 1).values)
        assert arrays["tokens"].tolist() == list(hand.chips)


@pytest.mark.parametrize(
    ("name", "chosen", "written"),
    [
        ("a", PNG, "a.png"),
        ("a", NPZ, "a.npz"),
        ("a.npz", PNG, "a.npz"),
        ("a.PNG", NPZ, "a.PNG"),
        ("a", "", "a.png"),
    ],
)
def test_a_name_without_a_suffix_takes_the_chosen_one(name: str, chosen: str, written: str) -> None:
    assert named(name, chosen).name == written


def test_no_name_is_no_export(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path
) -> None:
    answer("")
    hand.press(Qt.Key.Key_E)
    assert warnings == []
    assert left(tmp_path) == []


def test_an_unknown_format_is_said(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path
) -> None:
    answer(tmp_path / "attention.bmp")
    hand.press(Qt.Key.Key_E)
    assert warnings == ["“.bmp” is no format to export. Use .png or .npz."]
    assert left(tmp_path) == []


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC, errno.EROFS])
def test_what_cannot_be_written_is_said_and_the_old_file_stays(
    hand: Hand,
    answer: Answer,
    warnings: list[str],
    suffix: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / f"attention{suffix}"
    path.write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, "NamedTemporaryFile", fail)
    answer(path)
    board = hand.shown
    hand.press(Qt.Key.Key_E)
    assert warnings == [f"“{path.name}” could not be written to {tmp_path}: {os.strerror(code)}."]
    assert path.read_bytes() == b"old"
    assert hand.shown is board


def test_a_folder_that_is_not_there_is_said(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path
) -> None:
    answer(tmp_path / "missing" / "a.png")
    hand.press(Qt.Key.Key_E)
    assert warnings == [
        f"“a.png” could not be written to {tmp_path / 'missing'}: No such file or directory."
    ]


def test_a_read_only_folder_is_said(
    hand: Hand, answer: Answer, warnings: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    answer(folder / "a.png")
    hand.press(Qt.Key.Key_E)
    folder.chmod(0o700)
    assert left(folder) in ([], ["a.png"])  # permissions do not bind the superuser
    assert bool(warnings) == (left(folder) == [])


# ------------------------------------------------------------------------------------ pictures


def test_a_picture_says_its_size_and_can_be_read_back(hand: Hand) -> None:
    image = picture(hand.shown, "how it was made", scale=3)
    assert image.dotsPerMeterX() == image.dotsPerMeterY() == round(DOTS_PER_INCH * 3 / 0.0254)
    back = QImage.fromData(QByteArray(png(image)))
    assert back.size() == image.size()
    assert back.convertToFormat(image.format()) == image
    assert back.text("Description") == "how it was made"


def test_a_picture_can_be_dark(hand: Hand) -> None:
    assert picture(hand.shown, "", DARK).pixelColor(0, 0).name().upper() == DARK.paper


def test_a_picture_is_never_too_large_to_be_made(hand: Hand) -> None:
    tall = Board(tuple(column * 60 for column in hand.shown.columns))
    image = picture(tall, "", scale=2)
    assert max(image.width(), image.height()) == pytest.approx(LARGEST_SIDE, rel=0.01)
    assert image.devicePixelRatio() < 2


def test_an_export_without_a_window_refuses_in_the_same_words(hand: Hand, tmp_path: Path) -> None:
    run = hand.window.workspace.run
    assert run
    with pytest.raises(InputError, match="is no format to export"):
        export(tmp_path / "a.gif", run, hand.shown)
    assert export(tmp_path / "a.PNG", run, hand.shown).is_file()
