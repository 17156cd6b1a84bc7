"""A run keeps its measurements, resumes exactly, and loses nothing if it is interrupted."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load, save, save_file

from tests.support.damaged_run_folders import DONE, HEADERS, STEPS, made_whole
from tests.support.small_trainings import begun, finish, full_disk, rows_of, training_of
from visualizer.cli.train import train
from visualizer.errors import InputError
from visualizer.lab.runs.store import list_runs, read_losses
from visualizer.language import run_folder, training_run
from visualizer.language.checkpoints import (
    TrainerState,
    read_checkpoint,
    read_metadata,
    read_weights,
    write_checkpoint,
)
from visualizer.language.corpora.corpus import Corpus, CorpusSplit
from visualizer.language.loss_log import LossLog
from visualizer.language.opened_run import OpenedRun
from visualizer.language.run_folder import RunFolder
from visualizer.language.saved_model import read_saved_model
from visualizer.language.trainer import default_thread_count
from visualizer.language.training_run import DivergedError
from visualizer.language.training_settings import (
    CorpusKind,
    CorpusSource,
    ModelKind,
)
from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Machine

pytestmark = pytest.mark.slow  # these tests train models


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with `STEPS` steps, of which `DONE` are completed; it must be copied."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    made_whole(folder)
    return folder


@pytest.fixture
def half_done(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained run."""
    return shutil.copytree(trained, tmp_path / "run")


def losses(folder: Path) -> list[tuple[float, ...]]:
    """Read the measurements of a run, without the times."""
    return [tuple(row[:4]) for row in rows_of(folder)]


def same(one: list[tuple[float, ...]], other: list[tuple[float, ...]]) -> bool:
    return np.array_equal(np.array(one), np.array(other), equal_nan=True)


def with_snapshots(path: Path, *steps: int) -> RunFolder:
    """Create a run folder with small files instead of the snapshots of the given steps."""
    opened = begun(path / "run", steps=2)
    opened.close()
    for step in opened.folder.snapshot_steps():
        opened.folder.snapshot_file(step).unlink()
    for step in steps:
        opened.folder.snapshot_file(step).append(b"weights")
    return opened.folder


def test_a_model_learns(tmp_path: Path) -> None:
    source = CorpusSource(CorpusKind.REPEAT, size=100_000)
    opened = begun(tmp_path / "run", steps=300, dropout=0.0, source=source)
    running = finish(opened)
    assert running.state.final
    _, validation = running.state.final
    measured = losses(tmp_path / "run")
    assert validation < 0.85 * measured[0][1]
    assert validation == measured[-1][2]
    assert [row[0] for row in measured] == list(range(301))
    opened.close()


@pytest.mark.parametrize(
    "model",
    [
        ModelKind.AVERAGE,
        *(
            pytest.param(model, marks=pytest.mark.slow)
            for model in ModelKind
            if model != ModelKind.AVERAGE
        ),
    ],
)
def test_an_interrupted_run_ends_like_an_uninterrupted_one(
    tmp_path: Path, model: ModelKind
) -> None:
    whole = begun(tmp_path / "whole", model=model)
    finish(whole)
    whole.close()
    for until in (1, 7, 23):
        part = begun(tmp_path / f"cut{until}", model=model)
        finish(part, until).save_checkpoint()
        finish(part, until + 3)  # the steps after the checkpoint are lost
        part.close()
        torch.rand(3)  # other random numbers have no effect
        again = OpenedRun(RunFolder(tmp_path / f"cut{until}"))
        assert training_of(again).step == until
        finish(again)
        again.close()
        assert same(losses(tmp_path / f"cut{until}"), losses(tmp_path / "whole"))
    assert losses(tmp_path / "whole")[-1][0] == 30


def test_the_same_settings_give_the_same_run(tmp_path: Path) -> None:
    for name in ("one", "other"):
        opened = begun(tmp_path / name)
        finish(opened)
        opened.close()
    assert same(losses(tmp_path / "one"), losses(tmp_path / "other"))
    one, other = (RunFolder(tmp_path / name) for name in ("one", "other"))
    assert one.snapshot_steps() == other.snapshot_steps()
    for step in one.snapshot_steps():
        assert (
            one.snapshot_file(step).path.read_bytes() == other.snapshot_file(step).path.read_bytes()
        )


