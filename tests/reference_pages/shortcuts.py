"""Creates the list of the default keyboard shortcuts from the tables of commands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QApplication

from visualizer.app import make_application
from visualizer.lab.commands import LAB_COMMANDS
from visualizer.lab.commands import WIDGET_SHORTCUTS as LAB_WIDGET_SHORTCUTS
from visualizer.resources import documentation_path
from visualizer.shell.commands import COMMANDS, WIDGET_SHORTCUTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from visualizer.widgets.commands import Command

PAGE = documentation_path("reference", "shortcuts.md")
HEAD = """\
# Keyboard shortcuts

These are the default shortcuts on Linux and Windows. On macOS, use Command instead of Ctrl, except
for the causal mask (Control+M). *Help > Keyboard shortcuts* shows the current
shortcuts. Commands without a shortcut are in the menus and in the
[command palette](window.md#parts-of-the-window).
"""


def create_page() -> str:
    """Return the page in Markdown."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    # The platform's standard shortcuts are known only to an application.
    application = QApplication.instance()
    if application is None:
        application = make_application()
    parts = [
        HEAD,
        *_format_window("Main window", COMMANDS, WIDGET_SHORTCUTS),
        *_format_window("Language lab", LAB_COMMANDS, LAB_WIDGET_SHORTCUTS),
    ]
    del application  # kept until here
    return "\n".join(parts)


def _format_window(
    title: str, commands: Sequence[Command[Any, Any]], in_widgets: Sequence[tuple[str, str]]
) -> Iterator[str]:
    yield f"## {title}\n\n| Menu | Command | Keys |\n| --- | --- | --- |"
    for row in commands:
        if row.default_shortcuts:
            menu = row.menu.partition(">")[0].replace("&", "")
            keys = ", ".join(map(_format_keys, row.default_shortcuts))
            yield f"| {menu} | {row.description} | {keys} |"
    yield "\n| In the focused widget | Keys |\n| --- | --- |"
    for words, keys in in_widgets:
        yield f"| {words} | {keys} |"
    yield ""


def _format_keys(shortcut: str) -> str:
    """Return a shortcut with one element per key; the last key can be a plus sign."""
    *modifiers, last = shortcut.replace("++", "+Plus").split("+")
    return "+".join(f"<kbd>{key}</kbd>" for key in (*modifiers, last.replace("Plus", "+")))
