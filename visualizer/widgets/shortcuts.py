"""Keyboard shortcuts as text: those of the platform, and which keys can be shortcuts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from PySide6.QtCore import QKeyCombination, Qt
from PySide6.QtGui import QKeySequence

if TYPE_CHECKING:
    from collections.abc import Iterable

IS_MAC = sys.platform == "darwin"
MAC_REPLACEMENTS = {"Ctrl+M": "Meta+M"}
"""Default shortcuts that are replaced on macOS, where Command+M minimizes windows."""
FIRST_SPECIAL_KEY = 0x01000000
"""Smallest code of a key that does not type a character."""
FOCUS_KEYS = {
    *(Qt.Key.Key_Tab, Qt.Key.Key_Backtab, Qt.Key.Key_Escape),
    *(Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down),
}
EDITING_KEYS = {
    *(Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space, Qt.Key.Key_Home, Qt.Key.Key_End),
    *(Qt.Key.Key_Backspace, Qt.Key.Key_Delete, Qt.Key.Key_Insert),
}
MENU_KEYS = {"F10", "Shift+F10", "Menu", "Alt+Space", "Alt+Tab", "Alt+Shift+Tab"}
MODIFIER_KEYS = {
    *(Qt.Key.Key_Shift, Qt.Key.Key_Control, Qt.Key.Key_Alt, Qt.Key.Key_AltGr, Qt.Key.Key_Meta),
    *(Qt.Key.Key_unknown, Qt.Key(0)),
}


def add_platform_shortcut(
    shortcuts: Iterable[str], standard: QKeySequence.StandardKey | None
) -> tuple[str, ...]:
    """Return default shortcuts, preceded by that of the platform's standard command, if any."""
    platform = QKeySequence.keyBindings(standard)[:1] if standard is not None else []
    own = map(QKeySequence, shortcuts)
    keys = [each.toString() for each in (*platform, *own)]
    if IS_MAC:
        keys = [MAC_REPLACEMENTS.get(each, each) for each in keys]
    return tuple(dict.fromkeys(filter(None, keys)))


def shortcut_problem(keys: str, *, is_local: bool) -> str:
    """Return why a key combination cannot be a shortcut, or an empty string if it can be one.

    Parameters
    ----------
    is_local : bool
        Whether the shortcut works only outside text fields, as letters and Space do.
    """
    sequence = QKeySequence(keys)
    combinations: list[QKeyCombination] = list(sequence)  # type: ignore[call-overload]
    if len(combinations) != 1 or combinations[0].key() in MODIFIER_KEYS:
        return "Press a single key or key combination."
    key, modifiers = combinations[0].key(), combinations[0].keyboardModifiers()
    has_control = bool(modifiers & Qt.KeyboardModifier.ControlModifier)
    has_alt = bool(modifiers & Qt.KeyboardModifier.AltModifier)
    has_meta = bool(modifiers & Qt.KeyboardModifier.MetaModifier)
    is_function_key = Qt.Key.Key_F1.value <= key.value <= Qt.Key.Key_F35.value
    if has_control and has_alt and not IS_MAC:
        return "Ctrl+Alt types characters on some keyboards. Use Ctrl or Ctrl+Shift."
    if has_meta and not IS_MAC:
        return "Shortcuts with the Super (Windows) key are reserved for the desktop."
    if sequence.toString() in MENU_KEYS or (has_alt and is_function_key):
        return "The desktop or the menu bar uses this shortcut."
    if has_control or has_meta or is_function_key:
        return ""
    if key.value < FIRST_SPECIAL_KEY and has_alt:
        return "Alt with a letter opens a menu or types a character."
    if is_local and key.value < FIRST_SPECIAL_KEY:
        return "The digit keys select heads. Press another key." if chr(key.value).isdigit() else ""
    if key in FOCUS_KEYS and not has_alt:
        return "This key moves the focus or the selection."
    if (key.value < FIRST_SPECIAL_KEY or key in EDITING_KEYS) and not (is_local or has_alt):
        return "This key types or edits text. Combine it with Ctrl."
    return ""


def format_shortcuts(shortcuts: Iterable[str]) -> str:
    """Return shortcuts as text in the notation of the platform."""
    native = QKeySequence.SequenceFormat.NativeText
    return ", ".join(QKeySequence(keys).toString(native) for keys in shortcuts)
