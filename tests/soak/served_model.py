"""A model that is served by another process, which is sometimes killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.support.free_port import free_port

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a token for a random use"
LOWEST_PRIORITY = 19


class ModelServer:
    """The program's ``serve`` command, in a separate process.

    Parameters
    ----------
    folder : Path
        Folder of the model.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.ensure()

    def ensure(self) -> None:
        """Start the server unless it is running; it can be reached some seconds later."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "visualizer", "serve", str(self._folder),
                 "--port", str(self.port), "--quiet"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**os.environ, "ATTENTION_VISUALIZER_TOKEN": TOKEN}, start_new_session=True,
            )  # fmt: skip
            # The server stands in for another machine, so it must not slow down the window.
            if sys.platform != "win32":
                os.setpriority(os.PRIO_PROCESS, self._process.pid, LOWEST_PRIORITY)

    def lose(self) -> None:
        """Kill the server and the model's processes while they may be working."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def pause(self) -> None:
        """Suspend the server, as if the network connection were interrupted."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the suspended server."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
