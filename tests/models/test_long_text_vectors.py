"""Tests that vectors of long texts are stored in a file if they do not fit in memory."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from tests.support.mapped_files import mapped_of, opened_of
from tests.support.tiny_models import WORDS, save_tiny_model
from visualizer.attention.mapped_tensors import ALIGNMENT_MARGIN_BYTES
from visualizer.attention.run import USABLE_MEMORY_SHARE
from visualizer.attention.spec import Device, ModelDtype
from visualizer.errors import InputError
from visualizer.format import format_size
from visualizer.models import long_text_runner, long_text_vectors
from visualizer.models.long_text_vectors import reserve_vector_file
from visualizer.models.model_text_runs import open_model_folder, read_text
from visualizer.progress import CancelledError, cancel_when
from visualizer.session.computation_caption import describe_computation

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Machine
    from visualizer.attention.run import Run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
TEXT = " ".join(WORDS * 4)
TOKENS = 49
OF_TOKEN = 2 * 4 * (4 * 8 + 2 * 8 + 2 * 8 + 4)
"""Bytes per token of the tiny model: layers × item size × (queries, keys, values, logarithms)."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Store the vectors of every text in a file, and return its folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(long_text_runner, "MAX_FULL_MATRIX_BYTES", 0)
    monkeypatch.setattr(long_text_vectors, "MAX_MEMORY_BYTES", 0)
    return tmp_path / "cache" / "attention-visualizer"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny", max_position_embeddings=256)


def numbers_of(run: Run) -> dict[str, np.ndarray]:
    return {name: run.trace.read(name) for name in run.trace.names}


@pytest.mark.parametrize("dtype", [ModelDtype.FLOAT32, ModelDtype.FLOAT64])
def test_values_equal_those_of_vectors_in_memory(
    cache: Path, folder: Path, dtype: ModelDtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _model = open_model_folder(folder, Device.CPU, dtype)
    in_file = read_text(source, TEXT, Device.CPU, dtype=dtype.document_dtype)
    size = OF_TOKEN * TOKENS * (2 if dtype is ModelDtype.FLOAT64 else 1)
    assert mapped_of(cache) == [-(-(size + ALIGNMENT_MARGIN_BYTES) // 4096) * 4096]
    assert in_file.trace.tensor("keys").dtype is getattr(torch, dtype)
    monkeypatch.setattr(long_text_vectors, "MAX_MEMORY_BYTES", 2**30)
    in_memory = read_text(source, TEXT, Device.CPU, dtype=dtype.document_dtype)
    assert len(mapped_of(cache)) == 1
    found, wanted = numbers_of(in_file), numbers_of(in_memory)
    assert [*found] == [*wanted]
    for name, numbers in wanted.items():
        np.testing.assert_array_equal(found[name], numbers)
    assert in_memory.trace.bytes_in_file == 0
    vectors = OF_TOKEN - 2 * 4 * 4  # without the logarithms
    assert in_file.trace.bytes_in_file == size // OF_TOKEN * vectors
    assert (
        f", vectors in a file of {format_size(in_file.trace.bytes_in_file)}"
        in describe_computation(in_file)
    )
    assert "file" not in describe_computation(in_memory)


def test_small_vectors_are_stored_in_memory(
    cache: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_text_vectors, "MAX_MEMORY_BYTES", 4_000)
    assert reserve_vector_file(40, 100) is None
    assert reserve_vector_file(40, 101) is not None
    machine.set_free_bytes(8_000)
    assert reserve_vector_file(40, 50) is None
    file = reserve_vector_file(40, 51)
    assert mapped_of(cache)
    del file
    assert (mapped_of(cache), opened_of(cache)) == ([], [])


def test_the_file_is_deleted_with_the_run(cache: Path, folder: Path) -> None:
    source, model = open_model_folder(folder, Device.CPU)
    run = read_text(source, TEXT, Device.CPU)
    run.trace.cached_stage_tensor("weights").read((1, 2))
    assert len(mapped_of(cache)) == 1
    assert list(cache.iterdir()) == []
    run = read_text(source, f"{TEXT} cat", Device.CPU, run)
    assert len(mapped_of(cache)) == 1
    del run
    assert (mapped_of(cache), opened_of(cache)) == ([], [])
    del model


def test_the_file_is_deleted_after_a_cancellation(cache: Path, folder: Path) -> None:
    source, _model = open_model_folder(folder, Device.CPU)
    read_text(source, "the cat", Device.CPU)
    seen: list[int] = []

    def is_second() -> bool:
        seen.append(len(mapped_of(cache)))
        return len(seen) == 2

    with cancel_when(is_second), pytest.raises(CancelledError):
        read_text(source, TEXT, Device.CPU)
    assert seen == [1, 1]
    assert (mapped_of(cache), opened_of(cache)) == ([], [])


@pytest.mark.parametrize("limit", ["disk", "file", "memory"])
def test_a_text_that_does_not_fit_is_rejected_before_the_run(
    cache: Path, folder: Path, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, model = open_model_folder(folder, Device.CPU)
    before = read_text(source, "the cat", Device.CPU)
    room = OF_TOKEN * 30 + 5
    if limit == "disk":
        free = room + long_text_vectors.RESERVED_DISK_BYTES
        monkeypatch.setattr(long_text_vectors, "free_bytes", lambda _: free)
    elif limit == "file":
        monkeypatch.setattr(long_text_vectors, "MAX_FILE_BYTES", room)
    else:
        free_memory = room / USABLE_MEMORY_SHARE + 1
        monkeypatch.setattr(long_text_vectors, "free_cpu_memory_bytes", lambda: int(free_memory))
        monkeypatch.setattr(long_text_vectors, "is_memory_backed", lambda _: True)
    read: list[int] = []
    model.model.register_forward_pre_hook(
        lambda _, __, given: read.append(given["input_ids"].shape[-1]), with_kwargs=True
    )
    where = re.escape(str(cache))
    said = f"^49 tokens need 26.0 KiB in a temporary file in {where}, where 15.9 KiB is available. "
    with pytest.raises(InputError, match=said) as refused:
        read_text(source, TEXT, Device.CPU)
    assert refused.value.field == "text"
    assert read == []
    words = TEXT.split()[:29]  # in addition to the special token at the start
    assert read_text(source, " ".join(words), Device.CPU).trace.query_key_counts == (30, 30)
    assert set(read) == {30}
    assert before.trace.read("weights").shape == (2, 4, 3, 3)


def test_an_unwritable_cache_folder_is_reported(
    cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _model = open_model_folder(folder, Device.CPU)
    monkeypatch.setattr(long_text_vectors, "MAX_MEMORY_BYTES", OF_TOKEN * 7)
    cache.parent.write_text("no folder")
    with pytest.raises(InputError, match=r"which cannot be written: Not a directory\. About 7 "):
        read_text(source, TEXT, Device.CPU)
    cache.parent.unlink()
    assert read_text(source, TEXT, Device.CPU).trace.bytes_in_file
