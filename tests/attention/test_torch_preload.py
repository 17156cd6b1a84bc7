"""torch's library can be loaded before torch is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
from pathlib import Path
from visualizer.attention.torch_preload import load_torch_library
load_torch_library()
print("torch" in sys.modules, "libtorch_cpu.so" in Path("/proc/self/maps").read_text())
import torch
print(torch.ones(2).sum().item())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems name the library otherwise")
def test_the_library_is_there_before_torch_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], check=True, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["False", "True", "2.0"]
    assert done.stderr == ""
