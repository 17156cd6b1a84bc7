"""The vectors of a model's long text are stored in a file: display in the window and deletion."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QEvent

from tests.support.held_reading import read_few_tokens_at_once
from tests.support.mapped_files import mapped_of, opened_of
from tests.support.stale_panels import stale_panels
from tests.support.waiting import wait_until
from tests.support.window_input import PATIENCE_MS, Hand
from visualizer.export.figure_settings import FigureSettings
from visualizer.models import long_text_runner, long_text_vectors
from visualizer.session.document import Document

if TYPE_CHECKING:
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from visualizer.shell.window_manager import WindowManager

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # libraries warn about small models
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]
TEXT = "the cat sat on the mat and the dog ran to a log"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Store the vectors of every text in a file, and return the file's folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(long_text_runner, "MAX_FULL_MATRIX_BYTES", 0)
    monkeypatch.setattr(long_text_vectors, "MAX_MEMORY_BYTES", 0)
    return tmp_path / "attention-visualizer"


@pytest.fixture
def long(cache: Path, model_window: Hand) -> Hand:
    """Open a window in which a model has processed a text and stored its vectors in a file."""
    model_window.type_sentence(TEXT)
    model_window.settle()
    return model_window


def test_the_status_bar_says_it_and_texts_that_are_replaced_free_it(
    cache: Path, long: Hand
) -> None:
    assert "vectors in a file of 7.0 KiB" in long.status
    for text in (f"{TEXT} the cat", "the cat", TEXT):
        long.type_sentence(text)
        long.settle()
        long.until(lambda: len(mapped_of(cache)) == 1)  # another thread frees the replaced data
    while long.window.workspace.document.model is not None:
        long.window.workspace.undo()
    long.settle()
    long.until(lambda: not mapped_of(cache))
    assert opened_of(cache) == []
    assert "in a file" not in long.status


def test_a_full_disk_is_reported_at_the_text_and_the_last_image_stays(
    cache: Path, long: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, picture = long.window.workspace.run, long.panel("weights").values
    monkeypatch.setattr(long_text_vectors, "free_bytes", lambda _: 0)
    long.type_sentence(f"{TEXT} the cat")
    long.until(lambda: long.text_problem != "")
    assert f"16 tokens need 8.5 KiB in a temporary file in {cache}" in long.text_problem
    assert "About 0 tokens fit" in long.text_problem
    assert long.window.workspace.run is before
    np.testing.assert_array_equal(long.panel("weights").values, picture)
    assert len(mapped_of(cache)) == 1
    monkeypatch.undo()
    long.type_sentence(TEXT)
    long.settle()
    assert long.text_problem == ""


def shown_of_another(hand: Hand) -> list[object]:
    """Return a snapshot in which the run belongs to a different text than the document."""
    resolved = hand.window.workspace.screen.resolved
    if resolved is None or resolved.computed is None:
        return []
    others: list[object] = [*stale_panels(hand)]
    words = [*resolved.run.texts[0][1:]]  # the token after <s>
    return others if words == resolved.computed.text.split() else [*others, words]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_readings_drawings_and_exports_ended_at_random_leave_nothing_behind(
    seed: int, cache: Path, long: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_few_tokens_at_once(monkeypatch)
    chance = random.Random(seed)
    window, words = long.window, TEXT.split()
    workspace, exporter = window.workspace, window.controllers.export_controller.exporter
    folder = tmp_path / "exports"
    folder.mkdir()
    stale: list[object] = []

    def check() -> None:
        stale.extend(shown_of_another(long))

    def export() -> None:
        if workspace.snapshot and not exporter.is_working:
            name = f"{chance.randrange(9)}{chance.choice(('.png', '.svg', '.npz'))}"
            exporter.write_file(folder / name, workspace.snapshot, FigureSettings())

    def enlarge() -> None:
        window.controllers.view_controller.zoom(chance.choice((0.5, 2)), (4, 4))

    shown = [workspace.changed, workspace.drawn]
    for signal in shown:
        signal.connect(check)
    acts = (
        lambda: workspace.set_text(" ".join(words[: chance.randrange(5, len(words))])),
        lambda: workspace.show_leading_index((chance.randrange(2),)),
        enlarge,
        workspace.undo,
        export,
        exporter.cancel,
    )
    for _ in range(60):
        chance.choice(acts)()
        for _ in range(chance.randrange(3)):
            with long.qtbot.waitSignals(shown, timeout=30, raising=False):
                pass
    exporter.cancel()
    long.until(lambda: not exporter.is_working)
    workspace.set_text(TEXT)
    long.settle()
    for signal in shown:
        signal.disconnect(check)
    assert stale == []
    assert workspace.run
    assert [*workspace.run.texts[0][1:]] == words
    long.until(lambda: len(mapped_of(cache)) == 1)
    assert {path.suffix for path in folder.iterdir()} <= {".png", ".svg", ".npz"}
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    assert [box.text() for box in long.boxes()] == []


def test_a_closed_window_frees_it(
    cache: Path, windows: WindowManager, qtbot: QtBot, tiny_model_folder: Path
) -> None:
    open_and_close(windows, qtbot, tiny_model_folder, cache)
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    wait_until(lambda: not mapped_of(cache), PATIENCE_MS)
    assert opened_of(cache) == []


def open_and_close(windows: WindowManager, qtbot: QtBot, folder: Path, cache: Path) -> None:
    """Process a text in a window, and close the window without keeping references."""
    hand = Hand(qtbot, windows.open_window(Document(text=TEXT)))
    hand.settle()
    hand.window.controllers.document_controller.open(folder)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    assert len(mapped_of(cache)) == 1
    hand.window.controllers.document_controller.discard_unsaved_changes()
    hand.window.close()
