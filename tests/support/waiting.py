"""Waits for the state that a test expects, and continues as soon as it is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractEventDispatcher, QDeadlineTimer, QEventLoop, QTimer

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_MS = 10
"""Interval, in milliseconds, at which conditions are checked that no event announces."""


def wait_until(is_so: Callable[[], object], timeout_ms: int) -> None:
    """Run the event loop until a condition holds.

    The condition is checked whenever all events have been handled, and not only at intervals.

    Raises
    ------
    TimeoutError
        If the condition does not hold in time.
    """
    if is_so():
        return
    loop, deadline = QEventLoop(), QDeadlineTimer(timeout_ms)
    errors: list[Exception] = []

    def look() -> None:
        try:
            if is_so():
                loop.quit()
            elif deadline.hasExpired():
                raise TimeoutError(f"not so within {timeout_ms:,} ms")
        except Exception as error:  # noqa: BLE001 - it is raised again, out of Qt's hands
            errors.append(error)
            loop.quit()

    clock = QTimer(interval=LOOK_MS)
    clock.timeout.connect(look)
    clock.start()
    dispatcher = QAbstractEventDispatcher.instance()
    dispatcher.aboutToBlock.connect(look)
    loop.exec()
    dispatcher.aboutToBlock.disconnect(look)
    clock.stop()
    if errors:
        raise errors[0]
