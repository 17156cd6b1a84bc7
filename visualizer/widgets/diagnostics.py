"""Diagnostic information for bug reports: versions, screens, devices and the last log messages."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from visualizer.storage.log_file import read_last_lines
from visualizer.widgets import app_settings
from visualizer.widgets.dialogs import list_library_versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtWidgets import QMainWindow

PACKAGES = (
    *("torch", "numpy", "PySide6-Essentials", "pyqtgraph", "msgspec", "platformdirs", "psutil"),
    *("transformers", "tokenizers", "safetensors", "huggingface-hub", "pillow", "av"),
)
LOG_LINES = 60
COPIED_MESSAGE, MESSAGE_MS = "Diagnostic information copied", 5_000


def copy_diagnostics(window: QMainWindow) -> None:
    """Copy the diagnostic information to the clipboard."""
    QGuiApplication.clipboard().setText(collect_diagnostics())
    window.statusBar().showMessage(COPIED_MESSAGE, MESSAGE_MS)


def collect_diagnostics() -> str:
    """Return the diagnostic information, which contains no text, file name or path of the user."""
    rows = (*list_library_versions(), *_describe_system(), *_describe_settings())
    lines = [f"{name}: {value}" for name, value in rows]
    return "\n".join((*lines, "", "Last log messages:", *read_last_lines(LOG_LINES)))


def _describe_system() -> Iterator[tuple[str, str]]:
    import psutil  # slow to import

    yield "Packages", ", ".join(f"{name} {_find_version(name)}" for name in PACKAGES)
    yield "Qt platform", QGuiApplication.platformName()
    yield "Style", QApplication.style().name()
    for screen in QGuiApplication.screens():
        size, scale = screen.size(), screen.devicePixelRatio()
        dpi = screen.logicalDotsPerInch()
        yield "Screen", f"{size.width()} × {size.height()}, scale {scale:g}, {dpi:.0f} dpi"
    desktop = (os.environ.get(name, "") for name in ("XDG_CURRENT_DESKTOP", "XDG_SESSION_TYPE"))
    yield "Desktop", ", ".join(filter(None, desktop)) or "unknown"
    memory = psutil.virtual_memory()
    yield "Memory", f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB available"
    yield "Processor cores", str(os.cpu_count())
    yield "CUDA", _describe_cuda()


def _find_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _describe_cuda() -> str:
    torch = sys.modules.get("torch")
    if torch is None:
        return "PyTorch is not loaded yet"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = (torch.cuda.get_device_name(at) for at in range(count))
    return ", ".join(names) or "not available"


def _describe_settings() -> Iterator[tuple[str, str]]:
    yield "Theme", app_settings.load_scheme().value
    yield "Text size", f"{app_settings.load_text_size()}%"
    yield "Device", app_settings.load_device().value
    yield "Reduced motion", str(app_settings.is_motion_reduced())
    yield "Changed shortcuts", str(len(app_settings.load_shortcuts()))
