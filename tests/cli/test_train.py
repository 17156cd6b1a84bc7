"""Training from the command line, in a new folder or resumed from an existing one."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
from operator import attrgetter
from typing import IO, TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from tests.support.forked_program import ForkedProgram
from tests.support.started_processes import wait_for_program
from visualizer.app import main
from visualizer.attention.spec import Device
from visualizer.cli.train import TrainingConsoleProgress, build_settings, create_train_parser
from visualizer.language.run_folder import RunFolder
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_presets import PRESETS
from visualizer.language.training_settings import CorpusKind, LearningRateDecay, ModelKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Machine
    from visualizer.language.training_presets import TrainingPreset

    Start = Callable[[tuple[str, ...], IO[bytes]], subprocess.Popen[bytes] | ForkedProgram]

SMALL = ("--block=8", "--width=8", "--heads=2", "--batch=4", "--size=2000", "--threads=1")


def test_options_become_settings() -> None:
    options = create_train_parser().parse_args(
        [
            "poem.txt",
            "--out",
            "x",
            "--model",
            "transformer",
            "--decay",
            "cosine",
            "--rate",
            "0.01",
            "--layers",
            "3",
        ]
    )
    settings = build_settings(options)
    assert settings.source.kind is CorpusKind.FILE
    assert settings.source.path.endswith("poem.txt")
    assert (settings.model, settings.decay) == (ModelKind.TRANSFORMER, LearningRateDecay.COSINE)
    assert (settings.rate, settings.layers, settings.heads) == (0.01, 3, 2)
    world = build_settings(
        create_train_parser().parse_args(["world", "--out", "x", "--size", "5000"])
    )
    assert world.source.tokenizer is TokenizerKind.WORDS
    assert world.source.size == 5000


@pytest.mark.parametrize("preset", PRESETS, ids=attrgetter("name"))
def test_the_settings_of_the_lab_are_those_to_begin_with(preset: TrainingPreset) -> None:
    source, usual = preset.settings.source, preset.settings
    named = "poem.txt" if source.kind is CorpusKind.FILE else source.kind
    arguments = [named, "--out", "x", "--preset", preset.name]
    begun = build_settings(create_train_parser().parse_args(arguments))
    assert replace(begun, source=replace(begun.source, path="")) == usual
    longer = build_settings(
        create_train_parser().parse_args([*arguments, "--steps", "7", "--seed", "3"])
    )
    assert longer == replace(begun, steps=7, seed=3)


@pytest.mark.slow
def test_a_run_is_trained_and_made_longer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main(["train", "repeat", "--out", str(folder), "--steps", "12", "--quiet", *SMALL]) == 0
    said = dict(line.rsplit(None, 1) for line in capsys.readouterr().out.splitlines())
    assert set(said) == {"training loss", "validation loss", "bigram baseline", "unigram baseline"}
    assert 1 < float(said["training loss"]) < 4
    assert main(["train", "--resume", str(folder), "--steps", "20", "--quiet"]) == 0
    with (folder / "losses.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == list(range(21))
    assert RunFolder(folder).snapshot_steps()[-1] == 20


def test_a_device_that_is_not_available_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: Machine
) -> None:
    machine.set_devices(Device.CPU)
    out = ["--out", str(tmp_path / "run"), "--device", "cuda"]
    assert main(["train", "repeat", *out, "--steps", "2", "--quiet", *SMALL]) == 2
    assert "argument --device: A CUDA GPU is not available" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_errors_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "run")]
    assert main(["train", str(tmp_path / "none.txt"), *out]) == 2
    assert "none.txt" in capsys.readouterr().err
    assert main(["train", "repeat", *out, "--rate", "10", "--steps", "900", "--quiet", *SMALL]) == 1
    assert "the learning rate 10 is too large" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path / "run"), "--steps", "999"]) == 1
    assert "has diverged. Start a new run" in capsys.readouterr().err
    assert main(["train", "repeat", *out]) == 1
    assert "already contains a run" in capsys.readouterr().err


def start_program(arguments: tuple[str, ...], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "visualizer", *arguments], stderr=errors)


def fork_program(arguments: tuple[str, ...], errors: IO[bytes]) -> ForkedProgram:
    return ForkedProgram(main, arguments, {2: errors.fileno()})


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize(
    ("start", "name", "status"),
    [
        pytest.param(start_program, "SIGTERM", 143, id="SIGTERM"),
        pytest.param(fork_program, "SIGHUP", 129, id="SIGHUP"),
    ],
)
@pytest.mark.slow
def test_a_signal_ends_it_with_a_checkpoint(
    tmp_path: Path, start: Start, name: str, status: int
) -> None:
    folder = tmp_path / "run"
    arguments = ("train", "repeat", "--out", str(folder), "--steps=1000000", *SMALL)
    with (tmp_path / "errors").open("wb") as errors:
        process = start(arguments, errors)
        try:
            wait_for_program(process, RunFolder(folder).snapshot_file(8).exists)
            process.send_signal(getattr(signal, name))
            assert process.wait(60) == status
        finally:
            process.kill()
            process.wait()
    assert b"--resume" in (tmp_path / "errors").read_bytes()
    assert RunFolder(folder).checkpoint_file.exists()


def test_a_window_that_asks_for_the_run_is_given_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path / "run")
    count = TrainingConsoleProgress.report_progress

    def ask(self: TrainingConsoleProgress, *said: Any) -> None:
        folder.stop_file.touch()
        count(self, *said)

    monkeypatch.setattr(TrainingConsoleProgress, "report_progress", ask)
    assert main(["train", "repeat", "--out", str(folder.path), "--steps=1000000", *SMALL]) == 143
    assert "--resume" in capsys.readouterr().err
    assert folder.checkpoint_file.exists()
    assert not folder.lock_file.exists()


@pytest.mark.slow
def test_memory_that_is_not_there_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    out = ["--out", str(tmp_path / "run")]
    with monkeypatch.context() as patched:
        patched.setattr("visualizer.attention.device.free_device_bytes", lambda _: 2**20)
        assert main(["train", "repeat", *out, "--quiet", *SMALL]) == 2
    assert "Even a batch of 1 needs about" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    with monkeypatch.context() as patched:
        patched.setattr("torch.autograd.backward", full)
        assert main(["train", "repeat", *out, "--steps", "5", "--quiet", *SMALL]) == 1
    assert "Out of memory at step 0; the model is unchanged" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path / "run"), "--quiet"]) == 0


@pytest.mark.slow
def test_a_run_that_diverged_is_not_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "run")
    options = ["--rate", "10", "--steps", "900", "--quiet", *SMALL]
    assert main(["train", "repeat", "--out", folder, *options]) == 1
    capsys.readouterr()
    assert main(["train", "--resume", folder, "--steps", "1000"]) == 1
    assert "has diverged. Start a new run with a smaller learning rate" in capsys.readouterr().err
