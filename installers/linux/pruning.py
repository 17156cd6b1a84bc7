"""What is left out of the installed packages: files that the running program never reads."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LEFT_OUT = (
    # Written by pip for pip, with paths of the build.
    "bin/*",
    "*.dist-info/INSTALLER",
    "*.dist-info/RECORD",
    "*.dist-info/REQUESTED",
    "*.dist-info/direct_url.json",
    # For those who compile or check types against a package.
    "*.a",
    "*.h",
    "*.hpp",
    "*.pxd",
    "*.pyi",
    "*.pyx",
    "torch/include/*",
    "torch/share/*",
    # Tests and examples, and programs that run them.
    "*/tests/*",
    "pyqtgraph/examples/*",
    "torch/bin/*",
    "torch/lib/libaoti_custom_ops.so",
    "torch/lib/libbackend_with_compiler.so",
    "torch/lib/libjitbackend_test.so",
    "torch/lib/libtorchbind_test.so",
    "torch/test/*",
    # Of Qt, all but what is kept below: tools, QML, and modules that nothing here imports.
    "PySide6/*",
)
"""Patterns of paths in ``site-packages``; a star stands for slashes too."""
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
    # That of GTK needs GTK; the portal gives a desktop's own dialogs without it.
    "PySide6/Qt/plugins/platformthemes/libqxdgdesktopportal.so",
    "PySide6/Qt/plugins/wayland-decoration-client/*.so",
    "PySide6/Qt/plugins/wayland-graphics-integration-client/libqt-plugin-wayland-egl.so",
    "PySide6/Qt/plugins/wayland-shell-integration/libxdg-shell.so",
    "PySide6/Qt/plugins/xcbglintegrations/*.so",
)
"""Patterns of what is kept of that."""


def is_left_out(path: str) -> bool:
    """Whether a path in ``site-packages``, with slashes, is left out of the bundle."""
    return _matches(path, LEFT_OUT) and not _matches(path, KEPT)


def prune(packages: Path) -> int:
    """Delete what is left out; return how many bytes that were.

    Empty folders are deleted, too.
    """
    freed = 0
    for path in sorted(packages.rglob("*"), reverse=True):  # a folder after what is in it
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif is_left_out(path.relative_to(packages).as_posix()):
            freed += path.lstat().st_size
            path.unlink()
    return freed


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
