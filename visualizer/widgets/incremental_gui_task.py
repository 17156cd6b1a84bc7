"""A long task in short parts on the GUI thread, between which events are handled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

if TYPE_CHECKING:
    from collections.abc import Iterator


class IncrementalTask(QObject):
    """Runs a long task on the GUI thread in short parts, one per turn of the event loop.

    Parameters
    ----------
    work : iterator
        Performs one short part of the task at each `next`.
    """

    ended = Signal()
    """The task has finished, was stopped or raised."""

    def __init__(self, work: Iterator[None], parent: QObject) -> None:
        super().__init__(parent)
        self._work = work
        self.is_working = True
        self._timer = QTimer(self, singleShot=True, interval=1)
        self._timer.timeout.connect(self._go_on)
        self._timer.start()

    def stop(self) -> None:
        """Stop after the current part."""
        self.is_working = False
        self._timer.stop()
        self.deleteLater()
        self.ended.emit()

    def _go_on(self) -> None:
        try:
            next(self._work)
        except StopIteration:
            self.stop()
        except BaseException:
            self.stop()  # so that it can be tried again
            raise
        else:
            self._timer.start()  # after all events that came due during this part
