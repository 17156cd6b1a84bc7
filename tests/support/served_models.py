"""A model that is served by the program's own command in a separate process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TOKEN = "a token of a test, long enough"
ENDED_S, LONGEST_S = 60, 480


class ServedFolder(Struct, eq=False):
    """A running server and its process."""

    address: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        """The port of a server that listens on one."""
        return int(self.address.rpartition(":")[2])

    def rank_pids(self) -> list[int]:
        """Return the process ids of the ranks."""
        import psutil

        found = psutil.Process(self.process.pid).children(recursive=True)
        return [one.pid for one in found if any("rank_main" in part for part in one.cmdline())]


@contextmanager
def served(
    folder: Path, *options: str, threads: int = 1, within: Sequence[str] = ()
) -> Iterator[ServedFolder]:
    """Serve the model in a folder, and stop the server when the context ends.

    Parameters
    ----------
    threads : int
        Number of threads of each rank.
    within : sequence of str
        Beginning of the command, if it is to run in a namespace.
    """
    command = [sys.executable, "-m", "visualizer", "serve", str(folder), "--quiet"]
    if "--socket" not in options:
        command += ["--port", "0"]
    own = {"ATTENTION_VISUALIZER_TOKEN": TOKEN, "OMP_NUM_THREADS": str(threads)}
    process = subprocess.Popen(
        [*within, *command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **own},
    )  # fmt: skip
    assert process.stdout
    watchdog = Timer(LONGEST_S, process.kill)  # a hanging test fails with a message
    watchdog.start()
    try:
        line = process.stdout.readline()
        found = re.search(r"is served at (\S+)$", line.strip())
        if not found:
            process.kill()
            raise AssertionError(f"{line!r} {process.communicate()[1]}")
        yield ServedFolder(found[1], process)
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=ENDED_S)
        finally:
            process.kill()
