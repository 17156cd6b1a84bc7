"""What is read of a step to tell it: one head's row or matrix, the words of its tokens, facts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.masks import Masking
from visualizer.language.tokenizers import visible
from visualizer.number_format import format_number, shorten

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.timeline import Step

# What stands for a token without a letter.
EMPTY = "∅"

SHOWN_NUMBERS = 4
MIN_ROUNDED = 0.01

# Numbers that differ by less than this part of the largest are alike: float32 rounds as much.
ALIKE = 1e-6


class LargestValue(Struct, frozen=True):
    """The largest of some numbers.

    Parameters
    ----------
    at : int
        Where it stands, as a flat index.
    times : int
        How many are as large, but for rounding.
    count : int
        How many numbers there are.
    """

    value: float
    at: int
    times: int
    count: int

    @classmethod
    def of(cls, numbers: np.ndarray) -> LargestValue | None:
        """Find it; None where not every number is finite."""
        at = int(numbers.argmax())
        value, least = float(numbers.flat[at]), float(numbers.min())
        if not np.isfinite([value, least]).all():
            return None
        near = value - ALIKE * max(abs(value), abs(least))
        return cls(value, at, int((numbers >= near).sum()), numbers.size)

    @property
    def is_shared(self) -> bool:
        """Whether others are as large."""
        return self.times > 1

    @property
    def is_everywhere(self) -> bool:
        """Whether all numbers are alike, and more than one."""
        return self.times == self.count > 1


class StepValues(Struct, frozen=True, eq=False):
    """A step in one head of one text, with ways to read what it is made of.

    Parameters
    ----------
    at : int
        The first row of the step: for a row, the token it stands for.
    """

    run: Run
    leading: LeadingIndex
    step: Step
    head: int

    @property
    def at(self) -> int:
        return self.step.rows[0]

    @property
    def layer(self) -> int:
        """The place of its layer in the run."""
        return self.run.trace.at("layer", self.leading)

    @property
    def spec(self) -> AttentionSpec:
        return self.run.trace.spec_at(self.leading)

    @property
    def stage(self) -> Stage:
        return self.run.trace.stage_at(self.step.stage, self.leading)

    @property
    def tokens(self) -> int:
        return self.run.trace.tokens

    @property
    def reads(self) -> str:
        """The first stage that was read."""
        return self.stage.reads[0]

    @property
    def before(self) -> str:
        """Begin a sentence on the step's weights with what they are taken before or after."""
        return self.before_of(self.stage.name)

    def before_of(self, stage: str) -> str:
        """Begin a sentence on a stage's weights with what they are taken before or after."""
        qualifier = self.run.trace.weights_qualifier(stage)
        return f"{qualifier}, " * bool(qualifier)

    @property
    def is_before(self) -> bool:
        """Whether the mask acts on these weights only later."""
        return self.stage.is_before_mask

    def _index(self, name: str) -> tuple[int, ...]:
        has_heads = "head" in self.run.trace.stage(name).dims
        return (*self.leading, self.head) if has_heads else self.leading

    def matrix(self, name: str = "") -> np.ndarray:
        """Read one head of a stage, of the step's own where none is named."""
        name = name or self.stage.name
        return self.run.trace.read(name, self._index(name))

    def row(self, name: str = "") -> np.ndarray:
        """Read the step's row of a stage, float64."""
        name = name or self.stage.name
        return self.run.trace.read(name, (*self._index(name), self.at)).astype(np.float64)

    def allowed(self) -> np.ndarray:
        """Say which keys may be read, boolean [query, key]."""
        return self.run.trace.allowed(self.stage.name, self.leading, self.head)

    def allowed_row(self) -> np.ndarray:
        """Say which keys the step's query may read, boolean [key]."""
        return self.run.trace.allowed(self.stage.name, self.leading, self.head, self.at)

    @property
    def masking(self) -> Masking:
        return Masking.of(self.spec, self.stage.name)

    @property
    def queries(self) -> int:
        """Number of queries without padding."""
        lengths = self.spec.lengths
        return lengths[self.run.trace.at("text", self.leading)] if lengths else self.tokens

    @property
    def is_padded(self) -> bool:
        """Whether the text has padding."""
        return self.queries < self.tokens

    def word(self, at: int, kind: str = "query") -> str:
        """Write a token in bold."""
        token = self.run.words(self.leading, kind)[at]
        return f"<b>{escape(shorten(visible(token))) or EMPTY}</b>"

    def named(self, at: int, kind: str) -> str:
        """Write a token in bold, with its place where the text has the same token twice."""
        tokens = self.run.words(self.leading, kind)
        place = f" ({kind} {self.run.number(at, kind)})" if tokens.count(tokens[at]) > 1 else ""
        return self.word(at, kind) + place

    @property
    def query(self) -> str:
        """The token that the row stands for."""
        dim = self.stage.dims[-2]
        return self.named(self.at, "place" if dim == "token" else dim)

    def key(self, at: int) -> str:
        """Write a token that is read."""
        return self.named(at, "key")

    def sentence(self, told: str) -> str:
        """Make a sentence of what is told, with the head where there are several."""
        several = self.spec.heads > 1 and "head" in self.stage.dims
        if several:
            return f"In head {self.head + 1}, {told}."
        return f"{told[0].upper()}{told[1:]}."


def vector(numbers: np.ndarray) -> str:
    """Write a vector as far as one can read it aloud, with two decimals if these show anything."""
    shown = [float(value) for value in numbers[:SHOWN_NUMBERS]]
    if np.abs(shown).max() >= MIN_ROUNDED:
        shown = [round(value, 2) for value in shown]
    written = [format_number(value, 2) for value in shown]
    return f"[{', '.join(written + ['…'] * (len(numbers) > SHOWN_NUMBERS))}]"


def row_sums(numbers: np.ndarray) -> np.ndarray:
    """Add up the last axis in float64: NaN, without a warning, where ∞ and −∞ meet."""
    with np.errstate(invalid="ignore"):
        return np.asarray(numbers.sum(axis=-1, dtype=np.float64))


def trimmed(value: float) -> str:
    """Write a number without the zeros at its end."""
    written = format_number(value)
    return written.rstrip("0").rstrip(".") if "." in written and "e" not in written else written


def bracketed(written: str) -> str:
    """Put a negative number in brackets, as after an operator."""
    return f"({written})" if written.startswith("−") else written


def all_of(count: int, noun: str) -> str:
    """Write all of so many: the only key, both keys, all 6 keys."""
    if count == 1:
        return f"the only {noun}"
    return f"both {noun}s" if count == 2 else f"all {count:,} {noun}s"


def others(count: int) -> str:
    """Write how many others: 1 other, 1,024 others."""
    return f"{count:,} other{'' if count == 1 else 's'}"
