"""How far a long piece of work is, and the wish that it stop."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Told what is done and of how much; raises `CancelledError` where the work is to stop."""


class CancelledError(Exception):
    """The work was called off; nothing of it stays."""


def quietly(done: int, of: int) -> None:
    """Tell nobody how far it is."""
