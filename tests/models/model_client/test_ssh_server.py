"""The tunnel that SSH opens to a server on another machine."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from visualizer.errors import InputError
from visualizer.models.model_client.ssh_server import SshModelServer

if TYPE_CHECKING:
    from pathlib import Path

SSH = """#!/bin/sh
echo "$@" > "{arguments}"
echo "tiny is served at somewhere"
echo "Token: secret"
cat
"""
"""Stands in for SSH: writes down its arguments, and prints what a server prints."""


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")


def _install_stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the stand-in for SSH, and return the path of the file with its arguments."""
    program, arguments = folder / "ssh", folder / "arguments"
    program.write_text(SSH.format(arguments=arguments))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
    return arguments


@pytest.mark.parametrize(
    ("option", "target"),
    [
        ("", "127.0.0.1:8763"),
        (" --port 9000", "127.0.0.1:9000"),
        (" --socket /srv/model.sock", "/srv/model.sock"),
        (" --socket=/srv/model.sock", "/srv/model.sock"),
        (" --socket '/srv/model.sock'", "/srv/model.sock"),
        (" --socket   /home/ä.b/model-1.sock --quiet", "/home/ä.b/model-1.sock"),
    ],
)
def test_the_tunnel_leads_to_where_the_server_listens(
    option: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = _install_stand_in(tmp_path, monkeypatch)
    server = SshModelServer(f"ssh user@machine attention-visualizer serve tiny{option}")
    try:
        host, _, port = server.address.rpartition(":")
        assert (host, server.token) == ("127.0.0.1", "secret")
        assert f"-L {port}:{target} user@machine" in arguments.read_text()
    finally:
        server.close()


@pytest.mark.parametrize(
    "option",
    [
        "--socket ~/m.sock",
        "--socket=~/m.sock",
        "--socket m.sock",
        "--socket $XDG_RUNTIME_DIR/m.sock",
        "--socket /run/user/$UID/m.sock",
        "\"--socket '/srv/my m.sock'\"",
        "--socket /srv/a:b",
        "--socket",
    ],
)
def test_a_socket_that_cannot_be_forwarded_is_refused_before_ssh_starts(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tunnel would lead to a port instead, on which another user may listen."""
    arguments = _install_stand_in(tmp_path, monkeypatch)
    with pytest.raises(InputError) as caught:
        SshModelServer(f"ssh user@machine attention-visualizer serve tiny {option}")
    assert caught.value.field == "ssh"
    assert "--socket" in caught.value.sentence
    assert not arguments.exists()
