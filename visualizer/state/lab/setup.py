"""The settings of a training as a table: what each is called, which values it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from visualizer.attention.choices import Device
from visualizer.attention.errors import Problem
from visualizer.language.presets import PRESETS, preset_of, with_preset
from visualizer.language.settings import LIMITS, TITLES, Decay, Settings, problems
from visualizer.language.settings import Kind as Text
from visualizer.language.tokenizers import Tokenizer
from visualizer.state.setup import Kind, Setting, SettingShown, remedy_in_words

if TYPE_CHECKING:
    from visualizer.attention.errors import InputError

OWN = ""
"""Stands for the preset of settings that are none."""
TEXTS = {
    Text.FILE: "A text file",
    Text.WORLD: "A small world of sentences",
    Text.REPEAT: "Task: repeat what came before",
    Text.COPY: "Task: copy",
    Text.BRACKETS: "Task: match brackets",
    Text.SORTING: "Task: sort letters",
    Text.ADDITION: "Task: add numbers",
}
_SOURCE = {"kind", "path", "size", "tokenizer"}
AT_TEXT = {"text": "kind", "memory": "batch"}
"""Where a problem is said that is of no setting: the text's, the memory's."""


def _is_layered(settings: Settings) -> bool:
    return settings.is_layered


def _is_file(settings: Settings) -> bool:
    return settings.source.kind is Text.FILE


def _is_made(settings: Settings) -> bool:
    return not _is_file(settings)


def _is_prose(settings: Settings) -> bool:
    return settings.source.kind in {Text.FILE, Text.WORLD}


# fmt: off
LAB_SETTINGS: tuple[Setting, ...] = (
    Setting("preset", "Begin with", Kind.CHOICE, True, "Settings that are known to show something",
            ((OWN, "Settings of my own"), *((one.name, one.title) for one in PRESETS))),
    Setting("kind", "Text", Kind.CHOICE, True, "What the model learns", tuple(TEXTS.items())),
    Setting("path", "File", Kind.FILE, True, "A text file in UTF-8, of up to 100 MB",
            counts=_is_file),
    Setting("tokenizer", "Tokens", Kind.CHOICE, True, "What counts as a token", (
        (Tokenizer.CHARACTERS, "Characters"), (Tokenizer.WORDS, "Words")), counts=_is_prose),
    Setting("size", "Length of the text", Kind.WHOLE, True, "About how many tokens are made",
            counts=_is_made),
    Setting("model", "Model", Kind.CHOICE, True, "Each is a step towards the transformer",
            tuple(TITLES.items())),
    Setting("block", "Block size", Kind.WHOLE, True, "Tokens that are seen at once, at most"),
    Setting("width", "Embedding size", Kind.WHOLE, True, "Numbers in a token’s vector"),
    Setting("heads", "Heads", Kind.WHOLE, True, "Attention side by side, in each layer",
            counts=_is_layered),
    Setting("layers", "Layers", Kind.WHOLE, True, "Attention one after the other",
            counts=_is_layered),
    Setting("dropout", "Dropout", Kind.SMALL, True, "Share of the numbers dropped in training",
            counts=_is_layered),
    Setting("batch", "Batch size", Kind.WHOLE, True, "Blocks that each step learns from"),
    Setting("rate", "Learning rate", Kind.SMALL, True, "How far a step goes (AdamW)"),
    Setting("warmup", "Warm-up", Kind.WHOLE, True, "Steps in which the rate grows from 0"),
    Setting("decay", "Decay", Kind.CHOICE, True, "What becomes of the rate after the warm-up", (
        (Decay.NONE, "None"), (Decay.COSINE, "Cosine"))),
    Setting("steps", "Steps", Kind.WHOLE, True, "After so many it is done; more can follow"),
    Setting("seed", "Seed", Kind.WHOLE, True, "Decides the first weights and the batches"),
    Setting("device", "Device", Kind.CHOICE, True, "Where it is trained", (
        (Device.AUTO, "Best available"), (Device.CPU, "CPU"), (Device.CUDA, "CUDA GPU"),
        (Device.MPS, "Apple GPU (MPS)"))),
)
# fmt: on
STAYING = frozenset({"steps"})
"""What can be changed of a run: the rest is what the run is."""
RANGES: dict[str, tuple[float, float]] = {
    **{name: (0, 10 * most) for name, (_, most) in LIMITS.items()},
    "seed": (0, LIMITS["seed"][1]),
    "dropout": (0, 9),
    "rate": (0, 1_000),
}
"""What can be typed: more than what is right, as what is wrong is explained and not turned away."""


def get(settings: Settings, name: str) -> Any:
    """Read a setting by its name in the table."""
    if name == "preset":
        preset = preset_of(settings)
        return preset.name if preset else OWN
    return getattr(settings.source if name in _SOURCE else settings, name)


def put(settings: Settings, name: str, value: Any) -> Settings:
    """Give settings with one of them changed, by its name in the table."""
    if name == "preset":
        return settings if value == OWN else with_preset(settings, value)
    if name in _SOURCE:
        return replace(settings, source=replace(settings.source, **{name: value}))
    return replace(settings, **{name: value})


@dataclass(frozen=True, slots=True)
class LabSetup:
    """All settings as they stand.

    Parameters
    ----------
    sample : str
        How the text begins.
    says : str
        What can be seen with the preset that they are; empty where they are none.
    locked : str
        Why they cannot be changed; empty where they can.
    elsewhere : tuple of str
        Problems that are of no setting.
    notes : tuple of str
        What is to be known of the text.
    """

    settings: tuple[SettingShown, ...]
    sample: str = ""
    says: str = ""
    locked: str = ""
    elsewhere: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def present_setup(
    settings: Settings,
    refused: InputError | None,
    sample: str,
    locked: str = "",
    notes: tuple[str, ...] = (),
) -> LabSetup:
    """Show the settings, each problem at the one that it belongs to."""
    found: dict[str, Problem | InputError] = {one.field: one for one in problems(settings)}
    if refused:
        found.setdefault(AT_TEXT.get(refused.field, refused.field), refused)
    rows = tuple(_shown(setting, settings, found.pop(setting.name, None), locked)
                 for setting in LAB_SETTINGS)  # fmt: skip
    preset, elsewhere = preset_of(settings), tuple(one.sentence for one in found.values())
    return LabSetup(rows, sample, preset.says if preset else "", locked, elsewhere, notes)


def _shown(
    setting: Setting, settings: Settings, problem: Problem | InputError | None, locked: str
) -> SettingShown:
    of_use = setting.counts(settings)
    counts = of_use and (not locked or setting.name in STAYING)
    remedy = problem.remedy if problem else None
    mends = remedy_in_words(*remedy, LAB_SETTINGS) if remedy else ""
    value = get(settings, setting.name)
    said = problem and Problem(problem.field, problem.sentence, problem.remedy)
    return SettingShown(setting, value, counts, said or None, mends, of_use)
