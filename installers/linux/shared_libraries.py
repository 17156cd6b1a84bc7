"""Determines which shared libraries the bundle includes and which the system must provide."""

from __future__ import annotations

import re
import shutil
from mmap import ACCESS_READ, mmap
from pathlib import Path

from installers.linux.commands import run, unpack_debian_packages
from visualizer.errors import InputError

BUNDLED_LIBRARIES = {
    "libbz2.so.1.0": "libbz2-1.0",
    "libcrypto.so.3": "libssl3",
    "libexpat.so.1": "libexpat1",
    "libffi.so.8": "libffi8",
    "liblzma.so.5": "liblzma5",
    "libsqlite3.so.0": "libsqlite3-0",
    "libssl.so.3": "libssl3",
    "libuuid.so.1": "libuuid1",
}
"""Libraries that a system's interpreter requires, with the Debian packages that contain them.

The bundle includes these libraries, because their versions differ between distributions.
"""
SYSTEM_LIBRARIES = {
    "ld-linux-x86-64.so.2": "libc6",
    "libc.so.6": "libc6",
    "libdl.so.2": "libc6",
    "libm.so.6": "libc6",
    "libmvec.so.1": "libc6",
    "libpthread.so.0": "libc6",
    "librt.so.1": "libc6",
    "libutil.so.1": "libc6",
    "libgcc_s.so.1": "libgcc-s1",
    "libstdc++.so.6": "libstdc++6",
    "libz.so.1": "zlib1g",
    "libzstd.so.1": "libzstd1",
    # Qt: drawing.
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libxkbcommon.so.0": "libxkbcommon0",
    # Qt on X11.
    "libX11-xcb.so.1": "libx11-xcb1",
    "libX11.so.6": "libx11-6",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-glx.so.0": "libxcb-glx0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    # Qt on Wayland.
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libwayland-egl.so.1": "libwayland-egl1",
}
"""Libraries that the system must provide, because its drivers and its display also use them, with
the Debian packages that contain them."""
FOUR_BYTES = b"\x7fELF"
GLIBC = re.compile(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)")


def elf_files(root: Path) -> list[Path]:
    """Return all executables and shared libraries in a folder and its subfolders."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == FOUR_BYTES:
                    found.append(path)
    return found


def needed_by(path: Path) -> list[str]:
    """Return the names of the libraries on which an executable or library depends."""
    return run(["patchelf", "--print-needed", path]).split()


def bundle_interpreter_libraries(root: Path, program: Path, beside: Path, unpacked: Path) -> None:
    """Copy the libraries of an interpreter to the bundle's ``lib``, and set its search path.

    Parameters
    ----------
    root : Path
        The folder of the bundle, which must contain only the interpreter.
    beside : Path
        The original folder of the interpreter's shared libraries.
    unpacked : Path
        The folder in which Debian packages are unpacked.
    """
    library = root / "lib"
    waiting = [program, *elf_files(library)]
    while waiting:
        missing = (name for name in needed_by(waiting.pop()) if name not in SYSTEM_LIBRARIES)
        waiting += [
            _copied(name, library, beside, unpacked)
            for name in missing
            if not (library / name).exists()
        ]
    modules = library / program.name / "lib-dynload"
    run(["patchelf", "--set-rpath", "$ORIGIN/lib", program])
    for path in elf_files(library):
        to_library = "$ORIGIN/../.." if path.parent == modules else "$ORIGIN"
        run(["patchelf", "--set-rpath", to_library, path])


def _copied(name: str, library: Path, beside: Path, unpacked: Path) -> Path:
    if not (source := beside / name).exists():
        if name not in BUNDLED_LIBRARIES:
            raise InputError(
                "interpreter",
                f"The interpreter requires {name}, but its package is not in BUNDLED_LIBRARIES.",
            )
        unpack_debian_packages([BUNDLED_LIBRARIES[name]], unpacked)
        (source,) = (path for path in unpacked.rglob(name) if path.exists())
    copy = Path(shutil.copyfile(source, library / name))
    copy.chmod(0o755)
    return copy


def system_packages(root: Path) -> list[str]:
    """Return the Debian packages on which a bundle depends.

    Raises
    ------
    InputError
        If a library is neither in the bundle nor in `SYSTEM_LIBRARIES`.
    """
    files = elf_files(root)
    inside = {path.name for path in files}
    packages = set()
    newest = max(glibc_of(path) for path in files)
    for path in files:
        for name in needed_by(path):
            if name in SYSTEM_LIBRARIES:
                packages.add(SYSTEM_LIBRARIES[name])
            elif name not in inside:
                raise InputError(
                    "libraries",
                    f"{path.relative_to(root)} requires {name}, which is neither in the bundle nor "
                    "in SYSTEM_LIBRARIES in installers/linux/shared_libraries.py.",
                )
    versions = {"libc6": f"libc6 (>= 2.{newest})"}
    return [versions.get(package, package) for package in sorted(packages)]


def glibc_of(path: Path) -> int:
    """Return the minor version of the newest glibc 2.x that a file requires."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return max((int(found) for found in GLIBC.findall(content)), default=0)
