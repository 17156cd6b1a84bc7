"""Compiles a share of the modules in a folder, with the interpreter that will import them.

The arguments are the folder, its path after the installation, the index of the share and the number
of shares.
"""

from __future__ import annotations

import py_compile
import sys
import warnings
from pathlib import Path


def main(root: Path, installed: Path, share: int, shares: int) -> None:
    """Compile every module of the given share.

    Python does not compare this bytecode with its source, because the files of a package do not
    change and their timestamps differ between builds. Files that cannot be compiled, such as
    templates, are skipped.
    """
    warnings.simplefilter("ignore")  # in third-party modules
    for source in sorted(root.rglob("*.py"))[share::shares]:
        try:
            py_compile.compile(
                str(source),
                dfile=str(installed / source.relative_to(root)),
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
        except (py_compile.PyCompileError, UnicodeDecodeError):
            continue


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
