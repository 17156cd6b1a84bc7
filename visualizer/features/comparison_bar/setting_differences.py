"""The settings in which two documents differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from visualizer.attention.settings import SETTINGS, SettingKind

if TYPE_CHECKING:
    from visualizer.attention.settings import Setting
    from visualizer.session.document import Document

DERIVED = {"mechanism", "causal", "device"}
"""Settings that follow from others or do not affect any number."""


def differences(one: Document, other: Document) -> tuple[str, ...]:
    """Describe the settings in which two documents differ, the first's value first."""
    if one.model and other.model:
        return _model_differences(one, other)
    if one.captured != other.captured or one.model != other.model:
        return ("the captured attention",)
    if one.captured:
        return ("the token labels",) * (one.labels != other.labels)
    descriptions = ["the text"] * (one.text != other.text)
    descriptions += [
        f"{name}: {getattr(one, name)} → {getattr(other, name)}"
        for name in ("tokenizer", "lines")
        if getattr(one, name) != getattr(other, name)
    ]
    for setting in SETTINGS:
        values = [document.get(setting.name) for document in (one, other)]
        acts = any(setting.acts(document.spec) for document in (one, other))
        if setting.name not in DERIVED and acts and values[0] != values[1]:
            descriptions.append(_describe_difference(setting, *values))
    return tuple(descriptions)


def _model_differences(one: Document, other: Document) -> tuple[str, ...]:
    descriptions = ["the text"] * (one.text != other.text)
    models = [document.model for document in (one, other) if document.model]
    descriptions += ["the model"] * (len({model.folder for model in models}) > 1)
    descriptions += ["the second text"] * (len({model.second for model in models}) > 1)
    descriptions += ["the image"] * (len({model.image for model in models}) > 1)
    descriptions += ["the attention kind"] * (len({model.part for model in models}) > 1)
    descriptions += ["the head edits"] * (len({model.edits for model in models}) > 1)
    descriptions += ["the cut edges"] * (len({model.cuts for model in models}) > 1)
    return tuple(descriptions)


def _describe_difference(setting: Setting, *values: Any) -> str:
    label = setting.label[0].lower() + setting.label[1:]
    if setting.kind in {SettingKind.MATRIX, SettingKind.OWN}:
        return label
    return f"{label}: {' → '.join(_format_value(setting, value) for value in values)}"


def _format_value(setting: Setting, value: Any) -> str:
    if setting.kind is SettingKind.SWITCH:
        return "on" if value else "off"
    words = dict(setting.choices).get(value)
    return words[0].lower() + words[1:] if words else f"{value:g}"
