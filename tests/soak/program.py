"""The program under test, which is used at random and prints a line for each action."""

from __future__ import annotations

import faulthandler
import io
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QTimer, QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

from tests.benchmarks.stand import linger
from tests.soak.__main__ import BEGINS, DID, FIGURE, KILLED
from tests.soak.faults import SERVED_MODEL, make_files
from tests.soak.loaded_modules import load_all
from tests.soak.monkey import Monkey
from tests.soak.served_model import ModelServer
from tests.soak.watch import Watch
from visualizer.app import clear_transient_clipboard, create_window_services, make_application
from visualizer.documents.document_file import SavedDocument, document_bytes, read_document
from visualizer.documents.recovery_file import find_crash_recovery_files
from visualizer.errors import InputError
from visualizer.lab.training.process_controller import wait_for_processes
from visualizer.session.document import Document
from visualizer.session.newest_request_worker import join_abandoned_workers
from visualizer.session.view import View
from visualizer.shell.commands import COMMANDS
from visualizer.shell.window_manager import WindowManager
from visualizer.widgets.app_settings import (
    MAIN_WINDOW,
    RECOVERY,
    is_autosave_enabled,
    store_values,
    user_data_folder,
)

HANGS_S = 60
"""Duration, in seconds, after which an action counts as hanging: all stacks are printed, and the
program ends.
"""
ROUND_S = 75.0
REST_MS = 3000
BLOCKED_S = 0.5
"""Duration, in seconds, from which an action counts as waiting for a dialog."""
PAUSES_MS = (*12 * (0,), *12 * (5,), *8 * (20,), *4 * (60,), 300)
"""Possible pauses between two actions, in milliseconds. In the long pauses, all started work is
completed.
"""
LIVES_S = (240.0, 1800.0)
"""Minimum and maximum time until the program is killed while it is used, in seconds."""
KEPT_MS = 3000
"""Time, in milliseconds and in addition to the autosave pause, after which unsaved work has been
saved for recovery.
"""


class FileManager(QObject):
    """Handles links and files that would otherwise be opened by other programs."""

    @Slot(QUrl)
    def take(self, url: QUrl) -> None:
        """Open nothing."""


