"""Settings that are stored between sessions: windows, appearance, last file, autosave, device."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from PySide6.QtCore import QByteArray, QSettings, QStandardPaths, Qt

from visualizer.attention.spec import Device
from visualizer.errors import system_error_reason
from visualizer.session.view_options import ColourMapKind, ColourOptions, colour_maps_of_kind
from visualizer.storage.program_folders import (
    FOLDER_NAME,
    SETTINGS,
    data_folder,
    log_folder,
    settings_path,
)
from visualizer.storage.settings_file import Setting, SettingsFile
from visualizer.storage.symlink_safe_folder import make_private_folder
from visualizer.widgets.fonts import AUTOMATIC_TEXT
from visualizer.widgets.theme import ColourScheme

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from PySide6.QtWidgets import QFileDialog, QMainWindow

Choice = TypeVar("Choice")


def user_data_folder() -> Path:
    """Return the program's folder for user data; it may not exist yet."""
    try:
        return data_folder()
    except OSError:  # without a home folder, nothing can be stored
        return Path(os.devnull) / FOLDER_NAME


def user_log_folder() -> Path:
    """Return the folder of the log file; it may not exist yet."""
    try:
        return log_folder()
    except OSError:  # as in `user_data_folder`
        return Path(os.devnull) / FOLDER_NAME


def settings_file() -> SettingsFile:
    """Return the settings file; it may not exist yet."""
    try:
        return _settings_file(settings_path())
    except OSError:  # as in `user_data_folder`
        return _settings_file(Path(os.devnull) / SETTINGS)


@lru_cache(maxsize=1)
def _settings_file(path: Path) -> SettingsFile:
    return SettingsFile(path)


def load_value(key: str) -> Setting | None:
    """Return the value that is stored for a key, or None."""
    return settings_file().value(key)


def store_values(values: Mapping[str, Setting]) -> None:
    """Store values by key; if the file is not writable, they last until the program exits."""
    with suppress(OSError):
        settings_file().store(values)


def clear_settings() -> str:
    """Delete all settings; return an error message, or an empty string on success."""
    file = settings_file()
    try:
        file.clear()
    except OSError as error:
        return f"Cannot delete the settings in {file.path}: {system_error_reason(error)}."
    return ""


def restrict_folder_access() -> None:
    """Restrict access to the program's folders to the user, including existing folders."""
    for folder in (user_data_folder(), settings_file().path.parent):
        with suppress(OSError):
            make_private_folder(folder)


def disable_qt_settings() -> None:
    """Prevent Qt's own dialogs from writing settings; they can still read shared settings.

    Qt's file dialog saves its state when it is deleted; if the disk is busy, this blocks the GUI
    thread for seconds. `save_file_dialog` saves the state instead. On Windows and macOS, where the
    system stores the settings of programs, this function has no effect.
    """
    kind, folder = QSettings.Format.NativeFormat, QStandardPaths.StandardLocation
    others = QStandardPaths.writableLocation(folder.GenericConfigLocation)
    QSettings.setPath(kind, QSettings.Scope.SystemScope, others)
    QSettings.setPath(kind, QSettings.Scope.UserScope, os.devnull)  # not writable


STATE_VERSION = 3
SCHEME, LAST_FILE, EXPORT, REDUCED_MOTION = "scheme", "last", "export", "reduced motion"
START_PAGE, AUTOSAVE, TEXT_SIZE, DEVICE = "start page", "autosave", "text size", "device"
COLOUR_MAP_KEYS = {
    ColourMapKind.SEQUENTIAL: "colour map",
    ColourMapKind.DIVERGING: "signed colour map",
}
SHORTCUTS, RECENT_COMMANDS = "shortcuts", "recent commands"
FILE_DIALOG, FILE_DIALOG_SEAL = "file dialog", "file dialog seal"
RECOVERY, LESSONS, RUNS = "recovery", "lessons", "runs"
"""Names of folders in the user's data folder."""
TEXT_SIZES_PERCENT = (AUTOMATIC_TEXT, 100, 115, 130, 150, 175, 200)
"""Text sizes, as percentages of the system text size."""
LAST_RUN, FOLDED = "lab/run", "lab/folded"
ACROSS, MIDDLE, RIGHT = "lab/across", "lab/middle", "lab/right"
"""Settings keys for the sizes of the lab's splitters: main, middle column, right column."""
NOTICE_MS = 20_000
"""Display time of important messages in the status bar, in milliseconds."""
MAX_SIZE_DIGITS = 5
"""Maximum number of digits of a stored size in pixels."""


