"""Settings remembered between two starts: windows, appearance, last files, what is kept."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QByteArray, QSettings, QStandardPaths, Qt

from visualizer.attention.spec import Device
from visualizer.errors import reason_of
from visualizer.session.colour_maps import MapKind, maps_of
from visualizer.session.colour_options import ColourOptions
from visualizer.storage.private_folder import make_private_folder
from visualizer.storage.settings_file import Setting, SettingsFile
from visualizer.widgets.fonts import AUTOMATIC_TEXT
from visualizer.widgets.theme import Scheme

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from PySide6.QtWidgets import QFileDialog, QMainWindow


def own_folder() -> Path:
    """Return the program's folder for user data; it may not exist yet."""
    kind = QStandardPaths.StandardLocation.AppDataLocation
    return Path(QStandardPaths.writableLocation(kind))


def settings_file() -> SettingsFile:
    """Return the file of the settings; it may not exist yet."""
    kind = QStandardPaths.StandardLocation.AppConfigLocation
    return _settings_file(Path(QStandardPaths.writableLocation(kind)) / "settings.json")


@lru_cache(maxsize=1)
def _settings_file(path: Path) -> SettingsFile:
    return SettingsFile(path)


def stored(key: str) -> Setting | None:
    """Return the stored value of a key; None where there is none."""
    return settings_file().value(key)


def store(values: Mapping[str, Setting]) -> None:
    """Store values by key; those that cannot be written last as long as the program."""
    with suppress(OSError):
        settings_file().store(values)


def forget() -> str:
    """Delete all settings; return the error, if any."""
    file = settings_file()
    try:
        file.clear()
    except OSError as error:
        return f"The settings in {file.path} could not be deleted: {reason_of(error)}."
    return ""


def keep_private() -> None:
    """Have the program's folders be the user's alone, also those that were made for all."""
    for folder in (own_folder(), settings_file().path.parent):
        with suppress(OSError):
            make_private_folder(folder)


def keep_qt_from_storing() -> None:
    """Have Qt's own dialogs store nothing, but read what other programs have stored of them.

    A file dialog stores its state as it is deleted and waits for the disk, on the window's thread:
    for seconds where that is busy. `save_file_dialog` does so instead. Not so on Windows and macOS,
    where the system keeps the settings of programs.
    """
    kind, folder = QSettings.Format.NativeFormat, QStandardPaths.StandardLocation
    others = QStandardPaths.writableLocation(folder.GenericConfigLocation)
    QSettings.setPath(kind, QSettings.Scope.SystemScope, others)
    QSettings.setPath(kind, QSettings.Scope.UserScope, os.devnull)  # no folder can be made there


VERSION = 2
SCHEME, LAST_FILE, EXPORT, REDUCED_MOTION = "scheme", "last", "export", "reduced motion"
START_PAGE, AUTOSAVE, TEXT_SIZE, DEVICE = "start page", "autosave", "text size", "device"
COLOUR_MAPS = {MapKind.SEQUENTIAL: "colour map", MapKind.DIVERGING: "signed colour map"}
FILE_DIALOG, FILE_DIALOG_SEAL = "file dialog", "file dialog seal"
RECOVERY, LESSONS, RUNS = "recovery", "lessons", "runs"
"""Folders within the program's own."""
TEXT_SIZES = (AUTOMATIC_TEXT, 100, 115, 130, 150, 175, 200)
"""In per cent of the system's."""
LAST_RUN, FOLDED = "lab/run", "lab/folded"
ACROSS, MIDDLE, RIGHT = "lab/across", "lab/middle", "lab/right"
"""Keys of the lab's splitters: across the window, in its middle and at its right."""
NOTICE_MS = 20_000
"""How long the status bar shows messages worth reading twice."""
MAX_SIZE_DIGITS = 5
"""Of a size in pixels."""


class WindowKeys(Struct, frozen=True):
    """The keys that store the geometry and state of one kind of window."""

    geometry: str
    state: str
    seal: str


MAIN_WINDOW = WindowKeys("geometry", "state", "seal")
LAB_WINDOW = WindowKeys("lab/geometry", "lab/state", "lab/seal")


def load_scheme() -> Scheme:
    """Return the chosen colour scheme; the system's where none valid is stored."""
    found = stored(SCHEME)
    return next((scheme for scheme in Scheme if scheme.value == found), Scheme.SYSTEM)


def save_scheme(scheme: Scheme) -> None:
    """Store the chosen colour scheme."""
    store({SCHEME: scheme.value})


def load_last() -> Path | None:
    """Return the file open at the last exit, if it still exists."""
    found = stored(LAST_FILE)
    path = Path(found) if isinstance(found, str) and found and "\0" not in found else None
    with suppress(OSError):  # a folder that may not be read, a name that is too long
        return path if path and path.is_file() else None
    return None


def save_last(path: Path | None) -> None:
    """Store which file is open; None for none."""
    store({LAST_FILE: str(path.absolute()) if path else ""})


def load_last_run() -> str:
    """Return the name of the run last open in the lab; empty where there was none."""
    found = stored(LAST_RUN)
    return found if isinstance(found, str) else ""


def save_last_run(name: str) -> None:
    """Store which run is open in the lab."""
    store({LAST_RUN: name})


