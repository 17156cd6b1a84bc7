"""Error messages of ``serve`` state the actual reason."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny_models import save_tiny_model
from visualizer.app import main
from visualizer.cli.serve import TOKEN_VARIABLE, UNENCRYPTED_NOTICE, UNENCRYPTED_OPTION
from visualizer.models.model_protocol.server_address import (
    HAS_UNIX_SOCKETS,
    MAX_SOCKET_PATH_BYTES,
)

FULL = Path("/dev/full")
ENDED_S = 120
needs_sockets = pytest.mark.skipif(not HAS_UNIX_SOCKETS, reason="no Unix sockets")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("served"), "llama")


def test_a_process_that_cannot_be_started_is_no_port_that_cannot_be_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", str(folder / "none"))
    assert main(["serve", str(folder), "--port", "0"]) == 1
    assert "Cannot start a model process: No such file" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is full")
def test_a_full_standard_output_is_no_port_that_cannot_be_used(folder: Path) -> None:
    command = [sys.executable, "-m", "visualizer", "serve", str(folder), "--port", "0", "--quiet"]
    with FULL.open("w") as full:
        ended = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=ENDED_S, check=False
        )
    assert "Cannot write to standard output: No space left" in ended.stderr
    assert "Port" not in ended.stderr
    assert ended.returncode == 1


def test_a_port_that_is_taken_is_reported_before_the_model_is_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", str(folder / "none"))  # no model could be loaded
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", str(folder), "--port", port, "--quiet"]) == 1
    assert f"Cannot listen on port {port}: " in capsys.readouterr().err


@pytest.mark.parametrize("token", ["a" * 16, "1234567890123456", "short"])
def test_a_token_that_is_easy_to_guess_is_rejected(
    token: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    assert main(["serve", "models"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{TOKEN_VARIABLE}: " in told.err
    assert token not in told.err
    assert "secrets.token_urlsafe" in told.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_are_admitted_only_after_a_confirmation(
    host: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["serve", str(folder), "--host", host, "--port", "0", "--quiet"]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "not encrypted" in told
    assert UNENCRYPTED_OPTION in told
    monkeypatch.setattr(sys, "executable", str(folder / "none"))  # no model could be loaded
    assert main([*command, UNENCRYPTED_OPTION]) == 1
    assert capsys.readouterr().err.startswith(
        f"attention-visualizer: {UNENCRYPTED_NOTICE.format(host=host)}"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_this_machine_needs_no_confirmation(
    host: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", str(folder / "none"))
    assert main(["serve", str(folder), "--host", host, "--port", "0", "--quiet"]) == 1
    assert "encrypted" not in capsys.readouterr().err


@needs_sockets
def test_a_socket_that_cannot_be_used_is_reported_before_the_model_is_loaded(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none" / "a.sock"
    assert main(["serve", str(folder), "--socket", str(path), "--quiet"]) == 1
    assert f"Cannot listen on “{path}”: No such file" in capsys.readouterr().err
    assert main(["serve", str(folder), "--socket", str(path), "--port", "1"]) == 2
    assert "--socket: not allowed with argument --port" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["serve", str(folder), "--socket", str(tmp_path / ("a" * 104))])
    assert f"at most {MAX_SOCKET_PATH_BYTES} bytes" in capsys.readouterr().err


@needs_sockets
def test_a_socket_is_removed_after_a_failure(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(folder / "none"))
    assert main(["serve", str(folder), "--socket", str(tmp_path / "a.sock"), "--quiet"]) == 1
    assert [*tmp_path.iterdir()] == []
