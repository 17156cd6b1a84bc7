"""Settings remembered between two starts: windows, appearance, last files, what is kept."""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QByteArray, QCoreApplication, QSettings, QStandardPaths, Qt

from visualizer.attention.spec import Device
from visualizer.session.colour_maps import MapKind, maps_of
from visualizer.session.colour_options import ColourOptions
from visualizer.storage.private_folder import make_private_folder
from visualizer.widgets.fonts import AUTOMATIC_TEXT
from visualizer.widgets.theme import Scheme

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow


def own_folder() -> Path:
    """Return the program's folder for user data; it may not exist yet."""
    kind = QStandardPaths.StandardLocation.AppDataLocation
    return Path(QStandardPaths.writableLocation(kind))


def keep_private() -> None:
    """Have the program's folders and the file of its settings be the user's alone.

    Qt creates both so that all users of the computer can read them.
    """
    settings = Path(QSettings().fileName())
    with suppress(OSError):
        make_private_folder(own_folder())
    if settings.parent.name == QCoreApplication.organizationName():  # not in Windows' registry
        with suppress(OSError):
            make_private_folder(settings.parent)
            settings.touch(0o600)
            settings.chmod(0o600)


VERSION = 2
SCHEME, LAST_FILE, EXPORT, REDUCED_MOTION = "scheme", "last", "export", "reduced motion"
START_PAGE, AUTOSAVE, TEXT_SIZE, DEVICE = "start page", "autosave", "text size", "device"
COLOUR_MAP, SIGNED_COLOUR_MAP = "colour map", "signed colour map"
RECOVERY, LESSONS, RUNS = "recovery", "lessons", "runs"
"""Folders within the program's own."""
TEXT_SIZES = (AUTOMATIC_TEXT, 100, 115, 130, 150, 175, 200)
"""In per cent of the system's."""
LAST_RUN, FOLDED = "lab/run", "lab/folded"
ACROSS, MIDDLE, RIGHT = "lab/across", "lab/middle", "lab/right"
"""Keys of the lab's splitters: across the window, in its middle and at its right."""
NOTICE_MS = 20_000
"""How long the status bar shows messages worth reading twice."""
MOST_DIGITS = 5
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
    stored = str(QSettings().value(SCHEME, Scheme.SYSTEM.value))
    return Scheme(stored) if stored in set(Scheme) else Scheme.SYSTEM


def save_scheme(scheme: Scheme) -> None:
    """Store the chosen colour scheme."""
    QSettings().setValue(SCHEME, scheme.value)


def load_last() -> Path | None:
    """Return the file open at the last exit, if it still exists."""
    stored = QSettings().value(LAST_FILE)
    path = Path(stored) if isinstance(stored, str) and stored and "\0" not in stored else None
    with suppress(OSError):  # a folder that may not be read, a name that is too long
        return path if path and path.is_file() else None
    return None


def save_last(path: Path | None) -> None:
    """Store which file is open; None for none."""
    QSettings().setValue(LAST_FILE, str(path.absolute()) if path else "")


def load_last_run() -> str:
    """Return the name of the run last open in the lab; empty where there was none."""
    stored = QSettings().value(LAST_RUN)
    return stored if isinstance(stored, str) else ""


def save_last_run(name: str) -> None:
    """Store which run is open in the lab."""
    QSettings().setValue(LAST_RUN, name)


def load_collapsed() -> frozenset[str] | None:
    """Return the collapsed sections of the lab; None where never chosen."""
    stored = QSettings().value(FOLDED)
    return frozenset(stored.split()) if isinstance(stored, str) else None


def save_collapsed(names: frozenset[str]) -> None:
    """Store which sections of the lab are collapsed."""
    QSettings().setValue(FOLDED, " ".join(sorted(names)))


def restore_window(window: QMainWindow, keys: WindowKeys) -> bool:
    """Restore a window's geometry and state; return whether any was stored.

    Qt crashes on some damaged states, so only an intact one is restored.
    """
    settings = QSettings()
    geometry, state = settings.value(keys.geometry), settings.value(keys.state)
    if not (isinstance(geometry, QByteArray) and isinstance(state, QByteArray)):
        return False
    if settings.value(keys.seal) != _seal(geometry, state):
        return False
    return window.restoreGeometry(geometry) and window.restoreState(state, VERSION)


