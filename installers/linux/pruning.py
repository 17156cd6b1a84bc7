"""Removes files of the installed packages that the program never uses."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from installers.linux.commands import run

if TYPE_CHECKING:
    from pathlib import Path

LEFT_OUT = (
    # Files that pip writes for itself; they contain paths of the build machine.
    "bin/*",
    "*.dist-info/INSTALLER",
    "*.dist-info/RECORD",
    "*.dist-info/REQUESTED",
    "*.dist-info/direct_url.json",
    # Files for compilers and type checkers.
    "*.a",
    "*.h",
    "*.hpp",
    "*.pxd",
    "*.pyi",
    "*.pyx",
    "torch/include/*",
    "torch/share/*",
    # Downloads chunks of files on the Hugging Face Hub; the program downloads whole files itself.
    "hf_xet/*",
    "hf_xet-*",
    # Tests, examples and the programs that run them.
    "*/tests/*",
    "pyqtgraph/examples/*",
    "torch/bin/*",
    "torch/lib/libaoti_custom_ops.so",
    "torch/lib/libbackend_with_compiler.so",
    "torch/lib/libjitbackend_test.so",
    "torch/lib/libtorchbind_test.so",
    "torch/test/*",
    # Tools, QML, and modules of Qt that the program does not import; see `KEPT` for exceptions.
    "PySide6/*",
)
"""Patterns of paths in ``site-packages`` to remove; an asterisk also matches slashes."""
KEPT = (
    "torch/bin/torch_shm_manager",  # passes tensors between processes
    "PySide6/__init__.py",
    "PySide6/_config.py",
    "PySide6/_git_pyside_version.py",
    "PySide6/support/*.py",
    "PySide6/libpyside6.abi3.so.*",
    *(
        f"PySide6/{module}.abi3.so"
        for module in (
            "QtCore",
            "QtDBus",
            "QtGui",
            "QtOpenGL",
            "QtOpenGLWidgets",
            "QtSvg",
            "QtTest",  # pyqtgraph imports it
            "QtWidgets",
        )
    ),
    *(
        f"PySide6/Qt/lib/libQt6{module}.so.6"
        for module in (
            "Core",
            "DBus",
            "Gui",
            "OpenGL",
            "OpenGLWidgets",
            "Svg",
            "Test",
            "WaylandClient",
            "Widgets",
            "XcbQpa",
        )
    ),
    "PySide6/Qt/lib/libicu*.so.*",
    "PySide6/Qt/plugins/iconengines/libqsvgicon.so",
    *(
        f"PySide6/Qt/plugins/imageformats/libq{kind}.so"
        for kind in ("gif", "icns", "ico", "jpeg", "svg", "tga", "tiff", "wbmp", "webp")
    ),
    "PySide6/Qt/plugins/platforminputcontexts/libcompose*.so",
    "PySide6/Qt/plugins/platforminputcontexts/libibus*.so",
    *(
        f"PySide6/Qt/plugins/platforms/libq{platform}.so"
        for platform in ("minimal", "offscreen", "wayland", "xcb")
    ),
    # The GTK theme requires GTK; the portal shows the desktop's own dialogs without GTK.
    "PySide6/Qt/plugins/platformthemes/libqxdgdesktopportal.so",
    "PySide6/Qt/plugins/wayland-decoration-client/*.so",
    "PySide6/Qt/plugins/wayland-graphics-integration-client/libqt-plugin-wayland-egl.so",
    "PySide6/Qt/plugins/wayland-shell-integration/libxdg-shell.so",
    "PySide6/Qt/plugins/xcbglintegrations/*.so",
)
"""Patterns of exceptions from `LEFT_OUT`."""


def is_left_out(path: str) -> bool:
    """Return whether a POSIX path relative to ``site-packages`` is removed from the bundle."""
    return _matches(path, LEFT_OUT) and not _matches(path, KEPT)


WITH_SYMBOLS = "torch/lib/libtorch_*.so"
"""Libraries that contain symbols for debuggers: a quarter of PyTorch's size."""


def strip_symbols(packages: Path) -> None:
    """Remove the symbols for debuggers from PyTorch's libraries."""
    for library in sorted(packages.glob(WITH_SYMBOLS)):
        run(["strip", "--strip-unneeded", library])


def prune(packages: Path) -> int:
    """Delete the files that are left out, and return their total size in bytes.

    Empty folders are also deleted.
    """
    freed = 0
    for path in sorted(packages.rglob("*"), reverse=True):  # visit a folder after its contents
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif is_left_out(path.relative_to(packages).as_posix()):
            freed += path.lstat().st_size
            path.unlink()
    return freed


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