def test_snapshots_are_even_on_a_log_axis() -> None:
    kept = [
        step
        for step in range(20_000)
        if training_run.is_first_in_log_interval(step, training_run.SNAPSHOT_GROWTH)
    ]
    assert kept[:6] == [0, 1, 2, 3, 4, 5]
    assert 90 < len(kept) < 120
    late = np.array(kept[40:])
    np.testing.assert_allclose(late[1:] / late[:-1], training_run.SNAPSHOT_GROWTH, rtol=0.02)


def test_snapshots_contain_the_model_of_their_step(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run", steps=5, dropout=0.0)
    running = training_of(opened)
    seen = {}
    while not running.is_done:
        seen[running.step] = running.trainer.evaluate(CorpusSplit.VALIDATION, 2)
        running.train_one_step()
    for step, expected in seen.items():
        model, found = opened.model_at(step)
        assert found == step
        running.trainer.model = model
        assert running.trainer.evaluate(CorpusSplit.VALIDATION, 2) == expected
    with pytest.raises(InputError, match=r"Step 99 has no snapshot\."):
        opened.model_at(99)
    opened.close()


def test_too_many_snapshots_are_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "MAX_SNAPSHOT_BYTES", 100_000)
    opened = begun(tmp_path / "run", steps=60)
    finish(opened)
    kept = opened.folder.snapshot_steps()
    size = opened.folder.snapshot_file(60).stat().st_size
    assert kept[0] == 0
    assert kept[-1] == 60
    assert len(kept) * size <= 100_000 + size
    opened.close()


def made_longer(tmp_path: Path) -> OpenedRun:
    """Return a run of 25 steps that will be extended to 40; next to it is a complete run of 40."""
    whole = begun(tmp_path / "whole", steps=40)
    finish(whole)
    whole.close()
    opened = begun(tmp_path / "run", steps=25)
    finish(opened).set_total_steps(40)
    return opened


def test_a_run_can_be_extended(tmp_path: Path) -> None:
    opened = made_longer(tmp_path)
    finish(opened)
    opened.close()
    assert same(losses(tmp_path / "run"), losses(tmp_path / "whole"))
    assert OpenedRun(RunFolder(tmp_path / "run")).metadata.settings.steps == 40


