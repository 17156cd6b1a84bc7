"""The window appears before torch and numpy are loaded, and nothing remains after it is closed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.project_graph import ROOT

pytestmark = pytest.mark.slow

WATCHED = """
import sys

from visualizer.lazy_numpy import import_numpy_on_first_use

import_numpy_on_first_use()
from visualizer import app
import PySide6.QtCore

app.restore_builtin_import()  # as it does itself, before it imports the window
from visualizer.shell.window_manager import WindowManager
from visualizer.shell.screen_presenter import STATUS_PANEL

open_window = WindowManager.open_window
kept = []


def opened(windows, document):
    window = open_window(windows, document)
    kept.append(window)
    window.painted.connect(note_first_paint)
    window.workspace.changed.connect(close_when_there)
    return window


def note_first_paint():
    window = kept[0]
    window.painted.disconnect(note_first_paint)
    loaded = {"torch", "numpy._core"} & sys.modules.keys()
    print("shown", window.isVisible(), loaded, window.workspace.run is None)
    print("start page", window.controllers.start_page.page is not None)


def close_when_there():
    window = kept[0]
    if window.workspace.run is not None and window.isVisible():
        status = window.workspace.screen.panel(STATUS_PANEL)
        print("computed", "torch" in sys.modules, status.facts[:16])
        window.close()
        print("closed", not window.isVisible())


WindowManager.open_window = opened
print("status", app.main(ARGUMENTS), "pyqtgraph" in sys.modules)
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "QT_QPA_PLATFORM": "offscreen",
        "XDG_CONFIG_HOME": str(folder),
        "HOME": str(folder),
        "PYTHONIOENCODING": "utf-8",
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(("arguments", "has_page"), [(["--device", "cpu"], False), ([], True)])
def test_from_the_first_picture_to_the_end(
    tmp_path: Path, arguments: list[str], has_page: bool
) -> None:
    ended = run(WATCHED.replace("ARGUMENTS", repr(arguments)), tmp_path)
    assert ended.stdout.splitlines() == [
        "shown True set() True",
        f"start page {has_page}",
        "computed True CPU  ·  6 tokens",
        "closed True",
        "status 0 False",
    ], ended.stderr
    assert ended.returncode == 0
    complaints = [line for line in ended.stderr.splitlines() if "This plugin" not in line]
    assert complaints == []


STARTING = """
import builtins
import gc
import os
import sys
import threading

from visualizer import app
from visualizer.widgets import garbage_collector

app.COLLECTION_DELAY_MS, garbage_collector.CHECK_INTERVAL_MS = 400, 1
application = app.make_application()
print("plain", "feature" not in builtins.__import__.__name__, os.environ["THP_MEM_ALLOC_ENABLE"])
print("gives way after", round(1e6 * sys.getswitchinterval()))
from PySide6.QtCore import QTimer

threads, is_over = set(), threading.Event()


class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self):
        threads.add(threading.current_thread().name)


def work():
    while not is_over.wait(0.001):
        for _ in range(2 * gc.get_threshold()[0]):
            Cycle()


threading.Thread(target=work, daemon=True).start()
QTimer.singleShot(150, lambda: print("collected early", *threads))
timer = QTimer()
timer.timeout.connect(lambda: threads and application.quit())
timer.start(1)
application.exec()
is_over.set()
print("collected on", *threads)
"""


def test_garbage_is_collected_on_the_windows_thread_once_the_start_is_over(tmp_path: Path) -> None:
    ended = run(STARTING, tmp_path)
    assert ended.stdout.splitlines() == [
        "plain True 1",
        "gives way after 500",
        "collected early",
        "collected on MainThread",
    ], ended.stderr
    assert ended.returncode == 0, ended.stderr


WAITING = """
from PySide6.QtCore import QTimer

from visualizer.app import run_event_loop
from visualizer.attention.remote_numbers import NumbersPendingError, may_wait
from visualizer.session.document import Document


def begin(windows):
    window = windows.open_window(Document())
    QTimer.singleShot(0, window, ask)
    QTimer.singleShot(0, window, lambda: tell(window))


def ask():
    print("may wait", may_wait())
    raise NumbersPendingError


def tell(window):
    print(window.statusBar().currentMessage())
    window.close()


print("status", run_event_loop(begin))
"""


def test_the_event_loop_waits_for_no_numbers(tmp_path: Path) -> None:
    ended = run(WAITING, tmp_path)
    assert ended.stdout.splitlines() == [
        "may wait False",
        "These values are still loading from the model server. Try again in a moment.",
        "status 0",
    ]
    assert "Traceback" not in ended.stderr


COPYING = """
from PySide6.QtCore import QTimer

from visualizer.app import run_event_loop
from visualizer.session.document import Document


def begin(windows):
    window = windows.open_window(Document())
    timer = QTimer(window)
    timer.timeout.connect(lambda: copy(window) or close(window, timer))
    timer.start(20)


def copy(window):
    if window.controllers.export_controller.exporter.is_working or window.workspace.run is None:
        return True
    if not window.statusBar().currentMessage().startswith("Copied"):
        window.controllers.export_controller.copy_figure()
        return True


def close(window, timer):
    timer.stop()
    print(window.statusBar().currentMessage()[:15])
    window.close()


print("status", run_event_loop(begin))
"""


def test_a_copied_picture_does_not_crash_the_programs_end(tmp_path: Path) -> None:
    ended = run(COPYING, tmp_path)
    assert ended.stdout.splitlines() == ["Copied an image", "status 0"], ended.stderr
    assert ended.returncode == 0, ended.stderr


FAILING = """
from visualizer import app
from visualizer.storage.log_file import log_path


def begin(windows):
    RAISING


try:
    print("status", app.run_event_loop(begin))
finally:
    print(log_path())
"""
IN_A_SLOT = """from PySide6.QtCore import QTimer
    QTimer.singleShot(0, lambda: 1 / 0)"""


@pytest.mark.parametrize("raising", ["1 / 0", IN_A_SLOT], ids=["at the start", "in a slot"])
def test_errors_without_a_window_are_logged(raising: str, tmp_path: Path) -> None:
    ended = run(FAILING.replace("RAISING", raising), tmp_path)
    path = Path(ended.stdout.splitlines()[-1])
    assert "builtins.ZeroDivisionError" in path.read_text(encoding="utf-8")
    assert ended.stderr.count("ZeroDivisionError") == 1
