"""The table of training settings: titles, kinds, choices and ranges, and access by name."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from visualizer.attention.settings import Setting, SettingKind, unless, when
from visualizer.attention.spec import Device
from visualizer.language.tokenizers import Tokenizer
from visualizer.language.training_presets import PRESETS, preset_of, with_preset
from visualizer.language.training_settings import (
    LAYERED,
    LIMITS,
    TITLES,
    CorpusKind,
    LearningRateDecay,
    TrainingSettings,
)

OWN = ""
"""Preset name of settings that match no preset."""
TEXTS = {
    CorpusKind.FILE: "A text file",
    CorpusKind.WORLD: "A small world of sentences",
    CorpusKind.REPEAT: "Task: repeat what came before",
    CorpusKind.COPY: "Task: copy",
    CorpusKind.BRACKETS: "Task: match brackets",
    CorpusKind.SORTING: "Task: sort letters",
    CorpusKind.ADDITION: "Task: add numbers",
}


_SOURCE_FIELDS = {"kind", "path", "size", "tokenizer"}


_IS_LAYERED = when("is_layered", True, words=f"without --model {' or '.join(LAYERED)}")

# fmt: off
LAB_SETTINGS: tuple[Setting, ...] = (
    Setting("preset", "Begin with", SettingKind.CHOICE, True,
        "Settings that are known to show something",
            ((OWN, "Settings of my own"), *((one.name, one.title) for one in PRESETS))),
    Setting("kind", "Text", SettingKind.CHOICE, True,
        "What the model learns", tuple(TEXTS.items())),
    Setting("path", "File", SettingKind.FILE, True, "A text file in UTF-8, of up to 100 MB",
            where=(when("source.kind", CorpusKind.FILE, words="without a text file"),)),
    Setting("tokenizer", "Tokens", SettingKind.CHOICE, True, "What counts as a token", (
        (Tokenizer.CHARACTERS, "Characters"), (Tokenizer.WORDS, "Words")),
            where=(when("source.kind", CorpusKind.FILE, CorpusKind.WORLD,
                        words="with a generated task"),)),
    Setting("size", "Length of the text", SettingKind.WHOLE, True, "About how many tokens are made",
            where=(unless("source.kind", CorpusKind.FILE, words="with a text file"),)),
    Setting("model", "Model", SettingKind.CHOICE, True, "Each is a step towards the transformer",
            tuple(TITLES.items())),
    Setting("block", "Block size", SettingKind.WHOLE, True,
        "Tokens that are seen at once, at most"),
    Setting("width", "Embedding size", SettingKind.WHOLE, True, "Numbers in a token’s vector"),
    Setting("heads", "Heads", SettingKind.WHOLE, True, "Attention side by side, in each layer",
            where=(_IS_LAYERED,)),
    Setting("layers", "Layers", SettingKind.WHOLE, True, "Attention one after the other",
            where=(_IS_LAYERED,)),
    Setting("dropout", "Dropout", SettingKind.SMALL, True,
        "Share of the numbers dropped in training",
            where=(_IS_LAYERED,)),
    Setting("batch", "Batch size", SettingKind.WHOLE, True, "Blocks that each step learns from"),
    Setting("rate", "Learning rate", SettingKind.SMALL, True, "How far a step goes (AdamW)"),
    Setting("warmup", "Warm-up", SettingKind.WHOLE, True, "Steps in which the rate grows from 0"),
    Setting("decay", "Decay", SettingKind.CHOICE, True,
        "What becomes of the rate after the warm-up", (
        (LearningRateDecay.NONE, "None"), (LearningRateDecay.COSINE, "Cosine"))),
    Setting("steps", "Steps", SettingKind.WHOLE, True, "After so many it is done; more can follow"),
    Setting("seed", "Seed", SettingKind.WHOLE, True, "Decides the first weights and the batches"),
    Setting("device", "Device", SettingKind.CHOICE, True, "Where it is trained", (
        (Device.AUTO, "Best available"), (Device.CPU, "CPU"), (Device.CUDA, "CUDA GPU"),
        (Device.MPS, "Apple GPU (MPS)"))),
)


# fmt: on
STAYING = frozenset({"steps"})
"""Settings that can still be changed in an open run."""


RANGES: dict[str, tuple[float, float]] = {
    **{name: (0, 10 * most) for name, (_, most) in LIMITS.items()},
    "seed": (0, LIMITS["seed"][1]),
    "dropout": (0, 9),
    "rate": (0, 1_000),
}
"""Input ranges, wider than the valid ones, so that invalid values are explained, not blocked."""


def get(settings: TrainingSettings, name: str) -> Any:
    """Return a setting by its name in the table."""
    if name == "preset":
        preset = preset_of(settings)
        return preset.name if preset else OWN
    return getattr(settings.source if name in _SOURCE_FIELDS else settings, name)


def put(settings: TrainingSettings, name: str, value: Any) -> TrainingSettings:
    """Return settings with one changed, by its name in the table."""
    if name == "preset":
        return settings if value == OWN else with_preset(settings, value)
    if name in _SOURCE_FIELDS:
        return replace(settings, source=replace(settings.source, **{name: value}))
    return replace(settings, **{name: value})
