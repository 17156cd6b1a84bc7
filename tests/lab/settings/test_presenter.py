"""The settings pane: problems are next to their settings, and a run locks all settings."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from visualizer.attention.settings import SettingKind
from visualizer.errors import InputError
from visualizer.lab.settings.definitions import (
    CUSTOM_PRESET,
    INPUT_RANGES,
    LAB_SETTINGS,
    get_setting,
    replace_setting,
)
from visualizer.lab.settings.presenter import present_settings
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_presets import PRESETS, TrainingPreset
from visualizer.language.training_settings import (
    CorpusKind,
    CorpusSource,
    ModelKind,
    TrainingSettings,
    find_settings_problems,
)

NAMES = [setting.name for setting in LAB_SETTINGS]
NOT_SHOWN = {"source", "threads"}
"""``source`` consists of several settings; ``threads`` is a setting of the command line only."""


def test_every_setting_of_a_training_is_in_the_table() -> None:
    assert set(TrainingSettings.__struct_fields__) - NOT_SHOWN <= set(NAMES)
    assert set(CorpusSource.__struct_fields__) - {"seed"} <= set(NAMES)
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_setting_can_be_read_and_nothing_else_changes(name: str) -> None:
    values = {
        "preset": "world-transformer",
        "kind": CorpusKind.WORLD,
        "path": "poem.txt",
        "dropout": 0.25,
        "rate": 0.5,
    }
    setting = next(one for one in LAB_SETTINGS if one.name == name)
    value = values.get(name, setting.choices[-1][0] if setting.choices else 77)
    before, after = TrainingSettings(), replace_setting(TrainingSettings(), name, value)
    assert get_setting(after, name) == value
    if name != "preset":
        others = [other for other in NAMES if other not in {name, "preset"}]
        assert [get_setting(after, other) for other in others] == [
            get_setting(before, other) for other in others
        ]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_a_preset_describes_what_it_demonstrates(preset: TrainingPreset) -> None:
    chosen = replace_setting(TrainingSettings(), "preset", preset.name)
    assert chosen == preset.settings
    assert get_setting(chosen, "preset") == preset.name
    assert present_settings(chosen, None, "").preset_description == preset.description
    own = replace(chosen, seed=1)
    assert (get_setting(own, "preset"), present_settings(own, None, "").preset_description) == (
        CUSTOM_PRESET,
        "",
    )


def test_the_default_settings_are_the_induction_preset() -> None:
    assert PRESETS[0].settings == TrainingSettings()
    assert TrainingSettings().source.kind is CorpusKind.REPEAT


def test_the_notes_presets_keep_a_file_and_tasks_do_not() -> None:
    own = replace_setting(
        replace_setting(TrainingSettings(), "kind", CorpusKind.FILE), "path", "poem.txt"
    )
    own = replace_setting(own, "tokenizer", TokenizerKind.WORDS)
    notes = replace_setting(own, "preset", "notes-transformer")
    assert (notes.source.path, notes.source.tokenizer) == ("poem.txt", TokenizerKind.CHARACTERS)
    assert (notes.model, notes.block, notes.batch, notes.rate) == (ModelKind.NOTES, 8, 128, 1e-3)
    assert (notes.warmup, notes.steps) == (0, 10_000)
    assert get_setting(notes, "preset") == "notes-transformer"
    assert get_setting(replace(notes, threads=2), "preset") == "notes-transformer"
    assert replace_setting(own, "preset", PRESETS[0].name) == TrainingSettings()


def test_a_problem_is_at_its_setting_with_a_remedy() -> None:
    setup = present_settings(replace(TrainingSettings(), heads=3), None, "")
    wrong = [one for one in setup.settings if one.problem]
    (heads,) = wrong
    assert heads.setting.name == "heads"
    assert heads.remedy_text == "Set “Heads” to 2"


def test_a_rejection_is_at_its_setting_or_among_the_others() -> None:
    at_text = present_settings(TrainingSettings(), InputError("text", "One letter only."), "")
    assert [one.setting.name for one in at_text.settings if one.problem] == ["kind"]
    assert at_text.other_problems == ()
    folder = present_settings(TrainingSettings(), InputError("folder", "There is no run."), "")
    assert folder.other_problems == ("There is no run.",)


def test_a_run_locks_all_settings_except_its_steps() -> None:
    setup = present_settings(TrainingSettings(), None, "", "It was started with these.")
    assert [one.setting.name for one in setup.settings if one.is_enabled] == ["steps"]


def test_settings_without_effect_are_disabled() -> None:
    setup = present_settings(replace(TrainingSettings(), model=ModelKind.BIGRAM), None, "")
    idle = {one.setting.name for one in setup.settings if not one.is_enabled}
    assert idle == {"path", "tokenizer", "heads", "layers", "dropout"}


def test_every_number_can_be_entered_invalidly_and_is_explained() -> None:
    for setting in LAB_SETTINGS:
        if setting.kind in {SettingKind.WHOLE, SettingKind.SMALL}:
            least, most = INPUT_RANGES[setting.name]
            ends = {least, most} if setting.name == "dropout" else {most}
            found = [
                find_settings_problems(
                    replace_setting(TrainingSettings(), setting.name, type(most)(end))
                )
                for end in ends
            ]
            assert any(found) or setting.name == "seed"


def test_a_locked_setting_offers_no_change_that_cannot_be_made() -> None:
    refused = InputError("batch", "It does not fit.", ("batch", 8))
    free, locked = (present_settings(TrainingSettings(), refused, "", locked=said)
                    for said in ("", "It has begun."))  # fmt: skip
    (one,) = [row for row in free.settings if row.setting.name == "batch"]
    assert one.remedy_text == "Set “Batch size” to 8"
    (one,) = [row for row in locked.settings if row.setting.name == "batch"]
    assert (one.remedy_text, one.problem and one.problem.sentence) == ("", "It does not fit.")
