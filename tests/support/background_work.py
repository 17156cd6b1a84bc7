"""Finds what works for a program object later or elsewhere: its worker, its timers, its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer

from visualizer.session.newest_request_worker import NewestRequestWorker

if TYPE_CHECKING:
    from PySide6.QtCore import QObject


def worker_of(owner: QObject) -> NewestRequestWorker:
    """Return the only worker of an object."""
    (worker,) = owner.findChildren(NewestRequestWorker)
    return worker


def is_work_pending(owner: QObject) -> bool:
    """Whether an object waits for its worker; false before it has one."""
    return any(worker.is_working for worker in owner.findChildren(NewestRequestWorker))


def timer_of(owner: QObject, interval_ms: int) -> QTimer:
    """Return the only timer of an object that has an interval."""
    (timer,) = (one for one in owner.findChildren(QTimer) if one.interval() == interval_ms)
    return timer
