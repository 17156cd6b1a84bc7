"""Finds the controller method that a command calls."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visualizer.widgets.commands import Command


class _Path:
    """Stand-in for controllers that records the attribute path of each call."""

    def __init__(self, called: list[str], path: str = "") -> None:
        self._called, self._path = called, path

    def __getattr__(self, name: str) -> _Path:
        return _Path(self._called, f"{self._path}.{name}".lstrip("."))

    def __call__(self, *arguments: object) -> None:
        self._called.append(self._path)


def called(command: Command[Any, Any], controllers: object) -> object:
    """Return the only controller method that a command calls."""
    paths: list[str] = []
    command.run(_Path(paths))
    (path,) = paths
    return attrgetter(path)(controllers)
