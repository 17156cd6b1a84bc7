"""Settings of language models and of their training. This module does not import torch.

The models are steps towards the transformer; each model adds an element to the previous one.

Sources: lecture notes on self-attention and character models, partly adapted from Karpathy 2023,
"Let's build GPT" (the steps, the block size, the optimizer); Elhage et al. 2021, "A Mathematical
Framework for Transformer Circuits" (attention-only models); Xiong et al. 2020, "On Layer
Normalization in the Transformer Architecture" (pre-norm layers).
"""

from __future__ import annotations

import math
from enum import StrEnum

from msgspec import Struct, field

from visualizer.attention.spec import Device
from visualizer.brief_repr import brief_repr
from visualizer.errors import InputError, Problem
from visualizer.format import format_count
from visualizer.language.tokenizers import TokenizerKind


class CorpusKind(StrEnum):
    """Origin of a training text: a file, the story world or a synthetic task."""

    FILE = "file"
    WORLD = "world"
    REPEAT = "repeat"
    COPY = "copy"
    BRACKETS = "brackets"
    SORTING = "sorting"
    ADDITION = "addition"


class CorpusSource(Struct, frozen=True):
    """The source of a training text.

    Parameters
    ----------
    path : str
        Path of a text file; not used if the text is generated.
    size : int
        Approximate number of generated tokens.
    seed : int
        Random seed for generated text.
    tokenizer : TokenizerKind
        Unit into which a text is split; see `effective_tokenizer`.
    """

    kind: CorpusKind = CorpusKind.REPEAT
    path: str = ""
    size: int = 500_000
    seed: int = 0
    tokenizer: TokenizerKind = TokenizerKind.CHARACTERS

    @property
    def effective_tokenizer(self) -> TokenizerKind:
        """The tokenizer that is used: for tasks always characters, otherwise the chosen one."""
        return TokenizerKind.CHARACTERS if self.kind in SYNTHETIC_TASKS else self.tokenizer


class ModelKind(StrEnum):
    """A kind of language model.

    The transformer of the lecture notes has no output projection and no layer norm after the last
    layer, and it uses PyTorch's default initialization.
    """

    BIGRAM = "bigram"
    AVERAGE = "average"
    DOT_PRODUCT = "dot-product"
    TRANSFORMER = "transformer"
    NOTES = "notes-transformer"
    ATTENTION_ONLY = "attention-only"


class LearningRateDecay(StrEnum):
    """Schedule of the learning rate after the warm-up."""

    NONE = "none"
    COSINE = "cosine"


class TrainingSettings(Struct, frozen=True):
    """All settings of a training run; equal settings give equal losses.

    The settings may be invalid while the user edits them; see `find_settings_problems`.

    Parameters
    ----------
    block : int
        Context length in tokens.
    width : int
        Width of the residual stream.
    heads, layers, dropout
        Settings of `LAYERED_MODELS`; other models have one layer with one head, or no layer.
    batch : int
        Number of blocks per training step.
    rate : float
        Learning rate of AdamW, after the warm-up.
    warmup : int
        Number of steps in which the learning rate rises from 0.
    steps : int
        Total number of steps; it can be increased later.
    threads : int
        Number of CPU threads; 0 for the default, which leaves one core for the window. The number
        may affect the last digits of the losses.
    """

    source: CorpusSource = field(default_factory=CorpusSource)
    model: ModelKind = ModelKind.ATTENTION_ONLY
    block: int = 32
    width: int = 64
    heads: int = 2
    layers: int = 2
    dropout: float = 0.0
    batch: int = 64
    rate: float = 1e-3
    warmup: int = 100
    decay: LearningRateDecay = LearningRateDecay.NONE
    steps: int = 1_500
    seed: int = 1337
    device: Device = Device.AUTO
    threads: int = 0

    __repr__ = brief_repr

    @property
    def has_configurable_layers(self) -> bool:
        """Whether the settings for heads, layers and dropout have an effect."""
        return self.model in LAYERED_MODELS

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        if self.decay is LearningRateDecay.NONE:
            return self.rate
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.rate * (1 + math.cos(math.pi * min(done, 1))) / 2


