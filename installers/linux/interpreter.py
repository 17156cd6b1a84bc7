"""Copies an interpreter into the bundle: Debian's interpreter, or one from a folder."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from installers.linux.commands import unpack_debian_packages
from visualizer.errors import InputError

DEBIAN_PACKAGES = ("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib")
"""The packages of Debian 12 that contain the interpreter and the standard library."""
LEFT_OUT = (
    "EXTERNALLY-MANAGED",  # concerns only Debian's own Python
    "sitecustomize.py",  # a link to a file outside the folder
    "site-packages",
    "dist-packages",
    "test",
    "idlelib",
    "lib2to3",
    "tkinter",
    "turtle.py",
    "turtledemo",
    "ensurepip",
    "config-*",
    "__pycache__",
    # Extension modules that require further libraries or exist only for tests.
    "_crypt.*",
    "_ctypes_test.*",
    "_curses*.so",
    "_dbm.*",
    "_gdbm.*",
    "_test*.so",
    "_tkinter.*",
    "_xx*.so",
    "nis.*",
    "ossaudiodev.*",
    "readline.*",
    "spwd.*",
    "xxlimited*.so",
)
"""Names in the standard library that the program does not import."""

GPU_LIBRARIES = ("libtorch_cuda.so", "libtorch_hip.so", "libtorch_xpu.so")
"""Libraries of PyTorch builds that are not CPU-only."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter in a folder.

    Parameters
    ----------
    folder : Path
        The folder that contains ``bin`` and ``lib``.
    version : str
        The version, such as ``3.11``.
    """

    folder: Path
    version: str

    @property
    def program(self) -> Path:
        """The path of the executable."""
        return self.folder / "bin" / f"python{self.version}"

    @property
    def standard_library(self) -> Path:
        """The path of the standard library."""
        return self.folder / "lib" / f"python{self.version}"


def find_interpreter(folder: Path) -> Interpreter:
    """Find the interpreter in a folder, such as one from python-build-standalone.

    Raises
    ------
    InputError
        If the folder contains no interpreter, or only unsupported versions.
    """
    for program in sorted(folder.glob("bin/python3.*")):
        if not (found := re.fullmatch(r"python(3\.(\d+))", program.name)):
            continue
        interpreter = Interpreter(folder, found[1])
        if (interpreter.standard_library / "os.py").is_file() and int(found[2]) >= 11:
            return interpreter
    raise InputError(
        "interpreter",
        f"{folder} does not contain Python 3.11 or later (bin/python3.X and lib/python3.X). Choose "
        "the folder that contains both.",
    )


def download_interpreter(folder: Path) -> Interpreter:
    """Download Debian's interpreter and unpack it into a folder."""
    unpack_debian_packages(DEBIAN_PACKAGES, folder)
    return find_interpreter(folder / "usr")


def copy_interpreter(interpreter: Interpreter, root: Path) -> Path:
    """Copy an interpreter into the bundle and return the path of the copied executable.

    The executable is next to ``lib``, so it finds its standard library wherever the bundle is.
    """
    library = root / "lib" / interpreter.standard_library.name
    shutil.copytree(interpreter.standard_library, library, ignore=shutil.ignore_patterns(*LEFT_OUT))
    return Path(shutil.copy2(interpreter.program.resolve(), root / interpreter.program.name))


def isolate_interpreter(program: Path) -> None:
    """Make an interpreter of the bundle use only its own folders.

    With a ``._pth`` file next to the executable, the interpreter and the Python processes that it
    starts ignore ``PYTHONPATH``, ``PYTHONHOME`` and the user's own packages on every system.
    """
    library = f"lib/{program.name}"
    lines = [library, f"{library}/lib-dynload", f"{library}/site-packages"]
    program.with_name(f"{program.name}._pth").write_text("\n".join(lines) + "\n", encoding="utf-8")


def require_cpu_build(packages: Path) -> None:
    """Check that the installed PyTorch is the CPU-only build.

    Raises
    ------
    InputError
        If the build includes CUDA, ROCm or XPU.
    """
    found = [name for name in GPU_LIBRARIES if (packages / "torch" / "lib" / name).exists()]
    if found:
        raise InputError(
            "torch",
            f"pip has installed PyTorch with GPU support ({found[0]}), which takes several GB. "
            "Pass the index of CPU-only PyTorch to pip after --; see PyTorch's 'Get started' page.",
        )
