"""Messages to the training server, and its responses, without a separate process."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.small_trainings import fill_disk, full_disk, quick
from visualizer.lab.layer_document import create_layer_document
from visualizer.language import probe, training_server
from visualizer.language.run_folder import (
    RunFolder,
    choose_probe_text,
    settings_from_json,
    settings_to_json,
)
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_run import TrainingRun
from visualizer.language.training_server import TrainingServer
from visualizer.language.training_settings import (
    SYNTHETIC_TASKS,
    CorpusKind,
    CorpusSource,
    ModelKind,
)
from visualizer.language.wire_format import Message, MessageUnpacker
from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Machine


class MessageClient:
    """Sends messages to a training server, and waits for its responses."""

    def __init__(self) -> None:
        self.received: list[Message] = []

    def send(self, kind: str, **values: Any) -> None:
        raise NotImplementedError

    def receive_more(self) -> None:
        raise NotImplementedError

    def open(self, folder: Path, **changes: Any) -> Message:
        settings = settings_to_json(quick(**changes))
        self.send("open", folder=str(folder), settings=settings)
        return self.wait("opened")

    def wait(self, says: str, holds: Callable[[Message], bool] = lambda _: True) -> Message:
        """Receive messages until one of the given kind arrives."""
        while True:
            while self.received:
                message = self.received.pop(0)
                if message.kind == says and holds(message):
                    return message
            self.receive_more()

    def until(self, state: str) -> Message:
        return self.wait("progress", lambda message: message.values["state"] == state)


class Client(MessageClient):
    """The client of a server in the same process, which trains while the client waits."""

    def __init__(self) -> None:
        super().__init__()
        self.server = TrainingServer(
            lambda message: self.received.extend(MessageUnpacker().unpack_piece(message.pack()))
        )

    def send(self, kind: str, **values: Any) -> None:
        (message,) = MessageUnpacker().unpack_piece(Message(kind, values).pack())
        self.server.handle_message(message)

    def receive_more(self) -> None:
        assert self.server.is_training, "the server is idle"
        self.server.train_one_step()


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    yield made
    made.server.save_and_stop()


@pytest.mark.slow
def test_training_steps_pauses_and_continues(client: Client, tmp_path: Path) -> None:
    client.open(tmp_path / "run", steps=10_000)
    client.send("step", count=2)
    assert client.until("paused").values["step"] == 2
    client.send("run")
    client.wait("progress", lambda message: message.values["step"] > 20)
    client.send("pause")
    at = client.until("paused").values["step"]
    assert RunFolder(tmp_path / "run").checkpoint_file.exists()
    client.send("step")
    assert client.until("paused").values["step"] == at + 1
    client.send("stop")
    assert client.until("stopped").values["step"] == at + 1
    again = Client()
    again.send("open", folder=str(tmp_path / "run"), settings=None)
    opened = again.wait("opened")
    assert opened.values["step"] == at + 1
    np.testing.assert_array_equal(opened.arrays["steps"], np.arange(at + 1))
    again.server.save_and_stop()


@pytest.mark.slow
def test_a_long_run_is_sent_in_parts(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_server, "MAX_ROWS_PER_MESSAGE", 10)
    client.open(tmp_path / "run", steps=24)
    client.send("run")
    client.until("done")
    client.send("stop")
    again = Client()
    again.send("open", folder=str(tmp_path / "run"), settings=None)
    parts = again.received.copy()
    assert [part.kind for part in parts] == ["opened", "progress", "progress"]
    assert [len(part.arrays["steps"]) for part in parts] == [10, 10, 4]
    steps = np.concatenate([part.arrays["steps"] for part in parts])
    np.testing.assert_array_equal(steps, np.arange(24))
    assert {part.values["step"] for part in parts} == {24}
    assert {part.values["state"] for part in parts} == {"done"}
    again.server.save_and_stop()


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("read", {"text": "a#", "step": None}, "text", "“#” is not in the model’s vocabulary"),
    ("read", {"text": "", "step": None}, "text", "The text is empty."),
    ("read", {"text": "ab", "step": 999}, "step", "Step 999 has no snapshot."),
    (
        "layer",
        {"text": "ab", "step": None, "layer": 7},
        "layer",
        "Layer 8 does not exist: this model has 2 layers",
    ),
]


@pytest.mark.slow
def test_invalid_requests_are_rejected_and_change_nothing(client: Client, tmp_path: Path) -> None:
    client.send("run")
    assert client.wait("refused").values["sentence"] == "No run is open."
    client.open(tmp_path / "run", steps=3)
    for number, (says, values, field, sentence) in enumerate(REFUSED):
        client.send(says, id=number, **values)
        refused = client.wait("refused")
        assert refused.values["id"] == number
        assert refused.values["field"] == field
        assert refused.values["sentence"].startswith(sentence)
    client.send("run")
    client.until("done")
    client.send("run")
    assert "All steps are done" in client.wait("refused").values["sentence"]
    client.send("lengthen", steps=5)
    client.send("run")
    assert client.until("done").values["step"] == 5


@pytest.mark.slow
def test_a_run_shortened_below_its_step_ends_there(client: Client, tmp_path: Path) -> None:
    client.open(tmp_path / "run", steps=10_000)
    client.send("run")
    client.wait("progress", lambda message: message.values["step"] > 10)
    at = client.server.opened.running.step if client.server.opened else 0  # type: ignore[union-attr]
    client.send("lengthen", steps=5)
    done = client.until("done")
    assert (done.values["step"], done.values["steps"]) == (at, at)
    assert done.values["final"][1] > 0
    client.send("lengthen", steps=3)
    assert client.until("done").values["steps"] == at
    client.send("lengthen", steps=at + 2)
    client.send("run")
    assert client.until("done").values["step"] == at + 2


def test_attention_that_exceeds_the_memory_is_rejected_with_what_fits(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.open(tmp_path / "run", steps=3, model=ModelKind.ATTENTION_ONLY)
    monkeypatch.setattr(probe, "MAX_MATRIX_BYTES", 2 * 4 * 4 * 6**2)  # 2 layers with 2 heads each
    for says, values in (("read", {}), ("layer", {"layer": 0})):
        client.send(says, id=1, text="abcabca", step=None, **values)
        refused = client.wait("refused")
        assert refused.values["field"] == "text"
        assert "Use at most 6 tokens" in refused.values["sentence"]
        client.send(says, id=2, text="abcabc", step=None, **values)
        assert client.wait(says).values["id"] == 2


@pytest.mark.slow
def test_divergence_is_reported(client: Client, tmp_path: Path) -> None:
    client.open(tmp_path / "run", rate=10.0, steps=1_000)
    client.send("run")
    refused = client.wait("refused")
    assert refused.values["field"] == "rate"
    assert "is too large" in refused.values["sentence"]
    assert client.until("diverged").values["step"] < 1_000


def test_a_layer_message_contains_everything_to_recompute_it(
    client: Client, tmp_path: Path
) -> None:
    client.open(tmp_path / "run", model=ModelKind.ATTENTION_ONLY, steps=3)
    client.send("layer", id=1, text="abcab", step=None, layer=1)
    message = client.wait("layer")
    spec = create_layer_document(message, TokenizerKind.CHARACTERS).document.spec
    assert (spec.d_in, spec.d_out, spec.heads) == (16, 16, 2)
    assert spec.own_input
    assert (spec.own_input.rows, spec.own_input.columns) == (5, 16)


@pytest.mark.parametrize("kind", SYNTHETIC_TASKS)
def test_tasks_always_use_character_tokens(
    kind: CorpusKind, client: Client, tmp_path: Path
) -> None:
    source = CorpusSource(kind, size=4_000, tokenizer=TokenizerKind.WORDS)
    opened = client.open(tmp_path, source=source).values
    text = choose_probe_text(opened["sample"], settings_from_json(opened["settings"]))
    client.send("read", id=1, text=text, step=None)
    assert client.wait("read").values["tokens"] == list(text)


def test_a_missing_text_is_reported(client: Client, tmp_path: Path) -> None:
    source = CorpusSource(CorpusKind.FILE, str(tmp_path / "none.txt"))
    client.send(
        "open", folder=str(tmp_path / "run"), settings=settings_to_json(quick(source=source))
    )
    refused = client.wait("refused")
    assert refused.values["field"] == "path"
    assert "none.txt" in refused.values["sentence"]
    assert not (tmp_path / "run").exists()


def test_weights_are_saved_in_a_format_that_others_load(client: Client, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    client.open(tmp_path / "run", steps=2)
    client.send("save", id=1, path=str(tmp_path / "model.safetensors"), step=None)
    client.wait("said")
    state = load_file(tmp_path / "model.safetensors")
    assert state["layers.0.attention.W_query.weight"].shape == (16, 16)


@pytest.mark.slow
def test_a_step_without_memory_pauses_it_with_a_checkpoint(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.open(tmp_path / "run", steps=12)
    client.send("step", count=4)
    client.until("paused")

    def full(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("torch.autograd.backward", full)
        client.send("run")
        refused = client.wait("refused")
    assert refused.values["field"] == "batch"
    assert "Out of memory at step 4; the model is unchanged" in refused.values["sentence"]
    assert client.until("paused").values["step"] == 4
    client.send("run")
    assert client.until("done").values["step"] == 12


def test_settings_that_need_too_much_memory_are_rejected_with_what_fits(
    client: Client, tmp_path: Path, machine: Machine
) -> None:
    machine.set_free_bytes(2**30)
    settings = settings_to_json(quick(block=256, width=256, batch=4096))
    client.send("open", folder=str(tmp_path / "run"), settings=settings)
    refused = client.wait("refused").values
    assert refused["field"] == "batch"
    assert refused["remedy"][0] == "batch"
    assert f"batch size of {refused['remedy'][1]:,}" in refused["sentence"]
    assert not (tmp_path / "run").exists()


def test_a_failed_final_checkpoint_is_retried_on_closing(client: Client, tmp_path: Path) -> None:
    client.open(tmp_path / "run", steps=3)
    with full_disk():
        client.send("run")
        notice = client.until("done").values["notice"]
    assert "No space left on device. Free disk space before" in notice
    assert not RunFolder(tmp_path / "run").checkpoint_file.exists()
    client.send("stop")
    assert RunFolder(tmp_path / "run").checkpoint_file.exists()


def test_the_first_stop_does_not_end_if_steps_would_be_lost(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.open(tmp_path / "run", steps=10_000)
    fill_disk(monkeypatch)
    client.send("run")
    client.wait("progress", lambda message: message.values["step"] > 2)
    client.send("stop")
    client.wait("not_ended")
    stays = client.until("paused").values
    assert not stays["is_saved"]
    assert "No space left on device. The run stays open" in stays["notice"]
    assert "could only be resumed from step 0. Free disk space and stop" in stays["notice"]
    monkeypatch.undo()
    client.send("stop")
    stopped = client.until("stopped").values
    assert (stopped["notice"], stopped["is_saved"]) == ("", True)
    assert RunFolder(tmp_path / "run").checkpoint_step() == stopped["step"]


def test_the_second_stop_ends_and_states_what_is_lost(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.open(tmp_path / "run", steps=10_000)
    fill_disk(monkeypatch)
    client.send("step", count=3)
    notice = client.until("paused").values["notice"]
    assert "No space left on device. Free disk space before you close the run" in notice
    client.send("stop")
    client.wait("not_ended")
    client.send("step")  # the warning does not cover the steps from now on
    client.until("paused")
    client.send("stop")
    client.wait("not_ended")
    assert not client.server.is_ended
    client.send("stop")
    assert client.server.is_ended
    assert client.until("stopped").values["notice"].endswith("The run can be resumed from step 0.")


def test_a_completed_run_without_a_checkpoint_is_not_ended_at_the_first_stop(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.open(tmp_path / "run", steps=3)
    fill_disk(monkeypatch)
    client.send("run")
    client.until("done")
    client.send("stop")
    client.wait("not_ended")
    assert client.until("done").values["final"]


def test_a_failed_extension_is_applied_as_soon_as_possible(client: Client, tmp_path: Path) -> None:
    client.open(tmp_path / "run", steps=3)
    client.send("run")
    client.until("done")
    with full_disk():
        client.send("lengthen", steps=6)
        client.send("run")
        for _ in range(2):
            assert "No space left on device" in client.wait("refused").values["sentence"]
        assert client.server.state == "done"
    client.send("run")
    assert client.until("done").values["step"] == 6


def test_a_request_to_end_ends_immediately(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.open(tmp_path / "run", steps=10_000)
    fill_disk(monkeypatch)
    client.send("step", count=3)
    client.until("paused")
    client.send("end")
    assert client.server.is_ended


def test_a_withdrawn_stop_request_stops_nothing(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.open(tmp_path / "run", steps=10_000)
    client.send("run")
    folder = RunFolder(tmp_path / "run")
    folder.stop_file.touch()
    save = TrainingRun.save_checkpoint

    def save_and_withdraw(running: TrainingRun) -> None:
        save(running)
        folder.stop_file.unlink()

    with monkeypatch.context() as patched:
        patched.setattr(TrainingRun, "save_checkpoint", save_and_withdraw)
        client.wait("progress", lambda message: folder.checkpoint_file.exists())
    assert client.server.is_training
    folder.stop_file.touch()
    client.until("stopped")
    assert not folder.stop_file.exists()


@pytest.mark.parametrize("is_withdrawn", [True, False])
def test_orders_withdrawn_before_the_lock_train_nothing(
    client: Client, tmp_path: Path, is_withdrawn: bool
) -> None:
    client.open(tmp_path / "run", steps=10_000)
    client.send("stop")
    folder, alone = RunFolder(tmp_path / "run"), Client()
    folder.orders_file.touch()
    alone.send("open", folder=str(folder.path), settings=None)
    alone.send("leave")
    if is_withdrawn:
        folder.orders_file.unlink()
    alone.send("run")
    assert alone.server.is_training != is_withdrawn
    assert folder.lock_file.exists() != is_withdrawn
    assert not folder.orders_file.exists()
    alone.server.save_and_stop()


def test_a_temporarily_unreadable_disk_does_not_end_training(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.open(tmp_path / "run", steps=10_000)

    def lost(*_: object) -> bool:
        looked.append(True)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    looked: list[bool] = []
    client.send("run")
    with monkeypatch.context() as patched:
        patched.setattr(SymlinkSafeFile, "exists", lost)
        client.wait("progress", lambda _: bool(looked))
    assert client.server.is_training
