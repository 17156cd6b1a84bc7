"""Starts a model server on another machine through SSH and opens a tunnel to it.

The SSH command runs without a local shell; the access token is parsed from its output. SSH never
prompts for input, so a key or an agent is required. Does not import torch.
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

from visualizer.errors import InputError, system_error_reason
from visualizer.models.model_protocol.server_address import join_address
from visualizer.progress import ignore_progress

if TYPE_CHECKING:
    from visualizer.progress import Progress

LISTENER, ENDER = "SSH output reader", "SSH exit watcher"
"""Names of the threads that read SSH's output and wait for SSH to exit."""
SSH_OPTIONS = (
    *("-o", "BatchMode=yes"),
    *("-o", "ExitOnForwardFailure=yes"),
    # A shared connection would outlive this one and keep the port.
    *("-o", "ControlMaster=no", "-o", "ControlPath=none"),
    "-tt",  # with its own terminal, the remote process exits when the connection is closed
)
"""SSH options, in addition to those on the command line."""
EXIT_TIMEOUT_S = 5.0
"""Time that SSH has to exit before it is killed, in seconds."""
POLL_S = 0.1
MAX_START_S = 600.0
"""Maximum time for the model to load, in seconds."""
MAX_LINES, MAX_LINE_LENGTH = 5, 300
DEFAULT_PORT = 8763
_SERVED_PATTERN = re.compile(r"is served at \S+$")
_TOKEN_PATTERN = re.compile(r"Token: (\S.*)$")
_PORT_PATTERN = re.compile(r"--port[ =](\d{1,5})\b")
_SOCKET_PATTERN = re.compile(r"(?:^|\s)--socket(?:[=\s]+(\S*))?")
_PLAIN_PATH_PATTERN = re.compile(r"/[\w./+,=@-]+")
"""Matches an absolute path that the remote shell does not change, and that SSH can forward."""
SSH_MISSING = (
    "The program “ssh” was not found on this computer. Install OpenSSH, or connect by host and "
    "port."
)
INVALID_COMMAND_ERROR = (
    "Enter an SSH command, such as: ssh user@machine attention-visualizer serve FOLDER"
)
SOCKET_PATH_ERROR = (
    "SSH cannot forward the socket “{path}”. After --socket, enter an absolute path without "
    "quotes, spaces, ~ and variables, such as /home/user/model.sock."
)
EXITED_ERROR = "SSH exited before the server was ready: {why}"
EMPTY_OUTPUT_REASON = "it printed nothing."
PORT_ERROR = "No port is available on this computer."
TIMEOUT_ERROR = "The server did not start serving the model within 10 minutes."


class SshModelServer:
    """A server on another machine that runs as long as this object is referenced.

    Parameters
    ----------
    line : str
        The command that would start the server in a terminal, such as ``ssh user@machine
        attention-visualizer serve FOLDER``.

    Raises
    ------
    InputError
        With field ``ssh`` if the line is not an SSH command, the path of its socket cannot be
        forwarded, or SSH exits.
    CancelledError
        If `progress` raises this error.
    """

    def __init__(self, line: str, progress: Progress = ignore_progress) -> None:
        command = _parse_ssh_command(line)
        match = _PORT_PATTERN.search(line)
        remote = int(match[1]) if match else DEFAULT_PORT
        port = _find_free_port(remote)
        self.address = join_address("127.0.0.1", port)
        path = _find_socket_path(command)
        tunnel = f"{port}:{path or join_address('127.0.0.1', remote)}"
        try:
            self._process = subprocess.Popen(
                [command[0], *SSH_OPTIONS, "-L", tunnel, *command[1:]], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
        except OSError as error:
            sentence = f"Cannot start SSH: {system_error_reason(error)}."
            raise InputError("ssh", sentence) from error
        self._output_lines: SimpleQueue[str | None] = SimpleQueue()
        # The thread must not refer to this object; otherwise the object would never be released.
        listening = (self._process, self._output_lines)
        Thread(target=_queue_output_lines, args=listening, daemon=True, name=LISTENER).start()
        self.close = finalize(self, _stop_process, self._process)
        try:
            self.token = self._wait_for_access_token(progress)
        except BaseException:
            self.close()
            raise

    def _wait_for_access_token(self, progress: Progress) -> str:
        """Wait until the server is ready, and return its access token."""
        output: deque[str] = deque(maxlen=MAX_LINES)
        end, is_served = monotonic() + MAX_START_S, False
        while monotonic() < end:
            progress(0, 0)
            try:
                line = self._output_lines.get(timeout=POLL_S)
            except Empty:
                continue
            if line is None:
                why = " ".join(output) or EMPTY_OUTPUT_REASON
                raise InputError("ssh", EXITED_ERROR.format(why=why))
            is_served = is_served or _SERVED_PATTERN.search(line) is not None
            if is_served and (match := _TOKEN_PATTERN.search(line)):
                return match[1]
            output.append(line)
        raise InputError("ssh", TIMEOUT_ERROR)


def _queue_output_lines(process: subprocess.Popen[str], lines: SimpleQueue[str | None]) -> None:
    assert process.stdout
    with process.stdout:
        for line in process.stdout:
            lines.put(line[:MAX_LINE_LENGTH].rstrip())
    lines.put(None)


def _parse_ssh_command(line: str) -> list[str]:
    try:
        command = shlex.split(line)
    except ValueError:
        command = []
    if len(command) < 2 or command[0].rpartition("/")[2] not in {"ssh", "ssh.exe"}:
        raise InputError("ssh", INVALID_COMMAND_ERROR)
    if shutil.which(command[0]) is None:
        raise InputError("ssh", SSH_MISSING)
    return command


def _find_socket_path(command: list[str]) -> str | None:
    """Return the path of the Unix socket on which the server will listen, or None."""
    # SSH joins the words, and the remote shell parses the result.
    match = _SOCKET_PATTERN.search(" ".join(command[1:]))
    if match is None:
        return None
    path = match[1] or ""
    if not _PLAIN_PATH_PATTERN.fullmatch(path):
        raise InputError("ssh", SOCKET_PATH_ERROR.format(path=path))
    return path


def _find_free_port(wanted: int) -> int:
    """Return a free local port, preferably the given one, because documents store the port."""
    for port in (wanted, 0):
        with socket.socket() as probe, suppress(OSError, OverflowError):
            probe.bind(("127.0.0.1", port))
            free: int = probe.getsockname()[1]
            return free
    raise InputError("ssh", PORT_ERROR)


def _stop_process(process: subprocess.Popen[str]) -> None:
    """Stop SSH, and with it the remote process, without waiting; safe on any thread."""
    process.terminate()
    if process.stdin:
        process.stdin.close()
    with suppress(RuntimeError):  # a thread cannot be started while the program exits
        Thread(target=_wait_or_kill, args=(process,), daemon=True, name=ENDER).start()


def _wait_or_kill(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
