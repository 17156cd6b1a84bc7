"""Where the system has a program keep what is the user's.

What the program remembers between two starts: the window's place and the colours.

Whether things may move on the screen; who gets sick of it, or listens, has them stand still.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QSettings, QStandardPaths, Qt

from visualizer.widgets.theme import Scheme

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow


def own_folder() -> Path:
    """Give the folder of what the program keeps for the user; it need not be there yet."""
    kind = QStandardPaths.StandardLocation.AppDataLocation
    return Path(QStandardPaths.writableLocation(kind))


VERSION = 2
SCHEME, LAST_FILE, EXPORT, REDUCED_MOTION = "scheme", "last", "export", "reduced motion"
LAST_RUN, FOLDED = "lab/run", "lab/folded"
ACROSS, MIDDLE, RIGHT = "lab/across", "lab/middle", "lab/right"
"""The sizes of the lab's parts beside each other: of the window, of its middle, of its right."""
NOTICE_MS = 20_000
"""How long the status bar says what is worth reading twice."""
MOST_DIGITS = 5
"""Of a size in pixels."""


@dataclass(frozen=True, slots=True)
class WindowKeys:
    """The keys under which the place of a kind of window is remembered."""

    geometry: str
    state: str
    seal: str


MAIN_WINDOW = WindowKeys("geometry", "state", "seal")
LAB_WINDOW = WindowKeys("lab/geometry", "lab/state", "lab/seal")


def load_scheme() -> Scheme:
    """Read the chosen colours; the system's where none or nonsense is stored."""
    stored = str(QSettings().value(SCHEME, Scheme.SYSTEM.value))
    return Scheme(stored) if stored in set(Scheme) else Scheme.SYSTEM


def save_scheme(scheme: Scheme) -> None:
    """Remember the chosen colours."""
    QSettings().setValue(SCHEME, scheme.value)


def load_last() -> Path | None:
    """Give the file that was open when the program was closed last, if it is still there."""
    stored = QSettings().value(LAST_FILE)
    path = Path(stored) if isinstance(stored, str) and stored and "\0" not in stored else None
    return path if path and path.is_file() else None


def save_last(path: Path | None) -> None:
    """Remember which file is open; nothing, where it is none."""
    QSettings().setValue(LAST_FILE, str(path.absolute()) if path else "")


def load_last_run() -> str:
    """Give the name of the run that was open in the lab last; empty where there was none."""
    stored = QSettings().value(LAST_RUN)
    return stored if isinstance(stored, str) else ""


def save_last_run(name: str) -> None:
    """Remember which run is open in the lab."""
    QSettings().setValue(LAST_RUN, name)


def load_folded() -> frozenset[str] | None:
    """Give the parts of the lab that are folded away; None where that was never chosen."""
    stored = QSettings().value(FOLDED)
    return frozenset(stored.split()) if isinstance(stored, str) else None


def save_folded(names: frozenset[str]) -> None:
    """Remember which parts of the lab are folded away."""
    QSettings().setValue(FOLDED, " ".join(sorted(names)))


def restore_window(window: QMainWindow, keys: WindowKeys) -> bool:
    """Put a window where it was; say whether it had been anywhere.

    Some damaged states Qt does not survive, so that one is restored only as it was written.
    """
    settings = QSettings()
    geometry, state = settings.value(keys.geometry), settings.value(keys.state)
    if not (isinstance(geometry, QByteArray) and isinstance(state, QByteArray)):
        return False
    if settings.value(keys.seal) != _seal(geometry, state):
        return False
    return window.restoreGeometry(geometry) and window.restoreState(state, VERSION)


def save_window(window: QMainWindow, keys: WindowKeys) -> None:
    """Remember where a window is and which of its panes are open."""
    settings = QSettings()
    geometry, state = window.saveGeometry(), window.saveState(VERSION)
    settings.setValue(keys.geometry, geometry)
    settings.setValue(keys.state, state)
    settings.setValue(keys.seal, _seal(geometry, state))


def load_sizes(key: str) -> list[int]:
    """Give the sizes that parts beside each other had; none where none or nonsense is stored."""
    stored = QSettings().value(key)
    parts = stored.split() if isinstance(stored, str) else []
    return [int(part) for part in parts if part.isdecimal() and len(part) <= MOST_DIGITS]


def save_sizes(key: str, sizes: list[int]) -> None:
    """Remember the sizes of parts beside each other."""
    QSettings().setValue(key, " ".join(map(str, sizes)))


def forget() -> str:
    """Forget all of it; say why that could not be, if it could not."""
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
    """Whether the user wants as little motion as can be."""
    return QSettings().value(REDUCED_MOTION, defaultValue=False, type=bool) is True


def set_reduced(is_on: bool) -> None:
    """Remember whether the user wants as little motion as can be."""
    QSettings().setValue(REDUCED_MOTION, is_on)


def style_sheet() -> str:
    """Give the rule by which what the style moves stands still."""
    return "* { widget-animation-duration: 0; }" if is_reduced() else ""
