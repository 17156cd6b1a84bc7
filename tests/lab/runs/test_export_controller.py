"""The animation of a run: as many snapshots as fit are read, and then it is written."""

from __future__ import annotations

import os
import signal
from threading import Event
from typing import TYPE_CHECKING

import pytest
from PIL import Image
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from visualizer.lab.training_film import controller
from visualizer.lab.training_film.controller import TrainingFilmController

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.lab_input import LabUser
    from visualizer.progress import Progress


class RecordedFilms:
    """A controller for animations, with the messages that it has emitted."""

    def __init__(self, user: LabUser) -> None:
        self.user, self.film_controller = user, TrainingFilmController(user.window.lab)
        self.said: list[str] = []
        self.refused: list[str] = []
        self.progress: list[tuple[int, int]] = []
        self.film_controller.messageReported.connect(lambda words, _: self.said.append(words))
        self.film_controller.refused.connect(self.refused.append)
        self.film_controller.progressReported.connect(lambda *by: self.progress.append(by))

    def train(self, steps: int = 40) -> None:
        self.user.type("steps", str(steps))
        self.user.click("toggle")
        self.user.until_said("Done")

    def finish(self) -> None:
        self.user.until(lambda: not self.film_controller.is_working)


@pytest.fixture
def films(user: LabUser) -> Iterator[RecordedFilms]:
    made = RecordedFilms(user)
    yield made
    made.film_controller.close()


@pytest.mark.slow
def test_every_snapshot_is_a_frame(films: RecordedFilms, tmp_path: Path) -> None:
    films.train()
    path = tmp_path / "training.gif"
    films.film_controller.create_film(path)
    assert films.film_controller.is_working
    films.finish()
    assert films.refused == []
    assert films.said[-1] == f"Exported to {path}"
    with Image.open(path) as image:
        assert getattr(image, "n_frames") == 5  # noqa: B009 - of moving pictures only
    assert (3, 5) in films.progress


@pytest.mark.slow
def test_snapshots_are_omitted_evenly_if_not_all_fit(
    films: RecordedFilms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    films.train(200)  # 21 snapshots are kept
    of_one = 2 * 2 * 8 * 8 * 4 + 8 * 8 * 4 + 2 * 2 * 8  # weights, logits, weights on target keys
    monkeypatch.setattr("visualizer.lab.training_film.controller.MAX_READINGS_BYTES", 6 * of_one)
    path = tmp_path / "training.gif"
    films.film_controller.create_film(path)
    films.finish()
    assert films.said[-1].startswith(f"Exported to {path} (6 of 21 snapshots")
    with Image.open(path) as image:
        assert getattr(image, "n_frames") == 6  # noqa: B009 - of moving pictures only


@pytest.mark.slow
def test_another_run_cancels_the_export(films: RecordedFilms, tmp_path: Path) -> None:
    films.train()
    films.film_controller.create_film(tmp_path / "training.gif")
    films.user.window.lab.close_run()
    films.finish()
    assert not [*tmp_path.glob("training*")]


def test_other_formats_are_rejected_before_anything_is_read(
    films: RecordedFilms, tmp_path: Path
) -> None:
    films.train()
    films.film_controller.create_film(tmp_path / "training.png")
    assert films.refused
    assert "is not a supported animation format" in films.refused[0]
    assert not films.film_controller.is_working


def test_without_a_run_nothing_is_exported(films: RecordedFilms, tmp_path: Path) -> None:
    films.film_controller.create_film(tmp_path / "training.gif")
    assert not films.film_controller.is_working


def test_an_invalid_text_is_reported(films: RecordedFilms, tmp_path: Path) -> None:
    films.train()
    films.user.window.lab.set_probe("z!")
    films.film_controller.create_film(tmp_path / "training.gif")
    films.finish()
    assert len(films.refused) == 1
    assert not [*tmp_path.glob("training*")]


class Filming:
    """The lab's window while an animation is being written; writing blocks until it is released."""

    def __init__(self, user: LabUser, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.window, self.path, self.user = user.window, path, user
        self.is_begun, self.may_continue = Event(), Event()
        user.train(40)
        monkeypatch.setattr(controller, "write_training_film", self._write)
        self.window.run_export_controller.film_controller.create_film(path)
        user.until(self.is_begun.is_set)

    def _write(self, path: Path, film: object, progress: Progress) -> Path:
        self.is_begun.set()
        while not self.may_continue.wait(0.001):
            progress(1, 2)
        path.touch()
        return path

    @property
    def said(self) -> str:
        return self.window.statusBar().currentMessage()


@pytest.fixture
def filming(user: LabUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Filming]:
    made = Filming(user, tmp_path / "training.gif", monkeypatch)
    yield made
    made.may_continue.set()


def test_closing_waits_for_an_animation(filming: Filming) -> None:
    filming.window.close()
    assert filming.window.isVisible()
    said = "The window closes when the file is complete: 1 of 2"
    filming.user.until(lambda: filming.said == said)
    filming.may_continue.set()
    filming.user.until(lambda: not filming.window.isVisible())
    assert filming.path.exists()


def test_one_animation_is_created_at_a_time(filming: Filming) -> None:
    action = filming.window.menus.by_id["run_export.save_film"]
    assert not action.isEnabled()
    filming.may_continue.set()
    filming.user.until(action.isEnabled)
    assert filming.path.exists()


def test_an_animation_is_cancelled_with_its_button(filming: Filming) -> None:
    button = filming.window.run_export_controller.progress.widget.cancel
    filming.user.until(button.isVisible)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    filming.user.until(lambda: filming.said == "Cancelled; nothing was written.")
    assert not button.isVisible()
    assert not filming.path.exists()


def test_reading_for_an_animation_is_cancelled(films: RecordedFilms, tmp_path: Path) -> None:
    films.train()
    films.film_controller.create_film(tmp_path / "training.gif")
    films.film_controller.cancel()
    assert not films.film_controller.is_working
    assert films.said[-1] == "Cancelled; nothing was written."


def test_an_animation_whose_training_ends_is_reported_as_not_saved(
    films: RecordedFilms, tmp_path: Path
) -> None:
    films.train()
    training = films.user.training
    films.film_controller.create_film(tmp_path / "training.gif")
    os.kill(training.process_id, signal.SIGKILL)
    films.finish()
    assert films.refused == [controller.INCOMPLETE_FILM_ERROR]
    assert not [*tmp_path.glob("training*")]


def test_a_failed_animation_leaves_the_window_open(
    filming: Filming, monkeypatch: pytest.MonkeyPatch
) -> None:
    filming.window.close()
    filming.window.run_export_controller.film_controller.refused.emit("The disk is full.")
    assert filming.said == "The disk is full."
    filming.may_continue.set()
    filming.user.until(lambda: not filming.window.run_export_controller.film_controller.is_working)
    filming.user.until(lambda: filming.said.startswith("Exported"))
    assert filming.window.isVisible()
