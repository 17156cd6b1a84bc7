"""Compiles a share of the modules below a folder; run by the interpreter that will import them.

Arguments are the folder, the path that it will be installed at, which share, and of how many.
"""

from __future__ import annotations

import py_compile
import sys
import warnings
from pathlib import Path


def main(root: Path, installed: Path, share: int, shares: int) -> None:
    """Compile every module of the share.

    The bytecode is never compared with the time or the content of its source: a package's files do
    not change, and times differ between builds. What cannot be compiled, such as a template, is
    left as it is.
    """
    warnings.simplefilter("ignore")  # of other people's modules
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
