"""An explanation as a value: terms, their factors, and how they become one number; no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from visualizer.attention.stages import Stage

Cell = tuple[int, ...]


class Rule(StrEnum):
    """How terms become the value."""

    SUM = auto()
    SHARE = auto()
    CHOICE = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """One factor of each of n terms.

    Parameters
    ----------
    name : str
        The stage or parameter that was read; empty for a constant.
    index : tuple of int or None
        Where it was read, batch axes first; None stands for the number of the term.
    read : numpy.ndarray
        What was read, [n].
    used : numpy.ndarray
        What enters the product, [n]: what was read, or a function of it.
    form : str
        How to write it, with ``{}`` for what was read.
    """

    name: str
    index: tuple[int | None, ...]
    read: np.ndarray
    used: np.ndarray
    form: str = "{}"

    def source(self, term: int) -> Cell:
        """Give the place in `name` that a term's factor was read from."""
        return tuple(term if place is None else place for place in self.index)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Terms of the same kind: each the product of its factors."""

    factors: tuple[Factor, ...]

    @property
    def terms(self) -> np.ndarray:
        """The products, [n]: float64, or the trace's own type where that overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(math.prod(factor.used for factor in self.factors))


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """One cell of one stage, and the terms it is made of.

    Parameters
    ----------
    cell : tuple of int
        Where in the stage, batch axes first.
    value : float
        The number in the trace.
    chosen : int
        The term that a share is of, or that was chosen.
    is_empty : bool
        Whether nothing is shared out, as in a row that is wholly forbidden: each share is 0.
    """

    stage: Stage
    cell: Cell
    rule: Rule
    groups: tuple[Group, ...]
    value: float
    chosen: int = 0
    is_empty: bool = False

    @property
    def terms(self) -> np.ndarray:
        """All terms, group after group."""
        return np.concatenate([group.terms for group in self.groups])

    def result(self) -> float:
        """Work the value out from the terms alone."""
        if self.is_empty:
            return 0.0
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self.rule is Rule.SUM:
                return float(self.terms.sum())
            total = self.terms.sum() if self.rule is Rule.SHARE else 1.0
            return float(self.terms[self.chosen] / total)
