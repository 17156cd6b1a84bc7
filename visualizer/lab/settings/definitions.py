"""The table of training settings, and access to settings by name."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from visualizer.attention.settings import Setting, SettingKind, unless, when
from visualizer.attention.spec import Device
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_presets import PRESETS, apply_preset, matching_preset
from visualizer.language.training_settings import (
    LAYERED_MODELS,
    MODEL_TITLES,
    SETTING_LIMITS,
    CorpusKind,
    LearningRateDecay,
    TrainingSettings,
)

CUSTOM_PRESET = ""
"""Name of the preset if the settings match no preset."""
CORPUS_LABELS = {
    CorpusKind.FILE: "A text file",
    CorpusKind.WORLD: "Generated stories",
    CorpusKind.REPEAT: "Task: repeat segments",
    CorpusKind.COPY: "Task: copy",
    CorpusKind.BRACKETS: "Task: match brackets",
    CorpusKind.SORTING: "Task: sort letters",
    CorpusKind.ADDITION: "Task: add numbers",
}


_SOURCE_FIELDS = {"kind", "path", "size", "tokenizer"}


_IS_LAYERED = when(
    "has_configurable_layers", True, words=f"without --model {' or '.join(LAYERED_MODELS)}"
)

# fmt: off
LAB_SETTINGS: tuple[Setting, ...] = (
    Setting("preset", "Start from", SettingKind.CHOICE,
        "Presets that produce clear patterns",
            ((CUSTOM_PRESET, "Custom settings"), *((one.name, one.title) for one in PRESETS))),
    Setting("kind", "Text", SettingKind.CHOICE,
        "Training text", tuple(CORPUS_LABELS.items())),
    Setting("path", "File", SettingKind.FILE, "UTF-8 text file, up to 100 MB",
            where=(when("source.kind", CorpusKind.FILE, words="without a text file"),)),
    Setting("tokenizer", "Tokens", SettingKind.CHOICE, "How the text is split into tokens", (
        (TokenizerKind.CHARACTERS, "Characters"), (TokenizerKind.WORDS, "Words")),
            where=(when("source.kind", CorpusKind.FILE, CorpusKind.WORLD,
                        words="with a generated task"),)),
    Setting("size", "Text length", SettingKind.WHOLE,
        "Approximate number of tokens to generate",
            where=(unless("source.kind", CorpusKind.FILE, words="with a text file"),)),
    Setting("model", "Model", SettingKind.CHOICE,
        "Model architecture, from bigram to transformer",
            tuple(MODEL_TITLES.items())),
    Setting("block", "Block size", SettingKind.WHOLE,
        "Maximum context length, in tokens"),
    Setting("width", "Embedding size", SettingKind.WHOLE, "Size of each token’s vector"),
    Setting("heads", "Heads", SettingKind.WHOLE, "Attention heads per layer",
            where=(_IS_LAYERED,)),
    Setting("layers", "Layers", SettingKind.WHOLE, "Number of transformer layers",
            where=(_IS_LAYERED,)),
    Setting("dropout", "Dropout", SettingKind.SMALL,
        "Fraction of values dropped during training",
            where=(_IS_LAYERED,)),
    Setting("batch", "Batch size", SettingKind.WHOLE, "Number of blocks per training step"),
    Setting("rate", "Learning rate", SettingKind.SMALL, "Maximum learning rate of AdamW"),
    Setting("warmup", "Warm-up", SettingKind.WHOLE,
        "Steps over which the learning rate rises from 0"),
    Setting("decay", "Decay", SettingKind.CHOICE,
        "Learning-rate schedule after warm-up", (
        (LearningRateDecay.NONE, "None"), (LearningRateDecay.COSINE, "Cosine"))),
    Setting("steps", "Steps", SettingKind.WHOLE,
        "Number of training steps, which can be increased later"),
    Setting("seed", "Seed", SettingKind.WHOLE,
        "Seed for the initial weights, the batches and dropout"),
    Setting("device", "Device", SettingKind.CHOICE, "Device to train on", (
        (Device.AUTO, "Best available"), (Device.CPU, "CPU"), (Device.CUDA, "CUDA GPU"),
        (Device.MPS, "Apple GPU (MPS)"))),
)


# fmt: on
SETTINGS_OF_OPEN_RUN = frozenset({"steps"})
"""Settings that can still be changed in an open run."""


INPUT_RANGES: dict[str, tuple[float, float]] = {
    **{name: (0, 10 * most) for name, (_, most) in SETTING_LIMITS.items()},
    "seed": (0, SETTING_LIMITS["seed"][1]),
    "dropout": (0, 9),
    "rate": (0, 1_000),
}
"""Ranges of the controls, which exceed the valid ranges so that errors can be explained."""


def get_setting(settings: TrainingSettings, name: str) -> Any:
    """Return the value of the setting with the given name in the table."""
    if name == "preset":
        preset = matching_preset(settings)
        return preset.name if preset else CUSTOM_PRESET
    return getattr(settings.source if name in _SOURCE_FIELDS else settings, name)


def replace_setting(settings: TrainingSettings, name: str, value: Any) -> TrainingSettings:
    """Return the settings with a new value for the setting with the given name in the table."""
    if name == "preset":
        return settings if value == CUSTOM_PRESET else apply_preset(settings, value)
    if name in _SOURCE_FIELDS:
        return replace(settings, source=replace(settings.source, **{name: value}))
    return replace(settings, **{name: value})
