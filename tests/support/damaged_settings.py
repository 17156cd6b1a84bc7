"""Truncated and corrupted settings files of the program, reproducible by a seed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDockWidget, QFileDialog, QMainWindow, QToolBar

from tests.support.damaged_files import VALUES, flip, lose, put_in
from visualizer.attention.spec import Device
from visualizer.export.export_controller import load_export_settings, save_export_settings
from visualizer.export.export_settings import ExportSettings
from visualizer.session.view_options import ColourMapKind
from visualizer.widgets import app_settings
from visualizer.widgets.theme import ColourScheme

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = tuple(map(json.dumps, ("x" * 5_000, "/" * 5_000, "a/" * 2_000, "\ud7a3" * 200)))


def window() -> QMainWindow:
    """Create a window with all kinds of widgets whose geometry is stored."""
    made = QMainWindow()
    for name in ("Lesson", "Explain", "Tokens"):
        dock = QDockWidget(name, made)
        dock.setObjectName(name)
        made.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, dock)
    bar = QToolBar("Playback", made)
    bar.setObjectName("Playback")
    made.addToolBar(bar)
    made.resize(QSize(800, 600))
    QFileDialog(made)
    return made


def store(made: QMainWindow) -> Path:
    """Store a setting of every kind, and return the settings file."""
    for keys in (app_settings.MAIN_WINDOW, app_settings.LAB_WINDOW):
        app_settings.save_window(made, keys)
    for key in (app_settings.ACROSS, app_settings.MIDDLE, app_settings.RIGHT):
        app_settings.save_splitter_sizes(key, [200, 300, 400])
    app_settings.save_file_dialog(made.findChildren(QFileDialog)[0])
    app_settings.save_scheme(ColourScheme.DARK)
    app_settings.save_last_file(Path("a.attention"))
    app_settings.save_last_lab_run("run")
    app_settings.save_collapsed_sections(frozenset({"left"}))
    app_settings.save_text_size(115)
    app_settings.save_colour_map("viridis", ColourMapKind.SEQUENTIAL)
    app_settings.save_device(Device.CPU)
    app_settings.set_motion_reduced(True)
    save_export_settings(ExportSettings())
    return app_settings.settings_file().path


def damaged_settings(whole: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield this many damaged settings files, each with a description of its damage."""
    chance = random.Random(seed)
    for number in range(count):
        spoil = chance.choice((flip, flip, lose, put_in, _replace_value))
        yield f"{number}, {spoil.__name__}", spoil(chance, whole, {})


def _replace_value(chance: random.Random, content: bytes, files: dict[str, bytes]) -> bytes:
    """Replace a value by one with another type or size."""
    values = {key: json.dumps(value) for key, value in json.loads(content).items()}
    values[chance.choice([*values])] = chance.choice((*VALUES, *LONG, _nested(chance)))
    return f"{{{','.join(f'{json.dumps(key)}:{value}' for key, value in values.items())}}}".encode()


def _nested(chance: random.Random) -> str:
    """Return nested lists that can be read, but not written from a deeper call stack."""
    deep = chance.randrange(850, 1000)
    return "[" * deep + "]" * deep


def read_all(made: QMainWindow) -> bool:
    """Read every setting as at startup, and return whether the window geometry was restored."""
    for keys in (app_settings.LAB_WINDOW, app_settings.MAIN_WINDOW):
        is_restored = app_settings.restore_window(made, keys)
    app_settings.restore_file_dialog(made.findChildren(QFileDialog)[0])
    for key in (app_settings.ACROSS, app_settings.MIDDLE, app_settings.RIGHT):
        assert all(size >= 0 for size in app_settings.load_splitter_sizes(key))
    for load in (
        app_settings.load_scheme,
        app_settings.load_last_file,
        app_settings.load_last_lab_run,
        app_settings.load_collapsed_sections,
        app_settings.load_text_size,
        app_settings.load_colour_maps,
        app_settings.load_device,
        app_settings.is_motion_reduced,
        app_settings.shows_start_page,
        app_settings.is_autosave_enabled,
        load_export_settings,
    ):
        load()
    app_settings.save_text_size(130)
    assert app_settings.load_text_size() == 130
    return is_restored