def test_a_run_that_cannot_be_extended_is_unchanged(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run")
    running = finish(opened)
    with full_disk(), pytest.raises(InputError, match="No space left"):
        running.set_total_steps(40)
    assert (running.is_done, running.settings.steps) == (True, 30)
    assert running.state.final
    running.set_total_steps(40)
    finish(opened)
    opened.close()
    assert [row[0] for row in losses(tmp_path / "run")] == list(range(41))


def test_an_extended_and_killed_run_resumes_correctly(tmp_path: Path) -> None:
    opened = made_longer(tmp_path)
    finish(opened, 30).take_new_rows()  # writes the rows; the checkpoint is still that of step 25
    opened.close()
    assert read_saved_model(RunFolder(tmp_path / "run")).losses["steps"].tolist() == [*range(25)]
    again = OpenedRun(RunFolder(tmp_path / "run"))
    running = training_of(again)
    assert running.state.final is None
    assert [row.step for row in running.take_new_rows()] == [*range(25)]
    finish(again)
    again.close()
    assert same(losses(tmp_path / "run"), losses(tmp_path / "whole"))


# ------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("rate", [3.0, 10.0])
def test_a_diverging_rate_is_named_and_the_model_is_restored(tmp_path: Path, rate: float) -> None:
    opened = begun(tmp_path / "run", rate=rate, steps=500, dropout=0.0)
    with pytest.raises(DivergedError, match=f"learning rate {rate:g} is too large") as said:
        finish(opened)
    running, good = opened.running, opened.folder.snapshot_steps()[-1]
    assert running
    assert running.is_done
    assert running.step == good
    assert f"was restored to step {good:,}" in said.value.sentence
    first = losses(tmp_path / "run")[0][1]
    assert running.trainer.evaluate(CorpusSplit.VALIDATION, 8) < 2 * first
    assert opened.model_at(None)[1] == good
    whole = losses(tmp_path / "run")
    assert whole[-1][0] > good  # the losses of the divergence are kept
    opened.close()
    again = OpenedRun(RunFolder(tmp_path / "run"))
    running = training_of(again)
    assert running.is_done
    assert running.step == good
    assert len(running.take_new_rows()) == len(whole)
    again.close()


def test_without_a_snapshot_the_initial_model_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = begun(tmp_path / "run", rate=10.0, steps=500, dropout=0.0)
    running = training_of(opened)
    before = running.trainer.evaluate(CorpusSplit.VALIDATION, 2)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(training_run, "write_weights", full)
    with pytest.raises(DivergedError, match="was restored to step 0"):
        finish(opened)
    assert running.trainer.evaluate(CorpusSplit.VALIDATION, 2) == before
    opened.close()


def test_losses_are_written_before_they_are_shown(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run")
    running = training_of(opened)
    finish(opened, 7)
    assert rows_of(tmp_path / "run") == []
    assert [row[:4] for row in running.take_new_rows()] == losses(tmp_path / "run")
    finish(opened, 9)
    assert [row.step for row in running.take_new_rows()] == [7, 8]
    assert len(rows_of(tmp_path / "run")) == 9
    opened.close()


def test_losses_that_cannot_be_written_are_shown_and_kept(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run")
    running = training_of(opened)
    finish(opened, 3)
    with full_disk():
        assert len(running.take_new_rows()) == 3
    assert running.notice.startswith("Cannot save the losses: No space left on device.")
    running.save_checkpoint()
    assert running.notice == ""
    assert len(rows_of(tmp_path / "run")) == 3
    opened.close()


@pytest.mark.parametrize(
    ("step_s", "save_s", "oldest"), [(0.25, 0.0, 5.0), (0.25, 0.125, 5.0), (0.25, 1.0, 20.0)]
)
def test_the_age_of_a_checkpoint_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float, save_s: float, oldest: float
) -> None:
    """The clock is simulated; only steps and checkpoints advance it."""
    clock = SimpleNamespace(now=100.0, saved=[])
    monkeypatch.setattr(
        training_run, "time",
        SimpleNamespace(monotonic=lambda: clock.now, perf_counter=lambda: clock.now),
    )  # fmt: skip
    opened = begun(tmp_path / "run", steps=400, dropout=0.0)
    running = training_of(opened)

    def step() -> float:
        clock.now += step_s
        running.trainer.step += 1
        return 3.0  # the loss; nothing is computed

    def write(*_: object) -> None:
        clock.saved.append(clock.now)  # the checkpoint contains the state at this time
        clock.now += save_s

    monkeypatch.setattr(running.trainer, "train_one_step", step)
    monkeypatch.setattr(training_run, "write_checkpoint", write)
    finish(opened, 300)
    opened.close()
    assert clock.saved[0] <= 100 + 5
    ages = np.diff(clock.saved) + save_s  # age of a checkpoint when the next one is complete
    assert (ages[1:] <= oldest).all()
    assert (ages[1:] >= oldest - 2 * step_s - save_s).all()


def test_the_step_of_the_checkpoint_is_read_from_its_header(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run")
    assert opened.folder.checkpoint_step() == 0
    finish(opened, 7).save_checkpoint()
    assert opened.folder.checkpoint_step() == 7
    opened.close()
    path = opened.folder.checkpoint_file.path
    whole = path.read_bytes()
    for content in (b"", whole[:7], whole[:30], b"\xff" * 99, b"\x02" + bytes(7) + b"[]"):
        path.write_bytes(content)
        assert opened.folder.checkpoint_step() is None


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run")
    running = finish(opened, 10)
    running.save_checkpoint()
    before = opened.folder.checkpoint_file.path.read_bytes()
    finish(opened, 12)
    with full_disk():
        running.save_checkpoint()
    assert "No space left on device" in running.notice
    assert opened.folder.checkpoint_file.path.read_bytes() == before
    assert not list(tmp_path.rglob("*.part"))
    finish(opened)
    assert running.notice == ""
    assert [row[0] for row in losses(tmp_path / "run")] == list(range(31))
    opened.close()


def test_a_run_is_locked_by_one_program(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run")
    with pytest.raises(InputError, match="is already open"):
        OpenedRun(RunFolder(tmp_path / "run"))
    opened.close()
    OpenedRun(RunFolder(tmp_path / "run")).close()


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    begun(tmp_path / "run").close()
    with pytest.raises(InputError, match=r"already contains a run\."):
        begun(tmp_path / "run")


def test_a_run_without_its_text_can_be_inspected(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be " * 50)
    opened = begun(tmp_path / "run", source=CorpusSource(CorpusKind.FILE, str(text)), steps=4)
    finish(opened)
    opened.close()
    text.write_text("something else " * 50)
    again = OpenedRun(RunFolder(tmp_path / "run"))
    assert again.running is None
    assert "has changed since training started" in again.lock_error
    assert again.model_at(None)[1] == 4
    again.close()


def without_its_text(tmp_path: Path) -> OpenedRun:
    """Train a run up to a checkpoint after 29 of 30 steps, close it, and remove its text."""
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be " * 50)
    opened = begun(tmp_path / "run", source=CorpusSource(CorpusKind.FILE, str(text)), steps=30)
    finish(opened, 29).save_checkpoint()
    opened.close()
    text.unlink()
    return opened


def test_the_last_model_of_a_run_without_text_is_its_checkpoint(tmp_path: Path) -> None:
    opened = without_its_text(tmp_path)
    expected = training_of(opened).trainer.model.state_dict()
    again = OpenedRun(RunFolder(tmp_path / "run"), is_held=False)
    kept = again.snapshot_steps()
    assert 29 not in kept
    for _ in range(2):
        model, step = again.model_at(None)
        assert step == 29
        assert all(torch.equal(expected[name], one) for name, one in model.state_dict().items())
        assert again.model_at(kept[-1])[1] == kept[-1]
    again.close()


def test_an_unreadable_checkpoint_is_replaced_by_the_last_snapshot(tmp_path: Path) -> None:
    opened = without_its_text(tmp_path)
    opened.folder.checkpoint_file.path.write_bytes(b"damaged")
    again = OpenedRun(RunFolder(tmp_path / "run"), is_held=False)
    assert again.model_at(None)[1] == again.snapshot_steps()[-1]
    for step in again.snapshot_steps():
        again.folder.snapshot_file(step).path.unlink()
    with pytest.raises(InputError):
        again.model_at(None)
    again.close()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _other(path: Path) -> None:
    path.write_bytes(b"not at all")


def test_invalid_metadata_is_rejected_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder" / "run.json").mkdir(parents=True)
    with pytest.raises(InputError, match=r"is not a file, but a folder\."):
        RunFolder(tmp_path / "folder").read_metadata()
    begun(tmp_path / "run").close()
    monkeypatch.setattr("visualizer.language.run_folder.MAX_METADATA_BYTES", 100)
    with pytest.raises(InputError, match="is larger than"):
        RunFolder(tmp_path / "run").read_metadata()


@pytest.mark.parametrize("damage", [_cut, _other])
@pytest.mark.parametrize("name", ["run.json", "checkpoint.safetensors"])
def test_a_damaged_run_is_rejected_with_a_message(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    opened = begun(tmp_path / "run", steps=3)
    finish(opened)
    opened.close()
    damage(tmp_path / "run" / name)
    with pytest.raises(InputError, match=name) as refused:
        OpenedRun(RunFolder(tmp_path / "run"))
    assert refused.value.field == "folder"
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(InputError, match="does not contain a run"):
        OpenedRun(RunFolder(tmp_path / "run"))


def test_a_checkpoint_contains_the_run_metadata(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run", steps=2)
    finish(opened)
    with safe_open(opened.folder.checkpoint_file.path, "numpy") as checkpoint:
        said = json.loads(checkpoint.metadata()["checkpoint"])
    assert run_folder.metadata_from_json(said["run"]) == opened.metadata
    opened.close()


def test_each_step_uses_its_own_learning_rate(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run", steps=10)
    training, taken = training_of(opened).trainer, []
    for _ in range(3):
        training.train_one_step()
        taken.append(training.optimiser.param_groups[0]["lr"])
    assert taken == [training.settings.learning_rate_at(step) for step in range(3)]
    assert len({*taken}) == 3
    opened.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"heads": 3},  # 16 columns are not divisible by 3 heads
        {"model": "bigram", "heads": 2**62},
        {"model": "bigram", "layers": 0},
        {"width": 2**40},
        {"block": -1},
        {"steps": 2**62},
        {"dropout": "nan"},
        {"rate": "inf"},
        {"seed": -1},
        {"threads": 10**6},
    ],
)
def test_a_run_with_invalid_settings_is_not_opened(
    tmp_path: Path, changes: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    begun(tmp_path / "run", steps=2).close()
    metadata = tmp_path / "run" / "run.json"
    held = json.loads(metadata.read_text(encoding="utf-8"))
    held["settings"] |= changes
    metadata.write_text(json.dumps(held), encoding="utf-8")
    with pytest.raises(InputError, match="invalid training settings"):
        OpenedRun(RunFolder(tmp_path / "run"))
    assert train(["--resume", str(tmp_path / "run")]) == 1
    assert "invalid training settings" in capsys.readouterr().err


def test_losses_are_measured_without_dropout(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run", dropout=0.5, steps=2)
    finish(opened, 1)
    training = training_of(opened).trainer
    assert training.evaluate(CorpusSplit.TRAINING, 1) == training.evaluate(CorpusSplit.TRAINING, 1)
    opened.close()


def test_the_final_losses_use_other_batches_than_the_first_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, draw = [], Corpus.sample_batch

    def noted(self: Corpus, *arguments: Any) -> np.ndarray:
        drawn.append(draw(self, *arguments))
        return drawn[-1]

    monkeypatch.setattr(Corpus, "sample_batch", noted)
    opened = begun(tmp_path / "run")
    running = training_of(opened)
    running.trainer.train_one_step()
    running.trainer.evaluate(CorpusSplit.TRAINING, 1)
    trained, measured = drawn
    assert not np.array_equal(trained, measured)
    opened.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which cores may be used")
def test_unavailable_cores_get_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 7})
    assert default_thread_count() == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7})
    assert default_thread_count() == 1


def test_the_end_of_a_run_is_read_from_its_checkpoint(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run", steps=2)
    training, file = training_of(opened).trainer, SymlinkSafeFile.from_path(tmp_path / "checkpoint")
    for is_ended in (False, True):
        written = TrainerState(seconds=1.5, first=3.0, high=2, is_ended=is_ended)
        write_checkpoint(file, training, opened.metadata, written)
        assert read_checkpoint(file, training) == written
    opened.close()


@pytest.mark.parametrize(("field", "value"), HEADERS)
def test_a_forged_checkpoint_is_rejected(half_done: Path, field: str, value: object) -> None:
    path = half_done / "checkpoint.safetensors"
    content = path.read_bytes()
    header = json.loads(read_metadata(content)["checkpoint"]) | {field: value}
    path.write_bytes(save(load(content), {"checkpoint": json.dumps(header)}))
    with pytest.raises(
        InputError, match=r"“checkpoint\.safetensors” is (damaged|of step)"
    ) as refused:
        OpenedRun(RunFolder(half_done))
    assert refused.value.field == "folder"


@pytest.mark.parametrize("field", ["seed", "rate", "model", "source"])
def test_a_checkpoint_of_another_run_is_rejected(half_done: Path, field: str) -> None:
    path = half_done / "checkpoint.safetensors"
    content = path.read_bytes()
    header = json.loads(read_metadata(content)["checkpoint"])
    other = {"seed": 5, "rate": 0.5, "model": "bigram"}
    if field == "source":
        header["run"]["settings"]["source"]["seed"] = 5
    else:
        header["run"]["settings"][field] = other[field]
    path.write_bytes(save(load(content), {"checkpoint": json.dumps(header)}))
    with pytest.raises(InputError, match="is damaged or belongs to another model"):
        OpenedRun(RunFolder(half_done))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("model/embedding.weight", lambda tensor: tensor.double()),
        ("model/embedding.weight", lambda tensor: tensor[:-1]),
        ("optimiser/exp_avg/embedding.weight", lambda tensor: torch.ones(())),
        ("optimiser/exp_avg/embedding.weight", lambda tensor: None),
        ("optimiser/step/embedding.weight", lambda tensor: torch.ones(3)),
        ("optimiser/step/embedding.weight", lambda tensor: -tensor),
        ("optimiser/step/embedding.weight", lambda tensor: tensor * torch.nan),
        ("randomness/cpu", lambda tensor: tensor[:-1]),
        ("randomness/cpu", lambda tensor: None),
    ],
)
def test_tensors_that_do_not_fit_the_model_are_rejected(
    half_done: Path, name: str, spoil: Callable[[torch.Tensor], torch.Tensor | None]
) -> None:
    path = half_done / "checkpoint.safetensors"
    content = path.read_bytes()
    tensors = load(content)
    assert name in tensors, sorted(tensors)
    spoiled = spoil(tensors.pop(name))
    path.write_bytes(
        save(tensors | ({} if spoiled is None else {name: spoiled}), read_metadata(content))
    )
    with pytest.raises(InputError, match="is damaged or belongs to another model"):
        OpenedRun(RunFolder(half_done))


def test_an_extended_run_continues_even_if_one_file_is_outdated(half_done: Path) -> None:
    path = half_done / "run.json"
    metadata = json.loads(path.read_text(encoding="utf-8"))
    metadata["settings"]["steps"] = DONE - 1
    path.write_text(json.dumps(metadata), encoding="utf-8")
    opened = OpenedRun(RunFolder(half_done))
    assert training_of(opened).step == DONE
    opened.close()


def test_snapshots_after_the_current_step_are_not_listed(half_done: Path, tmp_path: Path) -> None:
    snapshots = half_done / "snapshots"
    shutil.copy(snapshots / "00000003.safetensors", snapshots / "99999999.safetensors")
    with (half_done / "losses.csv").open("a") as file:
        file.write(f"{DONE},1,,0.1,1\n99999999,1,,0.1,1\n")
    opened = OpenedRun(RunFolder(half_done), is_held=False)
    assert max(opened.snapshot_steps()) <= DONE
    assert [row.step for row in training_of(opened).take_new_rows()] == [*range(DONE)]
    opened.close()
    assert read_losses(half_done).steps.tolist() == [*range(DONE + 1)]
    path = half_done / "run.json"
    metadata = json.loads(path.read_text(encoding="utf-8"))
    metadata["fingerprint"] = "another text"
    path.write_text(json.dumps(metadata), encoding="utf-8")
    opened = OpenedRun(RunFolder(half_done), is_held=False)
    assert opened.running is None
    assert max(opened.snapshot_steps()) <= STEPS
    opened.close()


def test_weights_that_exceed_the_memory_are_not_created(half_done: Path, machine: Machine) -> None:
    machine.set_free_bytes(10_000)
    with pytest.raises(InputError, match=r"Reading this model needs about .* GiB") as refused:
        OpenedRun(RunFolder(half_done))
    assert refused.value.field == "folder"


def test_weights_of_other_sizes_are_rejected(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run", steps=2)
    model = training_of(opened).trainer.model
    # If the sizes were not compared, a single number would be broadcast to a whole matrix.
    small = {name: torch.ones((1,) * one.ndim) for name, one in model.named_parameters()}
    save_file(small, tmp_path / "small")
    with pytest.raises(InputError, match="“small” belongs to another model"):
        read_weights(SymlinkSafeFile.from_path(tmp_path / "small"), model)
    opened.close()


def test_the_first_and_last_snapshots_are_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_snapshots(tmp_path, 0, 1, 2, 3, 5)
    training_run.thin_snapshots(folder)
    assert folder.snapshot_steps() == (0, 1, 2, 3, 5)
    monkeypatch.setattr(run_folder, "MAX_SNAPSHOT_BYTES", 0)
    training_run.thin_snapshots(folder)
    assert folder.snapshot_steps() == (0, 2, 5)
    training_run.thin_snapshots(folder)
    training_run.thin_snapshots(folder)
    assert folder.snapshot_steps() == (0, 5)


def test_the_snapshot_of_the_resumed_step_is_kept(tmp_path: Path) -> None:
    folder = with_snapshots(tmp_path, 0, 1, 2, 3, 5)
    training_run.remove_later_snapshots(folder, 2)
    assert folder.snapshot_steps() == (0, 1, 2)


def test_the_result_of_a_run_is_restored_when_it_is_reopened(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run")
    finish(opened)
    final, written = training_of(opened).state.final, (tmp_path / "run" / "losses.csv").read_bytes()
    listed = list_runs(tmp_path)
    opened.close()
    again = OpenedRun(RunFolder(tmp_path / "run"))
    running = training_of(again)
    assert running.state.final == final
    assert final
    assert (tmp_path / "run" / "losses.csv").read_bytes() == written
    assert list_runs(tmp_path) == listed  # the order of the runs has not changed
    assert [row.step for row in running.take_new_rows()] == list(range(30))
    running.set_total_steps(35)
    finish(again)
    assert [row[0] for row in losses(tmp_path / "run")] == list(range(36))
    again.close()


@pytest.mark.parametrize("steps", [0, 10_000_001])
def test_a_run_cannot_be_extended_beyond_the_maximum(tmp_path: Path, steps: int) -> None:
    opened = begun(tmp_path / "run")
    running = training_of(opened)
    with pytest.raises(InputError, match="steps cannot be"):
        running.set_total_steps(steps)
    assert running.settings.steps == 30
    opened.close()
    OpenedRun(RunFolder(tmp_path / "run")).close()


def test_losses_that_are_not_text_are_ignored(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run")
    finish(opened, 3).save_checkpoint()
    opened.close()
    with (tmp_path / "run" / "losses.csv").open("ab") as file:
        file.write(b"3,\xff\xfe\n")
    again = OpenedRun(RunFolder(tmp_path / "run"))
    assert training_of(again).step == 3
    assert [row[0] for row in losses(tmp_path / "run")] == [0, 1, 2]
    again.close()


def test_snapshots_that_cannot_be_removed_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create_folders()
    folder.snapshot_file(3).touch()

    def fail(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(SymlinkSafeFile, "unlink", fail)
    with pytest.raises(InputError, match=r"Cannot write to .*run: Permission denied\.$") as refused:
        training_run.remove_later_snapshots(folder, 2)
    assert refused.value.field == "folder"


def test_an_unwritable_folder_is_not_reported_as_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path / "run").close()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("visualizer.language.opened_run.FileLock", refuse)
    with pytest.raises(InputError, match=r"Cannot write to .*: Permission denied") as refused:
        OpenedRun(RunFolder(tmp_path / "run"))
    assert refused.value.field == "folder"


def test_a_running_run_is_extended_without_reading_its_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the rows of a long run takes seconds, and the steps may be entered digit by digit."""
    opened = begun(tmp_path / "run", steps=10)
    finish(opened, 5)
    asked: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(LossLog, "read_rows_before", lambda _, until: asked.append(until))
        training_of(opened).set_total_steps(20)
    assert asked == []
    finish(opened)
    assert [row[0] for row in losses(tmp_path / "run")] == list(range(21))
    opened.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions on Windows")
def test_only_the_user_can_read_a_run(half_done: Path) -> None:
    found = [half_done, *half_done.rglob("*")]
    assert len(found) > 5
    for path in found:
        allowed = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == allowed, path
