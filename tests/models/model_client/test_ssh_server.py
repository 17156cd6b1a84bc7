"""The tunnel that SSH opens to a server on another machine."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest

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


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
@pytest.mark.parametrize(
    ("option", "target"),
    [
        ("", "127.0.0.1:8763"),
        (" --port 9000", "127.0.0.1:9000"),
        (" --socket /tmp/model.sock", "/tmp/model.sock"),
        (" --socket=/tmp/model.sock", "/tmp/model.sock"),
    ],
)
def test_the_tunnel_leads_to_where_the_server_listens(
    option: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, arguments = tmp_path / "ssh", tmp_path / "arguments"
    program.write_text(SSH.format(arguments=arguments))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    server = SshModelServer(f"ssh user@machine attention-visualizer serve tiny{option}")
    try:
        host, _, port = server.address.rpartition(":")
        assert (host, server.token) == ("127.0.0.1", "secret")
        assert f"-L {port}:{target} user@machine" in arguments.read_text()
    finally:
        server.close()