MODEL_TITLES = {
    ModelKind.BIGRAM: "Bigram (embedding and projection)",
    ModelKind.AVERAGE: "Block average",
    ModelKind.DOT_PRODUCT: "Causal dot-product average",
    ModelKind.TRANSFORMER: "Transformer",
    ModelKind.NOTES: "Transformer from the lecture notes",
    ModelKind.ATTENTION_ONLY: "Attention only",
}

LAYERED_MODELS = (ModelKind.TRANSFORMER, ModelKind.NOTES, ModelKind.ATTENTION_ONLY)
"""Models with heads, trained weights and dropout in each layer."""
FEED_FORWARD_MODELS = (ModelKind.TRANSFORMER, ModelKind.NOTES)
"""Models with a feed-forward block in each layer."""
POSITIONAL_MODELS = (ModelKind.DOT_PRODUCT, *LAYERED_MODELS)
"""Models that add position vectors to the token vectors."""


FINAL_EVALUATION_BATCHES = 200
"""Number of batches over which the final losses are averaged, after the last training step."""
SYNTHETIC_TASKS = (
    CorpusKind.REPEAT,
    CorpusKind.COPY,
    CorpusKind.BRACKETS,
    CorpusKind.SORTING,
    CorpusKind.ADDITION,
)
"""Synthetic tasks with known expected attention; each row has one token more than a block."""


SETTING_NAMES = {
    "block": "The block size",
    "width": "The embedding size",
    "heads": "The number of heads",
    "layers": "The number of layers",
    "batch": "The batch size",
    "warmup": "The number of warm-up steps",
    "steps": "The number of steps",
    "seed": "The seed",
    "threads": "The number of threads",
    "size": "The text length",
}
SETTING_LIMITS = {
    "block": (1, 1_024),
    "width": (1, 1_024),
    "heads": (1, 64),
    "layers": (1, 24),
    "batch": (1, 4_096),
    "warmup": (0, 1_000_000),
    "steps": (1, 10_000_000),
    "seed": (0, 2**31 - 1),
    "threads": (0, 256),
    "size": (1_000, 50_000_000),
}
"""Minimum and maximum of each integer setting."""


def find_settings_problems(settings: TrainingSettings) -> tuple[Problem, ...]:
    """Return the problems with the settings, field by field; empty if the settings are valid."""
    integers = (_integer_problem(settings, name) for name in SETTING_LIMITS)
    found = [problem for problem in integers if problem]
    least, most = SETTING_LIMITS["seed"]
    if not least <= settings.source.seed <= most:
        sentence = f"The text seed must be at least {least} and at most {most:,}."
        found.append(Problem("kind", sentence))
    if not 0 <= settings.dropout < 1:
        sentence = "The dropout rate must be at least 0 and less than 1."
        found.append(Problem("dropout", sentence, ("dropout", 0.0)))
    if not (math.isfinite(settings.rate) and 0 < settings.rate <= 100):
        sentence = (
            "The learning rate must be greater than 0 and at most 100. A typical value is 0.001."
        )
        found.append(Problem("rate", sentence, ("rate", 1e-3)))
    if settings.has_configurable_layers and not found and settings.width % settings.heads:
        width, heads = settings.width, settings.heads
        divisor = max(count for count in range(1, heads + 1) if width % count == 0)
        use = format_count(divisor, "head")
        sentence = f"The embedding size {width} cannot be split into {heads} heads. Use {use}."
        found.append(Problem("heads", sentence, ("heads", divisor)))
    if settings.source.kind is CorpusKind.FILE and not settings.source.path:
        found.append(Problem("path", "Choose a text file to train on."))
    return tuple(found)


def check_settings(settings: TrainingSettings) -> None:
    """Raise an `InputError` for the first problem in the settings."""
    for problem in find_settings_problems(settings):
        raise InputError(problem.field, problem.sentence, problem.remedy)


def _integer_problem(settings: TrainingSettings, name: str) -> Problem | None:
    value = getattr(settings.source if name == "size" else settings, name)
    least, most = SETTING_LIMITS[name]
    nearest = min(max(value, least), most)
    if value == nearest:
        return None
    more = "or more" if value < least else "or less"
    sentence = f"{SETTING_NAMES[name]} cannot be {value:,}. Use {nearest:,} {more}."
    return Problem(name, sentence, (name, nearest))