class WindowSettingsKeys(Struct, frozen=True):
    """Settings keys for the geometry, the state and their checksum, for one kind of window."""

    geometry: str
    state: str
    seal: str


MAIN_WINDOW = WindowSettingsKeys("geometry", "state", "seal")
LAB_WINDOW = WindowSettingsKeys("lab/geometry", "lab/state", "lab/seal")


def _load_choice(key: str, choices: Iterable[Choice], default: Choice) -> Choice:
    """Return the stored choice, or the default if no valid choice is stored."""
    stored = load_value(key)
    return next((choice for choice in choices if choice == stored), default)


def load_scheme() -> ColourScheme:
    """Return the stored colour scheme, or `SYSTEM` if no valid scheme is stored."""
    return _load_choice(SCHEME, ColourScheme, ColourScheme.SYSTEM)


def save_scheme(scheme: ColourScheme) -> None:
    """Store the chosen colour scheme."""
    store_values({SCHEME: scheme.value})


def load_last_file() -> Path | None:
    """Return the file that was open at the last exit, if it still exists."""
    found = load_value(LAST_FILE)
    path = Path(found) if isinstance(found, str) and found and "\0" not in found else None
    with suppress(OSError):  # unreadable folder, or name too long
        return path if path and path.is_file() else None
    return None


def save_last_file(path: Path | None) -> None:
    """Store the path of the open file, or None if no file is open."""
    store_values({LAST_FILE: str(path.absolute()) if path else ""})


def load_last_lab_run() -> str:
    """Return the name of the run that was last open in the lab; empty if there was none."""
    found = load_value(LAST_RUN)
    return found if isinstance(found, str) else ""


def save_last_lab_run(name: str) -> None:
    """Store the name of the run that is open in the lab."""
    store_values({LAST_RUN: name})


def load_collapsed_sections() -> frozenset[str] | None:
    """Return the collapsed sections of the lab, or None if they have never been stored."""
    found = load_value(FOLDED)
    return frozenset(found.split()) if isinstance(found, str) else None


def save_collapsed_sections(names: frozenset[str]) -> None:
    """Store which sections of the lab are collapsed."""
    store_values({FOLDED: " ".join(sorted(names))})


def restore_window(window: QMainWindow, keys: WindowSettingsKeys) -> bool:
    """Restore a window's geometry and state; return whether both were restored."""
    states = _load_intact_states(keys.seal, (keys.geometry, keys.state))
    if not states:
        return False
    geometry, state = states
    return window.restoreGeometry(geometry) and window.restoreState(state, STATE_VERSION)


def save_window(window: QMainWindow, keys: WindowSettingsKeys) -> None:
    """Store a window's geometry and the state of its panes."""
    states = {keys.geometry: window.saveGeometry(), keys.state: window.saveState(STATE_VERSION)}
    _store_states(keys.seal, states)


def restore_file_dialog(dialog: QFileDialog) -> None:
    """Restore the layout, sidebar and history of Qt's own file dialog."""
    for state in _load_intact_states(FILE_DIALOG_SEAL, (FILE_DIALOG,)):
        dialog.restoreState(state)


def save_file_dialog(dialog: QFileDialog) -> None:
    """Store the layout, sidebar and history of Qt's own file dialog."""
    _store_states(FILE_DIALOG_SEAL, {FILE_DIALOG: dialog.saveState()})


def _load_intact_states(seal: str, keys: Sequence[str]) -> list[QByteArray]:
    """Return the states for the given keys, or an empty list if a state is missing or damaged.

    The checksum is needed because some damaged states crash Qt.
    """
    found = [value for value in map(load_value, keys) if isinstance(value, str)]
    with suppress(ValueError):
        states = [QByteArray(b64decode(value)) for value in found]
        if len(states) == len(keys) and load_value(seal) == _compute_checksum(states):
            return states
    return []


def _store_states(seal: str, states: Mapping[str, QByteArray]) -> None:
    texts = {key: b64encode(state.data()).decode("ascii") for key, state in states.items()}
    store_values({**texts, seal: _compute_checksum(states.values())})


def _compute_checksum(states: Iterable[QByteArray]) -> str:
    return blake2b(b"".join(state.data() for state in states), digest_size=16).hexdigest()


