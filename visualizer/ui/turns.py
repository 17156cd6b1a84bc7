"""A long work of the windows' own thread, a part at a turn of the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

if TYPE_CHECKING:
    from collections.abc import Iterator


class Turns(QObject):
    """Goes on with a work until it ends; what else is to be done is done between its parts.

    Parameters
    ----------
    work : iterator
        Does a part of the work each time that it is asked for the next; no part takes long.
    """

    def __init__(self, work: Iterator[None], parent: QObject) -> None:
        super().__init__(parent)
        self._work = work
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self._go_on)
        self._timer.start()

    def stop(self) -> None:
        """Do no more of it."""
        self._timer.stop()
        self.deleteLater()

    def _go_on(self) -> None:
        is_over = True
        try:
            next(self._work)
            is_over = False
        except StopIteration:
            pass
        finally:
            if is_over:  # or broken: it would break again and again
                self.stop()
