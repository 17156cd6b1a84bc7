"""Kills training processes at random moments, and compares their reports with the files on disk."""

from __future__ import annotations

import os
import queue
import random
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from tests.architecture.project_graph import ROOT
from tests.support.small_trainings import begun, finish, quick, rows_of
from visualizer.lab.training.process_controller import TRAINING_COMMAND
from visualizer.language.run_folder import RunFolder, settings_to_json
from visualizer.language.training_run import CHECKPOINT_INTERVAL_S
from visualizer.language.wire_format import Message, MessageUnpacker

if TYPE_CHECKING:
    from visualizer.language.loss_log import LossRow

LONGEST_S = 1.6 * CHECKPOINT_INTERVAL_S
"""Maximum time between the first progress message and a kill, in seconds."""
SLACK_S = 2.0
"""Additional age of a checkpoint that is allowed because the machine may be busy, in seconds."""
PATIENCE_S = 120.0
ENDLESS = {"steps": 1_000_000, "seed": 11}


def kill_many(kills: int, seed: int = 1) -> dict[str, int]:
    """Kill one training run this many times at random moments, and resume it each time.

    After each kill, all losses that were sent are on disk, the checkpoint is not too old, and the
    next process continues from the checkpoint's step. At the end, the losses equal those of an
    undisturbed run.

    Returns
    -------
    dict
        Numbers of kills, and of kills after which there was a checkpoint.
    """
    chance, count = random.Random(seed), {"kills": 0, "with a checkpoint": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = RunFolder(Path(name) / "killed")
        step = 0
        while count["kills"] < kills:
            sent = _killed(folder, step, chance.uniform(0, LONGEST_S))
            _assert_on_disk(folder, sent)
            found = folder.checkpoint_step()
            assert found is not None, "the checkpoint cannot be read"
            assert found >= step, "a checkpoint was lost"
            _assert_young(folder, found)
            step = found
            count["kills"] += 1
            count["with a checkpoint"] += step > 0
        _assert_undisturbed(folder, Path(name) / "undisturbed")
    return count


def _killed(folder: RunFolder, expected_step: int, delay: float) -> dict[int, float]:
    """Train in a process that is killed, and return the losses that it sent, by step."""
    settings = None if folder.metadata_file.exists() else settings_to_json(quick(**ENDLESS))
    process = subprocess.Popen(
        TRAINING_COMMAND, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    received: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    listener = threading.Thread(target=_listen, args=(process, received))
    listener.start()
    try:
        for says, values in (("open", {"folder": str(folder.path), "settings": settings}),
                             ("run", {})):  # fmt: skip
            process.stdin.write(Message(says, values).pack())
        process.stdin.flush()
        opened = received.get(timeout=PATIENCE_S)
        assert opened
        assert (opened.kind, opened.values["step"]) == ("opened", expected_step)
        sent: dict[int, float] = {}
        is_running, deadline = False, time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                message = received.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            assert message, "the process ended by itself"
            sent |= _losses(message)
            if not is_running:
                is_running, deadline = True, time.monotonic() + delay
        assert is_running, "no progress was reported"
    finally:
        process.kill()
        process.wait()
        listener.join()
        process.stdin.close()
    while message := received.get():
        sent |= _losses(message)
    return sent


def _listen(process: subprocess.Popen[bytes], received: queue.SimpleQueue[Message | None]) -> None:
    assert process.stdout
    unpacker = MessageUnpacker()
    with process.stdout as pipe:
        while piece := os.read(pipe.fileno(), 1 << 16):
            for message in unpacker.unpack_piece(piece):
                received.put(message)
    received.put(None)


def _losses(message: Message) -> dict[int, float]:
    arrays = message.arrays
    pairs = zip(arrays["steps"].tolist(), arrays["training"].tolist(), strict=True)
    return dict(pairs)


def _assert_on_disk(folder: RunFolder, sent: dict[int, float]) -> None:
    written = {row.step: row.training for row in rows_of(folder.path)}
    missing = {step for step, loss in sent.items() if written.get(step) != loss}
    assert not missing, f"losses were shown and are not on disk: {sorted(missing)[:5]}"


def _assert_young(folder: RunFolder, checkpoint_step: int) -> None:
    """Check that training after the checkpoint took no longer than the checkpoint interval."""
    rows = rows_of(folder.path)
    after = [row.seconds for row in rows if row.step >= checkpoint_step]
    before = [row.seconds for row in rows if row.step < checkpoint_step]
    age = (after[-1] if after else 0.0) - (before[-1] if before else 0.0)
    assert age <= CHECKPOINT_INTERVAL_S + SLACK_S, f"the checkpoint is {age:.1f} s old"


def _assert_undisturbed(folder: RunFolder, other: Path) -> None:
    killed = rows_of(folder.path)
    torch.set_num_threads(1)
    opened = begun(other, **ENDLESS)
    assert opened.running
    finish(opened, len(killed))
    expected = opened.running.take_new_rows()
    opened.close()
    np.testing.assert_array_equal(_measured(killed), _measured(expected))


def _measured(rows: list[LossRow]) -> np.ndarray:
    return np.array([[row.step, row.training, row.validation] for row in rows])
