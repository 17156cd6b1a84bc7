"""The presets of the lab and of the command line."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_settings import (
    CorpusKind,
    CorpusSource,
    LearningRateDecay,
    ModelKind,
    TrainingSettings,
)


class TrainingPreset(Struct, frozen=True):
    """Named training settings that demonstrate an effect.

    Parameters
    ----------
    name : str
        Name with hyphens, for the command line.
    title : str
        Title for a menu.
    description : str
        Sentence that describes the effect.
    """

    name: str
    title: str
    description: str
    settings: TrainingSettings


_WORLD_SETTINGS = TrainingSettings(
    source=CorpusSource(CorpusKind.WORLD, tokenizer=TokenizerKind.WORDS), warmup=0, steps=2_000
)


_NOTES_SETTINGS = TrainingSettings(
    source=CorpusSource(CorpusKind.FILE),
    model=ModelKind.BIGRAM,
    block=8,
    batch=128,
    warmup=0,
    steps=1_000,
)


_REPORTED = "the notes report a loss of"
_TEXT = "Tiny Shakespeare (from Andrej Karpathy’s char-rnn)"

PRESETS = (
    TrainingPreset(
        "repeat",
        "Repeated segments: an induction head",
        "In layer 2, heads learn to attend to the letter that followed the previous occurrence of "
        "the query’s letter.",
        TrainingSettings(),
    ),
    TrainingPreset(
        "brackets",
        "Brackets: a matching head",
        "In layer 2, the head learns to attend to the innermost open bracket.",
        TrainingSettings(
            source=CorpusSource(CorpusKind.BRACKETS),
            block=16,
            heads=1,
            rate=5e-3,
            decay=LearningRateDecay.COSINE,
        ),
    ),
    TrainingPreset(
        "world-bigram",
        "Generated stories: bigram",
        "An embedding and a projection only: the loss falls to the bigram baseline, but not below "
        "it.",
        replace(_WORLD_SETTINGS, model=ModelKind.BIGRAM, rate=1e-2, steps=1_000),
    ),
    TrainingPreset(
        "world-average",
        "Generated stories: average of the block",
        "Averages all words of the block, including later ones, and ignores their order; the loss "
        "is higher than that of a bigram model.",
        replace(_WORLD_SETTINGS, model=ModelKind.AVERAGE, rate=1e-2, steps=1_000),
    ),
    TrainingPreset(
        "world-dot-product",
        "Generated stories: causal dot-product average",
        "Causal attention without trainable weights: hardly better than a bigram model.",
        replace(_WORLD_SETTINGS, model=ModelKind.DOT_PRODUCT, rate=3e-3, steps=1_500),
    ),
    TrainingPreset(
        "world-transformer",
        "Generated stories: transformer",
        "Attends to more than the previous word; the loss falls far below the bigram baseline.",
        replace(_WORLD_SETTINGS, model=ModelKind.TRANSFORMER, heads=4, layers=3, warmup=100),
    ),
    TrainingPreset(
        "notes",
        "Lecture notes: your text, bigram",
        f"A character embedding and an output projection: {_REPORTED} 2.49 on {_TEXT}.",
        _NOTES_SETTINGS,
    ),
    TrainingPreset(
        "notes-average",
        "Lecture notes: your text, average of the block",
        f"An average that also includes the tokens to be predicted: {_REPORTED} 2.36 on {_TEXT}.",
        replace(_NOTES_SETTINGS, model=ModelKind.AVERAGE),
    ),
    TrainingPreset(
        "notes-dot-product",
        "Lecture notes: your text, causal dot-product average",
        f"Dot products of embeddings plus position vectors: {_REPORTED} 2.46 on {_TEXT}.",
        replace(_NOTES_SETTINGS, model=ModelKind.DOT_PRODUCT),
    ),
    TrainingPreset(
        "notes-transformer",
        "Lecture notes: your text, transformer",
        "Three blocks with one head each, without output projections or a final norm: the initial "
        f"loss is about 4.65; {_REPORTED} 1.65 to 1.75 on {_TEXT}.",
        replace(_NOTES_SETTINGS, model=ModelKind.NOTES, heads=1, layers=3, steps=10_000),
    ),
)
"""All presets, in menu order."""


def matching_preset(settings: TrainingSettings) -> TrainingPreset | None:
    """Return the preset with the same settings, apart from the file and the number of threads."""
    for preset in PRESETS:
        preset_settings = _preset_settings_with_file(preset, settings)
        if replace(preset_settings, threads=settings.threads) == settings:
            return preset
    return None


def apply_preset(settings: TrainingSettings, name: str) -> TrainingSettings:
    """Return the settings of a preset; the user's file is kept if the preset uses a file."""
    return _preset_settings_with_file(next(one for one in PRESETS if one.name == name), settings)


def _preset_settings_with_file(
    preset: TrainingPreset, settings: TrainingSettings
) -> TrainingSettings:
    preset_settings = preset.settings
    if {preset_settings.source.kind, settings.source.kind} != {CorpusKind.FILE}:
        return preset_settings
    source = replace(settings.source, tokenizer=preset_settings.source.tokenizer)
    return replace(preset_settings, source=source)
