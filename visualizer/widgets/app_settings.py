"""Settings stored between sessions: window state, appearance, recent files, autosave."""

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
from visualizer.session.view_options import ColourOptions, MapKind, maps_of
from visualizer.storage.link_safe_folder import make_private_folder
from visualizer.storage.program_folders import NAME, SETTINGS, data_folder, settings_path
from visualizer.storage.settings_file import Setting, SettingsFile
from visualizer.widgets.fonts import AUTOMATIC_TEXT
from visualizer.widgets.theme import Scheme

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from PySide6.QtWidgets import QFileDialog, QMainWindow


def own_folder() -> Path:
    """Return the program's folder for user data; it may not exist yet."""
    try:
        return data_folder()
    except OSError:  # there is no home folder, and nothing can be stored in this one
        return Path(os.devnull) / NAME


def settings_file() -> SettingsFile:
    """Return the file of the settings; it may not exist yet."""
    try:
        return _settings_file(settings_path())
    except OSError:  # as in `own_folder`
        return _settings_file(Path(os.devnull) / SETTINGS)


@lru_cache(maxsize=1)
def _settings_file(path: Path) -> SettingsFile:
    return SettingsFile(path)


def stored(key: str) -> Setting | None:
    """Return the stored value of a key; None if there is none."""
    return settings_file().value(key)


def store(values: Mapping[str, Setting]) -> None:
    """Store values by key; if the file is not writable, they last until the program exits."""
    with suppress(OSError):
        settings_file().store(values)


def forget() -> str:
    """Delete all settings; return an error message, or an empty string."""
    file = settings_file()
    try:
        file.clear()
    except OSError as error:
        return f"Cannot delete the settings in {file.path}: {reason_of(error)}."
    return ""


def keep_private() -> None:
    """Restrict access to the program's folders to the user, including existing folders."""
    for folder in (own_folder(), settings_file().path.parent):
        with suppress(OSError):
            make_private_folder(folder)


def keep_qt_from_storing() -> None:
    """Prevent Qt's own dialogs from writing settings; they can still read shared ones.

    A Qt file dialog saves its state when it is deleted, which blocks the GUI thread for seconds if
    the disk is busy. `save_file_dialog` saves it instead. No effect on Windows and macOS, where the
    system stores the settings of programs.
    """
    kind, folder = QSettings.Format.NativeFormat, QStandardPaths.StandardLocation
    others = QStandardPaths.writableLocation(folder.GenericConfigLocation)
    QSettings.setPath(kind, QSettings.Scope.SystemScope, others)
    QSettings.setPath(kind, QSettings.Scope.UserScope, os.devnull)  # not writable


VERSION = 2
SCHEME, LAST_FILE, EXPORT, REDUCED_MOTION = "scheme", "last", "export", "reduced motion"
START_PAGE, AUTOSAVE, TEXT_SIZE, DEVICE = "start page", "autosave", "text size", "device"
COLOUR_MAPS = {MapKind.SEQUENTIAL: "colour map", MapKind.DIVERGING: "signed colour map"}
FILE_DIALOG, FILE_DIALOG_SEAL = "file dialog", "file dialog seal"
RECOVERY, LESSONS, RUNS = "recovery", "lessons", "runs"
"""Names of folders in `own_folder()`."""
TEXT_SIZES = (AUTOMATIC_TEXT, 100, 115, 130, 150, 175, 200)
"""In per cent of the system text size."""
LAST_RUN, FOLDED = "lab/run", "lab/folded"
ACROSS, MIDDLE, RIGHT = "lab/across", "lab/middle", "lab/right"
"""Keys of the lab's splitters: main, middle column and right column."""
NOTICE_MS = 20_000
"""How long the status bar shows important messages."""
MAX_SIZE_DIGITS = 5
"""Maximum number of digits of a stored size in pixels."""


class WindowKeys(Struct, frozen=True):
    """Settings keys for the geometry and state of one kind of window."""

    geometry: str
    state: str
    seal: str


MAIN_WINDOW = WindowKeys("geometry", "state", "seal")
LAB_WINDOW = WindowKeys("lab/geometry", "lab/state", "lab/seal")


def load_scheme() -> Scheme:
    """Return the chosen colour scheme; the system's if no valid one is stored."""
    found = stored(SCHEME)
    return next((scheme for scheme in Scheme if scheme.value == found), Scheme.SYSTEM)


def save_scheme(scheme: Scheme) -> None:
    """Store the chosen colour scheme."""
    store({SCHEME: scheme.value})


def load_last() -> Path | None:
    """Return the file open at the last exit, if it still exists."""
    found = stored(LAST_FILE)
    path = Path(found) if isinstance(found, str) and found and "\0" not in found else None
    with suppress(OSError):  # unreadable folder, or name too long
        return path if path and path.is_file() else None
    return None


