"""A step with the values and names for sentences about it, and functions that format numbers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.masks import MaskingSpec
from visualizer.format import format_number, shorten
from visualizer.language.tokenizers import visible_token

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.timeline import Step

EMPTY_SYMBOL = "∅"
"""Shown for a token without visible characters."""

MAX_SHOWN_NUMBERS = 4
"""Maximum number of values of a vector that are shown."""

MIN_ROUNDED = 0.01
"""Minimum magnitude of the largest value for which a vector is rounded to two decimal places."""

EQUALITY_TOLERANCE = 1e-6
"""Relative difference up to which numbers count as equal; float32 rounding can be this large."""


class LargestValue(Struct, frozen=True):
    """The largest value of an array.

    Parameters
    ----------
    at : int
        Flat index of the largest value.
    occurrences : int
        Number of values that are equally large, apart from rounding errors.
    count : int
        Number of values in the array.
    """

    value: float
    at: int
    occurrences: int
    count: int

    @classmethod
    def of(cls, numbers: np.ndarray) -> LargestValue | None:
        """Find the largest value of an array; return None if any value is not finite."""
        at = int(numbers.argmax())
        value, least = float(numbers.flat[at]), float(numbers.min())
        if not np.isfinite([value, least]).all():
            return None
        near = value - EQUALITY_TOLERANCE * max(abs(value), abs(least))
        return cls(value, at, int((numbers >= near).sum()), numbers.size)

    @property
    def is_tied(self) -> bool:
        """Whether other values are equally large."""
        return self.occurrences > 1

    @property
    def is_constant(self) -> bool:
        """Whether there are several values and all are equal."""
        return self.occurrences == self.count > 1


class StepContext(Struct, frozen=True, eq=False):
    """A step in one head of one text, with access to the values and names of its inputs."""

    run: Run
    leading: LeadingIndex
    step: Step
    head: int

    @property
    def row_index(self) -> int:
        """First row of the step; for a row step, the only one."""
        return self.step.rows[0]

    @property
    def layer_index(self) -> int:
        """Index of the step's layer in the run."""
        return self.run.trace.axis_position("layer", self.leading)

    @property
    def spec(self) -> AttentionSpec:
        return self.run.trace.spec_at(self.leading)

    @property
    def stage(self) -> Stage:
        return self.run.trace.stage_in_layer(self.step.stage, self.leading)

    @property
    def token_count(self) -> int:
        """Number of queries, including padding."""
        return self.run.trace.query_count

    @property
    def first_input(self) -> str:
        """Name of the first input stage."""
        return self.stage.reads[0]

    @property
    def qualifier(self) -> str:
        """Which step the weights precede or follow, such as "after dropout, "; can be empty."""
        return self.qualifier_of(self.stage.name)

    def qualifier_of(self, stage: str) -> str:
        """Return the `qualifier` of another stage."""
        qualifier = self.run.trace.weights_qualifier(stage)
        return f"{qualifier}, " * bool(qualifier)

    @property
    def is_before_mask(self) -> bool:
        """Whether the mask is applied to these weights at a later stage."""
        return self.stage.is_before_mask

    def _matrix_index(self, name: str) -> tuple[int, ...]:
        has_heads = "head" in self.run.trace.stage(name).dims
        return (*self.leading, self.head) if has_heads else self.leading

    def read_matrix(self, name: str = "") -> np.ndarray:
        """Return one head of a stage; by default, of the step's stage."""
        name = name or self.stage.name
        return self.run.trace.read(name, self._matrix_index(name))

    def read_row(self, name: str = "") -> np.ndarray:
        """Return the step's row of a stage as float64; by default, of the step's stage."""
        name = name or self.stage.name
        return self.run.trace.read(name, (*self._matrix_index(name), self.row_index)).astype(
            np.float64
        )

    def allowed_cells(self) -> np.ndarray:
        """Return which keys each query may attend to, as a boolean array [query, key]."""
        return self.run.trace.allowed_mask(self.stage.name, self.leading, self.head)

    def allowed_keys(self) -> np.ndarray:
        """Return which keys the step's query may attend to, as a boolean array [key]."""
        return self.run.trace.allowed_mask(self.stage.name, self.leading, self.head, self.row_index)

    @property
    def masking(self) -> MaskingSpec:
        return MaskingSpec.from_spec(self.spec, self.stage.name)

    @property
    def query_count(self) -> int:
        """Number of queries, not counting padding."""
        lengths = self.spec.lengths
        text = self.run.trace.axis_position("text", self.leading)
        return lengths[text] if lengths else self.token_count

    @property
    def is_padded(self) -> bool:
        """Whether the text has padding."""
        return self.query_count < self.token_count

    def bold_token(self, at: int, kind: str = "query") -> str:
        """Return a token in bold (HTML)."""
        token = self.run.axis_tokens(self.leading, kind)[at]
        return f"<b>{escape(shorten(visible_token(token))) or EMPTY_SYMBOL}</b>"

    def token_name(self, at: int, kind: str) -> str:
        """Return a token in bold (HTML), with its position if the token is not unique."""
        tokens = self.run.axis_tokens(self.leading, kind)
        place = (
            f" ({kind} {self.run.token_number(at, kind)})" if tokens.count(tokens[at]) > 1 else ""
        )
        return self.bold_token(at, kind) + place

    @property
    def query_name(self) -> str:
        """Name of the token of the step's row."""
        dim = self.stage.dims[-2]
        return self.token_name(self.row_index, "position" if dim == "token" else dim)

    def key_name(self, at: int) -> str:
        """Return the name of the token at a key position."""
        return self.token_name(at, "key")

    def to_sentence(self, description: str) -> str:
        """Return a description as a sentence that names the head if there are several heads."""
        if self.spec.heads > 1 and "head" in self.stage.dims:
            return f"In head {self.head + 1}, {description}."
        return f"{description[0].upper()}{description[1:]}."


def format_vector(numbers: np.ndarray) -> str:
    """Format the first numbers of a vector, with two decimal places unless all would be 0."""
    shown = [float(value) for value in numbers[:MAX_SHOWN_NUMBERS]]
    if np.abs(shown).max() >= MIN_ROUNDED:
        shown = [round(value, 2) for value in shown]
    written = [format_number(value, 2) for value in shown]
    return f"[{', '.join(written + ['…'] * (len(numbers) > MAX_SHOWN_NUMBERS))}]"


def sum_rows(numbers: np.ndarray) -> np.ndarray:
    """Sum over the last axis in float64; sums of ∞ and −∞ are NaN and do not cause a warning."""
    with np.errstate(invalid="ignore"):
        return np.asarray(numbers.sum(axis=-1, dtype=np.float64))


def format_trimmed_number(value: float) -> str:
    """Format a number without trailing zeros."""
    written = format_number(value)
    return written.rstrip("0").rstrip(".") if "." in written and "e" not in written else written


def parenthesize_negative(written: str) -> str:
    """Put a negative number in parentheses, so that it can follow an operator."""
    return f"({written})" if written.startswith("−") else written


def all_count_phrase(count: int, noun: str) -> str:
    """Return a phrase for all items of a kind: "the only key", "both keys", "all 6 keys"."""
    if count == 1:
        return f"the only {noun}"
    return f"both {noun}s" if count == 2 else f"all {count:,} {noun}s"


def other_count_phrase(count: int) -> str:
    """Return the number of other items, such as "1 other" or "1,024 others"."""
    return f"{count:,} other{'' if count == 1 else 's'}"
