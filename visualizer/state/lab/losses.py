"""The losses of a training, step by step, as they come and as a file holds them.

A row of `losses.csv` is a step: ``step,training,validation,rate,seconds``. What was not measured at
a step is left empty there; a loss that is no number is written as ``nan`` or ``inf``, so that a
divergence can be told from a gap. Floats are written so that the same ones are read.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from visualizer.attention.errors import InputError
from visualizer.state.lab.growing import Grown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

HEADER = "step,training,validation,rate,seconds\n"
COLUMNS = HEADER.count(",") + 1
LACKING = -1.0
"""Stands for an empty field while a file is read: no cross-entropy is negative, nor is a rate."""


class Measured(NamedTuple):
    """A loss in nats a token, and the step that it was measured at."""

    loss: float
    step: int


class _Past:
    """What losses have in common that came from each other by extending alone."""

    __slots__ = ("longest",)

    def __init__(self) -> None:
        self.longest = 0


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """The losses of a run so far; to extend them costs what is added.

    Made by `Losses.of` and `extended`; steps rise, whatever is given.
    """

    _training: tuple[Grown, Grown, Grown]
    _validation: tuple[Grown, Grown]
    _past: _Past = field(default_factory=_Past)

    @classmethod
    def of(
        cls,
        steps: ArrayLike = (),
        training: ArrayLike = (),
        rates: ArrayLike = (),
        validation_steps: ArrayLike = (),
        validation: ArrayLike = (),
    ) -> Losses:
        """Hold losses.

        Parameters
        ----------
        steps, training, rates : array_like
            A loss of a training step's batch each, in nats a token, and its learning rate.
        validation_steps, validation : array_like
            Losses on text that is not trained on, where they were measured.
        """
        whole, real = Grown.of((), np.int64), Grown.of(())
        empty = cls((whole, real, real), (whole, real))
        return empty.extended(steps, training, rates, validation_steps, validation)

    @property
    def steps(self) -> np.ndarray:
        """The steps of `training` and `rates`, int64 [step], rising."""
        return self._training[0].values

    @property
    def training(self) -> np.ndarray:
        """The loss of each step's batch in nats a token, float64 [step]; may hold NaN and ∞."""
        return self._training[1].values

    @property
    def rates(self) -> np.ndarray:
        """The learning rate of each step, float64 [step]."""
        return self._training[2].values

    @property
    def validation_steps(self) -> np.ndarray:
        """The steps of `validation`, int64 [measure], rising."""
        return self._validation[0].values

    @property
    def validation(self) -> np.ndarray:
        """The validation losses in nats a token, float64 [measure]; may hold NaN and ∞."""
        return self._validation[1].values

    @property
    def last_step(self) -> int:
        """The last step of which anything is known; 0 where nothing is."""
        parts = (self.steps, self.validation_steps)
        return max((int(part[-1]) for part in parts if len(part)), default=0)

    def __len__(self) -> int:
        return len(self.steps)

    def extended(
        self,
        steps: ArrayLike = (),
        training: ArrayLike = (),
        rates: ArrayLike = (),
        validation_steps: ArrayLike = (),
        validation: ArrayLike = (),
    ) -> Losses:
        """Give these losses and further ones after them.

        A run that was killed goes on from its checkpoint, and its steps come again: what is added
        replaces all that stood from its first step on.
        """
        grown, is_further = _joined(self._training, (steps, training, rates))
        measured, is_measured_further = _joined(self._validation, (validation_steps, validation))
        is_further = is_further and is_measured_further and self._past.longest == len(self)
        past = self._past if is_further else _Past()
        past.longest = len(grown[0])
        return Losses((grown[0], grown[1], grown[2]), (measured[0], measured[1]), past)

    def continues(self, before: Losses) -> bool:
        """Whether the training losses begin with another's, known without comparing them."""
        return self._past is before._past and len(before) <= len(self)


