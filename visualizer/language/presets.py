"""Settings to begin with, each for something to be seen; no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from visualizer.language.settings import Decay, Kind, Model, Settings, Source
from visualizer.language.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings with what can be seen in them.

    Parameters
    ----------
    name : str
        One word or several with hyphens, for a command line.
    title : str
        For a menu.
    says : str
        One sentence: what is to be seen.
    """

    name: str
    title: str
    says: str
    settings: Settings


_WORLD = Settings(
    source=Source(Kind.WORLD, tokenizer=Tokenizer.WORDS),
    warmup=0,
    steps=2_000,
)
_NOTES = Settings(
    source=Source(Kind.FILE), model=Model.BIGRAM, block=8, batch=128, warmup=0, steps=1_000
)

PRESETS = (
    Preset(
        "repeat",
        "Repeated segments: an induction head",
        "In the second layer, heads come to read the letter after the previous occurrence of the "
        "query's own.",
        Settings(),
    ),
    Preset(
        "brackets",
        "Brackets: a head that finds the partner",
        "In the second layer, the head comes to read the innermost bracket that is still open.",
        Settings(
            source=Source(Kind.BRACKETS),
            block=16,
            heads=1,
            rate=5e-3,
            decay=Decay.COSINE,
        ),
    ),
    Preset(
        "world-bigram",
        "Small world: bigram",
        "Embedding and projection alone reach what counting pairs of words reaches, and no more.",
        replace(_WORLD, model=Model.BIGRAM, rate=1e-2, steps=1_000),
    ),
    Preset(
        "world-average",
        "Small world: average of the block",
        "It sees even the words that are to be said, but not in which order, and pairs do better.",
        replace(_WORLD, model=Model.AVERAGE, rate=1e-2, steps=1_000),
    ),
    Preset(
        "world-dot-product",
        "Small world: causal dot-product average",
        "Attention without weights to learn hardly does better than pairs of words.",
        replace(_WORLD, model=Model.DOT_PRODUCT, rate=3e-3, steps=1_500),
    ),
    Preset(
        "world-transformer",
        "Small world: transformer",
        "It reads further back than one word, and its loss goes far below that of pairs.",
        replace(_WORLD, model=Model.TRANSFORMER, heads=4, layers=3, warmup=100),
    ),
    Preset(
        "notes",
        "The notes: a text of yours, bigram",
        "The notes' settings for the first three models, by letters: choose a text and a model.",
        _NOTES,
    ),
    Preset(
        "notes-transformer",
        "The notes: a text of yours, transformer",
        "The notes' transformer of three blocks, by letters: choose a text.",
        replace(_NOTES, model=Model.TRANSFORMER, heads=4, layers=3, steps=10_000),
    ),
)
"""In the order of a menu."""


def preset_of(settings: Settings) -> Preset | None:
    """Find the preset that settings are, whichever file is learned; None where they are none."""
    for preset in PRESETS:
        alike = replace(_with_file_of(preset, settings), threads=settings.threads)
        if alike == settings:
            return preset
    return None


def with_preset(settings: Settings, name: str) -> Settings:
    """Take a preset's settings; a file of one's own stays where the preset learns a file."""
    return _with_file_of(next(one for one in PRESETS if one.name == name), settings)


def _with_file_of(preset: Preset, settings: Settings) -> Settings:
    made = preset.settings
    if {made.source.kind, settings.source.kind} != {Kind.FILE}:
        return made
    source = replace(settings.source, tokenizer=made.source.tokenizer)
    return replace(made, source=source)
