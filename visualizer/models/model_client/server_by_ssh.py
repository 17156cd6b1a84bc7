"""A server that is started on another machine through SSH, and reached through the same tunnel.

The line is run as it is, without a shell here; what it writes says where the model is served. SSH
asks for nothing: a key, or its agent, has to do. No torch here.
"""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING
from weakref import finalize

from visualizer.errors import InputError, reason_of
from visualizer.progress_callback import no_progress

if TYPE_CHECKING:
    from visualizer.progress_callback import Progress

LISTENER, ENDER = "what SSH writes", "the end of SSH"
"""The names of the threads that read it, and wait for it."""
OPTIONS = (
    *("-o", "BatchMode=yes"),
    *("-o", "ExitOnForwardFailure=yes"),
    # A connection that outlives this one would keep the port.
    *("-o", "ControlMaster=no", "-o", "ControlPath=none"),
    "-tt",  # on a terminal of its own, what is started there ends with the connection
)
"""What is asked of SSH besides the line."""
ENDED_S = 5.0
"""So long it may take to end by itself."""
LOOKED_S = 0.1
MAX_START_S = 600.0
"""So long a model may take to be opened."""
MAX_LINES, MAX_LINE_LENGTH = 5, 300
PORT = 8763
_SERVED = re.compile(r"is served at \S+:(\d{1,5})$")
_TOKEN = re.compile(r"Token: (\S.*)$")
_PORT = re.compile(r"--port[ =](\d{1,5})\b")
SSH_MISSING = (
    "There is no program “ssh” on this machine. Install OpenSSH, or connect by host and port."
)
INVALID_COMMAND = (
    "Write a line that begins with ssh, such as: ssh user@machine attention-visualizer serve FOLDER"
)
ENDED = "SSH has ended before the model was served: {why}"
NOTHING_SAID = "it said nothing."
PORT_ERROR = "This machine has no free port."
TOO_LONG = "The model was not served within ten minutes."


class ServerBySsh:
    """A server on another machine, for as long as this is held.

    Parameters
    ----------
    line : str
        What would start it in a terminal: ``ssh user@machine attention-visualizer serve FOLDER``.

    Raises
    ------
    InputError
        Of ``ssh``, when the line is not one of SSH, or SSH ends.
    CancelledError
        As `progress` raises it.
    """

    def __init__(self, line: str, progress: Progress = no_progress) -> None:
        command = _command(line)
        found = _PORT.search(line)
        remote = int(found[1]) if found else PORT
        self.port = _free_port(remote)
        tunnel = f"{self.port}:127.0.0.1:{remote}"
        try:
            self._process = subprocess.Popen(
                [command[0], *OPTIONS, "-L", tunnel, *command[1:]], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
        except OSError as error:
            sentence = f"SSH cannot be started: {reason_of(error)}."
            raise InputError("ssh", sentence) from error
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        # Without this object, which would never be let go of else.
        listening = (self._process, self._lines)
        Thread(target=_listen, args=listening, daemon=True, name=LISTENER).start()
        self.close = finalize(self, _end, self._process)
        try:
            self.token = self._wait(progress)
        except BaseException:
            self.close()
            raise

    def _wait(self, progress: Progress) -> str:
        """Wait for the server, and return its token."""
        said: deque[str] = deque(maxlen=MAX_LINES)
        end, is_served = monotonic() + MAX_START_S, False
        while monotonic() < end:
            progress(0, 0)
            try:
                line = self._lines.get(timeout=LOOKED_S)
            except Empty:
                continue
            if line is None:
                why = " ".join(said) or NOTHING_SAID
                raise InputError("ssh", ENDED.format(why=why))
            is_served = is_served or _SERVED.search(line) is not None
            if is_served and (found := _TOKEN.search(line)):
                return found[1]
            said.append(line)
        raise InputError("ssh", TOO_LONG)


def _listen(process: subprocess.Popen[str], lines: SimpleQueue[str | None]) -> None:
    assert process.stdout
    with process.stdout:
        for line in process.stdout:
            lines.put(line[:MAX_LINE_LENGTH].rstrip())
    lines.put(None)


def _command(line: str) -> list[str]:
    try:
        command = shlex.split(line)
    except ValueError:
        command = []
    if len(command) < 2 or command[0].rpartition("/")[2] not in {"ssh", "ssh.exe"}:
        raise InputError("ssh", INVALID_COMMAND)
    if shutil.which(command[0]) is None:
        raise InputError("ssh", SSH_MISSING)
    return command


def _free_port(wanted: int) -> int:
    """Return a free port of this machine: if it is, the one wanted, which documents name."""
    for port in (wanted, 0):
        with socket.socket() as found, suppress(OSError, OverflowError):
            found.bind(("127.0.0.1", port))
            free: int = found.getsockname()[1]
            return free
    raise InputError("ssh", PORT_ERROR)


def _end(process: subprocess.Popen[str]) -> None:
    """End SSH, and with it what it has started; called on any thread, and waits for nothing."""
    process.terminate()
    if process.stdin:
        process.stdin.close()
    with suppress(RuntimeError):  # no thread is begun as the program ends
        Thread(target=_wait_for, args=(process,), daemon=True, name=ENDER).start()


def _wait_for(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(ENDED_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
