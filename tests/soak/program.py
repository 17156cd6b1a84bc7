"""The program under test, which is used at random; printed lines tell what was done."""

from __future__ import annotations

import faulthandler
import random
import sys
import time
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QTimer, QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

from tests.benchmarks.stand import linger
from tests.soak.__main__ import DID
from tests.soak.faults import make_files
from tests.soak.monkey import Monkey
from tests.soak.watch import Watch
from visualizer.app import empty_own_clipboard, make_application, window_services
from visualizer.documents.document_file import SavedDocument
from visualizer.lab.training.process_controller import wait_for_trainings
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.shell.window_manager import WindowManager

HANGS_S = 60
"""An action that lasts longer ends the program, which prints where each thread is."""
ROUND_S = 75.0
REST_MS = 3000
BLOCKED_S = 0.5
"""An action that lasts longer waits for an answer."""
PAUSES_MS = (0, 0, 0, 5, 5, 20, 20, 60, 60, 150, 800)


class FileManager(QObject):
    """Takes what would be opened by other programs."""

    @Slot(QUrl)
    def take(self, url: QUrl) -> None:
        """Open nothing."""


class Run:
    """Uses the program until the time is over."""

    def __init__(self, seed: int, minutes: float, place: Path) -> None:
        self._chance = random.Random(seed)
        make_files(place / "documents", self._chance)
        self.watch = Watch(_tell)
        self.watch.install()
        self._manager = WindowManager(window_services())
        self._monkey = Monkey(self._chance, place / "documents", self._manager)
        now = time.monotonic()
        self._end, self._rest_at = now + 60 * minutes, now + ROUND_S
        self._depth = 0
        self._blocked_at = 0.0
        self._is_resting = False

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._end

    def go(self) -> None:
        """Use the program; it may end and be started again meanwhile."""
        self._arm()
        while not self.is_over:
            if not self._manager.all and not self._is_lab_open:
                self._manager.begin(SavedDocument(Document(), View()), None)
            QCoreApplication.exec()
        self._rest()
        self._close_all(keep=False)
        wait_for_trainings()

    def _arm(self) -> None:
        # A timer of its own each time: it also fires while an action waits for an answer.
        QTimer.singleShot(self._chance.choice(PAUSES_MS), self._beat)

    def _beat(self) -> None:
        if self._is_resting:
            return
        faulthandler.dump_traceback_later(HANGS_S, exit=True)
        if self._depth == 0 and self.is_over:
            QCoreApplication.exit()  # to quit would ask the windows
            return
        self._arm()
        if self._depth and time.monotonic() < self._blocked_at:
            return  # an action lets events happen, and does not wait for an answer
        if self._depth == 0 and time.monotonic() > self._rest_at:
            self._rest()
            return
        self._depth += 1
        self._blocked_at = time.monotonic() + BLOCKED_S
        try:
            did = self._monkey.act(self._depth)
        finally:
            self._depth -= 1
        _tell(f"{DID}{did}")
        self.watch.look()
        self.watch.note(did)

    @property
    def _is_lab_open(self) -> bool:
        return self._manager.lab is not None and self._manager.lab.isVisible()

    def _rest(self) -> None:
        """Close everything but one new window, and measure."""
        self._is_resting = True
        faulthandler.dump_traceback_later(2 * HANGS_S, exit=True)
        self._monkey.faults.mend()
        self._close_all(keep=True)
        linger(REST_MS)
        self.watch.look()
        self.watch.rest(len(self._manager.all))
        self.watch.forget_gaps()
        self._rest_at = time.monotonic() + ROUND_S
        self._is_resting = False
        self._arm()

    def _close_all(self, *, keep: bool) -> None:
        while popup := QApplication.activePopupWidget():
            popup.close()
        for widget in QApplication.topLevelWidgets():
            if widget.isVisible() and widget.isModal():
                widget.close()
        old = self._manager.all.copy()
        if keep:
            window = self._manager.open(Document())
            linger(500)
            window.set_scheme("light")
        for window in old:
            window.exporter.cancel()
            while window.exporter.is_working:
                linger(10)
            window.document_controller.give_up()
            window.close()
        if lab := self._manager.lab:
            lab.lab.leave()
            lab.close()
        linger(100)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def _tell(line: str) -> None:
    sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()


def main(seed: str, minutes: str, place: str) -> int:
    """Use the program, and return 1 if anything failed."""
    faulthandler.enable()
    application = make_application()
    files = FileManager()
    for scheme in ("file", "http", "https"):
        QDesktopServices.setUrlHandler(scheme, files, "take")  # type: ignore[arg-type]
    run = Run(int(seed), float(minutes), Path(place))
    run.go()
    faulthandler.cancel_dump_traceback_later()
    failed = bool(run.watch.failures)
    del run
    application.processEvents()
    empty_own_clipboard()  # as the program does at its end
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
