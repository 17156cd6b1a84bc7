"""numpy is fully imported when it is first used, whichever thread uses it first."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

BEGIN = """
import os
import sys
import threading
from visualizer.lazy_numpy import import_numpy_now, import_numpy_on_first_use

import_numpy_on_first_use()
import numpy as np
"""
NAMED = "assert 'numpy._core' not in sys.modules"
USED = """
assert np.arange(3).sum() == 3 and np.random.default_rng(0).random(2).shape == (2,)
assert type(np) is type(os) and np.__version__ == sys.modules["numpy"].__version__
assert "OPENBLAS_NUM_THREADS" not in os.environ
"""
BY_A_SUBMODULE = "from numpy.lib.stride_tricks import sliding_window_view; sliding_window_view"
BY_TORCH = "import torch; assert torch.ones(2).numpy().sum() == 2"
BY_THREADS = """
sys.setswitchinterval(1e-5)
failed = []
threading.excepthook = failed.append
def use(number):
    if number % 2:
        import_numpy_now()
        import numpy.fft
        numpy.fft.fft(np.ones(3))
    else:
        np.linalg.norm(np.linspace(0, 1, 3))
threads = [threading.Thread(target=use, args=(number,)) for number in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
"""
LATE = """
before = type(np)
np.arange(3)
assert before.__getattr__(np, "arange") is np.arange, "as who asked before another filled it"
"""
MISSING = """
try:
    np.no_such_name
except AttributeError as error:
    assert "numpy" in str(error)
else:
    raise AssertionError
"""


def _ran(code: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=kept
    )


@pytest.mark.slow
@pytest.mark.parametrize("use", [NAMED, USED, BY_A_SUBMODULE + USED, LATE + USED, MISSING + USED])
def test_numpy_is_whole_from_its_first_use_on(use: str) -> None:
    run = _ran(BEGIN + use)
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("use", [BY_TORCH + USED, BY_THREADS + USED])
def test_numpy_is_whole_for_torch_and_for_many_threads(use: str) -> None:
    run = _ran(BEGIN + use)
    assert run.returncode == 0, run.stderr


def test_options_are_parsed_without_numpy() -> None:
    begin = "from visualizer.__main__ import main\nimport sys\n"
    run = _ran(f"{begin}try:\n    main(['--version'])\nexcept SystemExit:\n    {NAMED}")
    assert run.returncode == 0, run.stderr
    assert run.stdout


def test_an_imported_numpy_stays() -> None:
    run = _ran(f"import numpy as before\n{BEGIN}assert np is before\n{USED}")
    assert run.returncode == 0, run.stderr
