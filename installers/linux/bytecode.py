"""Compiles all modules of a bundle to bytecode that is identical in every build.

The bundle's own interpreter compiles the modules in a fixed number of processes, because Python's
bytecode depends on what else the process has compiled.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from installers.linux.commands import run

SHARES = 8
"""Total number of processes that compile modules; fewer may run at the same time."""
COMPILER = Path(__file__).with_name("compile_share.py")


def compile_bytecode(root: Path, program: Path, installed: Path) -> None:
    """Compile all modules below a folder.

    Parameters
    ----------
    root : Path
        The folder of the bundle during the build.
    installed : Path
        The folder in which the bundle will be installed; the bytecode contains this path.
    """
    # The order of a constant set depends on the hash seed.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}

    def compile_share(share: int) -> str:
        command = (program, COMPILER, root, installed, str(share), str(SHARES))
        return run(command, environment=environment)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _said in threads.map(compile_share, range(SHARES)):
            pass