def load_collapsed() -> frozenset[str] | None:
    """Return the collapsed sections of the lab; None where never chosen."""
    found = stored(FOLDED)
    return frozenset(found.split()) if isinstance(found, str) else None


def save_collapsed(names: frozenset[str]) -> None:
    """Store which sections of the lab are collapsed."""
    store({FOLDED: " ".join(sorted(names))})


def restore_window(window: QMainWindow, keys: WindowKeys) -> bool:
    """Restore a window's geometry and state; return whether any was stored."""
    states = _intact_states(keys.seal, (keys.geometry, keys.state))
    if not states:
        return False
    geometry, state = states
    return window.restoreGeometry(geometry) and window.restoreState(state, VERSION)


def save_window(window: QMainWindow, keys: WindowKeys) -> None:
    """Store a window's geometry and its panes' state."""
    states = {keys.geometry: window.saveGeometry(), keys.state: window.saveState(VERSION)}
    _store_states(keys.seal, states)


def restore_file_dialog(dialog: QFileDialog) -> None:
    """Give Qt's own file dialog the looks, the places and the visited folders of the last one."""
    for state in _intact_states(FILE_DIALOG_SEAL, (FILE_DIALOG,)):
        dialog.restoreState(state)


def save_file_dialog(dialog: QFileDialog) -> None:
    """Store the looks of Qt's own file dialog, its places and the folders visited in it."""
    _store_states(FILE_DIALOG_SEAL, {FILE_DIALOG: dialog.saveState()})


def _intact_states(seal: str, keys: Sequence[str]) -> list[QByteArray]:
    """Return the states of these keys; none if one is missing or damaged.

    Qt crashes on some damaged states.
    """
    found = [value for value in map(stored, keys) if isinstance(value, str)]
    with suppress(ValueError):
        states = [QByteArray(b64decode(value)) for value in found]
        if len(states) == len(keys) and stored(seal) == _seal(states):
            return states
    return []


def _store_states(seal: str, states: Mapping[str, QByteArray]) -> None:
    texts = {key: b64encode(state.data()).decode("ascii") for key, state in states.items()}
    store({**texts, seal: _seal(states.values())})


def _seal(states: Iterable[QByteArray]) -> str:
    return blake2b(b"".join(state.data() for state in states), digest_size=16).hexdigest()


def load_sizes(key: str) -> list[int]:
    """Return a splitter's stored sizes; empty where none valid are stored."""
    found = stored(key)
    parts = found.split() if isinstance(found, str) else []
    return [int(part) for part in parts if part.isdecimal() and len(part) <= MAX_SIZE_DIGITS]


def save_sizes(key: str, sizes: list[int]) -> None:
    """Store a splitter's sizes."""
    store({key: " ".join(map(str, sizes))})


EFFECTS = (
    Qt.UIEffect.UI_AnimateMenu,
    Qt.UIEffect.UI_FadeMenu,
    Qt.UIEffect.UI_AnimateCombo,
    Qt.UIEffect.UI_AnimateTooltip,
    Qt.UIEffect.UI_FadeTooltip,
    Qt.UIEffect.UI_AnimateToolBox,
)


def is_reduced() -> bool:
    """Whether the user wants reduced motion."""
    return stored(REDUCED_MOTION) is True


def set_reduced(is_on: bool) -> None:
    """Store whether the user wants reduced motion."""
    store({REDUCED_MOTION: is_on})


def has_start_page() -> bool:
    """Whether a start without a document shows the start page."""
    return stored(START_PAGE) is not False


def set_start_page(is_on: bool) -> None:
    """Store whether a start without a document shows the start page."""
    store({START_PAGE: is_on})


def is_autosaving() -> bool:
    """Whether unsaved changes are kept for the case of a crash."""
    return stored(AUTOSAVE) is not False


def set_autosaving(is_on: bool) -> None:
    """Store whether unsaved changes are kept."""
    store({AUTOSAVE: is_on})


def load_text_size() -> int:
    """Return the text size in per cent; automatic where none valid is stored."""
    found = stored(TEXT_SIZE)
    return next((size for size in TEXT_SIZES if size == found), AUTOMATIC_TEXT)


def save_text_size(size: int) -> None:
    """Store the text size in per cent, or that it is automatic."""
    store({TEXT_SIZE: size})


def load_colouring() -> ColourOptions:
    """Return the colour maps of new windows; the usual ones where none valid are stored."""
    usual = ColourOptions()
    return ColourOptions(
        sequential=_map_of(MapKind.SEQUENTIAL) or usual.sequential,
        diverging=_map_of(MapKind.DIVERGING) or usual.diverging,
    )


def save_colour_map(id_: str, kind: MapKind) -> None:
    """Store the colour map of a kind, for new windows."""
    store({COLOUR_MAPS[kind]: id_})


def _map_of(kind: MapKind) -> str | None:
    found = stored(COLOUR_MAPS[kind])
    return next((each.id for each in maps_of(kind) if each.id == found), None)


def load_device() -> Device:
    """Return the device of new documents; the best available where none valid is stored."""
    found = stored(DEVICE)
    return next((device for device in Device if device.value == found), Device.AUTO)


def save_device(device: Device) -> None:
    """Store the device of new documents."""
    store({DEVICE: device.value})


def style_sheet() -> str:
    """Return the style sheet that turns off the style's animations."""
    return "* { widget-animation-duration: 0; }" if is_reduced() else ""
