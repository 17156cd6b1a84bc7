"""Fixtures for all tests: offscreen Qt, separate settings, and checks for leftover objects."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import settings

# Set before Qt is imported, because Qt reads the platform only once.
if asked := os.environ.get("ATTENTION_VISUALIZER_TEST_PLATFORM"):
    os.environ["QT_QPA_PLATFORM"] = asked
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

# Set before torch is imported: each worker has one core, and several threads would compete for it.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QObject,
    QPoint,
    QSettings,
    QThread,
    QThreadPool,
)
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QApplication
from shiboken6 import Shiboken

from tests.support.shared_window import SHARED
from visualizer.models.tokenizer_process import LISTENER_THREAD_NAME
from visualizer.session.newest_request_worker import join_abandoned_workers
from visualizer.shell.application import Application
from visualizer.storage import log_file
from visualizer.widgets.fonts import apply_interface_font

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from PySide6.QtWidgets import QWidget
    from pytestqt.qtbot import QtBot

    from visualizer.attention.spec import Device

    Show = Callable[[QWidget, tuple[int, int]], None]

pytest_plugins = ["tests.support.window_fixtures"]

GRACE_S = 2.0
"""Maximum time for a thread to stop after it was told to stop, in seconds."""

SIGNALS = ("SIGTERM", "SIGHUP")
AWAY = QPoint(-100, -100)
"""A position outside all windows."""

THIS_PROCESS = psutil.Process()
"""Created once, because creating it queries the start time of the process."""

QT_KEEPS = {"QTipLabel"}
"""Classes of windows that Qt keeps for a while after their last use."""

# There is no deadline, because the first run may import torch, which is slow.
# The number of examples is set only here; `tests.support.examples` scales it.
IS_CI = bool(os.environ.get("CI"))
settings.register_profile("quick", deadline=None, derandomize=IS_CI, max_examples=10)
settings.register_profile("release", deadline=None, derandomize=IS_CI, max_examples=200)
settings.load_profile("quick")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for ``-n logical``.

    It exceeds the number of cores, because tests wait for timers, threads and programs: with two
    workers, a third of two cores is idle.
    """
    return (os.cpu_count() or 1) + 1


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.accelerator.is_available():
            pytest.skip("torch finds no accelerator here")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Disable garbage collection while thousands of permanent objects are created."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exclude the many permanent objects that all tests share from garbage collection."""
    gc.collect()
    gc.freeze()


class Machine:
    """Sets the memory and devices that the program finds, for tests of other machines."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def set_free_bytes(self, count: int, **others: int) -> None:
        """Set the free memory of every device; ``others`` sets it for single devices, by value."""
        self._patch.setattr(
            "visualizer.attention.device.free_device_bytes",
            lambda device: others.get(device.value, count),
        )

    def set_devices(self, *devices: Device) -> None:
        self._patch.setattr("visualizer.attention.device.available_devices", lambda: devices)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Restore default signal handling, which started programs inherit.

    The program that runs the tests may ignore these signals.
    """
    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def settings_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield paths of new folders, one for each test; the folders do not exist yet."""
    base = tmp_path_factory.mktemp("settings")
    return (base / str(number) for number in itertools.count())


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small transformers model with a tokenizer of a few words; do not change it."""
    # Imported here because most tests do not need torch.
    from tests.support.tiny_models import save_tiny_model

    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def show(application: QApplication, qtbot: QtBot) -> Show:
    """Show a widget with the given size."""

    def show_(widget: QWidget, size: tuple[int, int]) -> None:
        qtbot.addWidget(widget)
        widget.resize(*size)
        widget.show()
        qtbot.waitExposed(widget)

    return show_


@pytest.fixture(scope="session", autouse=True)
def settings_of_shared_windows(settings_folders: Iterator[Path]) -> Iterator[None]:
    """Separate settings for windows that are kept between tests and closed after the last test."""
    with pytest.MonkeyPatch.context() as patch:
        _use_settings_in(next(settings_folders), patch)
        yield


