"""The losses of a run, in arrays that are extended when new losses arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct, field

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class GrowingBuffer:
    """A buffer with spare capacity; several `GrowingArray` objects can be views of its parts.

    Parts that have views are never overwritten.
    """

    __slots__ = ("array", "used")

    def __init__(self, array: np.ndarray, used: int) -> None:
        self.array, self.used = array, used


class GrowingArray:
    """An immutable array, which can be extended without copying the existing values.

    Parameters
    ----------
    values : ndarray
        All values, [value], read-only.
    """

    __slots__ = ("_buffer", "values")

    def __init__(self, room: GrowingBuffer, length: int) -> None:
        self._buffer = room
        self.values = room.array[:length]
        self.values.flags.writeable = False

    @classmethod
    def of(cls, values: ArrayLike, dtype: type = float, capacity: int = 0) -> GrowingArray:
        """Copy values into a new array.

        Parameters
        ----------
        capacity : int
            Number of values for which memory is reserved; up to this number, extending the array
            copies nothing.
        """
        numbers: np.ndarray = np.asarray(values, dtype=dtype).reshape(-1)
        array: np.ndarray = np.empty(max(len(numbers), capacity), dtype=dtype)
        array[: len(numbers)] = numbers
        return cls(GrowingBuffer(array, len(numbers)), len(numbers))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def capacity(self) -> int:
        """Number of values up to which the array can be extended without copying."""
        return len(self._buffer.array)

    def with_appended(self, more: ArrayLike) -> GrowingArray:
        """Return an array with more values appended; this array is unchanged."""
        added, begin = np.asarray(more, dtype=self.values.dtype).reshape(-1), len(self)
        end, room = begin + len(added), self._buffer
        if room.used != begin or end > len(
            room.array
        ):  # the buffer was extended by another array, or is full
            array = np.empty(max(end, 2 * begin), dtype=self.values.dtype)
            array[:begin] = self.values
            room = GrowingBuffer(array, begin)
        room.array[begin:end] = added
        room.used = end
        return GrowingArray(room, end)

    def truncated(self, length: int) -> GrowingArray:
        """Return an array with the first `length` values."""
        return GrowingArray(self._buffer, length)


class MeasuredLoss(NamedTuple):
    """A loss in nats per token, and the step at which it was measured."""

    loss: float
    step: int


class LossHistoryId:
    """Identity that loss histories share if they extend each other without replacing any loss."""

    __slots__ = ("longest",)

    def __init__(self) -> None:
        self.longest = 0


class LossHistory(Struct, frozen=True, eq=False):
    """The losses of a run so far, which can be extended without copying the existing ones.

    Create losses with `LossHistory.of` and `extended`, which ensure that the steps are ascending.
    """

    _training: tuple[GrowingArray, GrowingArray, GrowingArray]
    _validation: tuple[GrowingArray, GrowingArray]
    _past: LossHistoryId = field(default_factory=LossHistoryId)

    @classmethod
    def of(cls, *columns: ArrayLike, **named: ArrayLike) -> LossHistory:
        """Create losses from the columns that `extended` accepts."""
        return cls.with_capacity(0).with_appended(*columns, **named)

    @classmethod
    def with_capacity(cls, steps: int) -> LossHistory:
        """Return empty losses with memory for the given number of steps."""
        whole, real = GrowingArray.of((), np.int64), GrowingArray.of(())
        training = (
            GrowingArray.of((), np.int64, steps),
            GrowingArray.of((), capacity=steps),
            GrowingArray.of((), capacity=steps),
        )
        return cls(training, (whole, real))

    @property
    def steps(self) -> np.ndarray:
        """The steps of `training` and `rates`, int64 [step], ascending."""
        return self._training[0].values

    @property
    def training(self) -> np.ndarray:
        """The training loss in nats per token, float64 [step]; may contain NaN and ∞."""
        return self._training[1].values

    @property
    def rates(self) -> np.ndarray:
        """The learning rate of each step, float64 [step]."""
        return self._training[2].values

    @property
    def validation_steps(self) -> np.ndarray:
        """The steps of `validation`, int64 [measurement], ascending."""
        return self._validation[0].values

    @property
    def validation(self) -> np.ndarray:
        """The validation losses in nats per token, float64 [measurement]; may contain NaN and ∞."""
        return self._validation[1].values

    @property
    def capacity(self) -> int:
        """Number of steps for which memory is reserved."""
        return self._training[1].capacity

    def __len__(self) -> int:
        return len(self.steps)

    def with_appended(
        self,
        steps: ArrayLike = (),
        training: ArrayLike = (),
        rates: ArrayLike = (),
        validation_steps: ArrayLike = (),
        validation: ArrayLike = (),
    ) -> LossHistory:
        """Return these losses with further losses appended.

        A killed run resumes from its checkpoint and repeats steps. The new losses therefore replace
        all losses from their first step on.

        Parameters
        ----------
        steps, training, rates : array_like
            The steps, and for each step the loss of its batch, in nats per token, and the learning
            rate.
        validation_steps, validation : array_like
            The steps of the validations, and the losses in nats per token.
        """
        grown, is_further = _append_columns(self._training, (steps, training, rates))
        measured, is_measured_further = _append_columns(
            self._validation, (validation_steps, validation)
        )
        is_further = is_further and is_measured_further and self._past.longest == len(self)
        past = self._past if is_further else LossHistoryId()
        past.longest = len(grown[0])
        return LossHistory((grown[0], grown[1], grown[2]), (measured[0], measured[1]), past)

    def is_extension_of(self, before: LossHistory) -> bool:
        """Return whether these losses extend the losses `before`, without comparing values."""
        return self._past is before._past and len(before) <= len(self)


def _append_columns(
    before: tuple[GrowingArray, ...], added: tuple[ArrayLike, ...]
) -> tuple[tuple[GrowingArray, ...], bool]:
    """Append columns, with the steps first; also return whether no existing row was replaced."""
    columns = [np.asarray(column).reshape(-1) for column in added]
    steps, kept = before[0].values, len(before[0])
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"columns of {[len(column) for column in columns]} numbers")
    if not len(columns[0]):
        return before, True
    if not (columns[0][1:] > columns[0][:-1]).all():
        stays = _is_below_later_steps(columns[0])
        columns = [column[stays] for column in columns]
    kept = int(np.searchsorted(steps, columns[0][0]))
    grown = (
        part.truncated(kept).with_appended(column)
        for part, column in zip(before, columns, strict=True)
    )
    return tuple(grown), kept == len(steps)


def _is_below_later_steps(steps: np.ndarray) -> np.ndarray:
    """Return which rows have a lower step than every later row, bool [row]."""
    lowest_after = np.minimum.accumulate(steps[::-1])[::-1]
    return np.append(steps[:-1] < lowest_after[1:], True)
