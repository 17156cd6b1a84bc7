"""Training that exceeds the memory is rejected before it starts, or undone within a step."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from msgspec.structs import replace

from tests.architecture.project_graph import ROOT
from tests.language.test_training_run import losses, same
from tests.support.small_trainings import begun, finish
from visualizer.attention.spec import Device
from visualizer.errors import InputError, Remedy
from visualizer.language.memory_estimate import (
    SINGLE_PROCESS,
    ProcessCounts,
    check_training_memory,
    estimate_bytes,
)
from visualizer.language.opened_run import OpenedRun
from visualizer.language.run_folder import RunFolder
from visualizer.language.training_settings import (
    ModelKind,
    TrainingSettings,
    find_settings_problems,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Machine

GIB = 2**30
HUGE = TrainingSettings(model=ModelKind.TRANSFORMER, block=1024, width=1024, layers=24, batch=4096)


@pytest.fixture
def of_eight_gib(machine: Machine) -> None:
    machine.set_free_bytes(8 * GIB)


@pytest.mark.usefixtures("of_eight_gib")
def test_settings_that_do_not_fit_are_rejected_with_what_fits() -> None:
    settings = replace(HUGE, width=64, layers=3)
    with pytest.raises(
        InputError, match=r"needs about .* GiB, but only 6\.0 GiB is available"
    ) as refused:
        check_training_memory(settings, 65)
    assert refused.value.field == "batch"
    assert refused.value.remedy
    fits = refused.value.remedy[1]
    assert isinstance(fits, int)
    assert f"Use a batch size of {fits:,} or less." in refused.value.sentence
    check_training_memory(replace(settings, batch=fits), 65)
    with pytest.raises(InputError):
        check_training_memory(replace(settings, batch=fits + 1), 65)


@pytest.mark.slow
@pytest.mark.usefixtures("of_eight_gib")
def test_processes_share_a_batch_and_on_the_cpu_the_memory(machine: Machine) -> None:
    settings = replace(HUGE, width=64, layers=3, device=Device.CPU)
    fits = _refused(settings, SINGLE_PROCESS)
    shared = _refused(settings, ProcessCounts(4, 4))
    assert shared % 4 == 0
    assert 0.8 * fits < shared < fits  # every process has the weights
    check_training_memory(replace(settings, batch=shared), 65, ProcessCounts(4, 4))
    machine.set_devices(Device.CUDA, Device.CPU)
    on_gpus = replace(settings, device=Device.CUDA)
    assert 4 * fits - 4 <= _refused(on_gpus, ProcessCounts(4, 4)) <= 4 * fits
    dropping = replace(on_gpus, dropout=0.1)  # every process draws masks for all rows
    assert _refused(dropping, ProcessCounts(4, 4)) < 3 * _refused(dropping, SINGLE_PROCESS)
    with pytest.raises(InputError, match="Even a batch of 4 needs about"):
        check_training_memory(HUGE, 65, ProcessCounts(4, 4))


def _refused(settings: TrainingSettings, sharing: ProcessCounts) -> int:
    with pytest.raises(InputError, match=r"Use .* or less") as refused:
        check_training_memory(settings, 65, sharing)
    assert refused.value.remedy
    fits = refused.value.remedy[1]
    assert isinstance(fits, int)
    return fits


def _offered(settings: TrainingSettings) -> Remedy | None:
    try:
        check_training_memory(settings, 65)
    except InputError as refused:
        return refused.remedy
    return None


@pytest.mark.slow
@pytest.mark.usefixtures("of_eight_gib")
def test_settings_that_never_fit_name_what_to_reduce() -> None:
    settings = replace(HUGE, heads=64)
    with pytest.raises(InputError, match="Even a batch of 1 needs about") as refused:
        check_training_memory(settings, 65)
    remedy = refused.value.remedy
    while remedy:  # every remedy is applied
        settings = replace(settings, **{remedy[0]: remedy[1]})
        assert find_settings_problems(settings) == ()
        remedy = _offered(settings)
    check_training_memory(settings, 65)
    assert "smaller block or embedding size, or fewer layers" in refused.value.sentence


@pytest.mark.usefixtures("of_eight_gib")
@pytest.mark.parametrize("model", ModelKind)
def test_usual_settings_fit(model: ModelKind) -> None:
    check_training_memory(TrainingSettings(model=model), 5_000)
    assert estimate_bytes(TrainingSettings(model=model), 5_000) < GIB


PEAK = """
from pathlib import Path

def peak():
    # Of this program alone: what getrusage tells is also that of the one that started it.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])

import torch
from visualizer.language.corpora.corpus import load_corpus
from visualizer.language.memory_estimate import estimate_bytes
from visualizer.language.training_settings import ModelKind
from visualizer.language.training_settings import TrainingSettings
from visualizer.language.trainer import Trainer
torch.set_num_threads(1)
settings = TrainingSettings(
    model=ModelKind.TRANSFORMER, block=64, batch=64, width=128, heads=4, layers=4, dropout=0.2
)
corpus = load_corpus(settings)
before = peak()
training = Trainer(settings, corpus)
for _ in range(2):
    training.train_one_step()
print(estimate_bytes(settings, len(corpus.vocabulary)))
print((peak() - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="others count memory in other units")
@pytest.mark.slow
def test_the_measured_memory_is_below_the_estimate() -> None:
    told = subprocess.run(
        [sys.executable, "-c", PEAK], cwd=ROOT, capture_output=True, text=True, check=True
    )
    estimate, measured = map(int, told.stdout.split())
    assert measured < estimate < 4 * measured


@pytest.mark.slow
def test_training_that_does_not_fit_is_not_started(tmp_path: Path, machine: Machine) -> None:
    opened = begun(tmp_path / "kept", steps=3)
    finish(opened)
    opened.close()
    machine.set_free_bytes(2**20)
    with pytest.raises(InputError, match="Even a batch of 1"):
        begun(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    again = OpenedRun(RunFolder(tmp_path / "kept"))  # an existing run can still be read
    assert again.running is None
    assert "is available" in again.lock_error
    assert again.model_at(3)[1] == 3
    again.close()


@pytest.mark.parametrize("at", [0, 4])
@pytest.mark.parametrize("place", ["backward", "step", "_batch_loss"])
@pytest.mark.slow
def test_a_step_without_memory_is_undone_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, at: int
) -> None:
    whole = begun(tmp_path / "whole", steps=9)
    finish(whole)
    whole.close()
    opened = begun(tmp_path / "run", steps=9)
    running = finish(opened, at)
    before = {name: one.clone() for name, one in running.trainer.model.state_dict().items()}
    homes = {"backward": torch.autograd, "step": running.trainer.optimiser}
    home: Any = homes.get(place, running.trainer)
    with monkeypatch.context() as patched:
        patched.setattr(home, place, _out_of_memory)
        with pytest.raises(InputError, match=f"Out of memory at step {at}; the model is"):
            running.train_one_step()
    for name, one in running.trainer.model.state_dict().items():
        assert torch.equal(one, before[name])
    finish(opened)
    opened.close()
    assert same(losses(tmp_path / "run"), losses(tmp_path / "whole"))


def _out_of_memory(*_: object) -> None:
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")


@pytest.mark.slow
def test_a_checkpoint_without_memory_is_reported_and_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = begun(tmp_path / "run", steps=9)
    running = finish(opened, 5)
    with monkeypatch.context() as patched:
        patched.setattr("visualizer.language.checkpoints.save", _out_of_memory)
        running.save_checkpoint()
    assert running.notice.startswith("Not enough memory to save a checkpoint.")
    finish(opened)
    assert running.notice == ""
    opened.close()