def _joined(
    before: tuple[Grown, ...], added: tuple[ArrayLike, ...]
) -> tuple[tuple[Grown, ...], bool]:
    """Put columns after columns; the first are steps. Also say whether nothing was replaced."""
    columns = [np.asarray(column).reshape(-1) for column in added]
    steps, kept = before[0].values, len(before[0])
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"columns of {[len(column) for column in columns]} numbers")
    if not len(columns[0]):
        return before, True
    stays = _is_last(columns[0])
    kept = int(np.searchsorted(steps, columns[0].min()))
    grown = (
        part.until(kept).extended(column[stays])
        for part, column in zip(before, columns, strict=True)
    )
    return tuple(grown), kept == len(steps)


def _is_last(steps: np.ndarray) -> np.ndarray:
    """Mark the rows that no later row goes back to or behind, bool [row]."""
    lowest_after = np.minimum.accumulate(steps[::-1])[::-1]
    return np.append(steps[:-1] < lowest_after[1:], True)


# ------------------------------------------------------------------------------------- the file


def row(
    step: int,
    training: float | None,
    validation: float | None,
    rate: float | None,
    seconds: float,
) -> str:
    """Write a step as a line of the file.

    Parameters
    ----------
    training, validation, rate
        None for what was not measured at this step.
    seconds : float
        Since the training began, without the time that it stood still.
    """
    measured = ("" if one is None else repr(float(one)) for one in (training, validation, rate))
    return ",".join((str(step), *measured, f"{seconds:.3f}")) + "\n"


def parse(text: str) -> Losses:
    """Read a file of losses.

    A last line that was cut off is left out. Of a step that was come back to, the later rows count.

    Raises
    ------
    InputError
        Where it is no such file, with the line.
    """
    whole = text[: text.rfind("\n") + 1]
    if whole and not whole.startswith(HEADER):
        raise InputError("losses", f"The losses do not begin with '{HEADER.strip()}'.")
    table = _table(whole[len(HEADER) :])  # row column
    table = table[_is_last(table[:, 0])] if len(table) else table
    trained, measured = (table[table[:, column] != LACKING] for column in (1, 2))
    rates = np.where(trained[:, 3] == LACKING, np.nan, trained[:, 3])
    return Losses.of(trained[:, 0], trained[:, 1], rates, measured[:, 0], measured[:, 2])


def rows_through(text: str, step: int) -> str:
    """Give a file's content without the rows after a step, and without a cut-off last line.

    That is what a run that goes on from a checkpoint writes its next rows after. The content is one
    that `parse` takes.
    """
    lines = text[: text.rfind("\n") + 1].splitlines(keepends=True)
    while len(lines) > 1 and int(lines[-1].partition(",")[0]) > step:
        lines.pop()
    return "".join(lines) or HEADER


def _table(rows: str) -> np.ndarray:
    """Read rows as numbers, float64 [row, column]; `LACKING` where a field is empty."""
    if not rows:
        return np.empty((0, COLUMNS))
    filled = rows.replace(",,", f",{LACKING:g},").replace(",,", f",{LACKING:g},")
    try:
        table = np.loadtxt(io.StringIO(filled), delimiter=",", ndmin=2, comments=None)
    except ValueError:
        table = np.empty((0, 0))
    if table.shape[1] != COLUMNS or not _are_steps(table[:, 0]):
        raise InputError("losses", _first_wrong(rows))
    return table


def _are_steps(column: np.ndarray) -> bool:
    return bool((np.isfinite(column) & (column >= 0) & (column == np.floor(column))).all())


def _first_wrong(rows: str) -> str:
    """Say which line of a file is no row of losses."""
    for at, line in enumerate(rows.splitlines(), start=2):
        fields = line.split(",")
        try:
            is_row = len(fields) == COLUMNS and int(fields[0]) >= 0
            _ = [float(each) for each in fields[1:] if each]
        except ValueError:
            is_row = False
        if not is_row:
            return f"Line {at:,} of the losses is no row of a step: '{line[:40]}'."
    return "The losses cannot be read."
