"""Finds the worker, timers and tasks with which an object of the program runs later work."""

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
    """Return whether an object waits for its worker; False if it has no worker yet."""
    return any(worker.is_working for worker in owner.findChildren(NewestRequestWorker))


def timer_of(owner: QObject, interval_ms: int) -> QTimer:
    """Return the only timer of an object that has an interval."""
    (timer,) = (one for one in owner.findChildren(QTimer) if one.interval() == interval_ms)
    return timer
