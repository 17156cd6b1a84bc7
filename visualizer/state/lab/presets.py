"""Settings to begin with, each with a name: the tasks whose attention is known, the notes' models.

Source: Karpathy 2023, "Let's build GPT" (the notes' models, their sizes and learning rate).
"""

from __future__ import annotations

from dataclasses import replace

from visualizer.language.settings import Kind, Model, Settings, Source

OWN = ""
"""The name of settings that are none of these."""

_NOTES = Settings(Source(Kind.WORLD, size=1_000_000), block=8, batch=128, steps=1_000)

PRESETS: dict[str, Settings] = {
    "Repeat: an induction head forms": Settings(),
    "Brackets: a head finds the partner": Settings(
        Source(Kind.BRACKETS), block=32, heads=2, layers=2
    ),
    "Notes 1: embedding and projection": replace(_NOTES, model=Model.BIGRAM),
    "Notes 2: average of the block": replace(_NOTES, model=Model.AVERAGE),
    "Notes 3: causal dot product": replace(_NOTES, model=Model.DOT_PRODUCT),
    "Notes 4: transformer": replace(
        _NOTES, model=Model.TRANSFORMER, heads=4, layers=3, steps=10_000
    ),
}


def preset_of(settings: Settings) -> str:
    """Name the preset that settings are, whichever text is learned; `OWN` where they are none."""
    for name, preset in PRESETS.items():
        is_prose = {preset.source.kind, settings.source.kind} <= {Kind.FILE, Kind.WORLD}
        alike = replace(preset, threads=settings.threads)  # which a run may decide
        if is_prose:
            alike = replace(alike, source=settings.source)
        if alike == settings:
            return name
    return OWN


def with_preset(settings: Settings, name: str) -> Settings:
    """Take a preset's settings; a text of one's own stays where the preset learns a text."""
    preset = PRESETS[name]
    keeps = preset.source.kind is Kind.WORLD and settings.source.kind is Kind.FILE
    return replace(preset, source=settings.source) if keeps else preset
