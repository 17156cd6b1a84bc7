"""Every setting in the table can be changed, validated and reported in each interface."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from visualizer.api.argument_conversion import document_from_arguments, rename_error_fields
from visualizer.api.argument_validation import argument_name
from visualizer.attention.settings import (
    SETTINGS,
    SETTINGS_BY_NAME,
    Setting,
    SettingKind,
    no_effect_reason,
)
from visualizer.attention.spec import MaskKind, NormalisationKind, Projection
from visualizer.cli.document_options import build_document
from visualizer.cli.option_checks import first_option_error
from visualizer.cli.options import create_parser, format_option, option_name
from visualizer.documents.document_file import document_bytes, read_document
from visualizer.errors import InputError
from visualizer.features.lessons.claim_check import PrintedNumbers
from visualizer.features.lessons.lesson_file import LessonError, read_lesson
from visualizer.features.setup.bar_widget import SETTING_CONTROLS
from visualizer.features.setup.presenter import present_setup
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.storage.json_codec import DamagedFileError

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

TYPED = [s for s in SETTINGS if s.kind not in {SettingKind.MATRIX, SettingKind.OWN}]
RANGED = [setting for setting in TYPED if setting.requirement]
CONDITIONAL = [setting for setting in TYPED if setting.where]
CONTEXT: dict[str, dict[str, Any]] = {
    "mode": {"dropout": 0.5},
    "dropout_seed": {"dropout": 0.5},
    "d_ff": {"mechanism": "block"},
    "activation": {"mechanism": "block"},
    "window": {"mask": "window"},
    "heads": {"d_out": 4},
    "key_value_heads": {"heads": 4, "d_out": 4},
    "projection": {"heads": 1},
    "block": {"d_out": 3, "heads": 1},
}
"""Other settings that are required for a setting to have an effect or to be valid."""
IDLE: dict[str, dict[str, Any]] = {
    "d_out": {"projection": "none", "heads": 1},
    "bias": {"projection": "uniform"},
    "arrangement": {"heads": 1},
    "key_value_heads": {"arrangement": "stacked"},
    "dropout": {"normalisation": "linear"},
    "position": {"position": "alibi", "normalisation": "linear"},
    "scale": {"normalisation": "uniform"},
    "temperature": {"normalisation": "uniform"},
    "route": {"mask": "none"},
}
"""Other settings with which a setting has no effect, for settings that have one by default."""
VALID = {SettingKind.COUNT: 4, SettingKind.SEED: 7, SettingKind.RATE: 0.25, SettingKind.NUMBER: 2.5}
INVALID = {
    "dropout": 2.0,
    "temperature": -1.0,
    "key_value_heads": -1,
    "d_ff": 5_000_000,
    "seed": -1,
    "dropout_seed": -1,
}


def names(setting: Setting) -> str:
    return setting.name


def valid_value(setting: Setting) -> Any:
    """Return a valid value other than the default."""
    if setting.kind is SettingKind.CHOICE:
        values = [
            value for value, _ in setting.choices if value not in (setting.default, MaskKind.OWN)
        ]
        return values[-1] if setting.name == "mechanism" else values[0]
    return not setting.default if setting.kind is SettingKind.SWITCH else VALID[setting.kind]


def command_line(settings: dict[str, Any]) -> list[str]:
    words = []
    for name, value in settings.items():
        option = option_name(name)
        if isinstance(value, bool):
            words.append(option if value else f"--no-{option[2:]}")
        else:
            words += [option, str(value)]
    return words


def lesson_of(settings: dict[str, Any]) -> Document:
    values = {
        name: str(value).lower() if not isinstance(value, str) else f'"{value}"'
        for name, value in settings.items()
    }
    lines = "\n".join(f"{name} = {value}" for name, value in values.items())
    text = 'section = "3.3"\ntitle = "One"\n[[page]]\ntitle = "A"\nsays = "B"\n'
    text += f'stages = ["weights"]\n[page.set]\ntext = "a b"\n{lines}\n'
    return read_lesson(text, "one.toml", PrintedNumbers.read_files()).pages[0].document


def python_document(settings: dict[str, Any]) -> Document:
    arguments: Any = {argument_name(name): value for name, value in settings.items()}
    with rename_error_fields():
        return document_from_arguments("a b c", None, None, arguments)


def with_settings(settings: dict[str, Any]) -> Document:
    document = Document()
    for name, value in settings.items():
        document = document.with_setting(name, SETTINGS_BY_NAME[name].convert_value(value))
    return document


# ------------------------------------------------------------------------------------------ values


@pytest.mark.parametrize("setting", TYPED, ids=names)
def test_a_valid_value_reaches_the_spec_from_every_surface(setting: Setting, qtbot: QtBot) -> None:
    name, value = setting.name, valid_value(setting)
    given = {**CONTEXT.get(name, {}), name: value}
    assert (
        build_document(create_parser().parse_args(command_line(given))).get_setting(name) == value
    )
    assert lesson_of(given).get_setting(name) == value
    if name != "device":  # the API checks whether the device is available
        assert python_document(given).get_setting(name) == value
    control: Any = SETTING_CONTROLS[setting.kind](setting)
    qtbot.addWidget(control)
    control.show_value(setting.default)
    with qtbot.waitSignal(control.chosen) as chosen:
        if setting.kind is SettingKind.CHOICE:
            control.box.activated.emit([each for each, _ in setting.choices].index(value))
        elif setting.kind is SettingKind.SWITCH:
            control.box.click()
        else:
            control.box.setValue(value)
    changed = Document().with_setting(*chosen.args[:2])
    assert changed.get_setting(name) == value
    saved = document_bytes(changed, View())
    assert read_document(io.BytesIO(saved)).document.get_setting(name) == value


@pytest.mark.parametrize("setting", RANGED, ids=names)
def test_a_value_out_of_range_is_rejected_by_every_surface(
    setting: Setting, capsys: pytest.CaptureFixture[str]
) -> None:
    name, value = setting.name, INVALID.get(setting.name, 0)
    given = {**CONTEXT.get(name, {}), name: value}
    with pytest.raises(SystemExit):
        create_parser().parse_args([option_name(name), str(value)])
    error = (
        f"argument {option_name(name)}: invalid value '{value}': must be {setting.requirement}\n"
    )
    assert capsys.readouterr().err.endswith(error)
    sentence = setting.range_error_message(value)
    assert sentence.startswith(f"The {setting.noun or setting.label.lower()} must be ")
    with pytest.raises(InputError) as rejected:
        python_document(given)
    assert (rejected.value.field, rejected.value.sentence) == (argument_name(name), sentence)
    with pytest.raises(LessonError) as broken:
        lesson_of(given)
    assert sentence in str(broken.value)
    rows = {row.setting.name: row for row in present_setup(with_settings(given), None).settings}
    problem = rows[name].problem
    assert problem
    assert problem.sentence == sentence


@pytest.mark.parametrize("setting", RANGED, ids=names)
def test_a_document_with_a_value_that_no_control_shows_is_rejected(setting: Setting) -> None:
    value = -100_000 if setting.kind is not SettingKind.RATE else 50.0
    changed = Document().with_setting(setting.name, value)
    with pytest.raises((DamagedFileError, InputError), match=setting.label):
        read_document(io.BytesIO(document_bytes(changed, View())))


# ------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize("setting", TYPED, ids=names)
def test_a_value_of_another_type_is_rejected_by_every_surface(
    setting: Setting, capsys: pytest.CaptureFixture[str]
) -> None:
    if setting.kind is not SettingKind.SWITCH:
        with pytest.raises(SystemExit):
            create_parser().parse_args([option_name(setting.name), "x"])
        error = f"argument {option_name(setting.name)}: invalid value 'x': must be "
        assert error in capsys.readouterr().err
    with pytest.raises(InputError, match=f"^{argument_name(setting.name)} must be .* It is 'x'"):
        python_document({setting.name: "x"})
    with pytest.raises(LessonError, match=f"“{setting.name}” must be .* It is “x”"):
        lesson_of({setting.name: "x"})


def test_a_misspelt_choice_is_answered_with_the_closest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        create_parser().parse_args(["--mask", "casual"])
    assert "invalid value 'casual': must be one of none, causal" in (
        said := capsys.readouterr().err
    )
    assert said.endswith("(did you mean 'causal'?)\n")
    for read in (python_document, lesson_of):
        with pytest.raises(ValueError, match=r"Did you mean causal\?$"):
            read({"mask": "casual"})


# ------------------------------------------------------------------- settings that have no effect


@pytest.mark.parametrize("setting", CONDITIONAL, ids=names)
def test_a_setting_without_effect_is_reported_by_every_surface(setting: Setting) -> None:
    name = setting.name
    given = {name: valid_value(setting), **IDLE.get(name, {})}
    document = with_settings(given)
    rows = {row.setting.name: row for row in present_setup(document, None).settings}
    assert not rows[name].is_enabled
    options = create_parser().parse_args(command_line(given))
    message = first_option_error(options, build_document(options))
    assert message == no_effect_reason(document.spec, name, format_option)
    assert message.startswith(f"{option_name(name)} has no effect with")
    assert ". Remove " in message
    with pytest.raises(InputError) as rejected:
        python_document(given)
    assert rejected.value.field == argument_name(name)
    assert rejected.value.sentence.startswith(f"{argument_name(name)} has no effect with")


def test_the_message_names_the_setting_that_is_missing() -> None:
    options = create_parser().parse_args(["--window", "2"])
    expected = "--window has no effect without --mask window. Remove --window."
    assert first_option_error(options, build_document(options)) == expected
    with pytest.raises(InputError, match=r'^window has no effect without mask="window"\.'):
        python_document({"window": 2})


@pytest.mark.parametrize("name", ["mode", "dropout_seed", "d_ff", "activation", "window"])
def test_a_setting_with_effect_is_not_reported(name: str) -> None:
    document = with_settings({**CONTEXT[name], name: valid_value(SETTINGS_BY_NAME[name])})
    assert no_effect_reason(document.spec, name, format_option) == ""


def test_conditions_name_settings_of_the_table_or_have_words() -> None:
    for setting in SETTINGS_BY_NAME.values():
        for condition in setting.where:
            assert condition.setting in SETTINGS_BY_NAME or condition.words


def test_scores_are_compared_unless_weights_are_uniform() -> None:
    uniform = with_settings({"normalisation": NormalisationKind.UNIFORM}).spec
    assert not SETTINGS_BY_NAME["scale"].has_effect(uniform)
    assert SETTINGS_BY_NAME["bias"].has_effect(
        with_settings({"projection": Projection.LINEAR}).spec
    )
