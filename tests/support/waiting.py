"""Waits for what a test expects of a window, and goes on as soon as it is so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractEventDispatcher, QDeadlineTimer, QEventLoop, QTimer

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_MS = 10
"""So often a condition is looked at that no event has to do with, such as another process's."""


def wait_until(is_so: Callable[[], object], timeout_ms: int) -> None:
    """Run the event loop until a condition holds.

    It is looked at whenever all events have been handled, and not only from time to time.

    Raises
    ------
    TimeoutError
        When it does not come true in time.
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
