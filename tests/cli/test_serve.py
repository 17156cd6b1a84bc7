"""Error messages of ``serve`` state the actual reason."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny_models import save_tiny_model
from visualizer.app import main
from visualizer.cli.serve import TOKEN_VARIABLE

FULL = Path("/dev/full")
ENDED_S = 120


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
