"""The training process, controlled through its pipes."""

from __future__ import annotations

import errno
import os
import queue
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.language.test_training_server import MessageClient
from tests.support.forked_program import ForkedProgram
from tests.support.small_trainings import rows_of
from visualizer.language.run_folder import RunFolder
from visualizer.language.training_process_main import main
from visualizer.language.wire_format import (
    Inbox,
    Message,
    MessageUnpacker,
    open_message_sender,
    read_into_inbox,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.slow
FORKED, STARTED = "forked", "started"
"""How the process is started: by forking, which is fast, or in the same way as by the window."""


class Child(MessageClient):
    """The training server as a separate process.

    Parameters
    ----------
    is_forked : bool
        Whether the process is forked. Otherwise, the program is started in the same way as by the
        window, which imports torch again.
    """

    def __init__(self, *, is_forked: bool) -> None:
        (read, own_in), (own_out, write), (own_errors, write_errors) = (os.pipe() for _ in range(3))
        self.process: subprocess.Popen[bytes] | ForkedProgram
        if is_forked:
            self.process = ForkedProgram(_serve, (), {0: read, 1: write, 2: write_errors})
        else:
            command = [sys.executable, "-m", "visualizer.language.training_process_main"]
            self.process = subprocess.Popen(command, stdin=read, stdout=write, stderr=write_errors)
        for each in (read, write, write_errors):
            os.close(each)
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(own_in, "wb"), os.fdopen(own_out, "rb"), os.fdopen(own_errors, "rb")
        )  # fmt: skip
        super().__init__()
        self._unpacker = MessageUnpacker()

    def send(self, kind: str, **values: Any) -> None:
        self.stdin.write(Message(kind, values).pack())
        self.stdin.flush()

    def receive_more(self) -> None:
        piece = os.read(self.stdout.fileno(), 1 << 16)
        assert piece, f"the process has ended: {self.errors()}"
        self.received += self._unpacker.unpack_piece(piece)

    def end(self) -> int:
        """Close the input, and wait until the program ends."""
        self.stdin.close()
        return self.process.wait(60)

    def errors(self) -> str:
        return self.stderr.read().decode()


def _serve(arguments: Sequence[str]) -> int:
    return main()


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator[Child]:
    wanted = getattr(request, "param", FORKED)
    made = Child(is_forked=wanted == FORKED and hasattr(os, "fork"))
    yield made
    made.process.kill()
    made.process.wait()
    for pipe in (made.stdin, made.stdout, made.stderr):
        pipe.close()


def steps_in(folder: Path) -> list[int]:
    return [row.step for row in rows_of(folder)]


@pytest.mark.parametrize("child", [STARTED], indirect=True)
def test_a_run_is_trained_queried_and_ended(child: Child, tmp_path: Path) -> None:
    opened = child.open(tmp_path / "run")
    assert opened.values["state"] == "paused"
    assert opened.values["step"] == 0
    assert opened.values["tokens"] == list("abcdefghijklmnopqrstuvwxyz")
    assert opened.values["frequency"] == pytest.approx(np.log(26), abs=0.1)
    child.send("run")
    done = child.until("done")
    assert done.values["step"] == 30
    assert done.values["snapshots"][0] == 0
    assert done.values["snapshots"][-1] == 30
    assert done.values["final"][1] > 0
    child.send("read", id=4, text="abcabcabc", step=None)
    now = child.wait("read")
    assert now.values["id"] == 4
    assert now.values["step"] == 30
    assert now.values["tokens"] == list("abcabcabc")
    weights = now.arrays["weights"]
    assert weights.shape == (2, 2, 9, 9)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    assert not weights[..., 0, 1:].any()
    assert now.arrays.keys() == {
        "logits",
        "weights",
        "mean_partner_weight",
    }  # all of these arrays are sent with every result
    assert now.arrays["logits"].shape == (9, 26)
    assert now.arrays["mean_partner_weight"].shape == (2, 2)
    child.send("read", id=5, text="abcabcabc", step=0)
    first = child.wait("read")
    assert first.values["step"] == 0
    assert not np.array_equal(first.arrays["weights"], weights)
    assert child.end() == 0
    assert child.errors() == ""
    assert steps_in(tmp_path / "run") == list(range(31))


def test_a_checkpoint_is_written_when_the_window_closes(child: Child, tmp_path: Path) -> None:
    child.open(tmp_path / "run", steps=10_000)
    child.send("run")
    child.wait("progress", lambda message: message.values["step"] > 5)
    assert child.end() == 0
    folder = RunFolder(tmp_path / "run")
    assert folder.checkpoint_file.exists()
    assert not folder.lock_file.exists()


def test_training_continues_in_the_background_on_request(child: Child, tmp_path: Path) -> None:
    child.open(tmp_path / "run", steps=200)
    child.send("run")
    child.send("leave")
    child.wait("progress", lambda message: message.values["step"] > 5)
    child.stdout.close()
    assert child.end() == 0
    assert steps_in(tmp_path / "run") == list(range(201))


def test_the_stop_file_stops_training(child: Child, tmp_path: Path) -> None:
    child.open(tmp_path / "run", steps=1_000_000)
    child.send("run")
    child.wait("progress", lambda message: message.values["step"] > 5)
    folder = RunFolder(tmp_path / "run")
    folder.stop_file.touch()
    child.until("stopped")
    assert child.process.wait(60) == 0
    assert not folder.stop_file.exists()
    assert not folder.lock_file.exists()


@pytest.mark.parametrize(("steps", "state"), [(10, "paused"), (2, "done")])
def test_the_stop_file_stops_an_idle_process(
    child: Child, tmp_path: Path, steps: int, state: str
) -> None:
    child.open(tmp_path / "run", steps=steps)
    child.send("step", count=2)
    child.until(state)
    folder = RunFolder(tmp_path / "run")
    folder.stop_file.touch()
    assert child.process.wait(60) == 0
    # This tells the other program that the run was not being trained.
    assert folder.was_stopped_while_idle
    assert not folder.lock_file.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_to_terminate_writes_a_checkpoint(
    usual_signals: None, child: Child, tmp_path: Path, name: str
) -> None:
    child.open(tmp_path / "run", steps=1_000_000)
    child.send("run")
    child.wait("progress", lambda message: message.values["step"] > 5)
    child.process.send_signal(getattr(signal, name))
    assert child.process.wait(60) == 0
    assert RunFolder(tmp_path / "run").checkpoint_file.exists()


def test_invalid_messages_leave_no_request_waiting(tmp_path: Path) -> None:
    (tmp_path / "orders").write_bytes(b"Hello, world")
    inbox: Inbox = queue.SimpleQueue()
    with (tmp_path / "orders").open("rb") as source, pytest.raises(ValueError, match="Hello"):
        read_into_inbox(source, inbox)
    assert inbox.get(block=False) is None


def test_a_closed_window_does_not_end_training(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    asked: list[int] = []

    def gone(target: int, _: bytes) -> int:
        asked.append(target)
        raise OSError(errno.EINVAL, "Invalid argument")  # the error on Windows

    with capfd.disabled():
        kept = os.dup(1)
        try:
            send = open_message_sender()
            with monkeypatch.context() as patched:
                patched.setattr(os, "write", gone)
                send(Message("progress"))
        finally:
            os.dup2(kept, 1)
            os.close(kept)
    assert len(asked) == 1
