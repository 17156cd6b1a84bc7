"""Trainings without a window: to let one go on after closing, and to know that one is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QProcess

from visualizer.disk.locks import Lock
from visualizer.language.folder import RunFolder
from visualizer.language.wire import Message
from visualizer.ui.lab.process import SERVICE, environment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ORDERS, SAID = "orders", "background.log"


def go_on(folder: Path, command: Sequence[str] = SERVICE) -> bool:
    """Have a run go on in a process that outlives this program; say whether it could be started.

    It reads its orders from a file, as nobody is left to say them.
    """
    orders = (
        Message("open", {"folder": str(folder), "settings": None}),
        Message("leave"),
        Message("run"),
    )
    (folder / ORDERS).write_bytes(b"".join(order.pack() for order in orders))
    process = QProcess()
    process.setProcessEnvironment(environment())
    process.setProgram(command[0])
    process.setArguments(list(command[1:]))
    process.setStandardInputFile(str(folder / ORDERS))
    process.setStandardOutputFile(QProcess.nullDevice())
    process.setStandardErrorFile(str(folder / SAID))
    started: bool | tuple[bool, int] = process.startDetached()
    return started if isinstance(started, bool) else started[0]


def is_at_work(folder: Path) -> bool:
    """Whether a run is being trained, here or elsewhere."""
    lock = RunFolder(folder).lock
    if not lock.exists():
        return False
    try:
        Lock(lock).release()  # of one that was killed nothing is held
    except OSError:
        return True
    return False


def ask_to_stop(folder: Path) -> None:
    """Have whoever trains a run write a checkpoint and end."""
    RunFolder(folder).stop.touch()
