"""Presents the pane with the training settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import InputError, Problem
from visualizer.lab.settings.definitions import LAB_SETTINGS, SETTINGS_OF_OPEN_RUN, get_setting
from visualizer.language.training_presets import matching_preset
from visualizer.language.training_settings import TrainingSettings, find_settings_problems
from visualizer.session.setting_state import SettingState, describe_remedy

if TYPE_CHECKING:
    from visualizer.attention.settings import Setting

PROBLEM_LOCATIONS = {"text": "kind", "memory": "batch"}
"""The settings next to which problems with the text or with memory are shown."""


class LabSettingsPanel(Struct, frozen=True):
    """The content of the settings pane.

    Parameters
    ----------
    settings : tuple of SettingState
        The settings; empty for a run that was recorded in another program.
    sample : str
        The beginning of the text.
    preset_description : str
        Description of the effect that the preset demonstrates; empty if the settings match no
        preset.
    locked_message : str
        Reason why the settings cannot be changed; empty if they can be changed.
    other_problems : tuple of str
        Problems that do not belong to a setting.
    notes : tuple of str
        Notices about the text.
    """

    settings: tuple[SettingState, ...]
    sample: str = ""
    preset_description: str = ""
    locked_message: str = ""
    other_problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def present_settings(
    settings: TrainingSettings,
    refused: InputError | None,
    sample: str,
    locked: str = "",
    notes: tuple[str, ...] = (),
) -> LabSettingsPanel:
    """Present the settings, with each problem next to its setting."""
    found: dict[str, Problem | InputError] = {
        one.field: one for one in find_settings_problems(settings)
    }
    if refused:
        found.setdefault(PROBLEM_LOCATIONS.get(refused.field, refused.field), refused)
    rows = tuple(_setting_state(setting, settings, found.pop(setting.name, None), locked)
                 for setting in LAB_SETTINGS)  # fmt: skip
    preset, others = matching_preset(settings), tuple(one.sentence for one in found.values())
    description = preset.description if preset else ""
    return LabSettingsPanel(rows, sample, description, locked, others, notes)


def _setting_state(
    setting: Setting, settings: TrainingSettings, problem: Problem | InputError | None, locked: str
) -> SettingState:
    has_effect = setting.has_effect(settings)
    is_enabled = has_effect and (not locked or setting.name in SETTINGS_OF_OPEN_RUN)
    remedy = problem.remedy if problem else None
    # A remedy that changes a locked setting could not be applied.
    if remedy and locked and remedy[0] not in SETTINGS_OF_OPEN_RUN:
        remedy = None
    remedy_text = describe_remedy(*remedy, LAB_SETTINGS) if remedy else ""
    value = get_setting(settings, setting.name)
    shown_problem = problem and Problem(problem.field, problem.sentence, remedy)
    return SettingState(setting, value, is_enabled, shown_problem or None, remedy_text, has_effect)
