"""Training with several processes gives the losses and files of a single process."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import load

from tests.architecture.project_graph import ROOT
from tests.support.first_rank_text import main_with_own_text
from tests.support.forked_ranks import train_forked, training_ranks
from tests.support.small_trainings import rows_of
from tests.support.started_processes import wait_for_program
from tests.support.torchrun_processes import messages, torchrun, train
from visualizer.app import main
from visualizer.errors import InputError
from visualizer.language.loss_log import MISSING_VALUE
from visualizer.language.opened_run import OpenedRun
from visualizer.language.run_folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="connects processes as on Linux"),
]

SMALL = {
    "block": "10", "width": "16", "batch": "8", "size": "4000", "rate": "0.003", "warmup": "10",
    "threads": "1", "device": "cpu",
}  # fmt: skip
LAYERED = {"model": "transformer", "heads": "2", "layers": "2"}
DROPPING = LAYERED | {"dropout": "0.3"}
SLOW = DROPPING | {"rate": "0.0001"}
"""A learning rate so low that rounding differences do not grow, even over many steps."""
CLOSE = 1e-6
"""Maximum difference between losses, in nats per token."""


def alone(*arguments: str, module: str = "visualizer") -> str:
    """Train with a single process, and return its standard output."""
    return subprocess.run(
        [sys.executable, "-m", module, "train", *arguments],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


def begin(folder: Path, **settings: str) -> tuple[str, ...]:
    """Return the command-line arguments for a new small run."""
    options = (f"--{name}={value}" for name, value in (SMALL | settings).items())
    return ("repeat", "--out", str(folder), "--quiet", *options)


def resume(folder: Path, *arguments: str) -> tuple[str, ...]:
    return ("--resume", str(folder), "--quiet", *arguments)


def losses(folder: Path) -> np.ndarray:
    """Return the measurements [row, (step, training, validation, rate)]."""
    return np.array([row[:4] for row in rows_of(folder)])


def assert_same_losses(one: Path, other: Path, close: float = CLOSE) -> None:
    expected, found = losses(one), losses(other)
    np.testing.assert_array_equal(expected == MISSING_VALUE, found == MISSING_VALUE)
    np.testing.assert_allclose(found, expected, rtol=0, atol=close)


def assert_same_files(one: Path, other: Path) -> None:
    """Compare the names, the metadata and, up to rounding, the tensors of two run folders."""
    names = [sorted(path.relative_to(run).as_posix() for path in run.rglob("*"))
             for run in (one, other)]  # fmt: skip
    assert names[0] == names[1]
    assert (one / "run.json").read_bytes() == (other / "run.json").read_bytes()
    for name in names[0]:
        if name.endswith(".safetensors"):
            assert_same_tensors(one / name, other / name)


def assert_same_tensors(one: Path, other: Path) -> None:
    expected, found = load(one.read_bytes()), load(other.read_bytes())
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        if name.startswith("randomness/"):
            np.testing.assert_array_equal(found[name], tensor)
        else:
            np.testing.assert_allclose(found[name], tensor, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("count", "settings"),
    [
        (2, DROPPING),
        pytest.param(4, DROPPING, marks=pytest.mark.release),
        (2, LAYERED | {"model": "attention-only"}),
        pytest.param(4, {"model": "bigram"}, marks=pytest.mark.release),
        pytest.param(2, {"model": "average"}, marks=pytest.mark.release),
        pytest.param(2, {"model": "dot-product"}, marks=pytest.mark.release),
    ],
)
@pytest.mark.usefixtures("full_evaluation")
def test_several_processes_give_the_results_of_one(
    tmp_path: Path, count: int, settings: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings | {"steps": "60", "decay": "cosine"}
    assert main(["train", *begin(tmp_path / "one", **settings)]) == 0
    ended = train_forked(count, tmp_path, *begin(tmp_path / "several", **settings))
    assert (ended.statuses, messages(ended.errors)) == ([0] * count, [])
    assert ended.out == capsys.readouterr().out
    assert_same_losses(tmp_path / "one", tmp_path / "several")
    assert_same_files(tmp_path / "one", tmp_path / "several")


@pytest.mark.release
def test_in_float64_long_training_gives_the_same_results(tmp_path: Path) -> None:
    settings, exact = LAYERED | {"steps": "400"}, "tests.support.float64_training"
    alone(*begin(tmp_path / "one", **settings), module=exact)
    assert train(2, *begin(tmp_path / "several", **settings), module=exact)[0] == 0
    assert len(losses(tmp_path / "one")) == 401
    assert losses(tmp_path / "one")[399, 1] < 0.8 * losses(tmp_path / "one")[0, 1]
    assert_same_losses(tmp_path / "one", tmp_path / "several")


@pytest.mark.release
def test_a_run_can_continue_with_another_number_of_processes(tmp_path: Path) -> None:
    alone(*begin(tmp_path / "whole", **SLOW, steps="80"))
    run = tmp_path / "run"
    alone(*begin(run, **SLOW, steps="20"))
    assert train(2, *resume(run, "--steps=40"))[0] == 0
    assert train(4, *resume(run, "--steps=60"))[0] == 0
    alone(*resume(run, "--steps=80"))
    assert_same_losses(tmp_path / "whole", run)


def stop_while_training(
    folder: Path, number: int, rank: int | None, *arguments: str
) -> tuple[int, str]:
    """Send a signal to torchrun or to one of its two processes, and wait until all have ended.

    Returns
    -------
    tuple
        The status of torchrun, and the messages.
    """
    run = RunFolder(folder)
    with torchrun(2, *arguments) as started:
        wait_for_program(started.process, run.snapshot_file(12).exists)
        started.find_ranks()
        assert started.ranks.keys() == {0, 1}
        assert_watched(run)
        (started.process if rank is None else started.ranks[rank]).send_signal(number)
        status, _, errors = started.ended()
        assert not started.left()
        return status, errors


def assert_watched(run: RunFolder) -> None:
    """Check that another program can read a run that is being trained, but not train it."""
    opened = OpenedRun(run, is_held=False)
    assert opened.model_at(0)[1] == 0
    with pytest.raises(InputError, match="is already open"):
        opened.acquire_lock()
    opened.close()


@pytest.mark.usefixtures("usual_signals", "full_evaluation")
@pytest.mark.parametrize(
    ("name", "rank", "status", "said"),
    [
        pytest.param("SIGTERM", None, "143", "Stopped at step", marks=pytest.mark.release),
        pytest.param("SIGINT", None, "130", "Stopped at step", marks=pytest.mark.release),
        pytest.param("SIGTERM", 0, "143", "Stopped at step", marks=pytest.mark.release),
        pytest.param("SIGTERM", 1, "143", "Stopped at step", marks=pytest.mark.release),
        pytest.param(
            "SIGKILL", 0, "-9", "process 2 of 2 stopped because another process",
            marks=pytest.mark.release,
        ),
        ("SIGKILL", 1, "-9", "Another process of this training run exited. Stopped at step"),
    ],
)  # fmt: skip
def test_all_processes_end_and_the_run_can_continue(
    tmp_path: Path, name: str, rank: int | None, status: str, said: str
) -> None:
    run = tmp_path / "run"
    found, errors = stop_while_training(
        run, getattr(signal, name), rank, *begin(run, **SLOW, steps="1000000")
    )
    assert found == 1
    (message,) = messages(errors)
    assert message.startswith(said)
    # The status of processes that torchrun has terminated itself is not reported.
    if rank is not None:
        assert f"exitcode  : {status} " in errors
    step = RunFolder(run).checkpoint_step()
    assert step is not None, "the checkpoint is not whole"
    assert step >= 12 or (name, rank) == ("SIGKILL", 0)
    assert train_forked(2, tmp_path, *resume(run, f"--steps={step + 8}")).statuses == [0, 0]
    assert main(["train", *begin(tmp_path / "one", **SLOW, steps=str(step + 8))]) == 0
    assert_same_losses(tmp_path / "one", run)


@pytest.mark.release
def test_an_interrupted_run_repeats_exactly(tmp_path: Path) -> None:
    assert train(2, *begin(tmp_path / "whole", **DROPPING, steps="40"))[0] == 0
    assert train(2, *begin(tmp_path / "cut", **DROPPING, steps="25"))[0] == 0
    assert train(2, *resume(tmp_path / "cut", "--steps=40"))[0] == 0
    assert_same_losses(tmp_path / "whole", tmp_path / "cut", close=0)


def test_a_window_that_requests_the_run_receives_it(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    with training_ranks(2, tmp_path, *begin(run.path, steps="1000000")) as ranks:
        wait_for_program(ranks.processes[0], run.snapshot_file(2).exists)
        run.stop_file.touch()
        statuses, _, errors = ranks.ended()
    assert statuses == [143, 143]
    assert messages(errors)[0].startswith("Stopped at step")
    assert not run.lock_file.exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"batch": "7"}, "A batch of 7 blocks cannot be divided among 2 processes. Use 6 or 8."),
        ({"batch": "1"}, "A batch of 1 block cannot be divided among 2 processes. Use 2."),
        (
            {"heads": "3"},
            "argument --heads: The embedding size 16 cannot be split into 3 heads. Use 2 heads.",
        ),
    ],
)
def test_an_error_is_printed_once(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    statuses, out, errors = train_forked(2, tmp_path, *begin(tmp_path / "run", **settings))
    assert (statuses, out, messages(errors)) == ([2, 2], "", [said])
    assert not (tmp_path / "run").exists()


def test_divergence_ends_all_processes(tmp_path: Path) -> None:
    settings = LAYERED | {"rate": "10", "steps": "900"}
    statuses, out, errors = train_forked(2, tmp_path, *begin(tmp_path / "run", **settings))
    (message,) = messages(errors)
    assert "the learning rate 10 is too large" in message
    assert not out
    assert statuses == [1, 1]
    assert (
        RunFolder(tmp_path / "run").checkpoint_step()
        == RunFolder(tmp_path / "run").snapshot_steps()[-1]
    )


def test_help_is_printed_once_and_ends_all_processes(tmp_path: Path) -> None:
    statuses, out, errors = train_forked(2, tmp_path, "--help")
    assert (statuses, messages(errors)) == ([0, 0], [])
    assert out.count("Train a small language model") == 1


def test_a_text_that_another_process_lacks_is_reported(tmp_path: Path) -> None:
    """Every machine needs the text."""
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be " * 300)
    arguments = (str(text), "--out", str(tmp_path / "run"), "--batch=8", "--device=cpu", "--quiet")
    statuses, _, errors = train_forked(2, tmp_path, *arguments, program=main_with_own_text)
    (message,) = messages(errors)
    assert message.startswith("Process 2 of 2: “text.txt” has changed since training started")
    assert statuses == [2, 2]
