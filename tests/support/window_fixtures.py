"""Fixtures for windows with the real computation, or with one that a test can delay."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.support.playback_viewer import Viewer
from tests.support.shared_window import SharedWindow, let_go
from tests.support.waiting import wait_until
from tests.support.window_input import PATIENCE_MS, Hand
from visualizer import app
from visualizer.attention import run as attention_run
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.shell.window_manager import WindowManager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from PySide6.QtWidgets import QApplication
    from pytestqt.qtbot import QtBot

    from visualizer.attention.run import Run
    from visualizer.shell.window import MainWindow

    Open = Callable[..., MainWindow]

TEXT_OF_MODEL = "the cat sat on the mat"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that open windows of their own last, because they close the shared window."""
    own = {"open_window", "gate"}
    items.sort(key=lambda item: bool(own.intersection(getattr(item, "fixturenames", ()))))


@pytest.fixture(scope="session")
def application(qapp: QApplication) -> Iterator[QApplication]:
    """The QApplication with the program's style and name; it ends as the program does."""
    qapp.setApplicationName("Attention Visualizer")
    qapp.setOrganizationName("Attention Visualizer")
    qapp.setStyle("Fusion")
    yield qapp
    app.clear_transient_clipboard()


def _let_through(window: MainWindow) -> None:
    if isinstance(app.compute, Gate):
        app.compute.open()  # closing waits for the computation
    let_go(window)


@pytest.fixture(scope="session")
def shared(application: QApplication) -> Iterator[SharedWindow]:
    """The window shared by the tests of all modules."""
    made = SharedWindow()
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_here(shared: SharedWindow) -> Iterator[SharedWindow]:
    """The shared window's owner; the window is off the screen while other modules are tested."""
    yield shared
    shared.put_away()


@pytest.fixture
def shared_window(
    shared_here: SharedWindow, application: QApplication, qtbot: QtBot
) -> Iterator[MainWindow]:
    """The shared window, reset to its initial state."""
    yield shared_here.lend(qtbot)
    shared_here.take_back()


MATRIX_LIMITS = ("MAX_FULL_MATRIX_BYTES", "MIN_BLOCKWISE_BYTES")


@pytest.fixture(scope="module")
def every_text_is_long(shared_here: SharedWindow) -> Iterator[Mapping[str, int]]:
    """Compute every text in blocks, including the first one in the module's shared window.

    The value of the fixture is the usual limits, by name.
    """
    shared_here.close()
    usual = {name: getattr(attention_run, name) for name in MATRIX_LIMITS}
    with pytest.MonkeyPatch.context() as patch:
        for name in MATRIX_LIMITS:
            patch.setattr(attention_run, name, 0)
        yield usual
        shared_here.close()


@pytest.fixture
def use_usual_limits(
    every_text_is_long: Mapping[str, int], monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Compute short texts in full for the rest of a test."""

    def use() -> None:
        for name, limit in every_text_is_long.items():
            monkeypatch.setattr(attention_run, name, limit)

    return use


@pytest.fixture
def open_window(application: QApplication, qtbot: QtBot, shared: SharedWindow) -> Open:
    """Open windows with the size of a usual screen, and close them after the test."""
    shared.close()  # so that a test's own windows are the only ones
    # Otherwise, garbage collection might delete a closed window while it handles an event.
    opened = []

    def open_(
        document: Document | None = None, size: tuple[int, int] | None = (1280, 800)
    ) -> MainWindow:
        window = app.open_window(document or Document(), View())
        opened.append(window)
        if size:  # the screen of the offscreen platform is smaller
            window.resize(*size)
        qtbot.addWidget(window, before_close_func=_let_through)
        qtbot.waitExposed(window)
        return window

    return open_


@pytest.fixture
def fresh_window(open_window: Open, qtbot: QtBot) -> MainWindow:
    """A new window with its first numbers."""
    opened = open_window()
    wait_until(lambda: opened.workspace.run is not None, 6 * PATIENCE_MS)
    return opened


@pytest.fixture
def window(request: pytest.FixtureRequest) -> MainWindow:
    """The window with its first numbers: the shared one, unless its computation is replaced.

    A module that tests new windows, closing, or what remains after closing defines its own
    `window`, which is `fresh_window`.
    """
    is_changed = "gate" in request.fixturenames or "open_window" in request.fixturenames
    opened: MainWindow = request.getfixturevalue("fresh_window" if is_changed else "shared_window")
    return opened


@pytest.fixture
def windows(application: QApplication, qtbot: QtBot) -> Iterator[WindowManager]:
    """The window manager of the program; its windows are closed after the test without a dialog."""
    made = WindowManager(app.create_window_services())
    yield made
    for window in made.all.copy():
        window.controllers.document_controller.discard_unsaved_changes()
        window.close()
    if made.lab:
        made.lab.lab.close_run()
        made.lab.close()
    application.processEvents()


@pytest.fixture
def hand(window: MainWindow, qtbot: QtBot) -> Hand:
    """The input driver of the window."""
    return Hand(qtbot, window)


@pytest.fixture
def model_window(hand: Hand, tiny_model_folder: Path) -> Hand:
    """A window with a model's heatmaps for `TEXT_OF_MODEL`, and its Next token pane in front."""
    hand.type_sentence(TEXT_OF_MODEL)
    hand.settle()
    hand.window.controllers.document_controller.open(tiny_model_folder)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    hand.until(lambda: not hand.window.docks.by_id["Next token"].isHidden())
    hand.window.docks.open_pane("Next token")
    hand.until(lambda: hand.window.panes["Next token"].isVisible())
    hand.window.docks.show_heatmaps()
    hand.settle()
    return hand


@pytest.fixture
def viewer(hand: Hand) -> Viewer:
    hand.settle()
    return Viewer(hand)


class Gate:
    """A computation that waits until it is released, and can be made to fail."""

    def __init__(self) -> None:
        self.asked: list[Document] = []
        self.error: Exception | None = None
        self._passes = threading.Semaphore(0)
        self._is_open = False
        self._compute = app.compute

    def __call__(self, document: Document, previous: Run | None) -> Run:
        self.asked.append(document)
        if not self._is_open:
            self._passes.acquire(timeout=PATIENCE_MS / 1000)
        if self.error:
            raise self.error
        return self._compute(document, previous)

    def let_through(self, count: int = 1) -> None:
        """Release this many requests."""
        self._passes.release(count)

    def open(self) -> None:
        """Release all requests from now on."""
        self._is_open = True
        self._passes.release(100)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Put the program's computation behind a gate; request this fixture before a window."""
    made = Gate()
    monkeypatch.setattr(app, "compute", made)
    return made
