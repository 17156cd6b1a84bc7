"""Presents the pane of training settings as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import InputError, Problem
from visualizer.lab.settings.definitions import LAB_SETTINGS, STAYING, get
from visualizer.language.training_presets import preset_of
from visualizer.language.training_settings import (
    TrainingSettings,
    problems,
)
from visualizer.session.setting_definitions import SettingState, remedy_in_words

if TYPE_CHECKING:
    from visualizer.attention.settings import Setting

AT_TEXT = {"text": "kind", "memory": "batch"}
"""Settings at which problems with the text or with memory are shown."""


class LabSettingsPanel(Struct, frozen=True):
    """The settings pane.

    Parameters
    ----------
    sample : str
        The beginning of the text.
    says : str
        What the selected preset demonstrates; empty if the settings match no preset.
    locked : str
        Why settings cannot be changed; empty if they can.
    elsewhere : tuple of str
        Problems that belong to no setting.
    notes : tuple of str
        Notices about the text.
    """

    settings: tuple[SettingState, ...]
    sample: str = ""
    says: str = ""
    locked: str = ""
    elsewhere: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def present_setup(
    settings: TrainingSettings,
    refused: InputError | None,
    sample: str,
    locked: str = "",
    notes: tuple[str, ...] = (),
) -> LabSettingsPanel:
    """Present the settings, with each problem at its setting."""
    found: dict[str, Problem | InputError] = {one.field: one for one in problems(settings)}
    if refused:
        found.setdefault(AT_TEXT.get(refused.field, refused.field), refused)
    rows = tuple(_setting_state(setting, settings, found.pop(setting.name, None), locked)
                 for setting in LAB_SETTINGS)  # fmt: skip
    preset, elsewhere = preset_of(settings), tuple(one.sentence for one in found.values())
    return LabSettingsPanel(rows, sample, preset.says if preset else "", locked, elsewhere, notes)


def _setting_state(
    setting: Setting, settings: TrainingSettings, problem: Problem | InputError | None, locked: str
) -> SettingState:
    of_use = setting.acts(settings)
    counts = of_use and (not locked or setting.name in STAYING)
    remedy = problem.remedy if problem else None
    if remedy and locked and remedy[0] not in STAYING:  # it could not be applied
        remedy = None
    remedy_text = remedy_in_words(*remedy, LAB_SETTINGS) if remedy else ""
    value = get(settings, setting.name)
    shown_problem = problem and Problem(problem.field, problem.sentence, remedy)
    return SettingState(setting, value, counts, shown_problem or None, remedy_text, of_use)
