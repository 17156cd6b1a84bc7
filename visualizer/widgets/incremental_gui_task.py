"""Long tasks that run on the GUI thread in short parts between events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

if TYPE_CHECKING:
    from collections.abc import Generator


class IncrementalTask(QObject):
    """Long task that runs on the GUI thread in short parts, one per turn of the event loop.

    Parameters
    ----------
    work : generator
        Performs one short part of the task at each `next`; the generator is closed when the task is
        stopped, so that its `finally` blocks run.
    """

    ended = Signal()
    """Emitted when the task has finished, has been stopped or has raised an exception."""

    def __init__(self, work: Generator[None], parent: QObject) -> None:
        super().__init__(parent)
        self._work = work
        self.is_working = True
        self._is_in_part = False
        self._timer = QTimer(self, singleShot=True, interval=1)
        self._timer.timeout.connect(self._run_part)
        self._timer.start()

    def stop(self) -> None:
        """Stop after the current part."""
        if self.is_working:
            self.is_working = False
            self._timer.stop()
            if not self._is_in_part:
                self._finish_task()

    def _run_part(self) -> None:
        self._is_in_part = True
        try:
            next(self._work)
        except StopIteration:
            self.is_working = False
        except BaseException:
            self.is_working = False  # so that the task can be started again
            raise
        finally:
            self._is_in_part = False
            if self.is_working:
                self._timer.start()  # after the events that are now due
            else:
                self._finish_task()

    def _finish_task(self) -> None:
        self._work.close()
        self.deleteLater()
        self.ended.emit()
