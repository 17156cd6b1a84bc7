"""Stages as arrays and tables with labelled axes, for xarray and pandas."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from visualizer.errors import InputError
from visualizer.optional_packages import require_package

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TABLE_ROWS = 20_000_000
"""Maximum number of rows of a table of values; more take over 1 GB of memory."""


class LabelledArray(Struct, frozen=True, eq=False):
    """An array with the names of its axes and the labels along them.

    Parameters
    ----------
    indices : mapping of str to numpy.ndarray
        The indices along axes that do not start at 0, such as those of some layers.
    tokens : mapping of str to numpy.ndarray
        The tokens along axes, [index], or [text, index] for a batch.
    """

    name: str
    values: np.ndarray
    dims: tuple[str, ...]
    indices: Mapping[str, np.ndarray]
    tokens: Mapping[str, np.ndarray]

    def to_xarray(self) -> Any:
        """Return an ``xarray.DataArray``; raises `InputError` if xarray is not installed."""
        require_package("xarray", "to_xarray")
        coordinates: dict[str, Any] = {
            dim: self._indices_of(axis) for axis, dim in enumerate(self.dims)
        }
        for dim, labels in self.tokens.items():
            axes = ("text", dim) if labels.ndim == 2 else (dim,)
            coordinates[f"{dim}_label"] = (axes, labels)
        return import_module("xarray").DataArray(
            self.values, coordinates, self.dims, name=self.name
        )

    def to_dataframe(self) -> Any:
        """Return a ``pandas.DataFrame`` with a row for each value, in the order of the array.

        Raises
        ------
        InputError
            If pandas is not installed, or there are too many values.
        """
        require_package("pandas", "to_dataframe")
        if self.values.size > MAX_TABLE_ROWS:
            sentence = (
                f"“{self.name}” has {self.values.size:,} values, but a table can have at most "
                f"{MAX_TABLE_ROWS:,} rows. Use to_xarray, or keep fewer layers."
            )
            raise InputError("stage", sentence)
        places = np.unravel_index(np.arange(self.values.size), self.values.shape)
        columns: dict[str, np.ndarray] = {}
        for axis, (dim, place) in enumerate(zip(self.dims, places, strict=True)):
            columns[dim] = self._indices_of(axis)[place]
            if (labels := self.tokens.get(dim)) is not None:
                is_batch = labels.ndim == 2
                columns[f"{dim}_label"] = labels[(places[0], place) if is_batch else place]
        columns[self.name] = self.values.reshape(-1)
        return import_module("pandas").DataFrame(columns)

    def _indices_of(self, axis: int) -> np.ndarray:
        return self.indices.get(self.dims[axis], np.arange(self.values.shape[axis]))
