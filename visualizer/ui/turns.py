"""A long work of the windows' own thread, a part at a turn of the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

if TYPE_CHECKING:
    from collections.abc import Iterator


class Turns(QObject):
    """Goes on with a work until it ends; what else is to be done is done between its parts.

    Parameters
    ----------
    work : iterator
        Does a part of the work each time that it is asked for the next; no part takes long.
    """

    ended = Signal()
    """It is done, was stopped, or broke."""

    def __init__(self, work: Iterator[None], parent: QObject) -> None:
        super().__init__(parent)
        self._work = work
        self.is_working = True
        self._timer = QTimer(self, singleShot=True, interval=1)
        self._timer.timeout.connect(self._go_on)
        self._timer.start()

    def stop(self) -> None:
        """Do no more of it."""
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
            self._timer.start()  # behind all that came due during this part
