"""Bytecode of all modules of a bundle, equal in every build.

It is compiled by the bundle's own interpreter, each share of the modules in a process of its own:
how Python writes bytecode depends on what else the process has compiled.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from installers.linux.commands import run

SHARES = 8
"""Into how many processes the modules are dealt; not their number at one time."""
COMPILER = Path(__file__).with_name("compile_share.py")


def compile_bytecode(root: Path, program: Path, installed: Path) -> None:
    """Compile all modules below a folder.

    Parameters
    ----------
    root : Path
        The bundle where it is built.
    installed : Path
        Where it will lie, the path that goes into the bytecode.
    """
    # The order of a set in a constant depends on the seed of hashes.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}

    def compile_share(share: int) -> str:
        command = (program, COMPILER, root, installed, str(share), str(SHARES))
        return run(command, environment=environment)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _said in threads.map(compile_share, range(SHARES)):
            pass
