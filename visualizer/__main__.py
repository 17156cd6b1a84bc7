"""Entry point of the installed program and of ``python -m visualizer``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_THREADS = "OPENBLAS_NUM_THREADS"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return the exit status."""
    load_numpy()
    from visualizer.app import main as begin

    return begin(arguments)


def load_numpy() -> None:
    """Load numpy without a thread of its matrix products for every core.

    Starting those takes as long as all the rest of numpy, and large products are torch's, whose
    libraries find the environment as it was.
    """
    if "numpy" in sys.modules or _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    import numpy  # noqa: F401

    del os.environ[_THREADS]


if __name__ == "__main__":
    raise SystemExit(main())
