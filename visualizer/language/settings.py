"""What a language model is made of and how it is trained, as one value; no torch.

The models are steps towards the transformer: each adds one thing to the one before.

Sources: Karpathy 2023, "Let's build GPT" (the steps, the block size, the optimiser); Elhage et al.
2021, "A Mathematical Framework for Transformer Circuits" (models of attention only); Xiong et al.
2020, "On Layer Normalization in the Transformer Architecture" (normalising before each part).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from visualizer.attention.choices import Device
from visualizer.attention.errors import InputError, Problem
from visualizer.language.tokenizers import Tokenizer


class Model(StrEnum):
    """A kind of language model."""

    BIGRAM = "bigram"
    AVERAGE = "average"
    DOT_PRODUCT = "dot-product"
    TRANSFORMER = "transformer"
    ATTENTION_ONLY = "attention-only"


TITLES = {
    Model.BIGRAM: "Bigram: embedding and projection",
    Model.AVERAGE: "Average of the whole block",
    Model.DOT_PRODUCT: "Causal dot-product average",
    Model.TRANSFORMER: "Transformer",
    Model.ATTENTION_ONLY: "Attention only",
}

LAYERED = (Model.TRANSFORMER, Model.ATTENTION_ONLY)
"""The models that have layers with heads, weights and dropout."""
POSITIONED = (Model.DOT_PRODUCT, *LAYERED)
"""The models that add a vector for the position."""


class Kind(StrEnum):
    """Where a text to learn comes from."""

    FILE = "file"
    WORLD = "world"
    REPEAT = "repeat"
    COPY = "copy"
    BRACKETS = "brackets"
    SORTING = "sorting"
    ADDITION = "addition"


TASKS = (Kind.REPEAT, Kind.COPY, Kind.BRACKETS, Kind.SORTING, Kind.ADDITION)
"""Of which it is known what a query should read; each row is a block and one token more."""


class Decay(StrEnum):
    """What becomes of the learning rate after the warm-up."""

    NONE = "none"
    COSINE = "cosine"


@dataclass(frozen=True, slots=True)
class Source:
    """A text to learn.

    Parameters
    ----------
    path : str
        Of a text file; unused where the text is generated.
    size : int
        Tokens, about, of what is generated.
    seed : int
        Of what is generated.
    """

    kind: Kind = Kind.REPEAT
    path: str = ""
    size: int = 500_000
    seed: int = 0
    tokenizer: Tokenizer = Tokenizer.CHARACTERS


@dataclass(frozen=True, slots=True)
class Settings:
    """All that decides a training, so that the same settings end with the same losses.

    They may be invalid while someone types; `problems` says what is wrong with them.

    Parameters
    ----------
    block : int
        Tokens that are seen at once, at most.
    width : int
        Numbers in a token's vector: the residual stream.
    heads, layers, dropout
        Of `LAYERED` models; others have one head and one layer, or none.
    batch : int
        Blocks a step.
    rate : float
        Learning rate of AdamW, after the warm-up.
    warmup : int
        Steps in which the rate grows from 0.
    steps : int
        After so many the training is done; it can be made longer.
    threads : int
        Of the CPU; 0 leaves a core to the window. Another number may change the last digits.
    """

    source: Source = field(default_factory=Source)
    model: Model = Model.ATTENTION_ONLY
    block: int = 32
    width: int = 64
    heads: int = 2
    layers: int = 2
    dropout: float = 0.0
    batch: int = 64
    rate: float = 1e-3
    warmup: int = 100
    decay: Decay = Decay.NONE
    steps: int = 1_500
    seed: int = 1337
    device: Device = Device.AUTO
    threads: int = 0

    @property
    def is_layered(self) -> bool:
        """Whether heads, layers and dropout count."""
        return self.model in LAYERED

    def rate_at(self, step: int) -> float:
        """Give the learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        if self.decay is Decay.NONE:
            return self.rate
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.rate * (1 + math.cos(math.pi * min(done, 1))) / 2


NAMES = {
    "block": "The block size",
    "width": "The embedding size",
    "heads": "The heads",
    "layers": "The layers",
    "batch": "The batch size",
    "warmup": "The warm-up",
    "steps": "The steps",
    "seed": "The seed",
    "threads": "The threads",
    "size": "The size of the text",
}
LIMITS = {
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
"""The least and the most that a whole number may be."""


def problems(settings: Settings) -> tuple[Problem, ...]:
    """Say what is wrong with settings, field by field; empty when they can be trained."""
    found = [problem for name in LIMITS for problem in _whole(settings, name)]
    if not 0 <= settings.dropout < 1:
        found.append(Problem("dropout", "Dropout is from 0 to less than 1.", ("dropout", 0.0)))
    if not (math.isfinite(settings.rate) and 0 < settings.rate <= 100):
        sentence = "The learning rate is more than 0 and at most 100. A usual one is 0.001."
        found.append(Problem("rate", sentence, ("rate", 1e-3)))
    if settings.is_layered and not found and settings.width % settings.heads:
        found.append(_indivisible(settings.width, settings.heads))
    if settings.source.kind is Kind.FILE and not settings.source.path:
        found.append(Problem("path", "Choose a text file to learn."))
    return tuple(found)


def check(settings: Settings) -> None:
    """Raise `InputError` for the first problem of settings."""
    for problem in problems(settings):
        raise InputError(problem.field, problem.sentence, problem.remedy)


def _whole(settings: Settings, name: str) -> list[Problem]:
    if name in {"heads", "layers"} and not settings.is_layered:
        return []
    if name == "size" and settings.source.kind is Kind.FILE:
        return []
    value = getattr(settings.source if name == "size" else settings, name)
    least, most = LIMITS[name]
    nearest = min(max(value, least), most)
    if value == nearest:
        return []
    more = "or more" if value < least else "or less"
    return [
        Problem(
            name, f"{NAMES[name]} cannot be {value:,}. Use {nearest:,} {more}.", (name, nearest)
        )
    ]


def _indivisible(width: int, heads: int) -> Problem:
    fitting = max(count for count in range(1, heads + 1) if width % count == 0)
    sentence = f"{width} does not divide into {heads} heads. Use {fitting}."
    return Problem("heads", sentence, ("heads", fitting))