@pytest.fixture(autouse=True)
def own_settings(settings_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Separate settings for each test, so that the settings of the user are not changed."""
    _use_settings_in(next(settings_folders), monkeypatch)


def _use_settings_in(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("XDG_DATA_HOME", str(folder / "data"))
    patch.setenv("XDG_CONFIG_HOME", str(folder / "settings"))
    patch.setenv("XDG_STATE_HOME", str(folder / "state"))
    patch.setenv("WIN_PD_OVERRIDE_APPDATA", str(folder / "data"))
    # Used by Qt's own dialogs.
    for scope in (QSettings.Scope.UserScope, QSettings.Scope.SystemScope):
        QSettings.setPath(QSettings.Format.NativeFormat, scope, str(folder / "settings"))


@pytest.fixture(scope="session")
def qapp_cls() -> type[QApplication]:
    """The program's own class of applications."""
    return Application


@pytest.fixture(scope="session")
def qapp(qapp: QApplication) -> QApplication:
    """The application with the program's font."""
    apply_interface_font(100)
    return qapp


@pytest.fixture(autouse=True)
def quiet_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test that logs a warning or an error without clearing the log after an assertion.

    Unexpected errors in the window are also shown, which is what tests check.
    """
    yield
    loud = [
        f"{record.name}: {record.levelname}: {record.getMessage()}"
        for when in ("setup", "call")
        for record in caplog.get_records(when)
        if record.levelno >= logging.WARNING and record.name != log_file.__name__
    ]
    if loud:
        pytest.fail("logged, and not asserted and caplog.clear()ed:\n  " + "\n  ".join(loud))


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test with windows that leaves widgets or threads behind, and list them."""
    if "qtbot" not in request.fixturenames:
        yield
        return
    request.getfixturevalue("qapp")
    old_widgets = set(map(_address, QApplication.topLevelWidgets()))
    old_threads = set(threading.enumerate())
    old_system_threads = _system_threads()
    yield
    join_abandoned_workers()
    left = [
        *_left_widgets(old_widgets),
        *_left_threads(old_threads),
        *_left_qt_threads(old_system_threads),
    ]
    if left:
        pytest.fail("left behind by the test:\n  " + "\n  ".join(left))


@pytest.fixture(autouse=True)
def hand_away(request: pytest.FixtureRequest) -> None:
    """Move the pointer off the screen before the test, because the last test may have moved it."""
    if "qtbot" in request.fixturenames:
        request.getfixturevalue("qapp")
        QCursor.setPos(AWAY)


def _address(thing: QObject) -> int:
    return Shiboken.getCppPointer(thing)[0]


def _new_widgets(old: set[int]) -> list[QWidget]:
    """Return the top-level widgets that are not at any of the old addresses."""
    return [
        widget
        for widget in QApplication.topLevelWidgets()
        if _address(widget) not in old
        and widget.metaObject().className() not in QT_KEEPS
        and not _is_shared(widget)
    ]


def _is_shared(thing: QObject) -> bool:
    """Return whether an object belongs to a shared window.

    Such a window creates lists and threads when they are first needed.
    """
    owner: QObject | None = thing
    while owner and not owner.property(SHARED):
        owner = owner.parent()
    return owner is not None


def _left_widgets(old: set[int]) -> list[str]:
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    if _new_widgets(old):
        # A widget in an unreachable reference cycle is only collected late, not leaked.
        gc.collect()
    return [f"widget {widget!r} titled {widget.windowTitle()!r}" for widget in _new_widgets(old)]


def _left_threads(old: set[threading.Thread]) -> list[str]:
    until = time.monotonic() + GRACE_S
    while left := _new_threads(old):
        if time.monotonic() > until:
            break
        for thread in left:
            if thread.is_alive():  # a thread that has not started yet cannot be joined
                thread.join(GRACE_S)
    return [f"thread {thread!r}" for thread in left]


def _new_threads(old: set[threading.Thread]) -> list[threading.Thread]:
    # The tokenizer process and its listener thread belong to the program, not to a window.
    return [
        each
        for each in threading.enumerate()
        if each not in old and each.name != LISTENER_THREAD_NAME
    ]


def _system_threads() -> set[int]:
    return {thread.id for thread in THIS_PROCESS.threads()}


def _left_qt_threads(old: set[int]) -> list[str]:
    """Return a message for each Qt thread that is still running.

    Qt has no list of its threads, so all objects are searched if the process has new threads.
    """
    pool = QThreadPool.globalInstance()
    if not pool.waitForDone(int(GRACE_S * 1000)):
        return [f"{pool.activeThreadCount()} of the global QThreadPool still running"]
    if not _system_threads() - old:
        return []
    kinds = _with_subclasses(QThread)
    threads: list[QThread] = [thing for thing in gc.get_objects() if type(thing) in kinds]
    return [
        f"Qt thread {thread!r}"
        for thread in threads
        if Shiboken.isValid(thread)
        and thread is not QThread.currentThread()
        and not _is_shared(thread)
        and not thread.wait(int(GRACE_S * 1000))
    ]


def _with_subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(_with_subclasses, kind.__subclasses__()))