class Run:
    """Uses the program until the time is over, or until the program kills itself.

    Parameters
    ----------
    life : int
        Number of times that the program has been killed before; ``place`` contains the files left
        by these runs.
    longest_gap : float
        As in `Watch`.
    """

    def __init__(
        self, seed: int, life: int, longest_gap: float, minutes: float, place: Path
    ) -> None:
        self._chance = random.Random(f"{seed} {life}")
        self._unsaved = place / "unsaved"
        self.watch = Watch(_tell, longest_gap)
        self.watch.install()
        if life == 0:
            make_files(place / "documents", self._chance)
            self._unsaved.mkdir()
        self._find_unsaved()
        self._server = ModelServer(place / "documents" / SERVED_MODEL)
        self._manager = WindowManager(create_window_services())
        self._monkey = Monkey(self._chance, place / "documents", self._manager, self._server)
        self._monkey.tell = lambda what: _tell(f"{BEGINS}{what}")
        self.watch.may_lack_memory = lambda: self._monkey.faults.is_memory_limited
        now = time.monotonic()
        self._end, self._rest_at = now + 60 * minutes, now + ROUND_S
        self._dies_at = now + self._chance.uniform(*LIVES_S)
        self._timer = QTimer(singleShot=True)
        self._timer.timeout.connect(self._beat)
        self._depth = 0
        self._blocked_at = 0.0
        self._did = ""
        self._is_resting = False

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._end

    def go(self) -> None:
        """Use the program, which may be closed and started again several times."""
        self._forget_own_work()
        self._arm()
        while not self.is_over:
            if not self._manager.all and not self._is_lab_open:
                self._manager.open_first_window(SavedDocument(Document(), View()), None)
            QCoreApplication.exec()
        self._rest()
        self._is_resting = True
        faulthandler.dump_traceback_later(3 * HANGS_S, exit=True)
        self._close_all(keep=False)
        wait_for_processes()  # may take as long as the processes' timeouts
        join_abandoned_workers()
        self._server.lose()
        known = {row.id for row in COMMANDS}
        rare = sorted(known - self._monkey.commands)
        _tell(f"{FIGURE}{len(known) - len(rare)} of {len(known)} commands; not: {', '.join(rare)}")

    def _forget_own_work(self) -> None:
        """Ignore the pause caused by this function's caller, which ends with the next heartbeat."""
        linger(100)
        self.watch.forget_gaps()

    def _arm(self) -> None:
        # Started again in its own slot, so that it also fires while an action waits for a dialog.
        self._timer.start(0 if self._monkey.is_underway else self._chance.choice(PAUSES_MS))

    def _beat(self) -> None:
        if self._is_resting:
            return
        faulthandler.dump_traceback_later(HANGS_S, exit=True)
        if self._depth == 0 and self.is_over:
            QCoreApplication.exit()  # quitting would show the windows' dialogs
            return
        if time.monotonic() > self._dies_at:
            self._die()
            return
        self._arm()
        if self._depth and time.monotonic() < self._blocked_at:
            return  # the action processes events but does not wait for a dialog
        if self._depth == 0 and time.monotonic() > self._rest_at:
            self._rest()
            return
        self._depth += 1
        self._blocked_at = time.monotonic() + BLOCKED_S
        try:
            did = self._monkey.act(self._depth)
        finally:
            self._depth -= 1
        if did:
            self._did = did
            _tell(f"{DID}{did}")
        if self._monkey.is_underway:
            self._arm()
        self.watch.look()
        self.watch.note(self._did)

    @property
    def _is_lab_open(self) -> bool:
        return self._manager.lab is not None and self._manager.lab.isVisible()

    def _rest(self) -> None:
        """Close everything except one new window, and measure the memory."""
        self._is_resting = True
        faulthandler.dump_traceback_later(2 * HANGS_S, exit=True)
        self._monkey.faults.mend()
        for window in self._manager.all:
            self.watch.read_saved(window.workspace.document, window.workspace.view)
        self._close_all(keep=True)
        linger(REST_MS)
        self.watch.look()
        self.watch.rest(len(self._manager.all))
        self._forget_own_work()
        self._rest_at = time.monotonic() + ROUND_S
        self._is_resting = False
        self._arm()

    def _die(self) -> None:
        """Kill the program, as in a power failure.

        This happens immediately, or after all unsaved work has been backed up.
        """
        self._is_resting = True
        faulthandler.dump_traceback_later(2 * HANGS_S, exit=True)
        if self._chance.random() < 0.5:
            self._monkey.faults.mend()
            pauses = [each.controllers.document_controller.autosave_controller.autosave_delay_ms
                      for each in self._manager.all]  # fmt: skip
            linger(KEPT_MS + max(pauses, default=0))
            for number, window in enumerate(self._manager.all):
                controller, workspace = window.controllers.document_controller, window.workspace
                if is_autosave_enabled() and not (
                    controller.is_saved or workspace.requested_view.lesson
                ):
                    content = document_bytes(workspace.document, workspace.view)
                    (self._unsaved / str(number)).write_bytes(content)
        self._server.lose()
        _tell(KILLED)
        os.kill(os.getpid(), signal.SIGKILL)

    def _find_unsaved(self) -> None:
        """Check that the work that was unsaved when the program was killed can be recovered."""
        left = find_crash_recovery_files(user_data_folder() / RECOVERY)
        found = []
        for each in left:
            with suppress(InputError):  # damaged by an earlier action
                found.append(each.read().document)
        lost = sorted(self._unsaved.iterdir())
        for file in lost:
            if read_document(io.BytesIO(file.read_bytes())).document not in found:
                self.watch.fail("unsaved work is lost", f"{file.name} of {len(found)}")
            file.unlink()
        _tell(f"{FIGURE}{len(lost)} unsaved documents found again")

    def _close_all(self, *, keep: bool) -> None:
        while popup := QApplication.activePopupWidget():
            popup.close()
        for widget in QApplication.topLevelWidgets():
            if widget.isVisible() and widget.isModal():
                widget.close()
        old = self._manager.all.copy()
        if keep:
            # Otherwise, the panes that were opened last are shown.
            store_values({MAIN_WINDOW.seal: ""})
            window = self._manager.open_window(Document())
            linger(500)
            window.set_colour_scheme("light")
        for window in old:
            while (
                window in self._manager.all
                and window.controllers.export_controller.exporter.is_working
            ):
                window.controllers.export_controller.exporter.cancel()
                linger(10)
            if window in self._manager.all:  # otherwise, it has already been closed
                window.controllers.document_controller.discard_unsaved_changes()
                window.close()
        if lab := self._manager.lab:
            lab.lab.close_run()
            film_controller = lab.run_export_controller.film_controller
            while film_controller.is_working:
                film_controller.cancel()
                linger(10)
            lab.close()
        linger(100)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def _tell(line: str) -> None:
    sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()


def main(seed: str, life: str, longest_gap: str, minutes: str, place: str) -> int:
    """Use the program, and return 1 if there was a failure."""
    faulthandler.enable()
    application = make_application()
    load_all()
    files = FileManager()
    for scheme in ("file", "http", "https"):
        QDesktopServices.setUrlHandler(scheme, files, "take")  # type: ignore[arg-type]
    run = Run(int(seed), int(life), float(longest_gap), float(minutes), Path(place))
    run.go()
    faulthandler.cancel_dump_traceback_later()
    failed = bool(run.watch.failures)
    del run
    application.processEvents()
    clear_transient_clipboard()  # as the program does at exit
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
