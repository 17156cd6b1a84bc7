"""Entries of the command palette for settings, layers and heads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from visualizer.attention.settings import SETTINGS
from visualizer.shell.settings_dialog import SETTING_TITLES
from visualizer.widgets.command_palette import PaletteEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.features.setup.bar_widget import SettingsBar
    from visualizer.features.view_bar.view_controller import ViewController
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.shell.settings_controller import SettingsController

HEADS_PATH = "Layers and heads"
MAX_HEAD_ENTRIES = 400
"""For a model with more heads, only the layers and the heads of one layer are listed."""


def module_setting_entries(bar: SettingsBar) -> Iterator[PaletteEntry]:
    """Yield the settings of the module; an entry shows the control of its setting."""
    for setting in SETTINGS:
        if row := bar.rows.get(setting.name):
            yield PaletteEntry(
                setting.label,
                "Module settings",
                partial(bar.focus_setting, setting.name),
                is_enabled=row.control.isEnabled() and not row.isHidden(),
                id=f"setting {setting.name}",
            )


def program_setting_entries(controller: SettingsController) -> Iterator[PaletteEntry]:
    """Yield the settings of the program; an entry opens the Settings window."""
    for name, title in SETTING_TITLES.items():
        open_setting = partial(controller.open_setting, name)
        yield PaletteEntry(title, "Settings", open_setting, id=f"program setting {name}")


def head_entries(resolved: ResolvedView | None, view: ViewController) -> Iterator[PaletteEntry]:
    """Yield the layers and heads; an entry shows the flow board of its head."""
    if resolved is None:
        return
    layers = resolved.layer_numbers if "layer" in resolved.run.trace.axes else ()
    heads = range(resolved.run.trace.spec.heads)
    if len(layers) > 1 and len(layers) * len(heads) <= MAX_HEAD_ENTRIES:
        for at, number in enumerate(layers):
            for head in heads:
                show = partial(view.show_head_flow_of_layer, at, head)
                yield PaletteEntry(f"Layer {number + 1}, head {head + 1}", HEADS_PATH, show)
        return
    for number in layers if len(layers) > 1 else ():
        show = partial(view.show_head_of_model, number, -1)
        yield PaletteEntry(f"Layer {number + 1}", HEADS_PATH, show)
    for head in heads if len(heads) > 1 else ():
        yield PaletteEntry(f"Head {head + 1}", HEADS_PATH, partial(view.show_head_flow, head))
