"""What the program remembers between two starts: the window's place and the colours."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QSettings

from visualizer.state import wish as wishes
from visualizer.ui.theme import Scheme

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow

    from visualizer.state.wish import Wish

VERSION = 2
MOST_DIGITS = 5
"""Of a size in pixels."""


def load_scheme() -> Scheme:
    """Read the chosen colours; the system's where none or nonsense is stored."""
    stored = str(QSettings().value("scheme", Scheme.SYSTEM.value))
    return Scheme(stored) if stored in set(Scheme) else Scheme.SYSTEM


def save_scheme(scheme: Scheme) -> None:
    """Remember the chosen colours."""
    QSettings().setValue("scheme", scheme.value)


def load_last() -> Path | None:
    """Give the file that was open when the program was closed last, if it is still there."""
    stored = QSettings().value("last")
    path = Path(stored) if isinstance(stored, str) and stored and "\0" not in stored else None
    return path if path and path.is_file() else None


def save_last(path: Path | None) -> None:
    """Remember which file is open; nothing, where it is none."""
    QSettings().setValue("last", str(path.absolute()) if path else "")


def load_last_run() -> str:
    """Give the name of the run that was open in the lab last; empty where there was none."""
    stored = QSettings().value("lab/run")
    return stored if isinstance(stored, str) else ""


def save_last_run(name: str) -> None:
    """Remember which run is open in the lab."""
    QSettings().setValue("lab/run", name)


def load_folded() -> frozenset[str] | None:
    """Give the parts of the lab that are folded away; None where that was never chosen."""
    stored = QSettings().value("lab/folded")
    return frozenset(stored.split()) if isinstance(stored, str) else None


def save_folded(names: frozenset[str]) -> None:
    """Remember which parts of the lab are folded away."""
    QSettings().setValue("lab/folded", " ".join(sorted(names)))


def load_wish() -> Wish:
    """Read how was exported last; the usual way where none or nonsense is stored."""
    return wishes.read(str(QSettings().value("export", "")))


def save_wish(wish: Wish) -> None:
    """Remember how is exported."""
    QSettings().setValue("export", wishes.written(wish))


def restore_window(window: QMainWindow, name: str = "") -> bool:
    """Put a window where it was; say whether it had been anywhere.

    Windows of another kind have a place of their own, by a name. Some damaged states Qt does not
    survive, so that one is restored only as it was written.
    """
    settings = QSettings()
    geometry, state = settings.value(f"{name}geometry"), settings.value(f"{name}state")
    if not (isinstance(geometry, QByteArray) and isinstance(state, QByteArray)):
        return False
    if settings.value(f"{name}seal") != _seal(geometry, state):
        return False
    return window.restoreGeometry(geometry) and window.restoreState(state, VERSION)


def save_window(window: QMainWindow, name: str = "") -> None:
    """Remember where a window is and which of its panes are open."""
    settings = QSettings()
    geometry, state = window.saveGeometry(), window.saveState(VERSION)
    settings.setValue(f"{name}geometry", geometry)
    settings.setValue(f"{name}state", state)
    settings.setValue(f"{name}seal", _seal(geometry, state))


def load_sizes(name: str) -> list[int]:
    """Give the sizes that parts beside each other had; none where none or nonsense is stored."""
    stored = QSettings().value(name)
    parts = stored.split() if isinstance(stored, str) else []
    return [int(part) for part in parts if part.isdecimal() and len(part) <= MOST_DIGITS]


def save_sizes(name: str, sizes: list[int]) -> None:
    """Remember the sizes of parts beside each other."""
    QSettings().setValue(name, " ".join(map(str, sizes)))


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