def load_splitter_sizes(key: str) -> list[int]:
    """Return the stored sizes of a splitter; empty if no valid sizes are stored."""
    found = load_value(key)
    parts = found.split() if isinstance(found, str) else []
    return [int(part) for part in parts if part.isdecimal() and len(part) <= MAX_SIZE_DIGITS]


def save_splitter_sizes(key: str, sizes: list[int]) -> None:
    """Store a splitter's sizes."""
    store_values({key: " ".join(map(str, sizes))})


ANIMATION_EFFECTS = (
    Qt.UIEffect.UI_AnimateMenu,
    Qt.UIEffect.UI_FadeMenu,
    Qt.UIEffect.UI_AnimateCombo,
    Qt.UIEffect.UI_AnimateTooltip,
    Qt.UIEffect.UI_FadeTooltip,
    Qt.UIEffect.UI_AnimateToolBox,
)


def is_motion_reduced() -> bool:
    """Return whether the user wants reduced motion."""
    return load_value(REDUCED_MOTION) is True


def set_motion_reduced(is_on: bool) -> None:
    """Store whether the user wants reduced motion."""
    store_values({REDUCED_MOTION: is_on})


def shows_start_page() -> bool:
    """Return whether to show the start page when the program starts without a document."""
    return load_value(START_PAGE) is not False


def set_start_page_shown(is_on: bool) -> None:
    """Store whether to show the start page at startup."""
    store_values({START_PAGE: is_on})


def is_autosave_enabled() -> bool:
    """Return whether unsaved changes are saved for crash recovery."""
    return load_value(AUTOSAVE) is not False


def set_autosave_enabled(is_on: bool) -> None:
    """Store whether unsaved changes are saved for crash recovery."""
    store_values({AUTOSAVE: is_on})


def load_text_size() -> int:
    """Return the stored text size as a percentage, or `AUTOMATIC_TEXT` if it is invalid."""
    return _load_choice(TEXT_SIZE, TEXT_SIZES_PERCENT, AUTOMATIC_TEXT)


def save_text_size(size: int) -> None:
    """Store the text size as a percentage, or `AUTOMATIC_TEXT`."""
    store_values({TEXT_SIZE: size})


def load_colour_maps() -> ColourOptions:
    """Return the colour maps for new windows; a missing or invalid map is replaced."""
    default = ColourOptions()
    return ColourOptions(
        sequential=_load_colour_map(ColourMapKind.SEQUENTIAL, default.sequential),
        diverging=_load_colour_map(ColourMapKind.DIVERGING, default.diverging),
    )


def save_colour_map(id_: str, kind: ColourMapKind) -> None:
    """Store the colour map of the given kind for new windows."""
    store_values({COLOUR_MAP_KEYS[kind]: id_})


def _load_colour_map(kind: ColourMapKind, default: str) -> str:
    return _load_choice(
        COLOUR_MAP_KEYS[kind], (each.id for each in colour_maps_of_kind(kind)), default
    )


def load_device() -> Device:
    """Return the stored device for new documents, or the automatic choice if it is invalid."""
    return _load_choice(DEVICE, Device, Device.AUTO)


def save_device(device: Device) -> None:
    """Store the device for new documents."""
    store_values({DEVICE: device.value})


def load_shortcuts() -> dict[str, tuple[str, ...]]:
    """Return the user's own shortcuts by command id; a command may have none."""
    stored = load_value(SHORTCUTS)
    rows = stored.split("\n") if isinstance(stored, str) else []
    found = (row.split("\t") for row in rows if row)
    return {id_: tuple(filter(None, keys)) for id_, *keys in found}


def save_shortcuts(shortcuts: Mapping[str, Sequence[str]]) -> None:
    """Store the shortcuts of the commands for which the user has changed them."""
    rows = ("\t".join((id_, *keys)) for id_, keys in shortcuts.items())
    store_values({SHORTCUTS: "\n".join(rows)})


def load_recent_commands() -> list[str]:
    """Return the ids of the commands that were last chosen in the palette, the last one first."""
    stored = load_value(RECENT_COMMANDS)
    return stored.split("\n") if isinstance(stored, str) and stored else []


def save_recent_commands(ids: Iterable[str]) -> None:
    """Store the ids of the commands that were last chosen in the palette."""
    store_values({RECENT_COMMANDS: "\n".join(ids)})


def reduced_motion_style_sheet() -> str:
    """Return a style sheet that turns off Qt animations if motion is reduced."""
    return "* { widget-animation-duration: 0; }" if is_motion_reduced() else ""
