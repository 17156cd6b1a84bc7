"""The losses of a run, and the append-only arrays that hold them.

An extended array shares its buffer with the one before: appending costs what is added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Measured(NamedTuple):
    """A loss in nats a token, and the step that it was measured at."""

    loss: float
    step: int


class EarlierLosses:
    """What losses have in common that came from each other by extending alone."""

    __slots__ = ("longest",)

    def __init__(self) -> None:
        self.longest = 0


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """The losses of a run so far; to extend them costs what is added.

    Made by `Losses.of` and `extended`; steps rise, whatever is given.
    """

    _training: tuple[GrowingArray, GrowingArray, GrowingArray]
    _validation: tuple[GrowingArray, GrowingArray]
    _past: EarlierLosses = field(default_factory=EarlierLosses)

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
        whole, real = GrowingArray.of((), np.int64), GrowingArray.of(())
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
        past = self._past if is_further else EarlierLosses()
        past.longest = len(grown[0])
        return Losses((grown[0], grown[1], grown[2]), (measured[0], measured[1]), past)

    def continues(self, before: Losses) -> bool:
        """Whether the training losses begin with another's, known without comparing them."""
        return self._past is before._past and len(before) <= len(self)


def _joined(
    before: tuple[GrowingArray, ...], added: tuple[ArrayLike, ...]
) -> tuple[tuple[GrowingArray, ...], bool]:
    """Put columns after columns; the first are steps. Also say whether nothing was replaced."""
    columns = [np.asarray(column).reshape(-1) for column in added]
    steps, kept = before[0].values, len(before[0])
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"columns of {[len(column) for column in columns]} numbers")
    if not len(columns[0]):
        return before, True
    if not (columns[0][1:] > columns[0][:-1]).all():
        stays = _is_last(columns[0])
        columns = [column[stays] for column in columns]
    kept = int(np.searchsorted(steps, columns[0][0]))
    grown = (
        part.until(kept).extended(column) for part, column in zip(before, columns, strict=True)
    )
    return tuple(grown), kept == len(steps)


def _is_last(steps: np.ndarray) -> np.ndarray:
    """Mark the rows that no later row goes back to or behind, bool [row]."""
    lowest_after = np.minimum.accumulate(steps[::-1])[::-1]
    return np.append(steps[:-1] < lowest_after[1:], True)


class GrowingBuffer:
    """A place for numbers, larger than what is in it.

    Several values may show the beginning of one: all of it that they show is never written again.
    """

    __slots__ = ("array", "used")

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.used = array, len(array)


class GrowingArray:
    """An array that can be extended in time that follows what is added, not what is there.

    Parameters
    ----------
    values : ndarray
        All numbers, [number], read-only.
    """

    __slots__ = ("_room", "values")

    def __init__(self, room: GrowingBuffer, length: int) -> None:
        self._room = room
        self.values = room.array[:length]
        self.values.flags.writeable = False

    @classmethod
    def of(cls, values: ArrayLike, dtype: type = np.float64) -> GrowingArray:
        """Hold a copy of numbers."""
        array: np.ndarray = np.array(values, dtype=dtype).reshape(-1)
        return cls(GrowingBuffer(array), len(array))

    def __len__(self) -> int:
        return len(self.values)

    def extended(self, more: ArrayLike) -> GrowingArray:
        """Give these numbers and others after them; this one stays as it is."""
        added, begin = np.asarray(more, dtype=self.values.dtype).reshape(-1), len(self)
        end, room = begin + len(added), self._room
        if room.used != begin or end > len(room.array):  # another one grew there, or it is full
            array = np.empty(max(end, 2 * begin), dtype=self.values.dtype)
            array[:begin] = self.values
            room = GrowingBuffer(array)
        room.array[begin:end] = added
        room.used = end
        return GrowingArray(room, end)

    def until(self, length: int) -> GrowingArray:
        """Give the first numbers of these."""
        return GrowingArray(self._room, length)
