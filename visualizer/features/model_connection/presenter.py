"""Presenter of the connection dialog: fields, errors and progress."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from visualizer.errors import Problem
from visualizer.models.model_protocol.authentication import MIN_TOKEN_LENGTH
from visualizer.models.model_protocol.server_address import (
    HAS_UNIX_SOCKETS,
    is_socket_path,
    join_address,
)
from visualizer.optional_packages import missing_package_message
from visualizer.session.model_opening import ServerConnectionSettings

HOST, PORT = "127.0.0.1", 8763

_KINDS = "host name, IP address or Unix socket" if HAS_UNIX_SOCKETS else "host name or IP address"
HOST_REQUIRED = f"Enter the {_KINDS} of the server. For an SSH tunnel, use 127.0.0.1."
TUNNEL_INSTRUCTIONS = (
    "By default, the server accepts only local connections. Open an SSH tunnel to reach it:\n"
    "ssh -L {port}:127.0.0.1:{port} user@machine"
)
SOCKET_INSTRUCTIONS = (
    "Only you can access a Unix socket. Start the server with --socket, and forward its socket:\n"
    "ssh -L {path}:/REMOTE/PATH user@machine"
)
TOKEN_REQUIRED = (
    "Enter the token that “attention-visualizer serve” printed; it has at least 16 characters."
)
CONNECTING, STARTING, CANCELLING = (
    "Connecting…", "Starting the server over SSH…", "Cancelling…",
)  # fmt: skip
SSH_TOKEN_NOTE = "The token is read from the output of the server."
SAVING_TOKEN = "Saving the token"
_HOST = r"[A-Za-z0-9.-]{1,253}"


class ModelConnectionState(Struct, frozen=True):
    """State of the connection dialog.

    Parameters
    ----------
    ssh : str
        Command that starts the server; empty if the server is already running.
    is_kept, has_store : bool
        Whether the token is saved, and whether the system keyring is available.
    problem, problem_field : str
        Error message, and the name of the invalid field.
    """

    host: str = HOST
    port: int = PORT
    token: str = ""
    ssh: str = ""
    is_kept: bool = False
    has_store: bool = False
    is_working: bool = False
    is_cancelling: bool = False
    problem: str = ""
    problem_field: str = ""

    @property
    def address(self) -> str:
        """The address that the host and the port specify."""
        host = self.host.strip()
        if host.startswith("~/"):
            host = str(Path(host).expanduser())
        return host if is_socket_path(host) else join_address(host, self.port)

    @property
    def has_socket(self) -> bool:
        """Whether the host is the path of a Unix socket, which has no port."""
        return HAS_UNIX_SOCKETS and is_socket_path(self.address)

    @property
    def server_choice(self) -> ServerConnectionSettings:
        """The chosen server."""
        is_kept = self.is_kept if self.has_store else None
        return ServerConnectionSettings(self.address, self.token.strip(), self.ssh.strip(), is_kept)


class ModelConnectionPanel(Struct, frozen=True):
    """Contents of the connection dialog.

    Parameters
    ----------
    has_server : bool
        Whether the host and token can be entered; False if an SSH command is given.
    has_port : bool
        Whether the port can be entered; a Unix socket has none.
    tunnel : str
        Instructions to reach the server from another machine.
    status : str
        The action in progress; empty if idle.
    """

    host: str
    port: int
    token: str
    ssh: str
    is_kept: bool
    can_save_token: bool
    save_token_hint: str
    has_server: bool
    has_port: bool
    tunnel: str
    is_input_enabled: bool
    can_connect: bool
    can_cancel: bool
    status: str
    problem: str
    problem_field: str


def connection_problem(state: ModelConnectionState) -> Problem | None:
    """Return the problem with the fields, or None if they are valid."""
    if state.ssh.strip():
        return None
    if not state.has_socket and re.fullmatch(_HOST, state.host.strip()) is None:
        return Problem("host", HOST_REQUIRED)
    if len(state.token.strip()) < MIN_TOKEN_LENGTH:
        return Problem("token", TOKEN_REQUIRED)
    return None


def present_model_connection(state: ModelConnectionState) -> ModelConnectionPanel:
    """Return the contents of the connection dialog."""
    has_ssh = bool(state.ssh.strip())
    no_store_note = "" if state.has_store else missing_package_message("keyring", SAVING_TOKEN)
    words = STARTING if has_ssh else CONNECTING
    return ModelConnectionPanel(
        state.host,
        state.port,
        state.token,
        state.ssh,
        state.is_kept and state.has_store and not has_ssh,
        state.has_store and not has_ssh and not state.is_working,
        SSH_TOKEN_NOTE if has_ssh else no_store_note,
        not has_ssh,
        not has_ssh and not state.has_socket,
        SOCKET_INSTRUCTIONS.format(path=state.address)
        if state.has_socket
        else TUNNEL_INSTRUCTIONS.format(port=state.port),
        not state.is_working,
        not state.is_working,
        state.is_working and not state.is_cancelling,
        (CANCELLING if state.is_cancelling else words) if state.is_working else "",
        state.problem,
        state.problem_field,
    )
