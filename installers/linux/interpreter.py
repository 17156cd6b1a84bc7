"""The interpreter that goes into the bundle: Debian's, or one from a folder."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from installers.linux.debian_archive import unpack_debian_packages
from visualizer.errors import InputError

DEBIAN_PACKAGES = ("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib")
"""Where Debian 12 keeps its interpreter and the standard library."""
LEFT_OUT = (
    "EXTERNALLY-MANAGED",  # speaks of Debian's own Python
    "sitecustomize.py",  # a link to a file outside
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
    # Modules of C that would need further libraries, or are there for tests.
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
"""Names in the standard library that nothing here imports."""

ACCELERATED = ("libtorch_cuda.so", "libtorch_hip.so", "libtorch_xpu.so")
"""Libraries of a torch that is not for the processor alone."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter as it lies in a folder.

    Parameters
    ----------
    folder : Path
        Has ``bin`` and ``lib``.
    version : str
        Such as ``3.11``.
    """

    folder: Path
    version: str

    @property
    def program(self) -> Path:
        """The program itself."""
        return self.folder / "bin" / f"python{self.version}"

    @property
    def standard_library(self) -> Path:
        """The folder of the standard library."""
        return self.folder / "lib" / f"python{self.version}"


def interpreter_in(folder: Path) -> Interpreter:
    """Find the interpreter of a folder, such as one of python-build-standalone.

    Raises
    ------
    InputError
        When there is none, or one that the program does not run on.
    """
    for program in sorted(folder.glob("bin/python3.*")):
        if not (found := re.fullmatch(r"python(3\.(\d+))", program.name)):
            continue
        interpreter = Interpreter(folder, found[1])
        if (interpreter.standard_library / "os.py").is_file() and int(found[2]) >= 11:
            return interpreter
    raise InputError(
        "interpreter",
        f"{folder} holds no Python 3.11 or later as bin/python3.X and lib/python3.X. Name the "
        "folder that has both.",
    )


def debian_interpreter(folder: Path) -> Interpreter:
    """Download and unpack Debian's own interpreter into a folder."""
    unpack_debian_packages(DEBIAN_PACKAGES, folder)
    return interpreter_in(folder / "usr")


def copy_interpreter(interpreter: Interpreter, root: Path) -> Path:
    """Copy an interpreter into the bundle and return the program there.

    The program lies beside ``lib``, where it finds its standard library wherever the bundle is.
    """
    library = root / "lib" / interpreter.standard_library.name
    shutil.copytree(interpreter.standard_library, library, ignore=shutil.ignore_patterns(*LEFT_OUT))
    return Path(shutil.copy2(interpreter.program.resolve(), root / interpreter.program.name))


def shut_off_environment(program: Path) -> None:
    """Make an interpreter of the bundle read its own folders alone.

    A file of paths beside the program does that on every system: ``PYTHONPATH``, ``PYTHONHOME`` and
    the packages in a user's home are then not heeded, by the processes that it starts neither.
    """
    library = f"lib/{program.name}"
    lines = [library, f"{library}/lib-dynload", f"{library}/site-packages"]
    program.with_name(f"{program.name}._pth").write_text("\n".join(lines) + "\n", encoding="utf-8")


def require_processor_build(packages: Path) -> None:
    """Check that the installed torch is the one for the processor alone.

    Raises
    ------
    InputError
        When it brings CUDA or ROCm.
    """
    found = [name for name in ACCELERATED if (packages / "torch" / "lib" / name).exists()]
    if found:
        raise InputError(
            "torch",
            f"pip chose a torch for accelerators ({found[0]}), of several gigabytes. Say after -- "
            "where pip finds torch for the CPU: PyTorch's 'Get started' page names the index.",
        )