def save_window(window: QMainWindow, keys: WindowKeys) -> None:
    """Store a window's geometry and its panes' state."""
    settings = QSettings()
    geometry, state = window.saveGeometry(), window.saveState(VERSION)
    settings.setValue(keys.geometry, geometry)
    settings.setValue(keys.state, state)
    settings.setValue(keys.seal, _seal(geometry, state))


def load_sizes(key: str) -> list[int]:
    """Return a splitter's stored sizes; empty where none valid are stored."""
    stored = QSettings().value(key)
    parts = stored.split() if isinstance(stored, str) else []
    return [int(part) for part in parts if part.isdecimal() and len(part) <= MOST_DIGITS]


def save_sizes(key: str, sizes: list[int]) -> None:
    """Store a splitter's sizes."""
    QSettings().setValue(key, " ".join(map(str, sizes)))


def forget() -> str:
    """Delete all settings; return the error, if any."""
    settings = QSettings()
    settings.clear()
    settings.sync()
    if settings.status() is QSettings.Status.NoError:
        return ""
    return f"The settings in {settings.fileName()} could not be changed."


def _seal(geometry: QByteArray, state: QByteArray) -> str:
    return blake2b(bytes(geometry.data()) + bytes(state.data()), digest_size=16).hexdigest()


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
    return QSettings().value(REDUCED_MOTION, defaultValue=False, type=bool) is True


def set_reduced(is_on: bool) -> None:
    """Store whether the user wants reduced motion."""
    QSettings().setValue(REDUCED_MOTION, is_on)


def has_start_page() -> bool:
    """Whether a start without a document shows the start page."""
    return QSettings().value(START_PAGE, defaultValue=True, type=bool) is True


def set_start_page(is_on: bool) -> None:
    """Store whether a start without a document shows the start page."""
    QSettings().setValue(START_PAGE, is_on)


def is_autosaving() -> bool:
    """Whether unsaved changes are kept for the case of a crash."""
    return QSettings().value(AUTOSAVE, defaultValue=True, type=bool) is True


def set_autosaving(is_on: bool) -> None:
    """Store whether unsaved changes are kept."""
    QSettings().setValue(AUTOSAVE, is_on)


def load_text_size() -> int:
    """Return the text size in per cent; automatic where none valid is stored."""
    stored = str(QSettings().value(TEXT_SIZE, AUTOMATIC_TEXT))
    return next((size for size in TEXT_SIZES if str(size) == stored), AUTOMATIC_TEXT)


def save_text_size(size: int) -> None:
    """Store the text size in per cent, or that it is automatic."""
    QSettings().setValue(TEXT_SIZE, size)


def load_colouring() -> ColourOptions:
    """Return the colour maps of new windows; the usual ones where none valid are stored."""
    usual = ColourOptions()
    maps = {kind: {each.id for each in maps_of(kind)} for kind in MapKind}
    sequential = str(QSettings().value(COLOUR_MAP, usual.sequential))
    diverging = str(QSettings().value(SIGNED_COLOUR_MAP, usual.diverging))
    return ColourOptions(
        sequential=sequential if sequential in maps[MapKind.SEQUENTIAL] else usual.sequential,
        diverging=diverging if diverging in maps[MapKind.DIVERGING] else usual.diverging,
    )


def save_colour_map(id_: str, kind: MapKind) -> None:
    """Store the colour map of a kind, for new windows."""
    QSettings().setValue(COLOUR_MAP if kind is MapKind.SEQUENTIAL else SIGNED_COLOUR_MAP, id_)


def load_device() -> Device:
    """Return the device of new documents; the best available where none valid is stored."""
    stored = str(QSettings().value(DEVICE, Device.AUTO.value))
    return Device(stored) if stored in set(Device) else Device.AUTO


def save_device(device: Device) -> None:
    """Store the device of new documents."""
    QSettings().setValue(DEVICE, device.value)


def style_sheet() -> str:
    """Return the style sheet that turns off the style's animations."""
    return "* { widget-animation-duration: 0; }" if is_reduced() else ""
