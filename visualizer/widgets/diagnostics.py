"""Diagnostic information for bug reports: versions, screens, devices and the last log messages."""

from __future__ import annotations

import os
import sys
from threading import Thread
from typing import TYPE_CHECKING

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from visualizer.storage.log_file import read_last_lines
from visualizer.widgets import app_settings
from visualizer.widgets.dialogs import list_library_versions
from visualizer.widgets.incremental_gui_task import IncrementalTask

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from PySide6.QtWidgets import QMainWindow

Rows = tuple[tuple[str, str], ...]
"""Names and values."""
PACKAGES = (
    *("torch", "numpy", "PySide6-Essentials", "pyqtgraph", "msgspec", "platformdirs", "psutil"),
    *("transformers", "tokenizers", "safetensors", "huggingface-hub", "pillow", "av"),
)
LOG_LINES = 60
COPIED_MESSAGE, MESSAGE_MS = "Diagnostic information copied", 5_000


def copy_diagnostics(window: QMainWindow) -> None:
    """Collect the diagnostic information on a thread, and then copy it to the clipboard.

    It contains no text, file name or path of the user.
    """
    IncrementalTask(_copy_in_steps(window), window)


def _copy_in_steps(window: QMainWindow) -> Generator[None]:
    interface, lines = (*_describe_screens(), *_describe_settings()), list[str]()
    # Reading versions and asking CUDA for devices takes longer than the window may be blocked.
    collecting = Thread(target=_collect_lines, args=(interface, lines))
    collecting.start()
    while collecting.is_alive():
        yield
    QGuiApplication.clipboard().setText("\n".join(lines))
    window.statusBar().showMessage(COPIED_MESSAGE, MESSAGE_MS)


def _collect_lines(interface: Rows, lines: list[str]) -> None:
    rows: Iterable[tuple[str, str]] = (*list_library_versions(), *_describe_system(), *interface)
    lines += [f"{name}: {value}" for name, value in rows]
    lines += ("", "Last log messages:", *read_last_lines(LOG_LINES))


def _describe_screens() -> Iterator[tuple[str, str]]:
    yield "Qt platform", QGuiApplication.platformName()
    yield "Style", QApplication.style().name()
    for screen in QGuiApplication.screens():
        size, scale = screen.size(), screen.devicePixelRatio()
        dpi = screen.logicalDotsPerInch()
        yield "Screen", f"{size.width()} × {size.height()}, scale {scale:g}, {dpi:.0f} dpi"


def _describe_system() -> Iterator[tuple[str, str]]:
    import psutil  # slow to import

    yield "Packages", ", ".join(f"{name} {_find_version(name)}" for name in PACKAGES)
    desktop = (os.environ.get(name, "") for name in ("XDG_CURRENT_DESKTOP", "XDG_SESSION_TYPE"))
    yield "Desktop", ", ".join(filter(None, desktop)) or "unknown"
    memory = psutil.virtual_memory()
    yield "Memory", f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB available"
    yield "Processor cores", str(os.cpu_count())
    yield "Devices", _describe_devices()


def _find_version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _describe_devices() -> str:
    if "torch" not in sys.modules:
        return "PyTorch is not loaded yet"
    from visualizer.attention.device import describe_available_devices

    return describe_available_devices()


def _describe_settings() -> Iterator[tuple[str, str]]:
    yield "Theme", app_settings.load_scheme().value
    yield "Text size", f"{app_settings.load_text_size()}%"
    yield "Device", app_settings.load_device().value
    yield "Reduced motion", str(app_settings.is_motion_reduced())
    yield "Changed shortcuts", str(len(app_settings.load_shortcuts()))