def save_last(path: Path | None) -> None:
    """Store which file is open; None for none."""
    store({LAST_FILE: str(path.absolute()) if path else ""})


def load_last_run() -> str:
    """Return the name of the run last open in the lab; empty if none."""
    found = stored(LAST_RUN)
    return found if isinstance(found, str) else ""


def save_last_run(name: str) -> None:
    """Store which run is open in the lab."""
    store({LAST_RUN: name})


def load_collapsed() -> frozenset[str] | None:
    """Return the collapsed sections of the lab; None if never set."""
    found = stored(FOLDED)
    return frozenset(found.split()) if isinstance(found, str) else None


def save_collapsed(names: frozenset[str]) -> None:
    """Store which sections of the lab are collapsed."""
    store({FOLDED: " ".join(sorted(names))})


def restore_window(window: QMainWindow, keys: WindowKeys) -> bool:
    """Restore a window's geometry and state; return whether that succeeded."""
    states = _intact_states(keys.seal, (keys.geometry, keys.state))
    if not states:
        return False
    geometry, state = states
    return window.restoreGeometry(geometry) and window.restoreState(state, VERSION)


def save_window(window: QMainWindow, keys: WindowKeys) -> None:
    """Store a window's geometry and the state of its panes."""
    states = {keys.geometry: window.saveGeometry(), keys.state: window.saveState(VERSION)}
    _store_states(keys.seal, states)


def restore_file_dialog(dialog: QFileDialog) -> None:
    """Restore the layout, sidebar and history of Qt's own file dialog."""
    for state in _intact_states(FILE_DIALOG_SEAL, (FILE_DIALOG,)):
        dialog.restoreState(state)


def save_file_dialog(dialog: QFileDialog) -> None:
    """Store the layout, sidebar and history of Qt's own file dialog."""
    _store_states(FILE_DIALOG_SEAL, {FILE_DIALOG: dialog.saveState()})


def _intact_states(seal: str, keys: Sequence[str]) -> list[QByteArray]:
    """Return the states of these keys; an empty list if one is missing or damaged.

    The checksum is needed because Qt crashes on some damaged states.
    """
    found = [value for value in map(stored, keys) if isinstance(value, str)]
    with suppress(ValueError):
        states = [QByteArray(b64decode(value)) for value in found]
        if len(states) == len(keys) and stored(seal) == _compute_seal(states):
            return states
    return []


def _store_states(seal: str, states: Mapping[str, QByteArray]) -> None:
    texts = {key: b64encode(state.data()).decode("ascii") for key, state in states.items()}
    store({**texts, seal: _compute_seal(states.values())})


def _compute_seal(states: Iterable[QByteArray]) -> str:
    return blake2b(b"".join(state.data() for state in states), digest_size=16).hexdigest()


def load_sizes(key: str) -> list[int]:
    """Return a splitter's stored sizes; empty if no valid ones are stored."""
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
    """Whether to show the start page when the program starts without a document."""
    return stored(START_PAGE) is not False


def set_start_page(is_on: bool) -> None:
    """Store whether to show the start page at startup."""
    store({START_PAGE: is_on})


def is_autosaving() -> bool:
    """Whether unsaved changes are saved for crash recovery."""
    return stored(AUTOSAVE) is not False


def set_autosaving(is_on: bool) -> None:
    """Store whether unsaved changes are saved for crash recovery."""
    store({AUTOSAVE: is_on})


def load_text_size() -> int:
    """Return the text size in per cent; automatic if no valid one is stored."""
    found = stored(TEXT_SIZE)
    return next((size for size in TEXT_SIZES if size == found), AUTOMATIC_TEXT)


def save_text_size(size: int) -> None:
    """Store the text size in per cent, or `AUTOMATIC_TEXT`."""
    store({TEXT_SIZE: size})


def load_colouring() -> ColourOptions:
    """Return the colour maps for new windows; the defaults if no valid ones are stored."""
    usual = ColourOptions()
    return ColourOptions(
        sequential=_map_of(MapKind.SEQUENTIAL) or usual.sequential,
        diverging=_map_of(MapKind.DIVERGING) or usual.diverging,
    )


def save_colour_map(id_: str, kind: MapKind) -> None:
    """Store the default colour map of a kind for new windows."""
    store({COLOUR_MAPS[kind]: id_})


def _map_of(kind: MapKind) -> str | None:
    found = stored(COLOUR_MAPS[kind])
    return next((each.id for each in maps_of(kind) if each.id == found), None)


def load_device() -> Device:
    """Return the device for new documents; automatic if no valid one is stored."""
    found = stored(DEVICE)
    return next((device for device in Device if device.value == found), Device.AUTO)


def save_device(device: Device) -> None:
    """Store the device for new documents."""
    store({DEVICE: device.value})


def style_sheet() -> str:
    """Return a style sheet that turns off Qt animations if motion is reduced."""
    return "* { widget-animation-duration: 0; }" if is_reduced() else ""
