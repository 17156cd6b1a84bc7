"""Tests a model that is four times as large as the memory of the process that runs it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.large_llama import save_large_llama
from tests.support.memory_groups import PROCESSES, memory_group
from tests.support.tiny_models import WORDS

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 700 * 10**6
"""Memory limit, in bytes, for the process and its tokenizer process, including libraries."""
TIMES = 4
TEXT = " ".join((WORDS * 6)[:64])


def read(folder: Path, file: Path, *group: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "tests.support.memory_limited_model"]
    return subprocess.run(
        [*program, str(folder), TEXT, str(file), *group],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.release
@pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
def test_a_model_larger_than_the_memory_runs_from_disk(tmp_path: Path) -> None:
    with memory_group(LIMIT) as group:
        taken = save_large_llama(tmp_path / "m", TIMES * LIMIT)
        assert taken >= TIMES * LIMIT
        limited = read(tmp_path / "m", tmp_path / "limited.npz", str(group / PROCESSES))
        assert limited.returncode == 0, limited.stderr
    plain = read(tmp_path / "m", tmp_path / "plain.npz")
    assert plain.returncode == 0, plain.stderr
    with np.load(tmp_path / "plain.npz") as wanted, np.load(tmp_path / "limited.npz") as found:
        assert {*wanted} == {*found}
        assert len(wanted) > 20
        for name in wanted:
            np.testing.assert_array_equal(found[name], wanted[name])
            assert np.isfinite(wanted[name]).all()
