"""The losses of a training, step by step, as they come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from visualizer.state.lab.growing import Grown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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
